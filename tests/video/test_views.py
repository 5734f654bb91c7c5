"""Views of a separation for all kinds of frames."""

import dataclasses
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import cv2
import numpy as np
import pytest
from sink_kit import random_images
from video_fakes import separate

from bgsub.errors import DependencyError, ParameterError
from bgsub.separation import FOREGROUND, SHADOW
from bgsub.video import notebook
from bgsub.video.views import VIEWS, to_bgr8, to_uint8


@pytest.mark.parametrize(
    ("shape", "dtype"),
    [((1, 1), "u2"), ((1, 1, 3), "f4"), ((7, 5), "f8"), ((7, 5, 1), "u1"), ((7, 5, 3), "u2"), ((60, 90, 3), "u1")],
)
def test_shapes_and_types(shape, dtype):
    image = random_images(shape, dtype)
    before = image.copy()
    separation = separate(image)
    views = {name: view(separation) for name, view in VIEWS.items()}
    height, width = shape[:2]
    names = ["mask", "background", "foreground", "residual", "probability", "cutout", "overlay", "contours"]
    assert list(views) == [*names, "panel", "boxes", "input"]
    expected = {
        **dict.fromkeys(("mask", "residual", "probability"), ((height, width), np.uint8)),
        **dict.fromkeys(("background", "foreground", "input"), (shape, dtype)),
        "cutout": ((height, width, 4), np.uint8),
        **dict.fromkeys(("overlay", "contours", "boxes"), ((height, width, 3), np.uint8)),
        "panel": ((2 * height, 2 * width, 3), np.uint8),
    }
    assert {name: (view.shape, view.dtype) for name, view in views.items()} == expected
    np.testing.assert_array_equal(image, before)


def test_residuals_and_probabilities_in_8_bits():
    separation = separate(np.zeros((1, 4), np.uint8))
    separation.residual[:] = [0, 0.1, 0.25, 1]
    np.testing.assert_array_equal(VIEWS["residual"](separation), [[0, 102, 255, 255]])
    for level in (0, 0.001, 0.3, 0.5, 0.7, 1):
        mask = np.array([[FOREGROUND, SHADOW, 0]], np.uint8)
        vote = np.full(mask.shape, level, np.float32)
        separation = dataclasses.replace(separate(mask), mask=mask, soft_vote=lambda vote=vote: vote)
        shown = VIEWS["probability"](separation)
        np.testing.assert_array_equal(shown > 127, mask == FOREGROUND)
        assert np.abs(shown / 255 - separation.probability).max() <= 0.502 / 255


def labelled(shape=(40, 60, 3), dtype="u1"):
    """A dim frame with a foreground and a shadow rectangle."""
    image = (random_images(shape, dtype) * 0.4).astype(dtype)
    mask = np.zeros(shape[:2], np.uint8)
    mask[5:15, 10:30] = FOREGROUND
    mask[20:30, 10:30] = SHADOW
    return dataclasses.replace(separate(image), mask=mask)


@pytest.mark.parametrize(("shape", "dtype"), [((40, 60), "u2"), ((40, 60, 1), "u1"), ((40, 60, 3), "f4")])
def test_cutouts_and_overlays(shape, dtype):
    separation = labelled(shape, dtype)
    cutout, overlay, plain = VIEWS["cutout"](separation), VIEWS["overlay"](separation), to_bgr8(separation.frame)
    np.testing.assert_array_equal(cutout[:, :, :3], plain)
    np.testing.assert_array_equal(cutout[:, :, 3], np.where(separation.mask == FOREGROUND, 255, 0))
    untouched = separation.mask == 0
    np.testing.assert_array_equal(overlay[untouched], plain[untouched])
    for label, colour in ((FOREGROUND, (80, 80, 255)), (SHADOW, (255, 160, 80))):
        where = separation.mask == label
        np.testing.assert_allclose(overlay[where], 0.55 * plain[where] + 0.45 * np.array(colour), atol=0.51)


def test_contours_outline_the_foreground_alone():
    separation = labelled()
    contours, plain = VIEWS["contours"](separation), to_bgr8(separation.frame)
    outline = np.zeros((40, 60), bool)
    outline[5:15, 10:30] = True
    outline[6:14, 11:29] = False
    np.testing.assert_array_equal(contours[outline], np.broadcast_to((80, 80, 255), (outline.sum(), 3)))
    np.testing.assert_array_equal(contours[~outline], plain[~outline])


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        (np.array([[0, 128, 255]], np.uint8), [0, 128, 255]),
        (np.array([[0, 128, 129, 32896, 65535]], np.uint16), [0, 0, 1, 128, 255]),
        (np.array([[-1, 0, 0.5, 1, 7, np.nan, np.inf, -np.inf]], np.float32), [0, 0, 128, 255, 255, 0, 255, 0]),
    ],
)
def test_full_scale(image, expected):
    np.testing.assert_array_equal(to_uint8(image), [expected])
    np.testing.assert_array_equal(to_bgr8(image), np.repeat([expected], 3, axis=0).T[np.newaxis])


EXAMPLE = Path(__file__).parents[2] / "scripts" / "examples" / "notebook.ipynb"


@pytest.fixture
def handles(monkeypatch):
    """The pictures that were displayed in a notebook, each with its updates."""
    shown = []

    def display(picture, display_id):
        assert display_id is True
        shown.append([picture])
        return SimpleNamespace(update=shown[-1].append)

    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "IPython.display", SimpleNamespace(display=display))
    return shown


def test_pictures_are_pngs_and_a_video_updates_one_picture(frames, handles):
    separation = separate(frames[0])
    data = notebook.picture(separation, "background")._repr_png_()
    image = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_UNCHANGED)
    np.testing.assert_array_equal(image, separation.background)
    notebook.play(((None, separate(frame)) for frame in frames), view="mask", every=5)
    assert [len(shown) for shown in handles] == [3]  # frames 0, 5 and 10


def test_wrong_use(monkeypatch):
    with pytest.raises(ParameterError, match="an image must be uint8, uint16 or floating, got int32"):
        to_bgr8(np.zeros((2, 2), np.int32))
    with pytest.raises(ParameterError, match="every must be at least 1, got 0"):
        notebook.play([], every=0)
    with pytest.raises(ParameterError, match=r"^view must be one of mask, background, .*, input, got 'halo'"):
        notebook.play([], view="halo")
    monkeypatch.setitem(sys.modules, "IPython.display", None)
    with pytest.raises(DependencyError, match="pip install notebook"):
        notebook.play([])


@pytest.mark.slow
@pytest.mark.large
def test_the_example_runs(monkeypatch, handles):
    monkeypatch.chdir(EXAMPLE.parent)  # as Jupyter does
    cells = json.loads(EXAMPLE.read_text())["cells"]
    assert len({cell["id"] for cell in cells}) == len(cells)
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    assert len(code) >= 3
    names: dict[str, object] = {}
    for cell in code:
        *body, last = cell.rstrip().splitlines()
        exec("\n".join(body), names)
        if last.startswith("notebook.picture"):
            assert eval(last, names)._repr_png_().startswith(b"\x89PNG")
        else:
            exec(last, names)
    assert len(handles[0]) > 3
