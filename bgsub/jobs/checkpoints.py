"""Checkpoints of a running pipeline, and how sources and sinks continue at one."""

import contextlib
import time
import zlib
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Self

from bgsub._version import __version__
from bgsub.errors import BgsubError, OutputError, SourceError
from bgsub.jobs.job import Statistics
from bgsub.numerics.state import State
from bgsub.numerics.threads import overwriting
from bgsub.storage import array_file
from bgsub.storage.durable_io import make_folder, os_errors_as, partial_name, sync_folder, unlink
from bgsub.video.sinks.base import Sink
from bgsub.video.sources.base import Frame, FrameSource
from bgsub.video.timecode import Part, Selection, Timecode

Snapshot = tuple[dict[str, Any], State]  # the state of a subtractor, see `BackgroundSubtractor.snapshot`

FOLDER, FILE = ".resume", "state"
START_ANEW = "--overwrite starts over"

_KIND = array_file.Kind("checkpoint", 27)
_LARGEST_SHARE = 0.05  # of the time that checkpoints may take
_EARLY = 0.5  # of the interval, after which a state is taken that is smaller than usual


@dataclass(frozen=True)
class Checkpoint:
    """The state of a run between two frames."""

    identity: dict  # of the job, see `JobIdentity`
    version: str = __version__  # of bgsub that made it
    started: str = ""  # start of the first run, in ISO format, for the names of outputs
    frames: int = 0  # written
    index: int = -1  # `Frame.index` of the last of them; -1 before the first
    skipped: int = 0  # frames before it that could not be read
    sinks: list | None = None  # states for `Sink.resume`, in the order of the sinks
    progress: dict | None = None  # state of the statistics
    model: Snapshot | None = None  # the subtractor; None before the first frame

    @property
    def beginning(self) -> Self:
        """The same run before its first frame."""
        return replace(self, frames=0, index=-1, skipped=0, sinks=None, progress=None, model=None)

    def write(self, path: Path) -> None:
        """Write the checkpoint to a file, whole or not at all; OutputError if it cannot be written."""
        header, state = self.model or ({}, {})
        run = {name: value for name, value in vars(self).items() if name != "model"}
        with os_errors_as(OutputError, f"the checkpoint cannot be written to '{path}'"):
            array_file.write(path, _KIND, {"run": run, "model": header}, state)

    @classmethod
    def read(cls, path: Path) -> Self:
        """Return the checkpoint in a file; SourceError when there is none or it is damaged."""
        header, state = array_file.read(path, _KIND)
        try:
            found = cls(**header["run"], model=(dict(header["model"]), state) if header["model"] else None)
            datetime.fromisoformat(found.started or "2000-01-01")
        except (KeyError, TypeError, ValueError) as error:
            raise SourceError(f"the checkpoint '{path}' is damaged: {error}") from None
        kinds: dict[str, Any] = {field.name: field.type for field in fields(cls) if field.name != "model"}
        wrong = [name for name, kind in kinds.items() if not isinstance(getattr(found, name), kind)]
        if wrong or (found.frames > 0 and found.model is None):
            raise SourceError(f"the checkpoint '{path}' is damaged: {', '.join(wrong) or 'it has no model'}")
        return found


def saved_frames(output: Path) -> int:
    """Return the frames before the checkpoint in an output folder; 0 without a checkpoint."""
    with contextlib.suppress(SourceError, KeyError, TypeError, ValueError):
        return int(array_file.read(output / FOLDER / FILE, _KIND, with_arrays=False)[0]["run"]["frames"])
    return 0


