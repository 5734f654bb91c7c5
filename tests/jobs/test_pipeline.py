"""Runs of the pipeline: order, drops, failures of each stage, stops, and real files."""

import re
import signal
import threading
import time
from unittest import mock

import numpy as np
import pytest
from video_fakes import COUNT, FakeSource, ListSink, ThresholdSubtractor, quit_after, separate

import bgsub
from bgsub.errors import BrokenSourceError, ParameterError, SourceError
from bgsub.jobs import pipeline
from bgsub.jobs.controls import Controls
from bgsub.jobs.job import Job
from bgsub.jobs.pipeline import Pipeline
from bgsub.jobs.run import make_subtractor
from bgsub.video import Frame


def test_all_frames_reach_all_sinks(subtractor):
    source, sinks, seen = FakeSource(), [ListSink(), ListSink()], []
    summary = Pipeline(source, subtractor, sinks, progress=lambda frame, _: seen.append(frame)).run()
    for sink in sinks:
        assert [frame.index for frame in sink.frames] == list(range(COUNT))
        for separation, image in zip(sink.separations, source.frames, strict=True):
            np.testing.assert_array_equal(separation.mask, separate(image).mask)
        assert sink.ended == ["close"]
    assert seen == sinks[0].frames
    assert source.closed == 1
    assert subtractor.rates == [-1] * COUNT
    assert (summary.frames, summary.dropped, summary.skipped, summary.stopped) == (COUNT, 0, 0, "end")
    assert summary.frames_per_second == pytest.approx(COUNT / summary.seconds)


@pytest.mark.parametrize(("count", "queue_size"), [(0, 8), (1, 8), (30, 1), (30, 3)])
def test_files_lose_nothing_with_a_slow_sink(subtractor, monkeypatch, count, queue_size):
    monkeypatch.setattr(pipeline, "_QUEUE_SIZE", queue_size)
    sink = ListSink()
    summary = Pipeline(FakeSource(count), subtractor, [sink], progress=lambda *_: time.sleep(0.002)).run()
    assert [frame.index for frame in sink.frames] == list(range(count))
    assert (summary.frames, summary.dropped, sink.ended) == (count, 0, ["close"])


def test_live_sources_drop_the_oldest():
    source, sink = FakeSource(50, live=True), ListSink()

    class Subtractor(ThresholdSubtractor):
        def process(self, image, learningRate=-1):
            # The camera delivers all it has while the first frame is worked on.
            assert source.exhausted.wait(30)
            return super().process(image, learningRate)

    summary = Pipeline(source, Subtractor(), [sink]).run()
    indices = [frame.index for frame in sink.frames]
    assert indices == sorted(indices)
    assert indices[-1] == 49
    assert len(indices) in (1, 2)
    assert summary.dropped == 50 - summary.frames


def fails(error, *arguments, **options):
    """The run raises this very error."""
    with pytest.raises(type(error)) as caught:
        Pipeline(*arguments, **options).run()
    assert caught.value is error


@pytest.mark.parametrize(("at", "queue_size"), [(0, 8), (5, 1)])
@pytest.mark.parametrize("part", ["source", "subtractor", "sink"])
def test_failure_of_each_stage(monkeypatch, part, at, queue_size):
    monkeypatch.setattr(pipeline, "_QUEUE_SIZE", queue_size)
    place = {name: at if name == part else None for name in ("source", "subtractor", "sink")}
    source, subtractor = FakeSource(100, fail_at=place["source"]), ThresholdSubtractor(fail_at=place["subtractor"])
    sinks = [ListSink(), ListSink(place["sink"]), ListSink()]
    error = {"source": source, "subtractor": subtractor, "sink": sinks[1]}[part].error
    fails(error, source, subtractor, sinks)
    assert source.closed == 1
    assert [sink.ended for sink in sinks] == [["abort"]] * 3
    if part != "sink":  # what came before the failure is in the outputs
        assert [len(sink.frames) for sink in sinks] == [at] * 3


@pytest.mark.parametrize("at", [0, 5])
def test_a_bad_frame_after_good_ones_breaks_the_source(at):
    sink, error = ListSink(), ParameterError("a frame must be finite")
    run = Pipeline(FakeSource(9), ThresholdSubtractor(fail_at=at, error=error), [sink]).run
    with pytest.raises(BrokenSourceError if at else ParameterError, match=f"frame 00000{at}: a frame must be finite"):
        run()
    assert (len(sink.frames), sink.ended) == (at, ["close" if at else "abort"])


def test_failure_of_progress_and_of_closing(subtractor, caplog):
    sink, error = ListSink(), ValueError("no progress")
    fails(error, FakeSource(), subtractor, [sink], progress=mock.Mock(side_effect=error))
    assert sink.ended == ["abort"]
    sinks = [ListSink(), ListSink("close"), ListSink()]
    fails(sinks[1].error, FakeSource(), subtractor, sinks)
    assert [sink.ended for sink in sinks] == [["close"], ["abort"], ["abort"]]
    source, sink = FakeSource(), ListSink()
    source.close_error = OSError("stuck")
    fails(source.close_error, source, subtractor, [sink])
    assert sink.ended == ["abort"]
    source, broken = FakeSource(), ThresholdSubtractor(fail_at=2)  # the first failure is raised, the next logged
    source.close_error = OSError("stuck")
    fails(broken.error, source, broken, [ListSink()])
    assert "while stopping: stuck" in caplog.messages


