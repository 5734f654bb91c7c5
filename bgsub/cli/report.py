"""Progress while a run goes on, and its summary line at the end."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from bgsub.separation import Separation
    from bgsub.video import Frame, FrameSource, Summary


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
        self.name, self.quiet = source.name, quiet
        self.frames = 0
        self._shape: tuple[int, ...] = ()
        self._share = 0.0
        self._starting = True
        self._events = 0
        self._bar = self._make_bar(source.length)

    def _make_bar(self, length: int | None) -> Any:
        from tqdm import tqdm  # noqa: PLC0415

        hidden = self.quiet or not sys.stderr.isatty()
        return tqdm(total=length, unit="frame", disable=hidden, desc=self.name, dynamic_ncols=True, leave=False)

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.close()

    def __call__(self, frame: Frame, separation: Separation) -> None:
        """Take one frame into account."""
        self.frames += 1
        self._shape = separation.mask.shape
        self._share += separation.share
        self._starting = separation.phase == "start"
        self._events += separation.event is not None
        self._bar.update()

    def tell(self, summary: Summary, outputs: list[str], by_user: bool = True) -> None:
        """Print the summary line; `by_user` tells whether a stop was the user's wish."""
        if self.quiet:
            return
        if summary.frames == 0:
            click.echo(f"{self.name}: no frame was processed")
            return
        height, width = self._shape
        words = [
            f"{self.name}: {summary.frames} frames of {width}x{height} in {summary.seconds:.1f} s "
            f"({summary.frames_per_second:.0f} frames/s)",
            f"foreground {100 * self._share / summary.frames:.1f} %",
        ]
        if self._events:
            words.append(f"{self._events} scene changes")
        if self._starting:
            words.append("shorter than the start phase, masks by the provisional model")
        words += [f"{n} frames {what}" for n, what in _losses(summary) if n]
        if summary.stopped == "user" and by_user:
            words.append("stopped by the user")
        if outputs:
            words.append(f"wrote {', '.join(outputs)}")
        click.echo("; ".join(words))


def _losses(summary: Summary) -> tuple[tuple[int, str], ...]:
    return ((summary.dropped, "dropped"), (summary.skipped, "skipped (unreadable)"))
