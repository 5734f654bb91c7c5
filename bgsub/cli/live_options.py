"""The options of a live run: what is shown, where, and to whom."""

from __future__ import annotations

import re
from dataclasses import dataclass

import click

from bgsub.cli.blocks import choice, one_of_files, option, packed
from bgsub.cli.help import SCREEN
from bgsub.cli.origins import called
from bgsub.errors import ParameterError
from bgsub.jobs.controls import LIVE_VIEWS

_PLACE = re.compile(r"(?:(?P<host>\[[0-9a-fA-F:]+\]|[^:\[\]]+):)?(?P<port>\d{1,5})")


@dataclass(frozen=True)
class Screen:
    """What is shown and to whom; `serve` is host and port of the page."""

    view: str
    no_window: bool
    serve: tuple[str, int] | None
    token: str | None
    fast: bool


@dataclass(frozen=True)
class VirtualCamera:
    """Whether there is one, which one, and what replaces the background there and in the view cutout."""

    virtual_camera: bool
    virtual_device: str | None
    backdrop: str | None


def parse_place(context: click.Context, option: click.Parameter, value: str | None) -> tuple[str, int] | None:
    """Return host and port of ``8765``, ``0.0.0.0:8765`` or ``[::1]:8765``."""
    if value is None:
        return None
    match = _PLACE.fullmatch(value)
    if match is None or int(match["port"]) > 65535:
        raise ParameterError(f"{called(context, option)} takes a port up to 65535, or host:port, got '{value}'")
    return (match["host"] or "127.0.0.1").strip("[]"), int(match["port"])


screen_options = packed(
    "screen",
    Screen,
    choice(
        "--view",
        group=SCREEN,
        of=LIVE_VIEWS,
        metavar="VIEW",
        text=f"What is shown first; the keys 1 to 9 and 0 change it: {', '.join(LIVE_VIEWS)}.",
    ),
    option("--no-window", group=SCREEN, is_flag=True, help="Open no window; needs another output or --serve."),
    option(
        "--serve",
        group=SCREEN,
        metavar="[HOST:]PORT",
        callback=parse_place,
        help="Show and control the run in a browser, on this machine or with a token in the network "
        "(0.0.0.0:8765); port 0 is any free one.",
    ),
    option(
        "--token",
        group=SCREEN,
        metavar="TEXT",
        hide_input=True,
        help="Whoever watches must know it.  [default: in the network a random one]",
    ),
    option(
        "--fast",
        group=SCREEN,
        is_flag=True,
        help="Show a file as fast as it can be separated, not in real time.",
    ),
)
"""The command gets `screen`."""

virtual_camera_options = packed(
    "virtual",
    VirtualCamera,
    option(
        "--virtual-camera",
        group=SCREEN,
        is_flag=True,
        help="Send the foreground before another background to a virtual camera, for video calls.",
    ),
    option(
        "--virtual-device",
        group=SCREEN,
        metavar="DEVICE",
        shell_complete=one_of_files(),
        help="Which one, such as /dev/video2.  [default: the first]",
    ),
    option(
        "--backdrop",
        group=SCREEN,
        shell_complete=one_of_files("blur"),
        metavar="blur|#rrggbb|IMAGE",
        help="What replaces the background there and in the view cutout: blurred, a colour, or an image file.  "
        "[default: blur]",
    ),
)
"""The command gets `virtual`."""
