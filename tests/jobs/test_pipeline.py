"""Runs of the pipeline: order, drops, failures of each stage, stops, and real files."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from video_fakes import (
    COUNT,
    FakeSource,
    ListSink,
    ThresholdSubtractor,
    quit_after,
    separate,
    write_images,
)

from bgsub.errors import SourceError
from bgsub.jobs.controls import Controls
from bgsub.jobs.job import Summary
from bgsub.jobs.pipeline import Pipeline
from bgsub.jobs.simple import process_video
from bgsub.video import create_sinks, open_source


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
    assert set(summary.stage_seconds) == {"read", "track", "write"}


@pytest.mark.parametrize(("count", "queue_size"), [(0, 8), (1, 8), (30, 1), (30, 3)])
def test_files_lose_nothing_with_a_slow_sink(subtractor, count, queue_size):
    sink = ListSink()
    slow = {"queue_size": queue_size, "progress": lambda *_: time.sleep(0.002)}
    summary = Pipeline(FakeSource(count), subtractor, [sink], **slow).run()
    assert [frame.index for frame in sink.frames] == list(range(count))
    assert (summary.frames, summary.dropped, sink.ended) == (count, 0, ["close"])


def test_live_sources_drop_the_oldest():
    source, sink = FakeSource(50, live=True), ListSink()

    class Subtractor(ThresholdSubtractor):
        def process(self, image, learningRate=-1):
            # The camera delivers all it has while the first frame is worked on.
            assert source.exhausted.wait(30)
            return super().process(image, learningRate)

    summary = Pipeline(source, Subtractor(), [sink], queue_size=4).run()
    indices = [frame.index for frame in sink.frames]
    assert indices == sorted(indices)
    assert indices[-4:] == [46, 47, 48, 49]
    assert len(indices) in (4, 5)
    assert summary.dropped == 50 - summary.frames


def test_skipped_frames_are_counted(subtractor, tmp_path, frames):
    folder = write_images(tmp_path / "input", frames)
    (folder / "in000003.png").write_text("broken")
    summary = process_video(folder, subtractor=subtractor, on_error="skip")
    assert (summary.frames, summary.skipped) == (COUNT - 1, 1)


# Failures


def fails(error, *arguments, **options):
    """The run raises this very error."""
    with pytest.raises(type(error)) as caught:
        Pipeline(*arguments, **options).run()
    assert caught.value is error


@pytest.mark.parametrize(("at", "queue_size"), [(0, 8), (5, 1)])
@pytest.mark.parametrize("part", ["source", "subtractor", "sink"])
def test_failure_of_each_stage(part, at, queue_size):
    place = {name: at if name == part else None for name in ("source", "subtractor", "sink")}
    source, subtractor = FakeSource(100, fail_at=place["source"]), ThresholdSubtractor(fail_at=place["subtractor"])
    sinks = [ListSink(), ListSink(place["sink"]), ListSink()]
    error = {"source": source, "subtractor": subtractor, "sink": sinks[1]}[part].error
    fails(error, source, subtractor, sinks, queue_size=queue_size)
    assert source.closed == 1
    assert [sink.ended for sink in sinks] == [["abort"]] * 3
    if part != "sink":  # what came before the failure is in the outputs
        assert [len(sink.frames) for sink in sinks] == [at] * 3


def test_failure_of_progress_and_of_closing(subtractor, caplog):
    def fail(*_):
        raise error

    sink, error = ListSink(), ValueError("no progress")
    fails(error, FakeSource(), subtractor, [sink], progress=fail)
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


# Stopping


@pytest.mark.parametrize("live", [False, True])
def test_quit(subtractor, live):
    controls, source, sink = Controls(), FakeSource(1000, live=live), ListSink()
    options = {"progress": quit_after(controls, 2), "controls": controls, "queue_size": 2}
    summary = Pipeline(source, subtractor, [sink], **options).run()
    assert (summary.frames, summary.stopped, sink.ended) == (2, "user", ["close"])
    assert source.closed == 1


@pytest.mark.parametrize("at", [0, 5])
def test_interrupt_in_a_sink_finishes_the_outputs(subtractor, at):
    source, sinks = FakeSource(1000), [ListSink(), ListSink(at, KeyboardInterrupt())]
    summary = Pipeline(source, subtractor, sinks).run()
    assert (summary.frames, summary.stopped) == (at, "SIGINT")
    assert [sink.ended for sink in sinks] == [["close"], ["close"]]
    assert source.closed == 1


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="signals of Unix")
def test_signal_while_outputs_are_closed(tmp_path):
    script = f"""
import os, signal, sys, threading, time
sys.path.insert(0, {str(Path(__file__).parents[1] / "video")!r})
from video_fakes import FakeSource, ListSink, ThresholdSubtractor
from bgsub.jobs.pipeline import Pipeline
class Endless(FakeSource):
    def _frames(self):
        while True:
            yield from super()._frames()
class Impatient(ListSink):
    def close(self):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.02)
        super().close()
sink = Impatient()
def progress(frame, _):
    if len(sink.frames) == 20:
        os.kill(os.getpid(), signal.SIGINT)
summary = Pipeline(Endless(), ThresholdSubtractor(), [sink], progress=progress).run()
print(summary.stopped, summary.frames >= 19, sink.ended, threading.active_count())
print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)
"""
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=60)
    assert result.stdout.splitlines() == ["SIGINT True ['close'] 1", "True"], result


def test_run_outside_the_main_thread(subtractor):
    summaries = []
    handler = signal.getsignal(signal.SIGINT)
    thread = threading.Thread(target=lambda: summaries.append(Pipeline(FakeSource(), subtractor).run()))
    thread.start()
    thread.join()
    assert summaries[0].frames == COUNT
    assert signal.getsignal(signal.SIGINT) is handler


# process_video, with real files


def test_failed_run_keeps_partial_outputs(tmp_path, frames):
    source = open_source(frames)
    sinks = create_sinks(tmp_path, ["mask", "panel"], source)
    with pytest.raises(RuntimeError):
        Pipeline(source, ThresholdSubtractor(fail_at=6), sinks).run()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mask.partial.mkv", "panel.partial.mp4"]
    for path in tmp_path.iterdir():
        assert len(list(open_source(path))) == 6


def test_source_that_cannot_be_opened_aborts_the_sinks(subtractor, tmp_path):
    sink = ListSink()
    with pytest.raises(SourceError):
        process_video(tmp_path / "missing.avi", sink, subtractor=subtractor)
    assert sink.ended == ["abort"]


@pytest.mark.slow
def test_import_is_light():
    heavy = {"numba", "scipy", "bgsub.subtractor"}
    script = f"import sys, bgsub.video; print(sorted({heavy} & set(sys.modules)))"
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert result.stdout == "[]\n"


def test_wait_for_kernels_is_no_part_of_the_rate(subtractor, monkeypatch):
    lost = iter((100.0, 140.0))
    monkeypatch.setattr("bgsub.jobs.pipeline.waited", lambda: next(lost))
    summary = Pipeline(FakeSource(), subtractor).run()
    assert summary.waited == 40
    assert Summary(100, 0, 0, 50.0, "end", waited=40.0).frames_per_second == 10
