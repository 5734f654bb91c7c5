"""Progress of a run: a bar on a terminal, or lines in the log."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from typing import Any

from bgsub.cli.logs import Reporting, progress_logger, to_file
from bgsub.errors import printable
from bgsub.numerics.compilation import working_time

_LABEL = 40  # characters of a path next to the bar
INTERVAL = 30.0  # seconds between two lines
INTERVAL_LIVE = 600.0  # for a source without an end, whose log is kept for weeks


class ProgressLines:
    """Writes the progress of `name` in a line every `interval` seconds; `length` is None if unknown."""

    def __init__(
        self, name: str, length: int | None, interval: float, write: Callable[[str], None], unit: str = "frames"
    ) -> None:
        self._name, self._length, self._interval, self._write, self._unit = name, length, interval, write, unit
        self._count = self._last_count = 0
        self._phase = ""
        self._last_time = working_time()

    def update(self, n: int = 1) -> None:
        self._count += n
        passed = working_time() - self._last_time
        if passed < self._interval:
            return
        self._write(self._line((self._count - self._last_count) / max(passed, 1e-9)))
        self._last_time += passed
        self._last_count = self._count

    def begin(self, phase: str, length: int | None) -> None:
        """Name the current phase; `length` is its last unit, if that can be estimated."""
        self._phase, self._length = f" ({phase})", length

    def _line(self, fps: float) -> str:
        pace = f"{fps:.0f} {self._unit}/s" if fps >= 10 else f"{fps:.2g} {self._unit}/s"
        if self._length is None:
            return f"{self._name}: {self._count} {self._unit}{self._phase}, {pace}"
        left = timedelta(seconds=round(max(self._length - self._count, 0) / fps))
        return f"{self._name}: {self._count} of {self._length} {self._unit}{self._phase}, {pace}, {left} left"


class Meter:
    """Counts on a bar, in lines, or both."""

    def __init__(self, meters: list[Any]) -> None:
        self._meters = meters

    def update(self, n: int = 1) -> None:
        """Count `n` more frames."""
        for meter in self._meters:
            meter.update(n)

    def begin(self, phase: str, length: int | None) -> None:
        """Name the current phase; `length` is its last unit, if that can be estimated."""
        for meter in self._meters:
            if isinstance(meter, ProgressLines):
                meter.begin(phase, length)
            else:
                meter.total = length
                meter.set_postfix_str(phase, refresh=False)


def kind_of_progress(quiet: bool = False) -> str:
    """Return "bar", "log" or "none", by ``--progress`` and ``--quiet``."""
    reporting = Reporting.of()
    if quiet or reporting.quiet:
        return "none"
    return {"auto": "bar" if sys.stderr.isatty() else "log"}.get(reporting.progress, reporting.progress)


@contextmanager
def show_progress(
    name: str, length: int | None, quiet: bool = False, live: bool = False, unit: str = "frames"
) -> Iterator[Meter]:
    """Show the progress of `name` on standard error; a `live` source has fewer lines, `length` is None if unknown."""
    kind = kind_of_progress(quiet)
    interval = INTERVAL_LIVE if live else INTERVAL
    with ExitStack() as stack:
        meters: list[Any] = []
        if kind == "bar":
            name = printable(name)
            label = name if len(name) <= _LABEL else f"...{name[3 - _LABEL :]}"
            meters.append(stack.enter_context(bar(total=length, desc=label, unit=f" {unit}")))
        if kind == "log":
            meters.append(ProgressLines(name, length, interval, progress_logger.info, unit))
        elif Reporting.of().log is not None:
            meters.append(ProgressLines(name, length, interval, to_file, unit))
        yield Meter(meters)


def bar(**options: Any) -> Any:
    """Return a bar of tqdm, which is removed after a block; the log appears above it."""
    from tqdm import tqdm  # noqa: PLC0415 - most commands draw no bar

    return tqdm(dynamic_ncols=True, leave=False, **options)
