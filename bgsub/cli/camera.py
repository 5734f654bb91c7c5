"""``bgsub camera``: a camera on the loopback, to try a live run without one."""

from __future__ import annotations

import re
import time
from contextlib import nullcontext, suppress

import click

from bgsub import live, video
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


@click.command(cls=Command, short_help="Serve a synthetic scene as a network camera, to try live runs without one.")
@click.argument("source", required=False)
@scene_option
@click.option("--size", default="320x240", show_default=True, callback=_parse_size, metavar="WxH", help="Of a scene.")
@click.option(
    "--rate",
    type=click.FloatRange(0, min_open=True),
    default=25.0,
    show_default=True,
    metavar="X",
    help="Frames per second.",
)
@click.option("--host", default="127.0.0.1", show_default=True, help="0.0.0.0 serves the whole network.")
@click.option("--port", type=click.IntRange(0, 65535), default=0, metavar="N", help="By default any free one.")
@click.option(
    "--cut-every",
    type=click.FloatRange(0, 1e6, min_open=True),
    metavar="SECONDS",
    help="Drop all connections that often, as a bad line does.",
)
@click.option("--stamp", is_flag=True, help="Write number and time into each picture, to be read by programs.")
def camera(
    *,
    scene: str,
    source: str | None,
    size: tuple[int, int],
    rate: float,
    host: str,
    port: int,
    cut_every: float | None,
    stamp: bool,
) -> None:
    """Serve pictures as Motion JPEG over HTTP until Ctrl-C, and print the address for ``bgsub live``.

    SOURCE is a video or a folder of images, which comes again and again; without it a scene is made.
    """
    with suppress(KeyboardInterrupt), nullcontext(scene) if source is None else video.open_source(source) as pictures:
        served = live.LoopbackCamera(pictures, rate, port, host, size=size, stamped=stamp)
        try:
            with served:
                click.echo(f"a camera sends {rate:g} frames per second at {served.address} until Ctrl-C")
                _keep_going(served, cut_every)
        finally:
            click.echo(f"sent {served.produced} frames")


def _keep_going(served: live.LoopbackCamera, cut_every: float | None) -> None:
    while True:
        time.sleep(cut_every or 3600)
        if cut_every:
            served.cut()
