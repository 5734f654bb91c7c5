"""The pictures of a live run: views, reduced sizes, text, and frames without a mask yet."""

from __future__ import annotations

import dataclasses
import threading

import numpy as np
import pytest
from live_fakes import wait_until
from test_server import Client
from video_fakes import FakeDisplay, make_frames, separate

from bgsub.errors import ParameterError
from bgsub.jobs.controls import LIVE_VIEWS, Controls
from bgsub.live.server import LiveServer
from bgsub.live.session import _CameraThread
from bgsub.live.viewer import LEAST_SIZE, Viewer, make_backdrop, statistics_words
from bgsub.live.window import WindowSink
from bgsub.numerics import compilation
from bgsub.numerics.compilation import Progress
from bgsub.separation import FOREGROUND
from bgsub.video import Frame
from bgsub.video.text_overlay import add_bar, text_scale
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
    for view in set(LIVE_VIEWS) - {"input", "cutout"}:
        expected = to_bgr8(VIEWS[view](separation))
        np.testing.assert_array_equal(Viewer(Controls(view), words=False).picture(separation), expected)
    np.testing.assert_array_equal(picture(separation, "input"), separation.frame)
    with pytest.raises(ParameterError, match="view must be one of panel, input"):
        picture(separation, "nothing")


def test_cutout_on_a_checkerboard_or_a_backdrop(separation):
    found = separation.mask == FOREGROUND
    board = picture(separation, "cutout")
    green = picture(separation, "cutout", backdrop=make_backdrop("#102030"))
    for made in (board, green):
        np.testing.assert_array_equal(made[found], separation.frame[found])
    assert set(np.unique(board[~found])) == {110, 160}
    assert (green[~found] == (0x30, 0x20, 0x10)).all()


def test_large_pictures_are_reduced(separation):
    for view in LIVE_VIEWS:
        made = picture(separation, view, longest_side=100)
        assert made.shape == ((76, 100, 3) if view == "panel" else (75, 100, 3))
    assert set(np.unique(picture(separation, "mask", longest_side=100))) == {0, 255}


@pytest.mark.parametrize(
    ("dtype", "channels"),
    [(np.uint8, ()), (np.uint16, (3,)), (np.float16, (3,)), (np.float32, ()), (np.float64, (3,))],
)
def test_all_frame_formats(dtype, channels):
    full = 1 if np.dtype(dtype).kind == "f" else np.iinfo(dtype).max
    separation = separate((np.random.default_rng(0).random((30, 40, *channels)) * full).astype(dtype))
    for view in LIVE_VIEWS:
        for longest in (None, 20):
            made = picture(separation, view, longest_side=longest)
            assert (made.ndim, made.shape[2], made.dtype) == (3, 3, np.uint8)


def test_separation_is_not_modified(separation, controls):
    names = ("frame", "mask", "background", "residual", "probability")
    before = {name: np.copy(getattr(separation, name)) for name in names}
    controls.show_help = controls.paused = True
    for view in LIVE_VIEWS:
        Viewer(controls).picture(separation, view=view)
    for name, value in before.items():
        np.testing.assert_array_equal(getattr(separation, name), value)


def test_positions_of_text(separation, controls):
    def shown(**switches):
        for name, value in switches.items():
            setattr(controls, name, value)
        return Viewer(controls).picture(separation, view="input")

    plain = shown(show_statistics=False)
    np.testing.assert_array_equal(plain, separation.frame)
    bar = shown(show_statistics=True)
    np.testing.assert_array_equal(bar[:240], plain)  # the statistics are below
    assert bar[240:].max() > 100
    changed = (shown(frozen=True)[:240] != plain).any(axis=2)  # in the lower left corner
    assert changed.any()
    assert not changed[:200].any()
    assert not changed[:, 160:].any()
    box = shown(frozen=False, show_help=True)[:240]
    changed = (box != plain).any(axis=2)
    assert 0.2 < changed.mean() < 0.9
    # Light text on a dark background.
    assert np.percentile(box[changed], 50) < 60
    assert box[changed].max() > 180


def test_statistics_bar_has_constant_height():
    names = ("latency_ms", "frames_per_second", "dropped", "foreground", "phase", "event")
    numbers = dict(zip(names, (None, 1.0, 0, 0.0, "start", None), strict=True))
    large = dict(zip(names, (12345.0, 123.4, 99999, 1.0, "tracking", "light-change"), strict=True))
    bars = [add_bar(IMAGE, statistics_words(words), text_scale(IMAGE)) for words in (numbers, large)]
    assert bars[0].shape == bars[1].shape
    assert [statistics_words(words)[1] for words in (large, numbers)] == ["delay 12345 ms", "delay     - ms"]


@pytest.mark.parametrize("size", [(1, 1), (1, 400), (400, 1), (7, 11), (240, 320), (1080, 1920)])
def test_sizes(size):
    separation = separate(np.full((*size, 3), 200, np.uint8))
    controls = Controls()
    controls.show_help = controls.paused = True
    controls.notice = "snapshot: " + "x" * 200
    made = Viewer(controls, "rtsp://a-camera.example/with/a/long/path", longest_side=960).picture(separation)
    assert made.shape[0] >= LEAST_SIZE[1]
    assert made.shape[1] >= LEAST_SIZE[0]
    assert max(made.shape) <= 960


def test_text_grows_with_the_picture():
    heights = []
    for height in (240, 1080, 2160):
        separation = separate(np.zeros((height, height * 4 // 3, 3), np.uint8))
        heights.append(Viewer(Controls()).picture(separation, view="input").shape[0] - height)
    assert heights[0] < heights[1] < heights[2]


def test_waiting_picture():
    for words in (True, False):
        made = Viewer(Controls(), "camera 7", words=words).waiting()
        assert made[300:].max() == 255
        assert made[:300].max() < 40


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


def test_frame_without_mask_is_shown_in_each_view():
    for view in LIVE_VIEWS:
        np.testing.assert_array_equal(picture(LATE, view), NEXT)
        assert picture(LATE, view, longest_side=100).shape == (75, 100, 3)


def test_label_gives_the_reason(controls, separation, monkeypatch):
    texts = [""]
    monkeypatch.setattr("bgsub.live.viewer.add_label", lambda image, text, scale: texts.append(text) or image)
    Viewer(Controls()).waiting()
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


def test_preview_reaches_the_window_of_one_of_several_cameras(controls):
    controls.show_statistics = False
    window, came, going = WindowSink(controls=controls, display=FakeDisplay()), threading.Event(), threading.Event()

    def run(sinks):
        sinks[0].preview(LATE)
        assert going.wait(30)

    worker = _CameraThread("camera 0", run, window, came)
    worker.thread.start()
    assert came.wait(30)
    worker.update_window()
    np.testing.assert_array_equal(window._display.shown[-1], NEXT)
    going.set()
    worker.thread.join()
    worker.update_window()
    assert not window._display.is_open


def test_page_shows_the_frame_and_the_reason(monkeypatch):
    controls = Controls()
    with LiveServer(controls, port=0) as server:
        client = Client(server)
        assert client.cameras()[0]["busy"] == ""
        with client.watch("/stream?view=mask") as stream:
            controls.statistics.note_preview()
            server.sink().preview(LATE)
            wait_until(lambda: stream().shape == NEXT.shape)  # after the waiting picture
        assert client.cameras()[0]["busy"] == "the mask is late"
        monkeypatch.setattr(compilation, "progress", lambda: Progress(31, 62))
        (camera,) = client.cameras()
        assert (camera["busy"], camera["silent"]) == ("compiling kernels 31 of 62", False)
