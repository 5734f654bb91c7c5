"""Progress while a run goes on, and its summary line at the end."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from bgsub.jobs import JobResult
    from bgsub.separation import Separation
    from bgsub.video import Frame, FrameSource

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
    """Counts frames and draws a bar when a person is watching.

    Parameters
    ----------
    source : FrameSource
        Gives the name and, if known, the number of frames.
    quiet : bool
        No bar.
    """

    def __init__(self, source: FrameSource, quiet: bool) -> None:
        self.frames = 0
        self._bar_context = progress_bar(source.name, source.length, quiet)

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
        self._bar.update()


def tell(result: JobResult, limited: bool = False) -> None:
    """Print the summary line; `limited` tells that the run stopped at the wanted number of frames."""
    summary = result.summary
    words = [_achievement(result), *_remarks(result)]
    if summary.stopped == "user" and not limited:
        words.append("stopped by the user")
    if summary.stopped == "end" and result.live:
        words.append("the camera stopped sending")
    if result.outputs:
        words.append(f"wrote {', '.join(map(str, result.outputs))}")
    click.echo("; ".join(words))


def _achievement(result: JobResult) -> str:
    summary, statistics = result.summary, result.statistics
    if summary.frames == 0:
        return f"{result.name}: no frame was processed"
    width, height = statistics.size
    return (
        f"{result.name}: {_counted(summary.frames, 'frame')} of {width}x{height} "
        f"in {summary.seconds:.1f} s ({summary.frames_per_second:.0f} frames/s); "
        f"foreground {100 * statistics.share:.1f} %"
    )


def _remarks(result: JobResult) -> Iterator[str]:
    summary, statistics = result.summary, result.statistics
    if statistics.frames and not statistics.tracked:
        yield "too short to leave the start phase, masks by the provisional model"
    for event, number in statistics.events.items():
        yield _counted(number, "covered frame" if event == "covered" else event.replace("-", " "))
    if summary.dropped:
        yield f"{_counted(summary.dropped, 'frame')} dropped"
    if summary.skipped:
        yield f"{_counted(summary.skipped, 'frame')} skipped as unreadable"


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
