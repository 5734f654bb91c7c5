"""Progress of a run: a bar on a terminal, or lines in the log."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from typing import Any, Protocol

from bgsub.cli.logs import Reporting, progress_logger, shown_on_screen, to_file
from bgsub.numerics import compilation
from bgsub.numerics.compilation import logger as kernel_logger
from bgsub.numerics.compilation import waited, working_time

_LABEL = 40  # characters of a path next to the bar
INTERVAL = 30.0  # seconds between two lines
INTERVAL_LIVE = 600.0  # for a source without an end, whose log is kept for weeks


class Meter(Protocol):
    """A counter of frames."""

    def update(self, n: int = 1) -> Any:
        """Count `n` more frames."""


class ProgressLines:
    """Writes the progress of `name` in a line every `interval` seconds; `length` is None if unknown."""

    def __init__(
        self, name: str, length: int | None, interval: float, write: Callable[[str], None], unit: str = "frames"
    ) -> None:
        self._name, self._length, self._interval, self._write, self._unit = name, length, interval, write, unit
        self._count = self._last_count = 0
        self._last_time = working_time()

    def update(self, n: int = 1) -> None:
        self._count += n
        passed = working_time() - self._last_time
        if passed < self._interval:
            return
        self._write(self._line((self._count - self._last_count) / max(passed, 1e-9)))
        self._last_time += passed
        self._last_count = self._count

    def _line(self, fps: float) -> str:
        pace = f"{fps:.0f} {self._unit}/s" if fps >= 10 else f"{fps:.2g} {self._unit}/s"
        if self._length is None:
            return f"{self._name}: {self._count} {self._unit}, {pace}"
        left = max(self._length - self._count, 0) / fps
        return f"{self._name}: {self._count} of {self._length} {self._unit}, {pace}, {_duration(left)} left"


class _Bar:
    """Counts on a bar of tqdm without the time of waiting for kernels."""

    def __init__(self, drawn: Any) -> None:
        self._drawn, self._waited = drawn, waited()

    def update(self, n: int = 1) -> None:
        lost = waited() - self._waited
        self._waited += lost
        self._drawn.start_t += lost
        self._drawn.last_print_t += lost
        self._drawn.update(n)


class _Both:
    """Counts on several meters."""

    def __init__(self, meters: list[Meter]) -> None:
        self._meters = meters

    def update(self, n: int = 1) -> None:
        for meter in self._meters:
            meter.update(n)


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
    """Show the progress of `name` on standard error, as ``--progress`` says; warnings appear above the bar.

    A `live` source has no end and fewer lines; `length` is the number of units if known.
    """
    kind = kind_of_progress(quiet)
    interval = INTERVAL_LIVE if live else INTERVAL
    with ExitStack() as stack:
        meters: list[Meter] = []
        if kind == "bar":
            label = name if len(name) <= _LABEL else f"...{name[3 - _LABEL :]}"
            meters.append(_Bar(stack.enter_context(bar(total=length, desc=label, unit=f" {unit}"))))
        if kind == "log":
            meters.append(ProgressLines(name, length, interval, progress_logger.info, unit))
        elif Reporting.of().log is not None:
            meters.append(ProgressLines(name, length, interval, to_file, unit))
        yield _Both(meters)


@contextmanager
def bar(**options: Any) -> Iterator[Any]:
    """Yield a bar of tqdm, which is removed after the block; the log appears above it."""
    from tqdm import tqdm  # noqa: PLC0415 - most commands draw no bar

    with tqdm(dynamic_ncols=True, leave=False, **options) as drawn:
        yield drawn


@contextmanager
def show_compilation() -> Iterator[None]:
    """Show the compilation of kernels inside the block, as ``--progress`` says, and in the log file."""
    kind = kind_of_progress()
    kernel_logger.setLevel(logging.INFO)
    if kind == "bar":
        with _KernelBar() as kernel_bar, compilation.listening(kernel_bar):
            yield
    else:
        with shown_on_screen(kernel_logger) if kind == "log" else nullcontext():
            yield


class _KernelBar:
    """A bar of tqdm during the compilation of kernels."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._bar: Any = None

    def __call__(self, progress: compilation.Progress) -> None:
        from tqdm import tqdm  # noqa: PLC0415 - most commands compile nothing

        with self._lock:
            if progress.is_complete:
                self._close()
                return
            if self._bar is None:
                layout = "{desc}, once per installation |{bar}| {elapsed}"
                self._bar = tqdm(desc=str(progress), dynamic_ncols=True, leave=False, bar_format=layout)
            self._bar.n, self._bar.total = progress.done, progress.total
            self._bar.set_description_str(str(progress))

    def __enter__(self) -> _KernelBar:
        return self

    def __exit__(self, *_error: object) -> None:
        with self._lock:
            self._close()

    def _close(self) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}"