@pytest.mark.parametrize("live", [False, True])
def test_quit(subtractor, live):
    class Slow(FakeSource):  # a live source drops all but its newest frame
        def _frames(self):
            for frame in super()._frames():
                yield frame
                time.sleep(0.001)

    controls, source, sink = Controls(), Slow(1000, live=live), ListSink()
    summary = Pipeline(source, subtractor, [sink], progress=quit_after(controls, 2), controls=controls).run()
    assert (summary.frames, summary.stopped, sink.ended) == (2, "user", ["close"])
    assert source.closed == 1


@pytest.mark.parametrize("at", [0, 5])
def test_interrupt_in_a_sink_finishes_the_outputs(subtractor, at):
    source, sinks = FakeSource(1000), [ListSink(), ListSink(at, KeyboardInterrupt())]
    summary = Pipeline(source, subtractor, sinks).run()
    assert (summary.frames, summary.stopped) == (at, "SIGINT")
    assert [sink.ended for sink in sinks] == [["close"], ["close"]]
    assert source.closed == 1


def test_signal_while_outputs_are_closed(subtractor):
    class Impatient(ListSink):
        def close(self):
            signal.raise_signal(signal.SIGINT)
            super().close()

    def progress(frame, _separation):
        if frame.index == 5:
            signal.raise_signal(signal.SIGINT)

    before, sink = signal.getsignal(signal.SIGINT), Impatient()
    summary = Pipeline(FakeSource(1000), subtractor, [sink], progress=progress).run()
    assert (summary.stopped, summary.frames, sink.ended) == ("SIGINT", 6, ["close"])
    assert signal.getsignal(signal.SIGINT) is before


def test_yields_every_frame_with_its_separation(subtractor, frames, tmp_path):
    seen = list(bgsub.separate(frames, subtractor=subtractor))
    assert [frame.index for frame, _ in seen] == list(range(COUNT))
    for frame, separation in seen:
        np.testing.assert_array_equal(separation.frame, frame.image)
    with pytest.raises(ParameterError, match="an output must be a sink or a callable, got 3"):
        bgsub.process_video(frames, [ListSink(), 3], subtractor=subtractor)
    with pytest.raises(SourceError, match="no such file or folder"):  # before the loop
        bgsub.separate(tmp_path / "gone.avi")


def test_leaving_early_closes_the_source(subtractor):
    source = FakeSource()
    loop = bgsub.separate(source, subtractor=subtractor)
    next(loop)
    loop.close()
    with pytest.raises(SourceError, match="is closed"):
        iter(source)


@pytest.mark.parametrize(
    ("fps", "every", "expected", "level"), [(None, 1, 25, "INFO"), (30, 90, 1 / 3, None), (1000, 1, 25, "WARNING")]
)
def test_frame_rate_of_the_subtractor(frames, caplog, fps, every, expected, level):
    caplog.set_level("INFO", "bgsub")
    source = bgsub.open_source(frames, fps=fps, every=every)
    assert make_subtractor(Job("", ""), source).get_params()["fps"] == pytest.approx(expected)
    assert [record.levelname for record in caplog.records] == ([] if level is None else [level])
    assert all(re.search(r" 25\b.*; set it with --fps$", message) for message in caplog.messages)
    caplog.clear()
    assert make_subtractor(Job("", "", parameters={"fps": 7}), source).get_params()["fps"] == 7
    assert not caplog.messages


SLOW = 3  # the frame whose separation takes long
SHOWN = 4  # frames that are shown meanwhile


class Camera(FakeSource):
    """Frames one by one until it is cancelled: each waits until the one before it was shown or separated."""

    def __init__(self):
        super().__init__(1, live=True)
        self.next = threading.Semaphore(1)
        self.cancelled = False

    def _frames(self):
        index = 0
        while self.next.acquire() and not self.cancelled:
            yield Frame(index, f"{index + 1:06d}", None, self.frames[0])
            index += 1

    def cancel(self):
        self.cancelled = True
        self.next.release()


def test_previews_while_a_frame_is_late(monkeypatch):
    monkeypatch.setattr(pipeline, "_IDLE_SECONDS", 0.001)
    monkeypatch.setattr(pipeline, "_LATE", 0.001)
    camera, controls, done, recording, late = Camera(), Controls(), threading.Event(), ListSink(), []

    class Slow(ThresholdSubtractor):
        def process(self, image, learningRate=-1):
            if len(self.rates) == SLOW:
                camera.next.release()
                assert done.wait(30)
            return super().process(image, learningRate)

    class Screen(ListSink):
        """Releases the next frame of the camera some time after a preview."""

        def __init__(self):
            super().__init__()
            self.previews, self.threads, self.looks = [], set(), 0

        def write(self, frame, separation):
            super().write(frame, separation)
            camera.next.release()

        def preview(self, frame):
            self.previews.append((len(self.frames), frame.index))
            self.threads.add(threading.current_thread())
            self.looks = 3
            if len(self.previews) == SHOWN:
                late.append((controls.statistics.is_late, controls.busy))
                done.set()

        def idle(self):
            self.looks -= 1
            if self.looks == 0 and not done.is_set():
                camera.next.release()

    def progress(frame, _separation):
        if frame.index > SLOW:
            controls.quit()

    screen = Screen()
    Pipeline(camera, Slow(), [recording, screen], controls=controls, progress=progress).run()
    # Before the late one came out, the frames behind it, each once; after it the newest is separated.
    # (On a busy machine that one may be late as well.)
    assert screen.previews[:SHOWN] == [(SLOW, SLOW + 1 + number) for number in range(SHOWN)]
    assert [frame.index for frame in recording.frames] == [*range(SLOW + 1), SLOW + SHOWN]
    assert screen.threads == {threading.current_thread()}
    assert late == [(True, "the mask is late")]
    assert (controls.statistics.is_late, controls.busy) == (False, "")
