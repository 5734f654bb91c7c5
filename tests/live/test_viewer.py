"""The pictures of a live run: views, reduced sizes, text, and frames without a mask yet."""

import dataclasses

import numpy as np
import pytest
from live_fakes import FakeDisplay
from video_fakes import make_frames, separate

from bgsub.errors import ParameterError
from bgsub.jobs.controls import LIVE_VIEWS, Controls
from bgsub.live.viewer import Viewer
from bgsub.live.window import WindowSink
from bgsub.numerics import compilation
from bgsub.numerics.compilation import Progress
from bgsub.video import Frame
from bgsub.video.views import VIEWS, to_bgr8

IMAGE, NEXT = make_frames(2, 240, 320)
LATE = Frame(1, "000002", None, NEXT)


@pytest.fixture
def separation():
    return separate(IMAGE.copy())


@pytest.fixture
def controls(separation):
    controls = Controls()
    controls.statistics.update(Frame(0, "000001", None, separation.frame), separation)
    return controls


def picture(separation, view="panel", **options):
    return Viewer(Controls(), words=False, **options).picture(separation, view=view)


def test_views_equal_those_of_the_outputs(separation):
    for view in set(LIVE_VIEWS) - {"input"}:
        expected = to_bgr8(VIEWS[view](separation))
        np.testing.assert_array_equal(Viewer(Controls(view), words=False).picture(separation), expected)
    np.testing.assert_array_equal(picture(separation, "input"), separation.frame)
    with pytest.raises(ParameterError, match="view must be one of panel, input"):
        picture(separation, "nothing")


def test_large_pictures_are_reduced_and_frames_without_mask_shown(separation):
    for view in LIVE_VIEWS:
        np.testing.assert_array_equal(picture(LATE, view), NEXT)  # without a mask
        assert picture(LATE, view, longest_side=100).shape == (75, 100, 3)
        made = picture(separation, view, longest_side=100)
        assert made.shape == ((76, 100, 3) if view == "panel" else (75, 100, 3))
    assert set(np.unique(picture(separation, "mask", longest_side=100))) == {0, 255}


@pytest.mark.parametrize(("dtype", "channels"), [("u1", ()), ("u2", (3,)), ("f2", (3,)), ("f4", ()), ("f8", (3,))])
def test_all_frame_formats(dtype, channels):
    full = 1 if np.dtype(dtype).kind == "f" else np.iinfo(dtype).max
    separation = separate((np.random.default_rng(0).random((30, 40, *channels)) * full).astype(dtype))
    for view in LIVE_VIEWS:
        for longest in (None, 20):
            made = picture(separation, view, longest_side=longest)
            assert (made.ndim, made.shape[2], made.dtype) == (3, 3, np.uint8)


def outlined(picture, tiles):
    """Replace `bgsub.events.annotation.annotate`."""
    marked = picture.copy()
    marked[::2, ::2] = tiles
    return marked


def test_boxes_on_each_view(separation, controls):
    annotated = dataclasses.replace(separation, annotate=outlined)
    viewer = Viewer(controls, words=False)
    for view in LIVE_VIEWS:
        plain = picture(separation, view)
        expected = outlined(plain, 2 if view == "panel" else 1)
        assert (expected != plain).any()
        controls.boxes = False
        np.testing.assert_array_equal(viewer.picture(annotated, view), expected if view == "boxes" else plain)
        controls.boxes = True
        np.testing.assert_array_equal(viewer.picture(annotated, view), expected)
        np.testing.assert_array_equal(viewer.picture(separation, view), plain)  # no tracking


def test_label_gives_the_reason(controls, separation, monkeypatch):
    texts = [""]
    monkeypatch.setattr("bgsub.video.views.add_label", lambda image, text, scale: texts.append(text) or image)
    Viewer(Controls()).picture(None)
    assert texts[-1] == "waiting for camera ..."
    viewer = Viewer(controls)
    viewer.picture(separation)
    controls.statistics.note_preview()
    viewer.picture(LATE)
    assert texts[-1] == "the mask is late"
    monkeypatch.setattr(compilation, "progress", lambda: Progress(31, 62))
    viewer.picture(LATE)
    assert texts[-1] == "compiling kernels 31 of 62"
    controls.frozen = True
    viewer.picture(LATE)
    assert texts[-1] == "frozen, compiling kernels 31 of 62"


def test_window_shows_the_frame_until_the_next_mask(controls):
    controls.show_statistics = False
    display = FakeDisplay()
    with WindowSink("mask", controls=controls, display=display) as window:
        window.preview(LATE)
        for _ in range(2):
            window.idle()
            np.testing.assert_array_equal(display.shown[-1], NEXT)
        window.write(LATE, separate(NEXT))
        assert set(np.unique(display.shown[-1])) == {0, 255}
