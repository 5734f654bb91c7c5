"""Checkpoints of a running pipeline: what they hold, when they are made, and how a source goes on after one."""

from __future__ import annotations

import contextlib
import time
import zlib
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from bgsub._version import __version__
from bgsub.errors import BgsubError, OutputError, SinkError, SourceError
from bgsub.numerics.state import State
from bgsub.separation import Separation
from bgsub.storage import array_file
from bgsub.storage.durable_io import make_folder, partial_name, sync_folder, unlink
from bgsub.video.sinks.base import Sink
from bgsub.video.sources.base import Frame, FrameSource
from bgsub.video.sources.part import Part, Selection
from bgsub.video.timecode import Timecode

Snapshot = tuple[dict[str, Any], State]
"""The state of a subtractor, see `BackgroundSubtractor.snapshot`."""

_KIND = array_file.Kind("checkpoint", 7)
_TYPES = {
    **dict.fromkeys(("version", "started"), str),
    **dict.fromkeys(("frames", "index", "skipped"), int),
    "identity": dict,
    "sinks": list | None,
    "progress": dict | None,
}
_LARGEST_SHARE = 0.05  # of the time that checkpoints may take


class Progress(Protocol):
    """What counts frames and goes on counting, such as `bgsub.jobs.job.Statistics`."""

    def state(self) -> dict[str, Any]:
        """Return what `set_state` needs, in types that JSON knows."""

    def set_state(self, state: dict[str, Any]) -> None:
        """Go on from there."""


@dataclass(frozen=True)
class Checkpoint:
    """Where a run stands between two frames."""

    identity: dict[str, Any]  # what the run is of, see `bgsub.jobs.identity.JobIdentity.as_dict`
    version: str = __version__  # of bgsub, that made it
    started: str = ""  # when the first run began, in ISO format: names of outputs may tell
    frames: int = 0  # written
    index: int = -1  # `Frame.index` of the last of them; -1 before the first
    skipped: int = 0  # frames before it that could not be read
    sinks: list[dict[str, Any]] | None = None  # what they need for `Sink.resume`, in their order
    progress: dict[str, Any] | None = None  # state of the statistics
    model: Snapshot | None = None  # the subtractor; None before the first frame

    @property
    def beginning(self) -> Checkpoint:
        """The same run before its first frame."""
        return replace(self, frames=0, index=-1, skipped=0, sinks=None, progress=None, model=None)

    def write(self, path: Path) -> None:
        """Write it to a file, whole or not at all; OutputError when that cannot be done."""
        header, state = self.model or ({}, {})
        run = {name: value for name, value in vars(self).items() if name != "model"}
        try:
            array_file.write(path, _KIND, {"run": run, "model": header}, state)
        except OSError as error:
            raise OutputError(f"the checkpoint cannot be written to '{path}': {error.strerror or error}") from None

    @classmethod
    def read(cls, path: Path) -> Checkpoint:
        """Return the checkpoint in a file; SourceError when there is none or it is damaged."""
        header, state = array_file.read(path, _KIND)
        try:
            found = cls(**header["run"], model=(dict(header["model"]), state) if header["model"] else None)
            datetime.fromisoformat(found.started or "2000-01-01")
        except (KeyError, TypeError, ValueError) as error:
            raise SourceError(f"the checkpoint '{path}' is damaged: {error}") from None
        wrong = [name for name, kinds in _TYPES.items() if not isinstance(getattr(found, name), kinds)]
        if wrong or (found.frames > 0 and found.model is None):
            raise SourceError(f"the checkpoint '{path}' is damaged: {', '.join(wrong) or 'it has no model'}")
        return found


def remove(path: Path) -> None:
    """Remove the checkpoint at `path`, if there is one, and what a killed process left of another."""
    for file in (path, partial_name(path)):
        unlink(file)


def safe_frames(path: Path) -> int:
    """Return after how many frames the checkpoint at `path` is; 0 where there is none."""
    try:
        return int(array_file.read_header(path, _KIND)["run"]["frames"])
    except (SourceError, KeyError, TypeError, ValueError):
        return 0


