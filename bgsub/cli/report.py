"""Progress while a run goes on, and its summary line at the end."""

from __future__ import annotations

import logging
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from bgsub.separation import Separation
    from bgsub.video import Frame, FrameSource, Summary

_LABEL = 40  # characters of a path that leave room for the bar itself


@contextmanager
def progress_bar(name: str, length: int | None, quiet: bool = False) -> Iterator[Any]:
    """Draw a bar on standard error where a person is watching; warnings appear above it."""
    from tqdm import tqdm  # noqa: PLC0415
    from tqdm.contrib.logging import logging_redirect_tqdm  # noqa: PLC0415

    hidden = quiet or not sys.stderr.isatty()
    label = name if len(name) <= _LABEL else f"...{name[3 - _LABEL :]}"
    with ExitStack() as stack:
        if not hidden:
            stack.enter_context(logging_redirect_tqdm([logging.getLogger("bgsub")]))
        yield stack.enter_context(
            tqdm(total=length, desc=label, unit=" frames", disable=hidden, dynamic_ncols=True, leave=False)
        )


class Progress:
    """Counts frames, adds up the foreground, and draws a bar when a person is watching.

    Parameters
    ----------
    source : FrameSource
        Gives the name and, if known, the number of frames.
    quiet : bool
        No bar and no summary.
    """

    def __init__(self, source: FrameSource, quiet: bool) -> None:
        self.frames = 0
        self._name, self._live, self._quiet = source.name, source.live, quiet
        self._bar_context = progress_bar(source.name, source.length, quiet)
        self._shape: tuple[int, ...] = ()
        self._share = 0.0
        self._tracked = False
        self._events: Counter[str] = Counter()

    def __enter__(self) -> Progress:
        self._bar = self._bar_context.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar_context.__exit__(kind, error, trace)

    def __call__(self, frame: Frame, separation: Separation) -> None:
        """Take one frame into account."""
        self.frames += 1
        self._shape = separation.mask.shape
        self._share += separation.share
        self._tracked |= separation.phase == "tracking"
        if separation.event is not None:
            self._events[separation.event] += 1
        self._bar.update()

    def tell(self, summary: Summary, outputs: Sequence[Path], limited: bool = False) -> None:
        """Print the summary line; `limited` tells that the run stopped at the wanted number of frames."""
        if self._quiet:
            return
        words = [self._achievement(summary), *self._remarks(summary)]
        if summary.stopped == "user" and not limited:
            words.append("stopped by the user")
        if summary.stopped == "end" and self._live:
            words.append("the camera stopped sending")
        if outputs:
            words.append(f"wrote {', '.join(map(str, outputs))}")
        click.echo("; ".join(words))

    def _achievement(self, summary: Summary) -> str:
        if summary.frames == 0:
            return f"{self._name}: no frame was processed"
        height, width = self._shape
        return (
            f"{self._name}: {_counted(summary.frames, 'frame')} of {width}x{height} "
            f"in {summary.seconds:.1f} s ({summary.frames_per_second:.0f} frames/s); "
            f"foreground {100 * self._share / summary.frames:.1f} %"
        )

    def _remarks(self, summary: Summary) -> Iterator[str]:
        if self.frames and not self._tracked:
            yield "too short to leave the start phase, masks by the provisional model"
        for event, number in self._events.items():
            yield _counted(number, "covered frame" if event == "covered" else event.replace("-", " "))
        if summary.dropped:
            yield f"{_counted(summary.dropped, 'frame')} dropped"
        if summary.skipped:
            yield f"{_counted(summary.skipped, 'frame')} skipped as unreadable"


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
