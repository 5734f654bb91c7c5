"""Progress while a run goes on: a bar where a person is watching, lines in the log elsewhere."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from typing import Any, Protocol

from bgsub.cli.logs import Reporting, logger, progress_logger, to_file

_LABEL = 40  # characters of a path that leave room for the bar itself
INTERVAL = 30.0  # seconds between two lines
INTERVAL_LIVE = 600.0  # of a source without an end, whose log is kept for weeks
COMPILING = "compiling kernels, once per installation (about half a minute)"


class Meter(Protocol):
    """What counts frames."""

    def update(self, n: int = 1) -> Any:
        """Count `n` more frames."""


class Lines:
    """Tells the progress of `name`, of that length if it is known, in a line every `interval` seconds."""

    def __init__(
        self, name: str, length: int | None, interval: float, say: Callable[[str], None], unit: str = "frames"
    ) -> None:
        self._name, self._length, self._interval, self._say, self._unit = name, length, interval, say, unit
        self._count = self._told_count = 0
        self._told_at = time.monotonic()

    def update(self, n: int = 1) -> None:
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
        for meter in self._meters:
            meter.update(n)


def kind_of_progress(quiet: bool = False) -> str:
    """Return "bar", "log" or "none", as ``--progress`` wants it."""
    reporting = Reporting.of()
    if quiet or reporting.quiet:
        return "none"
    return {"auto": "bar" if sys.stderr.isatty() else "log"}.get(reporting.progress, reporting.progress)


@contextmanager
def progress_bar(
    name: str, length: int | None, quiet: bool = False, live: bool = False, unit: str = "frames"
) -> Iterator[Meter]:
    """Tell the progress of `name` on standard error, as ``--progress`` wants it; warnings appear above the bar.

    A `live` source has no end, and lines more rarely; `unit` is what is counted, `length` how many there are, if known.
    """
    kind = kind_of_progress(quiet)
    interval = INTERVAL_LIVE if live else INTERVAL
    with ExitStack() as stack:
        meters: list[Meter] = []
        if kind == "bar":
            label = name if len(name) <= _LABEL else f"...{name[3 - _LABEL :]}"
            meters.append(stack.enter_context(bar(total=length, desc=label, unit=f" {unit}")))
        if kind == "log":
            meters.append(Lines(name, length, interval, progress_logger.info, unit))
        elif Reporting.of().log is not None:
            meters.append(Lines(name, length, interval, to_file, unit))
        stack.enter_context(_compilation_told(kind == "bar"))
        yield _Both(meters)


@contextmanager
def bar(**options: Any) -> Iterator[Any]:
    """Yield a bar of tqdm; unless it is disabled, the log appears above it."""
    from tqdm import tqdm  # noqa: PLC0415 - most commands draw none
    from tqdm.contrib.logging import logging_redirect_tqdm  # noqa: PLC0415

    with (
        nullcontext() if options.get("disable") else logging_redirect_tqdm([logger]),
        tqdm(dynamic_ncols=True, leave=False, **options) as drawn,
    ):
        yield drawn


@contextmanager
def _compilation_told(watched: bool) -> Iterator[None]:
    """Tell when the first kernel is being compiled: once, to a person who waits for it, else in the log."""
    from numba.core import event  # noqa: PLC0415 - with it comes all of Numba

    class Once(event.Listener):
        told = False

        def on_start(self, event: Any) -> None:
            waiting = threading.current_thread().name != "kernel-loader"  # that one works beside the stream
            if waiting and not self.told and event.data["dispatcher"].py_func.__module__.startswith("bgsub."):
                self.told = True
                (progress_logger if watched else logger).info(COMPILING)

        def on_end(self, event: Any) -> None:
            pass

    with event.install_listener("numba:compile", Once()):
        yield


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}"
