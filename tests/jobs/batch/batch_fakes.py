"""Fakes for tests of batches: jobs that take no time, and workers that run tasks in this thread."""

import json
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import numpy as np
from cli_inputs import make_scene
from video_fakes import write_video

from bgsub.errors import SinkError, SourceError
from bgsub.jobs.batch.run import run_batch
from bgsub.jobs.batch.task import do_task


class FakeJobs:
    """Copies a text instead of separating a video; `failures` are raised first, by the name of the file."""

    def __init__(self) -> None:
        self.failures: dict[str, list[Exception]] = {}
        self.done: list[str] = []

    def __call__(self, job, *, watch, **_options):
        name = Path(job.source).name
        with watch(None):  # the source is open
            pass
        job.output.mkdir(parents=True)
        (job.output / "half").touch()
        if self.failures.get(name):
            raise self.failures[name].pop(0)
        (job.output / "half").unlink()
        (job.output / "mask.txt").write_text(Path(job.source).read_text())
        self.done.append(name)
        values = {"source": job.source, "frames": 3, "outputs": [str(job.output / "mask.txt")]}
        return SimpleNamespace(already_done=False, summary=SimpleNamespace(stopped="end"), as_dict=lambda: values)


class FakeWorkers:
    """Runs each task at once, in this thread, by calling `perform`."""

    def __init__(self, perform=do_task, slots: int = 2) -> None:
        self.perform, self.count = perform, slots
        self.submitted = self.most = 0
        self.closed = False

    def __enter__(self):
        return self

    def __exit__(self, *_error):
        self.closed = True

    def slots(self):
        self.submitted = 0
        return self.count

    def submit(self, task):
        self.submitted += 1
        self.most = max(self.most, self.submitted)
        future = Future()
        try:
            future.set_result(self.perform(task))
        except BaseException as error:
            future.set_exception(error)
        return future


def run(patterns, output, workers=None, **options):
    with mock.patch("bgsub.jobs.batch.run.make_workers", return_value=workers or FakeWorkers()):
        return run_batch(patterns, output, **options)


def write_videos(folder, *numbers):
    """Write a video of 60 frames for each number, v1.avi for 1, each of another scene."""
    for number in numbers:
        write_video(folder / f"v{number}.avi", np.roll(make_scene(60, empty=12), number, axis=2))
    return folder


def names(entries):
    return [Path(entry.source.path).name for entry in entries]


def lines(output):
    """The lines of the manifest."""
    return [json.loads(line) for line in (output / "manifest.jsonl").read_text().splitlines()]


def visible(output):
    """The content of the folder of a batch, without its own files."""
    own = {"manifest.jsonl", "manifest.csv", ".lock", ".locked"}
    return sorted(path.relative_to(output).as_posix() for path in output.iterdir() if path.name not in own)


FULL = SinkError("'mask.txt' cannot be written: No space left on device")
DAMAGED = SourceError("video 'x' is damaged")
