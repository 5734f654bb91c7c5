"""What a person sees of a live run: the view, reduced where it is large, and the words on it."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from video_fakes import make_frames, separate

from bgsub.errors import ParameterError
from bgsub.jobs.controls import LIVE_VIEWS, Controls
from bgsub.live.viewer import LEAST_SIZE, Viewer, make_backdrop, statistics_words
from bgsub.separation import FOREGROUND
from bgsub.video import Frame
from bgsub.video.text_overlay import add_bar, text_scale
from bgsub.video.views import VIEWS, to_bgr8


@pytest.fixture
def separation():
    return separate(make_frames(1, 240, 320)[0])


@pytest.fixture
def controls(separation):
    controls = Controls()
    controls.statistics.update(Frame(0, "000001", None, separation.frame), separation)
    return controls


@pytest.mark.parametrize("view", [view for view in LIVE_VIEWS if view not in ("input", "cutout")])
def test_views_are_those_of_the_outputs(separation, view):
    viewer = Viewer(Controls(view), words=False)
    np.testing.assert_array_equal(viewer.picture(separation), to_bgr8(VIEWS[view](separation)))


def test_input_and_wrong_view(separation):
    viewer = Viewer(Controls(), words=False)
    np.testing.assert_array_equal(viewer.picture(separation, view="input"), separation.frame)
    with pytest.raises(ParameterError, match="view must be one of panel, input"):
        viewer.picture(separation, view="nothing")


def test_cutout_lies_on_a_checkerboard_or_a_backdrop(separation):
    found = separation.mask == FOREGROUND
    board = Viewer(Controls(), words=False).picture(separation, view="cutout")
    np.testing.assert_array_equal(board[found], separation.frame[found])
    assert set(np.unique(board[~found])) == {110, 160}
    backdrop = make_backdrop("#102030")
    green = Viewer(Controls(), backdrop=backdrop, words=False).picture(separation, view="cutout")
    np.testing.assert_array_equal(green[found], separation.frame[found])
    assert (green[~found] == (0x30, 0x20, 0x10)).all()


@pytest.mark.parametrize("view", LIVE_VIEWS)
def test_large_pictures_are_reduced(separation, view):
    picture = Viewer(Controls(), longest_side=100, words=False).picture(separation, view=view)
    assert picture.shape == ((76, 100, 3) if view == "panel" else (75, 100, 3))
    mask = Viewer(Controls(), longest_side=100, words=False).picture(separation, view="mask")
    assert set(np.unique(mask)) == {0, 255}


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.float16, np.float32, np.float64])
@pytest.mark.parametrize("shape", [(30, 40), (30, 40, 3)])
def test_all_kinds_of_frames(dtype, shape):
    full = 1 if np.dtype(dtype).kind == "f" else np.iinfo(dtype).max
    separation = separate((np.random.default_rng(0).random(shape) * full).astype(dtype))
    for view in LIVE_VIEWS:
        for longest in (None, 20):
            picture = Viewer(Controls(), longest_side=longest, words=False).picture(separation, view=view)
            assert (picture.ndim, picture.shape[2], picture.dtype) == (3, 3, np.uint8)


def test_nothing_of_the_separation_changes(separation, controls):
    before = {
        name: np.copy(getattr(separation, name)) for name in ("frame", "mask", "background", "residual", "probability")
    }
    controls.show_help = controls.paused = True
    for view in LIVE_VIEWS:
        Viewer(controls).picture(separation, view=view)
    for name, value in before.items():
        np.testing.assert_array_equal(getattr(separation, name), value)


def test_words_are_where_they_should_be(separation, controls):
    controls.show_statistics = False
    viewer = Viewer(controls)
    plain = viewer.picture(separation, view="input")
    np.testing.assert_array_equal(plain, separation.frame)
    controls.show_statistics = True
    bar = viewer.picture(separation, view="input")
    np.testing.assert_array_equal(bar[:240], plain)  # the numbers lie below, and hide nothing
    assert bar[240:].max() > 100
    controls.frozen = True
    label = viewer.picture(separation, view="input")
    changed = (label[:240] != plain).any(axis=2)
    assert changed.any()
    assert not changed[:200].any()
    assert not changed[:, 160:].any()
    controls.frozen = False
    controls.show_help = True
    box = viewer.picture(separation, view="input")
    changed = (box[:240] != plain).any(axis=2)
    assert 0.2 < changed.mean() < 0.9
    # Light letters on a dark ground.
    assert np.percentile(box[:240][changed], 50) < 60
    assert box[:240][changed].max() > 180


def test_bar_keeps_its_height_while_numbers_grow(separation):
    names = ("latency_ms", "frames_per_second", "dropped", "foreground", "phase", "event")
    numbers = dict(zip(names, (None, 1.0, 0, 0.0, "start", None), strict=True))
    large = dict(zip(names, (12345.0, 123.4, 99999, 1.0, "tracking", "light-change"), strict=True))
    image = to_bgr8(separation.frame)
    shapes = {add_bar(image, statistics_words(words), text_scale(image)).shape for words in (numbers, large)}
    assert len(shapes) == 1
    assert statistics_words(large)[1] == "delay 12345 ms"
    assert statistics_words(numbers)[1] == "delay     - ms"


@pytest.mark.parametrize("size", [(1, 1), (1, 400), (400, 1), (7, 11), (240, 320), (2160, 3840)])
def test_sizes(size):
    separation = separate(np.full((*size, 3), 200, np.uint8))
    controls = Controls()
    controls.show_help = controls.paused = True
    controls.notice = "snapshot: " + "x" * 200
    picture = Viewer(controls, "rtsp://a-camera.example/with/a/long/path", longest_side=1920).picture(separation)
    assert picture.shape[0] >= LEAST_SIZE[1]
    assert picture.shape[1] >= LEAST_SIZE[0]
    assert max(picture.shape) <= 1920


def test_words_grow_with_the_picture():
    heights = []
    for height in (240, 1080, 2160):
        separation = separate(np.zeros((height, height * 4 // 3, 3), np.uint8))
        heights.append(Viewer(Controls()).picture(separation, view="input").shape[0] - height)
    assert heights[0] < heights[1] < heights[2]


@pytest.mark.parametrize("words", [True, False])
def test_waiting(words):
    picture = Viewer(Controls(), "camera 7", words=words).waiting()
    assert picture[300:].max() == 255
    assert picture[:300].max() < 40


def outlined(picture, tiles):
    """As `bgsub.events.annotation.annotate`: a picture that can be told from the one given."""
    marked = picture.copy()
    marked[::2, ::2] = tiles
    return marked


@pytest.mark.parametrize("view", LIVE_VIEWS)
def test_boxes_are_on_every_view_when_switched_on(separation, controls, view):
    annotated = dataclasses.replace(separation, annotate=outlined)
    viewer = Viewer(controls, words=False)
    plain = Viewer(Controls(), words=False).picture(separation, view=view)
    expected = outlined(plain, 2 if view == "panel" else 1)
    assert (expected != plain).any()
    np.testing.assert_array_equal(viewer.picture(annotated, view=view), expected if view == "boxes" else plain)
    controls.boxes = True
    np.testing.assert_array_equal(viewer.picture(annotated, view=view), expected)
    np.testing.assert_array_equal(viewer.picture(separation, view=view), plain)  # nobody follows the objects
