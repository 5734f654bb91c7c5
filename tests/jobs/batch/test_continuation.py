"""A batch that was stopped inside a file continues there, with the outputs of an uninterrupted batch."""

import os

import numpy as np
import pytest
from batch_fakes import FakeWorkers, run, visible
from checkpoint_kit import due_every
from cli_inputs import make_scene
from video_fakes import content, write_video

from bgsub.jobs.batch import task as tasks
from bgsub.jobs.batch.task import do_task
from bgsub.jobs.job import Job, Statistics
from bgsub.storage.file_lock import Claims

pytestmark = pytest.mark.large

LENGTH, EVERY = 60, 20
SAVE = ("mask", "panel.mp4", "mask.npz")


@pytest.fixture(autouse=True)
def often(monkeypatch):
    due_every(monkeypatch, EVERY)
    monkeypatch.setattr(tasks, "_CHECK_SECONDS", -1.0)
    monkeypatch.setattr(tasks, "_share_cores", lambda _jobs: None)


@pytest.fixture(scope="module")
def scenes():
    return [np.roll(make_scene(LENGTH, empty=12), number, axis=2) for number in (1, 2)]


@pytest.fixture
def videos(tmp_path, scenes):
    (tmp_path / "in").mkdir()
    for number, frames in enumerate(scenes, 1):
        write_video(tmp_path / "in" / f"v{number}.avi", frames)
    return tmp_path / "in"


def job(source, output, **fields):
    return Job(source, output, save=SAVE, parameters={"start_frames": 10}, **fields)


class Killed(BaseException):
    """A kill: no error handling runs."""


def stop_after(frames, videos, output, monkeypatch, kill=True, **fields):
    """Run a batch that is killed, or whose task is cancelled, after so many frames."""
    plain, seen = Statistics.__call__, []

    def count(statistics, frame, separation):
        plain(statistics, frame, separation)
        seen.append(frame)
        if kill and len(seen) == frames:
            raise Killed

    def perform(task):
        try:
            outcome = do_task(task, is_cancelled=lambda: len(seen) >= frames and not kill)
        except Killed:
            raise KeyboardInterrupt from None
        if "the batch has ended" in outcome.error:
            raise KeyboardInterrupt
        return outcome

    with monkeypatch.context() as patch:
        patch.setattr(Statistics, "__call__", count)
        return run(videos, output, FakeWorkers(perform, slots=1), make_job=lambda s, folder: job(s, folder, **fields))


def outputs(folder):
    """Content of the outputs, without files that have times of the day."""
    return {name: data for name, data in content(folder).items() if not name.endswith((".json", ".csv", ".jsonl"))}


def resumed(result):
    return [entry.result["resumed"] for entry in result.done]


@pytest.fixture(scope="module")
def expected(scenes, tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    for number, frames in enumerate(scenes, 1):
        write_video(folder / f"v{number}.avi", frames)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tasks, "_share_cores", lambda _jobs: None)
        run(folder, folder / "out", make_job=job)
    return outputs(folder / "out")


@pytest.mark.parametrize("kill", [True, False])
def test_batch_continues_inside_a_file(videos, tmp_path, expected, monkeypatch, kill):
    output = tmp_path / "out"
    stopped = stop_after(LENGTH + 50 if kill else 50, videos, output, monkeypatch, kill)
    assert (len(stopped.done), stopped.left, stopped.stopped) == ((1, 1) if kill else (0, 2)) + ("SIGINT",)
    times = {path: path.stat().st_mtime_ns for path in (output / "v1").glob("*")}
    result = run(videos, output, make_job=job)
    assert resumed(result) == ([40] if kill else [40, 0])
    assert result.done[0].attempts == 2
    assert times == {path: path.stat().st_mtime_ns for path in times}
    assert outputs(output) == expected
    assert visible(output) == ["v1", "v2"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("source", "was changed; starting over"),
        ("options", "by other options (--every 2, now 1); starting over"),
        ("output", "'{output}/v1/mask.mkv' cannot be continued"),
        ("in use", "another run with --resume works in '{output}/v1'"),
    ],
)
def test_unusable_attempt_starts_anew(videos, tmp_path, expected, monkeypatch, change, message, caplog):
    output = tmp_path / "out"
    stop_after(30, videos, output, monkeypatch, **({"every": 2} if change == "options" else {}))
    (left,) = output.glob(".v1.attempt-*")
    if change == "source":
        os.utime(videos / "v1.avi", (1, 1))
    if change == "output":
        (left / "mask.mkv.partial").unlink()

    def perform(task):
        with Claims() as claims:
            if change == "in use":
                claims.take(left / ".resume")
            before = content(left)
            outcome = do_task(task)
            if task.job.output.name == "v1":
                assert change == "output" or content(left) == before
        return outcome

    assert resumed(run(videos, output, FakeWorkers(perform), make_job=job)) == [0, 0]
    assert message.format(output=output) in caplog.text
    assert "attempt-" not in caplog.text.replace(str(left), "")
    assert outputs(output) == expected
    assert visible(output) == ["v1", "v2"]
