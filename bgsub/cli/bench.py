"""``bgsub bench``: milliseconds per frame beside OpenCV's subtractors, on the same frames."""

from __future__ import annotations

from typing import Any

import click

from bgsub.cli.blocks import one_of_files
from bgsub.cli.help import Example
from bgsub.cli.options import MethodCommand, make_subtractor
from bgsub.cli.source_options import duration_option
from bgsub.video.timecode import Timecode


@click.command(
    cls=MethodCommand,
    short_help="Time the method beside OpenCV's subtractors.",
    common=("duration", "rank", "scale", "threads"),
    examples=(
        Example("bgsub bench", "On a synthetic street of 320x240"),
        Example("bgsub bench video.mp4 --duration 200 --scale 0.5", "On a video, at half its size"),
    ),
)
@click.argument("source", required=False, shell_complete=one_of_files())
@duration_option("300", "Take this much at most")
def bench(source: str | None, duration: Timecode, **options: Any) -> None:
    """Time the method, MOG2 and KNN on the frames of SOURCE, by default a synthetic street of 320x240.

    The methods take turns every 20 frames; the first frames, at most 60, are not counted. The first frame
    and the longest one (the batch start) are reported apart; compilation is in no figure. --threads holds for
    OpenCV as well.
    """
    from bgsub.evaluation.speed import format_speed, load_frames, time_methods  # noqa: PLC0415 - OpenCV comes along

    pictures = load_frames(source, duration)
    timings = time_methods(pictures, lambda: make_subtractor(options), options["threads"])
    click.echo(format_speed(timings))
