"""Milliseconds per frame of this package and its peers: sizes, grey and colour, threads.

Usage: python scripts/benchmark_speed.py [VIDEO] [--frames 260 --sizes 320x240,768x576,1920x1080 --threads 1,2]
       python scripts/benchmark_speed.py [VIDEO] --rank-plot rank.png

The methods take turns every 20 frames on the same frames, resized to each size; the first 60 frames are not counted.
The memory column compares the bytes that a frame of ours moves with what the machine copies in the same time.
"""

from __future__ import annotations

import os

import click
import numpy as np

from bgsub import BackgroundSubtractor
from bgsub._opencv import cv2
from bgsub.errors import DependencyError
from bgsub.evaluation.methods import make_method
from bgsub.evaluation.speed import Timing, bytes_per_pixel, copy_bandwidth, load_frames, time_methods

RANKS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 15)
RANK = BackgroundSubtractor().get_params()["rank"]


def resized(frames: list[np.ndarray], size: tuple[int, int], grey: bool) -> list[np.ndarray]:
    """Return frames of another size (width, height), grey or in colour."""
    shown = [cv2.resize(frame, size, interpolation=cv2.INTER_CUBIC) for frame in frames]
    if grey:
        return [cv2.cvtColor(frame, cv2.COLOR_BGR2GRAY) if frame.ndim == 3 else frame for frame in shown]
    return [cv2.cvtColor(frame, cv2.COLOR_GRAY2BGR) if frame.ndim == 2 else frame for frame in shown]


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


def time_rank(frames: list[np.ndarray], rank: int) -> float:
    """Return the median milliseconds per frame at a rank, one thread."""
    return time_methods(frames, lambda: BackgroundSubtractor(rank=rank, threads=1), 1, peers=())[0].median


def plot_ranks(frames: list[np.ndarray], path: str) -> None:
    """Draw the time per frame against the rank and against the number of pixels."""
    import matplotlib as mpl  # noqa: PLC0415 - an optional package

    mpl.use("Agg")
    import matplotlib.pyplot as plt  # noqa: PLC0415

    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.5), layout="constrained")
    ranks = {rank: time_rank(resized(frames, (320, 240), False), rank) for rank in RANKS}
    sizes = [(160, 120), (320, 240), (480, 360), (640, 480), (768, 576), (1280, 720), (1920, 1080)]
    times = {w * h / 1e6: time_rank(resized(frames, (w, h), False), RANK) for w, h in sizes}
    left.plot(list(ranks), list(ranks.values()), "o-")
    left.set(xlabel="rank", ylabel="ms per frame, 320x240", ylim=(0, None))
    right.plot(list(times), list(times.values()), "o-")
    right.set(xlabel="megapixels", ylabel=f"ms per frame, rank {RANK}", ylim=(0, None))
    figure.savefig(path, dpi=120)
    for name, values in (("rank", ranks), ("megapixels", times)):
        click.echo(f"{name}: " + ", ".join(f"{key:g}: {value:.2f} ms" for key, value in values.items()))


@click.command()
@click.argument("video", required=False)
@click.option("--frames", default=260, show_default=True, type=click.IntRange(80))
@click.option("--sizes", default="320x240,768x576,1920x1080", show_default=True)
@click.option("--threads", default=f"1,{os.cpu_count()}", show_default=True)
@click.option("--rank-plot", metavar="PNG", help="Draw the cost against rank and size instead.")
def main(video: str | None, frames: int, sizes: str, threads: str, rank_plot: str | None) -> None:
    """Print one table for VIDEO, by default a synthetic street."""
    pictures = load_frames(video, frames)
    if rank_plot:
        plot_ranks(pictures, rank_plot)
        return
    peers = installed(("mog2", "knn", "cnt", "subsense"))
    bandwidth = copy_bandwidth()
    click.echo(f"{len(pictures)} frames of {video or 'a synthetic street'}; a copy moves {bandwidth / 1e9:.1f} GB/s")
    heads = " ".join(f"{peer:>8s}" for peer in peers)
    click.echo(f"{'frames':20s} {'threads':>7s} {'bgsub':>8s} {'p99':>8s} {'to MOG2':>7s} {'memory':>6s} {heads}")
    for size in sizes.split(","):
        width, height = (int(side) for side in size.split("x"))
        for grey in (False, True):
            shown = resized(pictures, (width, height), grey)
            moved = width * height * bytes_per_pixel(1 if grey else 3, RANK)
            for count in dict.fromkeys(int(number) for number in threads.split(",")):
                timings = time_methods(shown, lambda n=count: BackgroundSubtractor(threads=n), count, peers=peers)
                share = moved / bandwidth / (timings[0].median / 1e3)
                click.echo(row(f"{size} {'grey' if grey else 'colour'}", count, timings, share))


if __name__ == "__main__":
    main()
