"""A batch that was stopped inside a file continues there, with the outputs of an uninterrupted batch."""

import os

import pytest
from batch_fakes import FakeWorkers, run, visible, write_videos
from checkpoint_kit import due_every
from video_fakes import content

from bgsub.jobs.batch import task as tasks
from bgsub.jobs.batch.task import do_task
from bgsub.jobs.job import Job, Statistics
from bgsub.storage.file_lock import Claims

pytestmark = pytest.mark.large

LENGTH, EVERY = 60, 20
SAVE = ("mask", "panel.mp4", "mask.npz")
TIMED = (".json", ".csv")  # files that have times of the day


@pytest.fixture(autouse=True)
def often(monkeypatch):
    due_every(monkeypatch, EVERY)


@pytest.fixture
def videos(tmp_path):
    (tmp_path / "in").mkdir()
    return write_videos(tmp_path / "in", 1, 2)


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
        if "stopped after" in outcome.error:
            raise KeyboardInterrupt
        return outcome

    with monkeypatch.context() as patch:
        patch.setattr(Statistics, "__call__", count)
        return run(videos, output, FakeWorkers(perform, slots=1), make_job=lambda *place: job(*place, **fields))


def resumed(result):
    return [entry.result["resumed"] for entry in result.done]


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    folder = write_videos(tmp_path_factory.mktemp("whole"), 1, 2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tasks, "_share_cores", lambda _jobs: None)
        run(folder, folder / "out", make_job=job)
    return content(folder / "out", TIMED)


@pytest.mark.parametrize("kill", [True, False])
def test_batch_continues_inside_a_file(videos, output, expected, monkeypatch, kill):
    stopped = stop_after(LENGTH + 50 if kill else 50, videos, output, monkeypatch, kill)
    assert (len(stopped.done), stopped.left, stopped.stopped) == ((1, 1) if kill else (0, 2)) + ("SIGINT",)
    times = {path: path.stat().st_mtime_ns for path in (output / "v1").glob("*")}
    result = run(videos, output, make_job=job)
    first, *others = resumed(result)
    assert first == 40 if kill else 50 <= first < LENGTH
    assert others == ([] if kill else [0])
    assert result.done[0].attempts == 2
    assert times == {path: path.stat().st_mtime_ns for path in times}
    assert content(output, TIMED) == expected
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
def test_unusable_attempt_starts_anew(videos, output, expected, monkeypatch, change, message, caplog):
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
    assert content(output, TIMED) == expected
    assert visible(output) == ["v1", "v2"]
