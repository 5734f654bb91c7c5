"""Milliseconds per frame of this package and its peers: sizes, grey and colour, threads.

Usage: python scripts/benchmark_speed.py [VIDEO] [--frames 260 --sizes 320x240,768x576,1920x1080 --threads 1,2]

The methods take turns every 20 frames on the same frames, resized to each size; the first 60 frames are not counted.
The memory column compares the bytes that a frame of ours moves with what the machine copies in the same time.
"""

from __future__ import annotations

import os

import click

from bgsub import BackgroundSubtractor
from bgsub.errors import DependencyError
from bgsub.evaluation.methods import make_method
from bgsub.evaluation.speed import Resized, Timing, bytes_per_pixel, copy_bandwidth, load_frames, time_methods

RANK = BackgroundSubtractor().get_params()["rank"]


def installed(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return those of the methods that can be made here."""
    found = []
    for name in names:
        try:
            make_method(name)
        except DependencyError:
            continue
        found.append(name)
    return tuple(found)


def row(title: str, threads: int, timings: list[Timing], share: float) -> str:
    """Return one line of the table."""
    mog2 = next(timing.median for timing in timings if timing.method == "mog2")
    ours = timings[0]
    others = " ".join(f"{timing.median:8.2f}" for timing in timings[1:])
    ratio = ours.median / mog2
    return f"{title:20s} {threads:7d} {ours.median:8.2f} {ours.p99:8.2f} {ratio:7.2f} {share:6.0%} {others}"


@click.command()
@click.argument("video", required=False)
@click.option("--frames", default=260, show_default=True, type=click.IntRange(80))
@click.option("--sizes", default="320x240,768x576,1920x1080", show_default=True)
@click.option("--threads", default=f"1,{os.cpu_count()}", show_default=True)
def main(video: str | None, frames: int, sizes: str, threads: str) -> None:
    """Print one table for VIDEO, by default a synthetic street."""
    pictures = load_frames(video, frames)
    peers = installed(("mog2", "knn", "cnt", "subsense"))
    bandwidth = copy_bandwidth()
    click.echo(f"{len(pictures)} frames of {video or 'a synthetic street'}; a copy moves {bandwidth / 1e9:.1f} GB/s")
    heads = " ".join(f"{peer:>8s}" for peer in peers)
    click.echo(f"{'frames':20s} {'threads':>7s} {'bgsub':>8s} {'p99':>8s} {'to MOG2':>7s} {'memory':>6s} {heads}")
    for size in sizes.split(","):
        width, height = (int(side) for side in size.split("x"))
        for grey in (False, True):
            shown = Resized(pictures, (width, height), grey)
            moved = width * height * bytes_per_pixel(1 if grey else 3, RANK)
            for count in dict.fromkeys(int(number) for number in threads.split(",")):
                timings = time_methods(shown, lambda n=count: BackgroundSubtractor(threads=n), count, peers=peers)
                share = moved / bandwidth / (timings[0].median / 1e3)
                click.echo(row(f"{size} {'grey' if grey else 'colour'}", count, timings, share))


if __name__ == "__main__":
    main()
