"""Local cameras that are lost and found again, with simulated captures."""

from __future__ import annotations

import logging
import threading

import numpy as np
import pytest
from video_fakes import FakeCapture, ListSink, ThresholdSubtractor, make_frames, wait_first

from bgsub._opencv import cv2
from bgsub.errors import ParameterError
from bgsub.jobs.controls import Controls
from bgsub.jobs.pipeline import Pipeline
from bgsub.video import CameraSource, Sink


class Port:
    """Gives each opening the next capture; None fails."""

    def __init__(self, *captures: FakeCapture | None) -> None:
        self.captures, self.openings = list(captures), 0

    def __call__(self, device):
        self.openings += 1
        capture = self.captures.pop(0) if self.captures else None
        return capture if capture is not None else FakeCapture([], opened=False)


class MuteCapture(FakeCapture):
    """Sends its frames and then blocks until the test sets `end`."""

    def __init__(self, frames) -> None:
        super().__init__(frames)
        self.silent, self.end = threading.Event(), threading.Event()

    def read(self):
        if not self.frames:
            self.silent.set()
            self.end.wait(20)
        return super().read()


@pytest.fixture
def fast(monkeypatch):
    wait_first(monkeypatch, 0.01)


def test_a_camera_that_was_lost_continues(monkeypatch, fast, caplog, frames):
    port = Port(FakeCapture(frames[:4]), None, FakeCapture([]), FakeCapture(frames[4:]))
    monkeypatch.setattr(cv2, "VideoCapture", port)
    with caplog.at_level(logging.WARNING, "bgsub"), CameraSource(0, reconnect=0.5, max_wait=0.02) as source:
        got = list(source)
    assert [frame.index for frame in got] == sorted({frame.index for frame in got})
    assert got[-1].index == len(frames) - 1
    assert len(got) + source.dropped == len(frames)
    np.testing.assert_array_equal(got[-1].image, frames[-1])
    assert source.reconnections == 1
    assert caplog.messages[:3] == [
        "camera 0 lost: it sends no more frames; trying again in 0.01 s (attempt 1)",
        "camera 0 lost: no answer; trying again in 0.02 s (attempt 2)",
        "camera 0 lost: no answer; trying again in 0.02 s (attempt 3)",
    ]
    assert caplog.messages[3].startswith("camera 0 is back after 0.")
    assert caplog.messages[-1] == "camera 0 ended after 12 frames"


@pytest.mark.parametrize("reconnect", [0.1, None, 0])
def test_reconnection_ends(monkeypatch, fast, caplog, frames, reconnect):
    port = Port(FakeCapture(frames))
    monkeypatch.setattr(cv2, "VideoCapture", port)
    with caplog.at_level(logging.WARNING, "bgsub"), CameraSource(0, reconnect=reconnect) as source:
        assert list(source)[-1].index == 11
    # After 0.01, 0.02, 0.04 s and the rest of 0.1 s.
    assert port.openings >= 3 if reconnect else port.openings == 1
    assert caplog.messages[-1] == "camera 0 ended after 12 frames"


def test_frames_of_another_size_are_resized_to_the_first(monkeypatch, fast, frames, caplog):
    monkeypatch.setattr(cv2, "VideoCapture", Port(FakeCapture(frames), FakeCapture(make_frames(3, 16, 24))))
    told = "the frames of camera 0 are 24x16 now; they are resized to 48x32, the size at the start"
    with CameraSource(0, reconnect=True) as source:
        for frame in source:
            assert frame.image.shape == (32, 48, 3)
            if told in caplog.messages:
                break
    assert caplog.messages.count(told) == 1


def test_times_of_arrival_and_dropped_frames(monkeypatch):
    monkeypatch.setattr(cv2, "VideoCapture", FakeCapture(frames := make_frames(40)))
    with CameraSource(0) as source:
        got = list(source)
    assert got[0].time == 0
    assert [frame.received - got[0].received for frame in got] == [frame.time for frame in got]
    monkeypatch.setattr(cv2, "VideoCapture", FakeCapture(frames))
    sink = ListSink()
    summary = Pipeline(CameraSource(0), ThresholdSubtractor(), [sink]).run()
    assert summary.frames + summary.dropped == 40
    assert sink.frames[-1].index == 39


def test_errors_of_the_driver_are_raised(monkeypatch):
    capture = FakeCapture([])
    capture.read = lambda: (_ for _ in ()).throw(cv2.error("the driver crashed"))
    monkeypatch.setattr(cv2, "VideoCapture", capture)
    with CameraSource(0, reconnect=True) as source, pytest.raises(cv2.error, match="the driver crashed"):
        list(source)
    assert capture.released


@pytest.fixture
def mute(monkeypatch, frames):
    """A camera that sends three frames and then nothing."""
    capture = MuteCapture(frames[:3])
    monkeypatch.setattr(cv2, "VideoCapture", capture)
    yield capture
    capture.end.set()
    for thread in threading.enumerate():
        if thread.name == "bgsub-grab":
            thread.join(5)
    assert capture.released


def test_close_ends_a_wait_for_a_silent_camera(mute):
    source, last = CameraSource(0), threading.Event()

    def read():
        for frame in source:
            if frame.index == 2:
                last.set()

    thread = threading.Thread(target=read)
    thread.start()
    assert last.wait(5)
    assert mute.silent.wait(5)
    source.close()
    thread.join(2)
    assert not thread.is_alive()


class IdleSink(Sink):
    """Counts calls of `idle`; quits or raises at the third."""

    def __init__(self, act) -> None:
        self.idles, self.frames, self.closed, self._act = 0, 0, False, act

    def write(self, _frame, _separation) -> None:
        self.frames += 1

    def idle(self) -> None:
        self.idles += 1
        if self.frames and self.idles >= 3:
            self._act()

    def close(self) -> None:
        self.closed = True


@pytest.mark.parametrize("how", ["quit", "interrupt"])
def test_the_user_can_leave_while_the_camera_is_silent(mute, how):
    controls = Controls()

    def interrupt():
        raise KeyboardInterrupt

    sink = IdleSink(controls.quit if how == "quit" else interrupt)
    summary = Pipeline(CameraSource(0), ThresholdSubtractor(), [sink], controls=controls).run()
    assert summary.stopped == ("user" if how == "quit" else "SIGINT")
    assert summary.seconds < 5
    assert summary.frames + summary.dropped == 3
    assert sink.closed
    assert sink.idles >= 3


def test_wrong_parameters():
    for name, wrong in (
        *(("reconnect", value) for value in (-1, float("nan"))),
        *(("threads", 0), ("max_wait", 0), ("open_timeout", float("inf"))),
    ):
        with pytest.raises(ParameterError, match=rf"^{name} must be .*, got {wrong}$"):
            CameraSource(0, **{name: wrong})
