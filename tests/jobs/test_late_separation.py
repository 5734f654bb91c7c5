"""Previews of a live source while the separation of a frame takes long; files get separated frames only."""

from __future__ import annotations

import threading

import pytest
from video_fakes import FakeSource, ListSink, ThresholdSubtractor, quit_after

from bgsub.jobs import pipeline
from bgsub.jobs.controls import Controls
from bgsub.jobs.pipeline import Pipeline
from bgsub.video import Frame

SLOW = 3  # the frame whose separation takes long
SHOWN = 4  # frames that are shown meanwhile


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    monkeypatch.setattr(pipeline, "_IDLE_SECONDS", 0.001)
    monkeypatch.setattr(pipeline, "_LATE", 0.001)


class Camera(FakeSource):
    """Frames one by one until it is cancelled: each waits until the one before it was shown or separated."""

    def __init__(self, fail_at=None, **options):
        super().__init__(1, live=True, **options)
        self.fail_after_shown, self.next = fail_at, threading.Semaphore(1)
        self.cancelled = False

    def _frames(self):
        index = 0
        while self.next.acquire() and not self.cancelled:
            yield Frame(index, f"{index + 1:06d}", None, self.frames[0])
            index += 1
            if index > SLOW + 1 and self.fail_after_shown:
                raise self.error

    def cancel(self):
        self.cancelled = True
        self.next.release()


class Slow(ThresholdSubtractor):
    """Takes as long for one frame as the test needs."""

    def __init__(self, camera, fail=False):
        super().__init__(SLOW if fail else None)
        self.camera, self.done = camera, threading.Event()

    def process(self, image, learningRate=-1):
        if len(self.rates) == SLOW:
            self.camera.next.release()
            assert self.done.wait(30)
        return super().process(image, learningRate)


class Screen(ListSink):
    """Releases the next frame of the camera some time after a preview."""

    def __init__(self, camera, subtractor, after=lambda: None):
        super().__init__()
        self.camera, self.subtractor, self.after = camera, subtractor, after
        self.previews, self.threads = [], set()
        self.looks = 0

    def write(self, frame, separation):
        super().write(frame, separation)
        self.camera.next.release()

    def preview(self, frame):
        self.previews.append((len(self.frames), frame.index))
        self.threads.add(threading.current_thread())
        if len(self.previews) == SHOWN:
            self.subtractor.done.set()
            self.after()
        else:
            self.looks = 3

    def idle(self):
        self.looks -= 1
        if self.looks == 0:
            self.camera.next.release()


def test_previews_while_a_frame_is_late():
    camera, controls = Camera(), Controls()
    subtractor, recording, late = Slow(camera), ListSink(), []
    screen = Screen(camera, subtractor, lambda: late.append((controls.statistics.is_late, controls.busy)))

    def progress(frame, _separation):
        if frame.index > SLOW:
            controls.quit()

    Pipeline(camera, subtractor, [recording, screen], controls=controls, progress=progress).run()
    # Before the late one came out, the frames behind it, each once; after it the newest is separated.
    # (On a busy machine that one may be late as well.)
    assert screen.previews[:SHOWN] == [(SLOW, SLOW + 1 + number) for number in range(SHOWN)]
    assert [frame.index for frame in recording.frames] == [*range(SLOW + 1), SLOW + SHOWN]
    assert screen.threads == {threading.current_thread()}
    assert late == [(True, "the mask is late")]
    assert (controls.statistics.is_late, controls.busy) == (False, "")


@pytest.mark.parametrize("part", ["source", "subtractor", "screen", "quit", "interrupt"])
def test_failure_while_a_frame_is_late(part):
    camera, controls = Camera(fail_at=part == "source"), Controls()
    subtractor, recording = Slow(camera, fail=part == "subtractor"), ListSink()
    error = {"source": camera.error, "subtractor": subtractor.error}.get(part, RuntimeError("the screen broke"))

    def after():
        if part == "screen":
            raise error
        if part == "interrupt":
            raise KeyboardInterrupt
        if part == "quit":
            controls.quit()

    screen = Screen(camera, subtractor, after)
    if part == "source":  # no frame follows the one that is shown, so that the screen cannot let the late one go
        screen.preview = lambda frame: subtractor.done.set()
    run = Pipeline(camera, subtractor, [recording, screen], controls=controls).run
    if part in ("quit", "interrupt"):
        assert run().stopped == {"quit": "user", "interrupt": "SIGINT"}[part]
        assert recording.ended == ["close"]
    else:
        with pytest.raises(RuntimeError) as caught:
            run()
        assert caught.value is error
        assert recording.ended == ["abort"]
    assert camera.closed == 1
    assert all(frame.index <= SLOW + SHOWN for frame in recording.frames)


def test_no_previews_of_files():
    source, looked = FakeSource(10), threading.Event()

    class Patient(ThresholdSubtractor):
        def process(self, image, learningRate=-1):
            assert looked.wait(30)
            return super().process(image, learningRate)

    class Idle(ListSink):
        looks, previews = 0, []

        def preview(self, frame):
            self.previews.append(frame)

        def idle(self):
            self.looks += 1
            if self.looks > 20:
                looked.set()

    sink = Idle()
    Pipeline(source, Patient(), [sink]).run()
    assert (sink.previews, len(sink.frames)) == ([], 10)


def test_no_previews_of_a_camera_in_time(monkeypatch):
    monkeypatch.setattr(pipeline, "_LATE", 3600.0)
    camera, controls = Camera(), Controls()
    subtractor = ThresholdSubtractor()
    screen = Screen(camera, subtractor)
    Pipeline(camera, subtractor, [screen], controls=controls, progress=quit_after(controls, 21)).run()
    assert (screen.previews, len(screen.frames)) == ([], 21)
