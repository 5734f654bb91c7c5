"""What is seen of frames whose masks are not there yet: the frame itself, and why."""

from __future__ import annotations

import json
import threading

import numpy as np
import pytest
from live_fakes import wait_until
from test_server import Client
from video_fakes import FakeDisplay, make_frames, separate

from bgsub.jobs.controls import LIVE_VIEWS, Controls
from bgsub.live.server import LiveServer
from bgsub.live.session import _CameraThread
from bgsub.live.viewer import Viewer
from bgsub.live.window import WindowSink
from bgsub.numerics import compilation
from bgsub.numerics.compilation import Progress
from bgsub.video import Frame

IMAGE, NEXT = make_frames(2, 240, 320)


@pytest.fixture
def controls():
    """A run one of whose frames is separated."""
    controls = Controls()
    controls.show_statistics = False
    controls.statistics.update(Frame(0, "000001", None, IMAGE), separate(IMAGE))
    return controls


@pytest.fixture
def label(monkeypatch):
    """The words in the corner of the picture."""
    texts = [""]
    monkeypatch.setattr("bgsub.live.viewer.add_label", lambda image, text, scale: texts.append(text) or image)
    return lambda: texts[-1]


@pytest.mark.parametrize("view", LIVE_VIEWS)
def test_every_view_is_the_frame_itself(controls, view):
    frame = Frame(1, "000002", None, NEXT)
    np.testing.assert_array_equal(Viewer(controls, words=False).picture(frame, view), NEXT)
    assert Viewer(controls, longest_side=100, words=False).picture(frame, view).shape == (75, 100, 3)


def test_the_words_say_why(controls, label, monkeypatch):
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


def test_who_waits_for_kernels_is_not_told_that_the_camera_is_silent(label, monkeypatch):
    controls = Controls()
    viewer = Viewer(controls)
    viewer.waiting()
    assert label() == "waiting for camera ..."
    monkeypatch.setattr(compilation, "progress", lambda: Progress(0, 62))
    controls.statistics.note_preview()
    viewer.picture(Frame(0, "000001", None, IMAGE))
    assert label() == "compiling kernels 0 of 62"


def test_the_window_shows_it_until_the_next_mask(controls):
    display = FakeDisplay()
    window = WindowSink("mask", controls=controls, display=display)
    window.preview(Frame(1, "000002", None, NEXT))
    for _ in range(2):
        window.idle()
        np.testing.assert_array_equal(display.shown[-1], NEXT)
    window.write(Frame(1, "000002", None, NEXT), separate(NEXT))
    assert set(np.unique(display.shown[-1])) == {0, 255}
    window.close()


def test_it_reaches_the_window_of_one_of_several_cameras(controls):
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


def test_a_browser_sees_it_and_is_told_why(monkeypatch):
    controls = Controls()
    with LiveServer(controls, port=0) as server:
        client = Client(server)
        assert client.statistics()["cameras"][0]["busy"] == ""
        with client.watch("/stream?view=mask") as picture:
            wait_until(lambda: server._server.connections)
            controls.statistics.note_preview()
            server.sink().preview(Frame(0, "000001", None, NEXT))
            wait_until(lambda: picture().shape == NEXT.shape)  # after the one that says that the camera is waited for
        assert client.statistics()["cameras"][0]["busy"] == "the mask is late"
        monkeypatch.setattr(compilation, "progress", lambda: Progress(31, 62))
        told = json.loads(client.ask("/statistics")[2])["cameras"][0]
        assert (told["busy"], told["silent"]) == ("compiling kernels 31 of 62", False)
