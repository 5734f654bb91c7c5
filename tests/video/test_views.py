"""Views of a separation for every kind of frame."""

from __future__ import annotations

import numpy as np
import pytest
from video_fakes import separate

from bgsub.errors import ParameterError
from bgsub.video.views import VIEWS, get_view, to_bgr8, to_uint8

SHAPES = [(1, 1), (1, 1, 3), (7, 5), (7, 5, 1), (7, 5, 3), (60, 90, 3)]
DTYPES = [np.uint8, np.uint16, np.float32, np.float64]


def image_of(shape, dtype):
    values = np.random.default_rng(1).random(shape)
    return values.astype(dtype) if np.dtype(dtype).kind == "f" else (values * np.iinfo(dtype).max).astype(dtype)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_shapes_and_types(shape, dtype):
    image = image_of(shape, dtype)
    before = image.copy()
    separation = separate(image)
    views = {name: view(separation) for name, view in VIEWS.items()}
    height, width = shape[:2]
    names = ["mask", "background", "foreground", "residual", "cutout", "overlay", "contours", "panel"]
    assert list(views) == names
    for name in ("mask", "residual"):
        assert views[name].shape == (height, width)
        assert views[name].dtype == np.uint8
    for name in ("background", "foreground"):
        assert views[name].shape == shape
        assert views[name].dtype == dtype
    assert views["cutout"].shape == (height, width, 4)
    for name in ("overlay", "contours"):
        assert views[name].shape == (height, width, 3)
        assert views[name].dtype == np.uint8
    assert views["panel"].shape == (2 * height, 2 * width, 3)
    assert views["panel"].dtype == np.uint8
    np.testing.assert_array_equal(image, before)


def test_residual_is_amplified_and_saturates():
    separation = separate(np.zeros((1, 4), np.uint8))
    separation.residual[:] = [0, 0.1, 0.25, 1]
    np.testing.assert_array_equal(VIEWS["residual"](separation), [[0, 102, 255, 255]])


def test_panel_tiles():
    image = image_of((6, 8, 3), np.uint8)
    separation = separate(image)
    panel = VIEWS["panel"](separation)
    np.testing.assert_array_equal(panel[:6, :8], image)
    np.testing.assert_array_equal(panel[:6, 8:], separation.background)
    np.testing.assert_array_equal(panel[6:, :8], separation.foreground)
    np.testing.assert_array_equal(panel[6:, 8:], to_bgr8(separation.mask))


def test_panel_has_captions_where_there_is_room():
    for width, captions in ((79, False), (80, True)):
        panel = VIEWS["panel"](separate(np.full((60, width, 3), 90, np.uint8)))
        background = panel[:60, width:]
        assert (background.max() > 0) == captions


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        (np.array([[0, 128, 255]], np.uint8), [0, 128, 255]),
        (np.array([[0, 128, 129, 32896, 65535]], np.uint16), [0, 0, 1, 128, 255]),
        (
            np.array([[-1, 0, 0.5, 1, 7, np.nan, np.inf, -np.inf]], np.float32),
            [0, 0, 128, 255, 255, 0, 255, 0],
        ),
    ],
)
def test_full_scale(image, expected):
    np.testing.assert_array_equal(to_uint8(image), [expected])
    np.testing.assert_array_equal(to_bgr8(image), np.repeat([expected], 3, axis=0).T[np.newaxis])


def test_other_types_are_refused():
    with pytest.raises(ParameterError, match=r"^an image must be uint8, uint16 or floating, got int32$"):
        to_bgr8(np.zeros((2, 2), np.int32))


def test_unknown_view():
    with pytest.raises(ParameterError) as caught:
        get_view("maks")
    assert str(caught.value) == "view must be one of mask, background, foreground, residual, cutout, overlay, contours, panel, got 'maks'"
