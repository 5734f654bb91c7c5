"""Options that say which part of a source is read, and how."""

from __future__ import annotations

import click

from bgsub.cli.blocks import Decorator, block, choice, count, option
from bgsub.cli.help import INPUT
from bgsub.cli.origins import called
from bgsub.errors import ParameterError
from bgsub.video.timecode import Timecode


def _check_place(context: click.Context, option: click.Parameter, value: str | None) -> str | None:
    """Raise ParameterError naming the option if the text is no place in a video."""
    if value is not None:
        Timecode.parse(value, called(context, option))
    return value


def _place(flag: str, text: str) -> Decorator:
    return option(flag, group=INPUT, callback=_check_place, metavar="TIME", help=text)


def duration_option(default: str | None = None, text: str = "Stop after this much") -> Decorator:
    """Return the option ``--duration`` of a command that reads from the start; it gets a `Timecode`, or None."""

    def parse(context: click.Context, option: click.Parameter, value: str | None) -> Timecode | None:
        length = None if value is None else Timecode.parse(value, called(context, option))
        if length is not None and not length.amount:
            raise ParameterError(f"{called(context, option)} must be more than nothing, got '{value}'")
        return length

    return option(
        "--duration",
        group=INPUT,
        default=default,
        show_default=True,
        callback=parse,
        metavar="TIME",
        help=f"{text}: frames (250), seconds (10.0 or 10s), or 0:10.",
    )


BEGINNINGS = ("rtsp://", "http://", "https://")
"""Of sources that are no files."""

source_options = block(
    _place("--start", "Begin here: a frame number from 0 (120), seconds (12.5 or 12s), or 1:02:03.5."),
    _place("--end", "Stop before this place, given like --start."),
    _place("--duration", "Stop after this much: frames (250), seconds (10.0 or 10s), or 0:10; not beside --end."),
    count("--every", group=INPUT, least=1, default=1, text="Read only the first of each N frames."),
    choice(
        "--backend",
        group=INPUT,
        of=("auto", "hardware"),
        text="Decode video files in software, or on a hardware decoder if one works.",
    ),
)
"""The command gets the values as `open_source` takes them; `start`, `end` and `duration` as text, or None."""


def _check_raw(context: click.Context, option: click.Parameter, value: str | None) -> str | None:
    """Raise ParameterError naming the option if the text is no format of raw frames."""
    if value is not None:
        from bgsub.video.sources.pipes import RawFormat  # noqa: PLC0415 - it imports NumPy

        try:
            RawFormat.parse(value)
        except ParameterError as error:
            raise ParameterError(f"{called(context, option)}: {error}") from None
    return value


raw_option = option(
    "--raw",
    group=INPUT,
    callback=_check_raw,
    metavar="WxH:PIXELS[@RATE]",
    help="The pipe holds frames without a header, such as 640x480:bgr24@25; PIXELS is bgr24, rgb24, gray or gray16le.",
)
reconnect_option = option(
    "--reconnect",
    group=INPUT,
    type=click.FloatRange(0),
    metavar="SECONDS",
    help="For how long a lost camera, or one that is not there at the start, is tried again; 0 is not at all, inf for "
    "ever.  [default: lost network cameras for ever, others not at all]",
)
on_error_option = option(
    "--on-error",
    group=INPUT,
    type=click.Choice(["stop", "skip"]),
    help="What to do at a frame that cannot be read; it is named either way.  [default: skip for cameras, else stop]",
)
rate_option = option(
    "--fps",
    group=INPUT,
    type=click.FloatRange(0, min_open=True),
    metavar="X",
    help="Frames per second, where the source does not tell, as images, or is wrong.",
)
