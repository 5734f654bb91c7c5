"""The pictures of a live run: views, reduced sizes, text, and frames without a mask yet."""

from __future__ import annotations

import dataclasses
import json
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


@pytest.fixture
def separation():
    return separate(make_frames(1, 240, 320)[0])


@pytest.fixture
def controls(separation):
    controls = Controls()
    controls.statistics.update(Frame(0, "000001", None, separation.frame), separation)
    return controls


def test_views_equal_those_of_the_outputs(separation):
    for view in set(LIVE_VIEWS) - {"input", "cutout"}:
        viewer = Viewer(Controls(view), words=False)
        np.testing.assert_array_equal(viewer.picture(separation), to_bgr8(VIEWS[view](separation)))


def test_input_and_wrong_view(separation):
    viewer = Viewer(Controls(), words=False)
    np.testing.assert_array_equal(viewer.picture(separation, view="input"), separation.frame)
    with pytest.raises(ParameterError, match="view must be one of panel, input"):
        viewer.picture(separation, view="nothing")


def test_cutout_on_a_checkerboard_or_a_backdrop(separation):
    found = separation.mask == FOREGROUND
    board = Viewer(Controls(), words=False).picture(separation, view="cutout")
    np.testing.assert_array_equal(board[found], separation.frame[found])
    assert set(np.unique(board[~found])) == {110, 160}
    backdrop = make_backdrop("#102030")
    green = Viewer(Controls(), backdrop=backdrop, words=False).picture(separation, view="cutout")
    np.testing.assert_array_equal(green[found], separation.frame[found])
    assert (green[~found] == (0x30, 0x20, 0x10)).all()


def test_large_pictures_are_reduced(separation):
    for view in LIVE_VIEWS:
        picture = Viewer(Controls(), longest_side=100, words=False).picture(separation, view=view)
        assert picture.shape == ((76, 100, 3) if view == "panel" else (75, 100, 3))
    mask = Viewer(Controls(), longest_side=100, words=False).picture(separation, view="mask")
    assert set(np.unique(mask)) == {0, 255}


@pytest.mark.parametrize(
    ("dtype", "shape"),
    [(np.uint8, (30, 40)), (np.uint16, (30, 40, 3)), (np.float16, (30, 40, 3)), (np.float32, (30, 40)),
     (np.float64, (30, 40, 3))],
)  # fmt: skip
def test_all_frame_formats(dtype, shape):
    full = 1 if np.dtype(dtype).kind == "f" else np.iinfo(dtype).max
    separation = separate((np.random.default_rng(0).random(shape) * full).astype(dtype))
    for view in LIVE_VIEWS:
        for longest in (None, 20):
            picture = Viewer(Controls(), longest_side=longest, words=False).picture(separation, view=view)
            assert (picture.ndim, picture.shape[2], picture.dtype) == (3, 3, np.uint8)


def test_separation_is_not_modified(separation, controls):
    before = {
        name: np.copy(getattr(separation, name)) for name in ("frame", "mask", "background", "residual", "probability")
    }
    controls.show_help = controls.paused = True
    for view in LIVE_VIEWS:
        Viewer(controls).picture(separation, view=view)
    for name, value in before.items():
        np.testing.assert_array_equal(getattr(separation, name), value)


def test_positions_of_text(separation, controls):
    controls.show_statistics = False
    viewer = Viewer(controls)
    plain = viewer.picture(separation, view="input")
    np.testing.assert_array_equal(plain, separation.frame)
    controls.show_statistics = True
    bar = viewer.picture(separation, view="input")
    np.testing.assert_array_equal(bar[:240], plain)  # the statistics are below
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
    # Light text on a dark background.
    assert np.percentile(box[:240][changed], 50) < 60
    assert box[:240][changed].max() > 180


def test_statistics_bar_has_constant_height(separation):
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