class Checkpoints:
    """Makes a checkpoint at most every `seconds`, also after the last frame of a stopped run; the newest is kept."""

    def __init__(self, path: Path, start: Checkpoint, *, seconds: float = 15.0) -> None:
        self.path = path
        self.start = start
        self._seconds = seconds
        self._statistics: Statistics | None = None
        self._is_new = False
        self._rest: _Rest | None = None
        self._skipped = deque([(start.frames, start.skipped)])  # frames, and how many had been skipped by then
        self._time, self._taking, self._storing = time.monotonic(), 0.0, 0.0
        self._old: State = {}  # stored, for the next copy

    def begin(self) -> None:
        """Write the start, before the first frame of a new run; OutputError if that fails."""
        with os_errors_as(OutputError, f"'{self.path.parent}' cannot be made"):
            make_folder(self.path.parent)
        self.start.write(self.path)
        self._is_new = True

    def withdraw(self) -> None:
        """Remove the start of a new run that failed before its first frame, so that another job may begin."""
        if self._is_new and self._statistics is not None and not self._statistics.frames:
            self.remove()

    def restart_later(self) -> None:
        """Make a later run start over, before incomplete outputs are finished."""
        self.start.beginning.write(self.path)

    def remove(self) -> None:
        """Remove the file, and its folder if that is empty, at the end of the run."""
        for file in (self.path, partial_name(self.path)):
            unlink(file)
        with contextlib.suppress(OSError):
            self.path.parent.rmdir()
            sync_folder(self.path.parent.parent)

    def resume(self, sinks: Sequence[Sink]) -> None:
        """Make the sinks continue at the start; SinkError if one cannot, SourceError for a damaged state."""
        if not self.start.frames:
            for sink in sinks:
                sink.checkpoint()  # a sink that cannot make checkpoints fails now, not after some time
            return
        with self.damage_reported():
            for sink, state in zip(sinks, self.start.sinks or [], strict=True):
                sink.resume(state)

    def follow(self, statistics: Statistics) -> None:
        """Set `statistics` to the start and store their state from now on; SourceError if it is damaged."""
        if self.start.progress is not None:
            with self.damage_reported():
                statistics.set_state(self.start.progress)
        self._statistics = statistics

    @contextlib.contextmanager
    def damage_reported(self, others: Sequence[Exception] = ()) -> Iterator[None]:
        """Turn exceptions that a damaged state causes, maybe frames later, into SourceError; except `others`."""
        try:
            yield
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, zlib.error) as error:
            if not self.start.frames or isinstance(error, BgsubError) or error in others:
                raise
            cause = f"{type(error).__name__}: {error}"
            raise SourceError(f"no run can go on from the checkpoint '{self.path}' ({cause}); {START_ANEW}") from error

    def remaining(self, source: FrameSource) -> Iterator[Frame]:
        """Yield the frames of a source after the start, in the reading thread."""
        count = self.start.frames
        rest = self._rest = _Rest(source, self.start.index) if count else None
        for frame in source.alike(source if rest is None else source.take(rest)):
            count += 1
            if (skipped := self.skipped(source)) != self._skipped[-1][1]:
                self._skipped.append((count, skipped))
            yield frame
        if rest is not None and rest.seen is not None and rest.seen < self.start.index:
            raise SourceError(f"{source.name} ends before frame {self.start.index}, up to which it was read before")

    def skipped(self, source: FrameSource) -> int:
        """Return how many frames of a source could not be read so far, from its beginning on."""
        return self.start.skipped + source.skipped - (0 if self._rest is None else self._rest.skipped)

    def snapshot(self, subtractor: Any) -> Snapshot | None:
        """Return the state of the subtractor if a checkpoint is due, in the tracking thread; else None."""
        return self.take(subtractor) if self._is_due(subtractor) else None

    def take(self, subtractor: Any) -> Snapshot:
        """Return the state of the subtractor, which no other thread may change meanwhile."""
        self._time = time.monotonic()
        old, self._old = self._old, {}
        with overwriting(old):
            snapshot: Snapshot = subtractor.snapshot()
        self._taking = time.monotonic() - self._time
        return snapshot

    def _is_due(self, subtractor: Any) -> bool:
        least = (self._taking + self._storing) / _LARGEST_SHARE if self._seconds else 0.0
        tracker, passed = subtractor.tracker, time.monotonic() - self._time
        is_small = tracker is not None and tracker.is_settled
        return passed >= max(self._seconds * (_EARLY if is_small else 1), least)

    def store(self, model: Snapshot, frame: Frame, count: int, sinks: Sequence[Sink]) -> None:
        """Write the state after the `count`-th frame, which all sinks have, in the writing thread, or SinkError."""
        begin = time.monotonic()
        states = [sink.checkpoint() for sink in sinks]
        progress = None if self._statistics is None else self._statistics.state()
        while len(self._skipped) > 1 and self._skipped[1][0] <= count:
            self._skipped.popleft()
        now = replace(self.start, frames=count, index=frame.index, skipped=self._skipped[0][1])
        replace(now, sinks=states, progress=progress, model=model).write(self.path)
        self._old = model[1]
        self._storing = time.monotonic() - begin


class _Rest(Part):
    """The frames of a source after one of them; the frames before are not converted."""

    def __init__(self, source: FrameSource, index: int) -> None:
        super().__init__(Selection(start=Timecode(frame=index + 1)), source.name)
        self._source, self._index = source, index
        self.seen: int | None = None
        self.skipped = 0

    def wants(self, index: int, time: float | None) -> bool:
        if index > self._index:
            return True
        self.seen, self.skipped = index, self._source.skipped
        return False
