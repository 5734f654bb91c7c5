"""Options for the source: the part that is read, its format and its errors."""

from __future__ import annotations

import click

from bgsub.cli.help import INPUT
from bgsub.cli.options import Decorator, checked, choice, combine, count, option
from bgsub.cli.setting_sources import called
from bgsub.errors import ParameterError
from bgsub.video.timecode import Timecode

BEGINNINGS = ("rtsp://", "http://", "https://")
"""Of addresses of cameras, for completion."""


def _check_position(context: click.Context, option: click.Parameter, value: str | None) -> str | None:
    if value is not None:
        Timecode.parse(value, called(context, option))
    return value


def _position(flag: str, text: str) -> Decorator:
    return option(flag, group=INPUT, callback=_check_position, metavar="TIME", help=text)


def duration_option(default: str | None = None, text: str = "Stop after this length") -> Decorator:
    """Return the option ``--duration`` of a command that reads from the start; its value is a `Timecode` or None."""

    def parse(context: click.Context, option: click.Parameter, value: str | None) -> Timecode | None:
        length = None if value is None else Timecode.parse(value, called(context, option))
        if length is not None and not length.amount:
            raise ParameterError(f"{called(context, option)} must be more than 0, got '{value}'")
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


source_options = combine(
    _position("--start", "Start here: a frame number from 0 (120), seconds (12.5 or 12s), or 1:02:03.5."),
    _position("--end", "Stop before this position, written like --start."),
    _position("--duration", "Stop after this length: frames (250), seconds (10.0 or 10s), or 0:10; not with --end."),
    count("--every", group=INPUT, least=1, default=1, text="Read only the first of every N frames."),
    choice(
        "--backend",
        group=INPUT,
        of=("auto", "hardware"),
        text="Decode video files in software, or on a hardware decoder if one works.",
    ),
)
"""The values are as `open_source` takes them: `start`, `end` and `duration` are text or None."""


def _check_raw(value: str) -> None:
    from bgsub.video.sources.pipes import RawFormat  # noqa: PLC0415 - it imports NumPy

    RawFormat.parse(value)


raw_option = option(
    "--raw",
    group=INPUT,
    callback=checked(_check_raw),
    metavar="WxH:PIXELS[@RATE]",
    help="Format of the frames in a pipe without headers, such as 640x480:bgr24@25 (25 frames per second); PIXELS is "
    "bgr24, rgb24, gray or gray16le.",
)
reconnect_option = option(
    "--reconnect",
    group=INPUT,
    type=click.FloatRange(0),
    metavar="SECONDS",
    help="Keep trying to open a camera that is lost or missing for this long; 0 is not at all, inf without end.  "
    "[default: inf for lost network cameras, else 0]",
)
on_error_option = option(
    "--on-error",
    group=INPUT,
    type=click.Choice(["stop", "skip"]),
    help="Stop at a frame that cannot be read, or skip it with a warning.  [default: skip for cameras, else stop]",
)
rate_option = option(
    "--fps",
    group=INPUT,
    type=click.FloatRange(0, min_open=True),
    metavar="X",
    help="Frames per second, for images and for videos with a wrong frame rate.  [default: that of the source]",
)
