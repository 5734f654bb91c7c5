"""Progress while a run goes on: a bar where a person is watching, lines in the log elsewhere."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol

from bgsub.cli.logs import Reporting, logger, progress_logger, to_file

if TYPE_CHECKING:
    from bgsub.separation import Separation
    from bgsub.video.sources.base import Frame, FrameSource

_LABEL = 40  # characters of a path that leave room for the bar itself
INTERVAL = 30.0  # seconds between two lines
INTERVAL_LIVE = 600.0  # of a source without an end, whose log is kept for weeks
COMPILING = "compiling kernels, once per installation (about half a minute)"


class Meter(Protocol):
    """What counts frames."""

    def update(self, n: int = 1) -> Any:
        """Count `n` more frames."""


class Lines:
    """Tells the progress in a line per interval.

    Parameters
    ----------
    name : str
        What is worked on.
    length : int, optional
        Number of its frames, if known.
    interval : float
        Seconds between two lines.
    say : callable
        Takes the lines.
    unit : str
        What is counted.
    """

    def __init__(
        self, name: str, length: int | None, interval: float, say: Callable[[str], None], unit: str = "frames"
    ) -> None:
        self._name, self._length, self._interval, self._say, self._unit = name, length, interval, say, unit
        self._count = self._told_count = 0
        self._told_at = time.monotonic()

    def update(self, n: int = 1) -> None:
        """Count `n` more frames."""
        self._count += n
        passed = time.monotonic() - self._told_at
        if passed < self._interval:
            return
        self._say(self._line((self._count - self._told_count) / max(passed, 1e-9)))
        self._told_at += passed
        self._told_count = self._count

    def _line(self, rate: float) -> str:
        pace = f"{rate:.0f} {self._unit}/s" if rate >= 10 else f"{rate:.2g} {self._unit}/s"
        if self._length is None:
            return f"{self._name}: {self._count} {self._unit}, {pace}"
        left = max(self._length - self._count, 0) / rate
        return f"{self._name}: {self._count} of {self._length} {self._unit}, {pace}, {_duration(left)} left"


class _Both:
    """Counts in several ways at once."""

    def __init__(self, meters: list[Meter]) -> None:
        self._meters = meters

    def update(self, n: int = 1) -> None:
        """Count `n` more frames."""
        for meter in self._meters:
            meter.update(n)


@contextmanager
def progress_bar(
    name: str, length: int | None, quiet: bool = False, live: bool = False, unit: str = "frames"
) -> Iterator[Meter]:
    """Tell the progress on standard error, as ``--progress`` wants it; warnings appear above the bar.

    Parameters
    ----------
    name : str
        What is worked on.
    length : int, optional
        Number of its frames, if known.
    quiet : bool
        Tell nothing.
    live : bool
        Whether the frames come without an end.
    unit : str
        What is counted.
    """
    reporting = Reporting.of()
    kind = "none" if quiet or reporting.quiet else reporting.progress
    if kind == "auto":
        kind = "bar" if sys.stderr.isatty() else "log"
    interval = INTERVAL_LIVE if live else INTERVAL
    with ExitStack() as stack:
        meters: list[Meter] = []
        if kind == "bar":
            meters.append(stack.enter_context(_bar(name, length, unit)))
        if kind == "log":
            meters.append(Lines(name, length, interval, progress_logger.info, unit))
        elif reporting.log is not None:
            meters.append(Lines(name, length, interval, to_file, unit))
        stack.enter_context(_compilation_told(kind == "bar"))
        yield _Both(meters)


@contextmanager
def _bar(name: str, length: int | None, unit: str) -> Iterator[Meter]:
    from tqdm import tqdm  # noqa: PLC0415
    from tqdm.contrib.logging import logging_redirect_tqdm  # noqa: PLC0415

    label = name if len(name) <= _LABEL else f"...{name[3 - _LABEL :]}"
    with (
        logging_redirect_tqdm([logger]),
        tqdm(total=length, desc=label, unit=f" {unit}", dynamic_ncols=True, leave=False) as bar,
    ):
        yield bar


@contextmanager
def _compilation_told(watched: bool) -> Iterator[None]:
    """Tell when the first kernel is being compiled: once, to a person who waits for it, else in the log."""
    from numba.core import event  # noqa: PLC0415 - with it comes all of Numba

    class Once(event.Listener):
        told = False

        def on_start(self, event: Any) -> None:
            """Say that kernels are being compiled, once."""
            waiting = threading.current_thread().name != "kernel-loader"  # that one works beside the stream
            if waiting and not self.told and event.data["dispatcher"].py_func.__module__.startswith("bgsub."):
                self.told = True
                (progress_logger if watched else logger).info(COMPILING)

        def on_end(self, event: Any) -> None:
            """Do nothing."""

    with event.install_listener("numba:compile", Once()):
        yield


class Progress:
    """Counts frames and tells the progress of a source.

    Parameters
    ----------
    source : FrameSource
        Gives the name and, if known, the number of frames.
    quiet : bool
        Tell nothing.
    """

    def __init__(self, source: FrameSource, quiet: bool) -> None:
        self.frames = 0
        self._context = progress_bar(source.name, source.length, quiet, source.live)

    def __enter__(self) -> Progress:
        self._meter = self._context.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._context.__exit__(kind, error, trace)

    def __call__(self, frame: Frame, separation: Separation) -> None:
        """Take one frame into account."""
        self.frames += 1
        self._meter.update()


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}"