def test_text_grows_with_the_picture():
    heights = []
    for height in (240, 1080, 2160):
        separation = separate(np.zeros((height, height * 4 // 3, 3), np.uint8))
        heights.append(Viewer(Controls()).picture(separation, view="input").shape[0] - height)
    assert heights[0] < heights[1] < heights[2]


def test_waiting_picture():
    for words in (True, False):
        picture = Viewer(Controls(), "camera 7", words=words).waiting()
        assert picture[300:].max() == 255
        assert picture[:300].max() < 40


def outlined(picture, tiles):
    """Stand in for `bgsub.events.annotation.annotate`."""
    marked = picture.copy()
    marked[::2, ::2] = tiles
    return marked


@pytest.mark.parametrize("view", LIVE_VIEWS)
def test_boxes_on_each_view(separation, controls, view):
    annotated = dataclasses.replace(separation, annotate=outlined)
    viewer = Viewer(controls, words=False)
    plain = Viewer(Controls(), words=False).picture(separation, view=view)
    expected = outlined(plain, 2 if view == "panel" else 1)
    assert (expected != plain).any()
    np.testing.assert_array_equal(viewer.picture(annotated, view=view), expected if view == "boxes" else plain)
    controls.boxes = True
    np.testing.assert_array_equal(viewer.picture(annotated, view=view), expected)
    np.testing.assert_array_equal(viewer.picture(separation, view=view), plain)  # no tracking


IMAGE, NEXT = make_frames(2, 240, 320)


@pytest.fixture
def label(monkeypatch):
    """The text in the corner of the picture."""
    texts = [""]
    monkeypatch.setattr("bgsub.live.viewer.add_label", lambda image, text, scale: texts.append(text) or image)
    return lambda: texts[-1]


def test_frame_without_mask_is_shown_in_each_view(controls):
    frame = Frame(1, "000002", None, NEXT)
    for view in LIVE_VIEWS:
        np.testing.assert_array_equal(Viewer(controls, words=False).picture(frame, view), NEXT)
        assert Viewer(controls, longest_side=100, words=False).picture(frame, view).shape == (75, 100, 3)


def test_label_gives_the_reason(controls, label, monkeypatch):
    viewer, frame = Viewer(controls), Frame(1, "000002", None, NEXT)
    viewer.picture(separate(IMAGE))
    assert label() == ""
    controls.statistics.note_preview()
    viewer.picture(frame)
    assert label() == "the mask is late"
    monkeypatch.setattr(compilation, "progress", lambda: Progress(31, 62))
    controls.frozen = True
    viewer.picture(frame)
    assert label() == "frozen, compiling kernels 31 of 62"


def test_compilation_is_not_reported_as_silent_camera(label, monkeypatch):
    controls = Controls()
    viewer = Viewer(controls)
    viewer.waiting()
    assert label() == "waiting for camera ..."
    monkeypatch.setattr(compilation, "progress", lambda: Progress(0, 62))
    controls.statistics.note_preview()
    viewer.picture(Frame(0, "000001", None, IMAGE))
    assert label() == "compiling kernels 0 of 62"


def test_window_shows_the_frame_until_the_next_mask(controls):
    controls.show_statistics = False
    display = FakeDisplay()
    window = WindowSink("mask", controls=controls, display=display)
    window.preview(Frame(1, "000002", None, NEXT))
    for _ in range(2):
        window.idle()
        np.testing.assert_array_equal(display.shown[-1], NEXT)
    window.write(Frame(1, "000002", None, NEXT), separate(NEXT))
    assert set(np.unique(display.shown[-1])) == {0, 255}
    window.close()


def test_preview_reaches_the_window_of_one_of_several_cameras(controls):
    controls.show_statistics = False
    window, came, going = WindowSink(controls=controls, display=FakeDisplay()), threading.Event(), threading.Event()

    def run(sinks):
        sinks[0].preview(Frame(1, "000002", None, NEXT))
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
        assert client.statistics()["cameras"][0]["busy"] == ""
        with client.watch("/stream?view=mask") as picture:
            wait_until(lambda: server._server.connections)
            controls.statistics.note_preview()
            server.sink().preview(Frame(0, "000001", None, NEXT))
            wait_until(lambda: picture().shape == NEXT.shape)  # after the waiting picture
        assert client.statistics()["cameras"][0]["busy"] == "the mask is late"
        monkeypatch.setattr(compilation, "progress", lambda: Progress(31, 62))
        told = json.loads(client.ask("/statistics")[2])["cameras"][0]
        assert (told["busy"], told["silent"]) == ("compiling kernels 31 of 62", False)
