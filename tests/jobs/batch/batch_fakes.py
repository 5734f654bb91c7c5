"""Stand-ins for what a test of batches has not got: a job that takes no time, and a Dask that plays tricks."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from bgsub.errors import SinkError, SourceError
from bgsub.jobs.batch.run import BatchOptions, run_batch_with
from bgsub.jobs.batch.task import do_task


@dataclass
class FakeResult:
    source: str
    output: Path
    already_done: bool = False

    def as_dict(self):
        return {"source": self.source, "frames": 3, "outputs": [str(self.output)]}


class FakeJobs:
    """Copies a text instead of separating a video; `failures` are raised first, by the name of the file."""

    def __init__(self) -> None:
        self.failures: dict[str, list[Exception]] = {}
        self.done: list[str] = []

    def __call__(self, job, *, watch):
        name = Path(job.source).name
        with watch(None):  # what is wrong shows after the beginning
            pass
        job.output.mkdir(parents=True)
        (job.output / "half").touch()
        if self.failures.get(name):
            raise self.failures[name].pop(0)
        (job.output / "half").unlink()
        (job.output / "mask.txt").write_text(Path(job.source).read_text())
        self.done.append(name)
        return FakeResult(job.source, job.output / "mask.txt")


class FakeRunner:
    """Does tasks at once, in this thread, in the way that `trick` wants."""

    def __init__(self, trick=None, slots: int = 2) -> None:
        self.trick = trick or (lambda _key, task: [do_task(task)])
        self.count, self.most, self.cancelled = slots, 0, False
        self.ready: list = []

    def __enter__(self):
        return self

    def __exit__(self, *_error):
        pass

    def slots(self):
        return self.count

    def submit(self, key, task):
        self.ready.append((key, task))
        self.most = max(self.most, len(self.ready))

    def wait(self, _seconds):
        tasks, self.ready = self.ready, []
        return [(key, outcome) for key, task in tasks for outcome in self.trick(key, task)]

    def cancel(self):
        self.cancelled = True


def run(patterns, output, runner=None, **options):
    """Run a batch with fakes."""
    return run_batch_with(lambda _files: runner or FakeRunner(), patterns, output, BatchOptions(**options))


def names(entries):
    return [Path(entry.source.path).name for entry in entries]


def lines(output):
    """The lines of the manifest."""
    return [json.loads(line) for line in (output / "manifest.jsonl").read_text().splitlines()]


def visible(output):
    """What stands in the folder of a batch, without its own files."""
    own = {"manifest.jsonl", "manifest.csv", ".lock", ".locked"}
    return sorted(path.relative_to(output).as_posix() for path in output.iterdir() if path.name not in own)


FULL = SinkError("'mask.txt' cannot be written: No space left on device")
DAMAGED = SourceError("video 'x' is damaged")
