"""``bgsub bench``: milliseconds per frame beside OpenCV's subtractors, on the same frames."""

from __future__ import annotations

from typing import Any

import click

from bgsub.cli.options import make_subtractor, method_options


@click.command()
@click.argument("source", required=False)
@click.option("--frames", type=click.IntRange(60), default=300, show_default=True, help="Frames to time, at most.")
@click.option("--threads", type=click.IntRange(1), help="Threads for OpenCV; by default as it likes.")
@method_options
def bench(source: str | None, frames: int, threads: int | None, **options: Any) -> None:
    """Time the method, MOG2 and KNN on the frames of SOURCE, by default on a made street scene of 320x240.

    The methods take turns on every frame. Compilation and batch start are reported apart.
    """
    from bgsub.evaluation.speed import format_speed, load_frames, time_methods  # noqa: PLC0415

    pictures = load_frames(source, frames)
    click.echo(format_speed(time_methods(pictures, lambda: make_subtractor(options), threads)))
