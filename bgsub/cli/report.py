"""The summary at the end of a run: a sentence, or one JSON object."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from bgsub.cli.logs import Reporting, to_file
from bgsub.cli.verdict import stopped_by

if TYPE_CHECKING:
    from bgsub.jobs.job import JobResult


def report(
    result: JobResult, *, quiet: bool = False, limited: bool = False, details: dict[str, Any] | None = None
) -> None:
    """Print what a run did, as ``--json`` wants it, `details` besides; a quiet command says nothing but that.

    A run is `limited` where it stopped after the wanted duration.
    """
    sentence = summarise(result, limited)
    to_file(sentence)
    if Reporting.of().json:
        click.echo(json.dumps({**result.as_dict(), **(details or {})}))
    elif not quiet:
        click.echo(sentence)


def summarise(result: JobResult, limited: bool = False) -> str:
    """Return the summary in words."""
    summary = result.summary
    if result.already_done:
        return f"{result.name}: done already, {', '.join(map(str, result.outputs))}"
    words = [_achievement(result), *_remarks(result)]
    if summary.stopped not in ("end", "broken") and not limited:
        words.append(stopped_by(summary.stopped))
    if summary.stopped == "end" and result.live:
        words.append("the camera stopped sending")
    if result.outputs:
        words.append(f"wrote {', '.join(map(str, result.outputs))}")
    return "; ".join(words)


def _achievement(result: JobResult) -> str:
    summary, statistics = result.summary, result.statistics
    if summary.frames == 0:
        return f"{result.name}: no frame was processed"
    width, height = statistics.size
    kernels = f", {summary.waited:.1f} of them for kernels" if summary.waited >= 0.05 else ""
    return (
        f"{result.name}: {_counted(summary.frames, 'frame')} of {width}x{height} "
        f"in {summary.seconds:.1f} s{kernels} ({summary.frames_per_second:.0f} frames/s); "
        f"foreground {100 * statistics.share:.1f} %"
    )


def _remarks(result: JobResult) -> Iterator[str]:
    summary, statistics = result.summary, result.statistics
    if summary.resumed:
        yield f"went on after {summary.resumed} frames"
    if statistics.frames and not statistics.tracked:
        yield "too short to leave the start phase, masks by the provisional model"
    for event, number in statistics.events.items():
        yield _counted(number, "covered frame" if event == "covered" else event.replace("-", " "))
    if result.clips is not None:
        yield _counted(result.clips, "clip") if result.clips else "no motion, no clip"
    if summary.dropped:
        yield f"{_counted(summary.dropped, 'frame')} dropped"
    if result.notifications.delivered:
        yield f"{_counted(result.notifications.delivered, 'notification')} delivered"
    if result.notifications.lost:
        yield f"{_counted(result.notifications.lost, 'notification')} lost"
    if summary.skipped:
        yield f"{_counted(summary.skipped, 'frame')} skipped as unreadable"


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
