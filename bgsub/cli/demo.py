"""Commands on synthetic scenes: ``bgsub demo`` scores masks of a scene, ``bgsub camera`` serves a scene."""

from __future__ import annotations

import re
import time
from contextlib import nullcontext, suppress
from pathlib import Path

import click

import bgsub
from bgsub import live, synthetic, video
from bgsub.cli.help import INPUT, OUTPUT, RUNNING, Example
from bgsub.cli.live import parse_host_and_port
from bgsub.cli.logs import Reporting, json_option
from bgsub.cli.options import PATH, check_folder, count, one_of_files, option, scene_option
from bgsub.cli.pipeline import RunReporter, check_whole, run_pipeline
from bgsub.cli.setting_sources import called
from bgsub.cli.settings import Command
from bgsub.cli.source_options import duration_option
from bgsub.errors import ParameterError
from bgsub.video.timecode import Timecode

_SIZE = re.compile(r"(\d+)x(\d+)")


@click.command(
    cls=Command,
    short_help="Separate a synthetic scene and score the masks; needs no camera.",
    examples=(Example("bgsub demo -o demo --scene street --duration 10s", "A video of a scene and its masks"),),
)
@option(
    "-o",
    "--output",
    group=OUTPUT,
    type=PATH,
    default=Path("bgsub-demo"),
    show_default=True,
    callback=check_folder,
    help="Folder for the results.",
)
@scene_option
@duration_option("300", "Length of the scene")
@count("--seed", group=INPUT, least=0, default=0, text="Seed of the random scene.")
@json_option()
def demo(output: Path, scene: str, duration: Timecode, seed: int) -> None:
    """Generate a scene with moving objects and changing light, separate it, and score the masks.

    Writes mask.mkv, panel.mp4 (input, background, foreground, mask), input.mp4, a video to try the other commands on,
    and strip.png (input, background and mask of the frame with the most foreground), and prints the scores of the
    masks against ground truth.
    """
    from bgsub.evaluation.online_scorer import OnlineScorer  # noqa: PLC0415 - it imports OpenCV
    from bgsub.video.sinks.base import prepare_folder  # noqa: PLC0415 - as above
    from bgsub.video.sinks.images import write_image  # noqa: PLC0415 - as above

    strip = output / "strip.png"
    prepare_folder(output)  # before the scene is generated
    made = synthetic.scene(scene, size=(320, 240), length=duration.in_frames(synthetic.Scene.fps) or 1, seed=seed)
    scorer = OnlineScorer(made)
    with scorer.source as source:
        source.name = f"scene '{scene}'"
        outputs = video.create_sinks(output, ["mask.mkv", "panel.mp4", "input.mp4"], source)
        subtractor = bgsub.BackgroundSubtractor(fps=float(made.fps))
        result = run_pipeline(source, subtractor, outputs, RunReporter(observer=scorer))
    check_whole(result, ends=True)
    picture = scorer.strip()
    if picture is None:
        raise click.ClickException("no frame was processed, so there is no picture to write")
    write_image(strip, picture)
    if not (Reporting.of().quiet or Reporting.of().json):
        click.echo(f"against ground truth: {scorer.text()}; one frame of it: {strip}")


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
        Example("bgsub camera video.mp4 --fps 10", "A video in a loop"),
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
    help="Width and height of a scene in pixels.",
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
    callback=parse_host_and_port,
    help="Address to serve at: on this machine, or in the network (0.0.0.0:8765).  [default: any free port of this "
    "machine]",
)
@option(
    "--cut-every",
    group=RUNNING,
    type=click.FloatRange(0, 1e6, min_open=True),
    metavar="SECONDS",
    help="Drop all connections at this interval, to simulate a bad network.  [default: never]",
)
@option("--stamp", group=INPUT, is_flag=True, help="Write number and time into each frame for programs to read.")
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
    """Serve frames as Motion JPEG over HTTP until Ctrl-C, and print the address for bgsub live.

    SOURCE is a video or a folder of images, served in a loop; without it a scene is generated.
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
