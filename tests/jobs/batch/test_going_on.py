"""A batch that was stopped inside a file goes on there: the outputs are those of a batch that nothing stopped."""

import os
from dataclasses import replace

import numpy as np
import pytest
from batch_fakes import FakeWorkers, run, visible
from checkpoint_kit import due_every
from cli_inputs import make_scene
from video_fakes import content, write_video

from bgsub.errors import OutputError
from bgsub.jobs.batch import task as tasks
from bgsub.jobs.batch.task import do_task
from bgsub.jobs.job import Job, Statistics

pytest.importorskip("av", reason="PyAV is not installed")
pytestmark = pytest.mark.large

LENGTH, EVERY = 150, 20
SAVE = ("mask", "panel.mp4", "mask.npz")


@pytest.fixture(autouse=True)
def often(monkeypatch):
    due_every(monkeypatch, EVERY)
    monkeypatch.setattr(tasks, "_CHECK_SECONDS", -1.0)
    monkeypatch.setattr(tasks, "_share_cores", lambda _jobs: None)


@pytest.fixture
def videos(tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    for number in (1, 2):
        write_video(folder / f"v{number}.avi", np.roll(make_scene(LENGTH, empty=12), number, axis=2))
    return folder


def job(source, output, **fields):
    return Job(source, output, save=SAVE, parameters={"start_frames": 10}, **fields)


class Killed(BaseException):
    """No code that handles failures runs."""


class Dying(FakeWorkers):
    """Its worker dies, or is told to stop, after so many frames of a file; the batch ends with it."""

    def __init__(self, monkeypatch, frames, dies=True):
        super().__init__(slots=1)
        plain, seen = Statistics.__call__, []

        def count(statistics, frame, separation):
            plain(statistics, frame, separation)
            seen.append(frame)
            if dies and len(seen) == frames:
                raise Killed

        def perform(task):
            if not dies:
                do_task(task, is_cancelled=lambda: len(seen) >= frames)
                raise KeyboardInterrupt
            with monkeypatch.context() as patch:
                patch.setattr("bgsub.jobs.run.Statistics.__call__", count)
                try:
                    return do_task(task)
                except Killed:
                    raise KeyboardInterrupt from None

        if not dies:
            monkeypatch.setattr("bgsub.jobs.run.Statistics.__call__", count)
        self.perform = perform


def outputs(folder):
    """All bytes but those of what says when and by whom they were made."""
    return {name: data for name, data in content(folder).items() if not name.endswith((".json", ".csv", ".jsonl"))}


def resumed(result):
    return [entry.result["resumed"] for entry in result.done]


@pytest.fixture
def expected(videos, tmp_path):
    run(videos, tmp_path / "whole", make_job=job)
    return outputs(tmp_path / "whole")


@pytest.mark.parametrize("dies", [True, False])
def test_the_file_at_work_goes_on_and_others_are_left_alone(videos, tmp_path, expected, monkeypatch, dies):
    output = tmp_path / "out"
    with monkeypatch.context() as patch:
        stopped = run(videos, output, Dying(patch, LENGTH + 70 if dies else 70, dies), make_job=job)
    assert (len(stopped.done), stopped.left, stopped.stopped) == ((1, 1) if dies else (0, 2)) + ("SIGINT",)
    times = {path: path.stat().st_mtime_ns for path in (output / "v1").glob("*")}
    result = run(videos, output, make_job=job)
    assert resumed(result) == ([60] if dies else [60, 0])
    assert result.done[0].attempts == 2
    assert times == {path: path.stat().st_mtime_ns for path in times}
    assert outputs(output) == expected
    assert visible(output) == ["v1", "v2"]


def stop_in_first(videos, output, monkeypatch, **fields):
    with monkeypatch.context() as patch:
        run(videos, output, Dying(patch, 70), make_job=lambda source, folder: job(source, folder, **fields))
    (left,) = output.glob(".v1.attempt-*")
    return left


@pytest.mark.parametrize(
    ("what", "told"),
    [
        ("changed", "was made before '{source}' was changed; starting anew"),
        ("options", "was made by other options (--every 2, now 1); starting anew"),
        ("damaged", "is not a bgsub checkpoint, or it is damaged; starting anew"),
        ("gone", "mask.mkv.partial' must hold"),
    ],
)
def test_what_does_not_fit_any_more_begins_anew_with_a_line(
    videos, tmp_path, expected, monkeypatch, what, told, caplog
):
    output, source = tmp_path / "out", videos / "v1.avi"
    left = stop_in_first(videos, output, monkeypatch, **({"every": 2} if what == "options" else {}))
    if what == "changed":
        os.utime(source, (1, 1))
    if what == "damaged":
        state = left / ".resume" / "state"
        data = bytearray(state.read_bytes())
        data[len(data) // 2] ^= 0xFF
        state.write_bytes(data)
    if what == "gone":
        (left / "mask.mkv.partial").unlink()
    result = run(videos, output, make_job=job)
    assert resumed(result) == [0, 0]
    assert told.format(source=source) in caplog.text
    assert "attempt-" not in caplog.text
    assert outputs(output) == expected
    assert visible(output) == ["v1", "v2"]


def test_overwrite_begins_all_anew(videos, tmp_path, expected, monkeypatch, caplog):
    output = tmp_path / "out"
    stop_in_first(videos, output, monkeypatch)
    result = run(videos, output, make_job=job, overwrite=True)
    assert (resumed(result), "anew" in caplog.text) == ([0, 0], False)
    assert outputs(output) == expected


def test_what_another_attempt_still_works_on_is_left_to_it(videos, tmp_path, expected, monkeypatch, caplog):
    output = tmp_path / "out"
    left = stop_in_first(videos, output, monkeypatch)
    from bgsub.storage.file_lock import Claims  # noqa: PLC0415

    def alive(task):
        with Claims() as claims:
            claims.take(left / ".resume")
            before = content(left)
            outcome = do_task(task)
            if task.job.output.name == "v1":
                assert content(left) == before
        return outcome

    result = run(videos, output, FakeWorkers(alive), make_job=job)
    assert resumed(result) == [0, 0]
    assert "another run with --resume works in" in caplog.text
    assert outputs(output) == expected


def test_what_cannot_have_checkpoints_is_done_without(videos, tmp_path, monkeypatch):
    def clips(source, folder):
        return replace(job(source, folder), save=(), record=folder / "clips")

    assert run(videos, tmp_path / "clips", make_job=clips).complete
    monkeypatch.setattr("bgsub.video.sources.av_container.is_available", lambda: False)
    assert run(videos, tmp_path / "opencv", make_job=lambda s, f: replace(job(s, f), save=("mask",))).complete


def test_a_full_disk_leaves_nothing(videos, tmp_path, monkeypatch):
    def full(_self):
        raise OutputError("'mask.npz' cannot be written: No space left on device")

    monkeypatch.setattr("bgsub.video.sinks.arrays.ArraySink.close", full)
    result = run(videos / "v1.avi", tmp_path / "out", make_job=job, retries=0)
    assert "No space left" in result.failed[0].error
    assert visible(tmp_path / "out") == []