class Checkpoints:
    """Makes a checkpoint every few seconds, and one after the last frame of a run that the user stops.

    The tracking thread copies the subtractor's state after a frame; the writing thread stores it together with the
    states of the sinks once they have that frame as well. One file is kept, always a whole one.

    Parameters
    ----------
    path : Path
        The file.
    start : Checkpoint
        What to go on from; that of frame 0 for a new run.
    seconds : float
        Least time between two checkpoints; 0 makes one after each frame, otherwise those of huge frames, which take
        long, come less often.
    take : callable
        Returns the state of the subtractor as it is now, `BackgroundSubtractor.snapshot`.
    """

    def __init__(
        self,
        path: Path,
        start: Checkpoint,
        *,
        seconds: float = 15.0,
        take: Callable[[Any], Snapshot] = lambda subtractor: subtractor.snapshot(),
    ) -> None:
        self.path = path
        self.start = start
        self._seconds, self._take = seconds, take
        self._progress: Progress | None = None
        self._after: _After | None = None
        self._skipped = deque([(start.frames, start.skipped)])  # after how many frames how many had been skipped
        self._time, self._taking, self._storing = time.monotonic(), 0.0, 0.0

    def begin(self) -> None:
        """Write the start down, before the first frame of a new run; OutputError when that cannot be done."""
        try:
            make_folder(self.path.parent)
        except OSError as error:
            raise OutputError(f"'{self.path.parent}' cannot be made: {error.strerror or error}") from None
        self.start.write(self.path)

    def give_up(self) -> None:
        """Have a later run begin anew: the outputs are about to be finished, and are not the whole."""
        self.start.beginning.write(self.path)

    def remove(self) -> None:
        """Remove the file and its folder: the run has come to its end."""
        remove(self.path)
        with contextlib.suppress(OSError):
            self.path.parent.rmdir()
            sync_folder(self.path.parent.parent)

    def resume(self, sinks: Sequence[Sink], is_finished: Callable[[Sink], bool] = lambda _sink: False) -> list[Sink]:
        """Let the sinks go on where the start is, before the first frame.

        Parameters
        ----------
        sinks : sequence of Sink
            New ones, in the order of the run before.
        is_finished : callable
            Says of a sink that cannot go on whether its output is there already: whole, and of this run.

        Returns
        -------
        list of Sink
            They, with idle ones in the place of those that are finished.

        Raises
        ------
        SinkError
            If a sink cannot be continued at all, or what it had written is gone.
        SourceError
            If the state of a sink is none.
        """
        if not self.start.frames:
            for sink in sinks:
                sink.resume({})
                sink.checkpoint()  # what cannot be continued shows now, not after some time
            return list(sinks)
        ready: list[Sink] = []
        with self.going_on():
            for sink, state in zip(sinks, self.start.sinks or [], strict=True):
                try:
                    sink.resume(state)
                    ready.append(sink)
                except SinkError:
                    sink.abort()
                    if not is_finished(sink):
                        raise
                    ready.append(_FinishedSink(sink, state))
        return ready

    def follow(self, progress: Progress) -> None:
        """Let `progress` go on where the start is, and keep its state from now on; SourceError if that is none."""
        if self.start.progress is not None:
            with self.going_on():
                progress.set_state(self.start.progress)
        self._progress = progress

    @contextlib.contextmanager
    def going_on(self) -> Iterator[None]:
        """Turn what the block cannot make sense of, where it goes on from a checkpoint, into SourceError.

        States come back as they were written: what a part of the run finds in its own may show frames later.
        """
        try:
            yield
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, zlib.error) as error:
            if not self.start.frames or isinstance(error, BgsubError):
                raise
            what = f"{type(error).__name__}: {error}"
            raise SourceError(
                f"no run can go on from the checkpoint '{self.path}' ({what}); --overwrite starts anew"
            ) from error

    def remaining(self, source: FrameSource) -> Iterator[Frame]:
        """Yield the frames of a source after the start, in the reading thread."""
        count = self.start.frames
        after = self._after = _After(source, self.start.index) if count else None
        for frame in source.alike(source if after is None else source.take(after)):
            count += 1
            if (skipped := self.skipped(source)) != self._skipped[-1][1]:
                self._skipped.append((count, skipped))
            yield frame
        if after is not None and after.seen is not None and after.seen < self.start.index:
            raise SourceError(f"{source.name} ends before frame {self.start.index}, up to which it was read before")

    def skipped(self, source: FrameSource) -> int:
        """Return how many frames of a source could not be read so far, from its beginning on."""
        return self.start.skipped + source.skipped - (0 if self._after is None else self._after.skipped)

    def snapshot(self, subtractor: Any) -> Snapshot | None:
        """Return the subtractor after one more frame, in the tracking thread, if a checkpoint is due; else None."""
        if not self._is_due():
            return None
        return self.take(subtractor)

    def take(self, subtractor: Any) -> Snapshot:
        """Return the subtractor as it is, which no other thread may change meanwhile."""
        self._time = time.monotonic()
        snapshot = self._take(subtractor)
        self._taking = time.monotonic() - self._time
        return snapshot

    def _is_due(self) -> bool:
        return time.monotonic() - self._time >= self._interval()

    def _interval(self) -> float:
        return max(self._seconds, (self._taking + self._storing) / _LARGEST_SHARE) if self._seconds else 0.0

    def store(self, model: Snapshot, frame: Frame, count: int, sinks: Sequence[Sink]) -> None:
        """Keep the state after a frame, the `count`-th one, that all sinks have, in the writing thread.

        Raises
        ------
        SinkError
            When a sink cannot make its output safe, or the file cannot be written.
        """
        begin = time.monotonic()
        states = [sink.checkpoint() for sink in sinks]
        progress = None if self._progress is None else self._progress.state()
        while len(self._skipped) > 1 and self._skipped[1][0] <= count:
            self._skipped.popleft()
        stand = replace(self.start, frames=count, index=frame.index, skipped=self._skipped[0][1])
        replace(stand, sinks=states, progress=progress, model=model).write(self.path)
        self._storing = time.monotonic() - begin


class _FinishedSink(Sink):
    """Stands for a sink that had finished its output when the run was killed while others had not."""

    def __init__(self, sink: Sink, state: dict[str, Any]) -> None:
        self.path, self.paths = getattr(sink, "path", None), getattr(sink, "paths", None)
        self._state = state

    def write(self, frame: Frame, separation: Separation) -> None:
        pass

    def close(self) -> None:
        pass

    def checkpoint(self) -> dict[str, Any]:
        return self._state

    def resume(self, state: dict[str, Any]) -> None:
        pass


class _After(Part):
    """The frames after one of a source, none of which is converted in vain."""

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
