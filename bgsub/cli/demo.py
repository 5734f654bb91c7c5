"""``bgsub demo``: the whole chain on a scene made on the spot; no camera, no screen, no download."""

from __future__ import annotations

from pathlib import Path

import click

import bgsub
from bgsub import synthetic, video
from bgsub.cli.blocks import PATH, count, option
from bgsub.cli.help import INPUT, OUTPUT, Example
from bgsub.cli.logs import Reporting, report_options
from bgsub.cli.options import check_folder, scene_option
from bgsub.cli.pipeline import Telling, check_whole, run_pipeline
from bgsub.cli.settings import Command
from bgsub.cli.source_options import duration_option
from bgsub.video.timecode import Timecode

_SIZE = (320, 240)


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
@count("--seed", group=INPUT, least=0, default=0, text="Another seed, another scene.")
@report_options
def demo(output: Path, scene: str, duration: Timecode, seed: int, quiet: bool) -> None:
    """Make a scene with movers and changing light, separate it, and score the masks.

    Writes mask.mkv, panel.mp4 (input, background, foreground, mask), input.mp4, a video to try the other commands on,
    and strip.png (input, background and mask of the busiest frame), and prints how well the masks agree with the
    exact ones.
    """
    from bgsub.evaluation.online_scorer import OnlineScorer  # noqa: PLC0415 - it imports OpenCV
    from bgsub.video.sinks.base import prepare_folder  # noqa: PLC0415 - as above
    from bgsub.video.sinks.images import write_image  # noqa: PLC0415 - as above

    strip = output / "strip.png"
    prepare_folder(output)  # before the work of making the scene
    made = synthetic.scene(scene, size=_SIZE, length=duration.in_frames(synthetic.Scene.fps) or 1, seed=seed)
    scorer = OnlineScorer(made)
    with scorer.source as source:
        source.name = f"scene '{scene}'"
        outputs = video.create_sinks(output, ["mask.mkv", "panel.mp4", "input.mp4"], source)
        subtractor = bgsub.BackgroundSubtractor(fps=float(made.fps))
        result = run_pipeline(source, subtractor, outputs, Telling(quiet, observer=scorer))
    check_whole(result, ends=True)
    picture = scorer.strip()
    if picture is None:
        raise click.ClickException("no frame was processed, so there is no picture to write")
    write_image(strip, picture)
    if not (quiet or Reporting.of().json):
        click.echo(f"against the exact masks: {scorer.text()}; one frame of it: {strip}")
