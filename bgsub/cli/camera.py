"""``bgsub camera``: a camera on the loopback, to try a live run without one."""

from __future__ import annotations

import re
import time
from contextlib import nullcontext, suppress

import click

from bgsub import live, video
from bgsub.cli.blocks import one_of_files, option
from bgsub.cli.help import INPUT, RUNNING, Example
from bgsub.cli.live_options import parse_place
from bgsub.cli.options import scene_option
from bgsub.cli.origins import called
from bgsub.cli.settings import Command
from bgsub.errors import ParameterError

_SIZE = re.compile(r"(\d+)x(\d+)")


def _parse_size(context: click.Context, option: click.Parameter, value: str) -> tuple[int, int]:
    match = _SIZE.fullmatch(value)
    if match is None:
        raise ParameterError(f"{called(context, option)} takes a width and height such as 320x240, got '{value}'")
    return int(match[1]), int(match[2])


@click.command(
    cls=Command,
    short_help="Serve a synthetic scene as a network camera, to try live runs.",
    examples=(
        Example("bgsub camera --serve 8554", "A scene; then, elsewhere: bgsub live http://127.0.0.1:8554"),
        Example("bgsub camera video.mp4 --fps 10", "A video, again and again"),
    ),
)
@click.argument("source", required=False, shell_complete=one_of_files())
@scene_option
@option(
    "--size",
    group=INPUT,
    default="320x240",
    show_default=True,
    callback=_parse_size,
    metavar="WxH",
    help="Width and height of a scene.",
)
@option(
    "--fps",
    group=INPUT,
    type=click.FloatRange(0, min_open=True),
    default=25.0,
    show_default=True,
    metavar="X",
    help="Frames per second.",
)
@option(
    "--serve",
    group=RUNNING,
    default="0",
    metavar="[HOST:]PORT",
    callback=parse_place,
    help="Where: on this machine, or in the network (0.0.0.0:8765).  [default: any free port of this machine]",
)
@option(
    "--cut-every",
    group=RUNNING,
    type=click.FloatRange(0, 1e6, min_open=True),
    metavar="SECONDS",
    help="Drop all connections that often, as a bad line does.",
)
@option("--stamp", group=INPUT, is_flag=True, help="Write number and time into each picture, to be read by programs.")
def camera(
    *,
    scene: str,
    source: str | None,
    size: tuple[int, int],
    fps: float,
    serve: tuple[str, int],
    cut_every: float | None,
    stamp: bool,
) -> None:
    """Serve pictures as Motion JPEG over HTTP until Ctrl-C, and print the address for bgsub live.

    SOURCE is a video or a folder of images, which comes again and again; without it a scene is made.
    """
    with suppress(KeyboardInterrupt), nullcontext(scene) if source is None else video.open_source(source) as pictures:
        host, port = serve
        served = live.LoopbackCamera(pictures, fps, port, host, size=size, stamped=stamp)
        try:
            with served:
                click.echo(f"a camera sends {fps:g} frames per second at {served.address} until Ctrl-C")
                _keep_going(served, cut_every)
        finally:
            click.echo(f"sent {served.produced} frames")


def _keep_going(served: live.LoopbackCamera, cut_every: float | None) -> None:
    while True:
        time.sleep(cut_every or 3600)
        if cut_every:
            served.cut()
