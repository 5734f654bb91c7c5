"""Options that say which part of a source is read, and how."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from bgsub.cli.origins import called
from bgsub.video.timecode import Timecode

# Written out here because importing them from where they live would import NumPy and OpenCV.
BACKENDS = ("auto", "opencv", "pyav")


def _check_place(context: click.Context, option: click.Parameter, value: str | None) -> str | None:
    """Raise ParameterError naming the option if the text is no place in a video."""
    if value is not None:
        Timecode.parse(value, called(context, option))
    return value


def source_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--start``, ``--end``, ``--duration``, ``--every``, ``--backend`` and ``--hardware``.

    The command gets them under these names, as `open_source` takes them; the first three as text, or None.
    """
    options = [
        _place("--start", "Begin here: a frame number from 0 (120), seconds (12.5 or 12s), or 1:02:03.5."),
        _place("--end", "Stop before this place, given like --start."),
        _place("--duration", "Stop after this much: frames (250), seconds (10.0 or 10s), or 0:10; not beside --end."),
        click.option(
            "--every",
            type=click.IntRange(1),
            default=1,
            show_default=True,
            metavar="N",
            help="Read only the first of each N frames.",
        ),
        click.option(
            "--backend",
            type=click.Choice(BACKENDS),
            default="auto",
            show_default=True,
            help="What decodes video files; auto is PyAV where it is installed.",
        ),
        click.option(
            "--hardware",
            is_flag=True,
            help="Decode video files on a hardware decoder if one works; takes PyAV.",
        ),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def _place(flag: str, text: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    return click.option(flag, callback=_check_place, metavar="TIME", help=text)
