"""Milliseconds per frame of this package and its peers: sizes, grey and colour, threads, a shaking camera.

Usage: python scripts/benchmark_speed.py [VIDEO] [--frames 260 --sizes 320x240,1920x1080 --threads 1,2 --shake 4]

The methods take turns every 20 frames on the same frames, resized to each size; the first 100 frames are not counted.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Sequence
from typing import Any

import click
import numpy as np
from vibe import ViBe

from bgsub import BackgroundSubtractor
from bgsub._opencv import cv2
from bgsub.errors import DependencyError
from bgsub.evaluation.methods import make_method
from bgsub.evaluation.speed import Timing, load_frames, time_methods


class Resized(Sequence[np.ndarray]):
    """Frames resized on access to `size` = (width, height), in grey (h, w) or colour (h, w, 3)."""

    def __init__(
        self, frames: Sequence[np.ndarray], size: tuple[int, int], grey: bool = False, shake: float = 0
    ) -> None:
        self._frames, self._size, self._grey = frames, size, grey
        self._shifts = np.random.default_rng(0).normal(0, shake, (len(frames), 2))

    def __len__(self) -> int:
        return len(self._frames)

    def __getitem__(self, number: Any) -> Any:
        frame = self._frames[number]
        if (frame.ndim == 2) != self._grey:
            frame = cv2.cvtColor(frame, cv2.COLOR_BGR2GRAY if self._grey else cv2.COLOR_GRAY2BGR)
        frame = cv2.resize(frame, self._size, interpolation=cv2.INTER_CUBIC)
        if not self._shifts.any():
            return frame
        matrix = np.column_stack([np.eye(2), self._shifts[number]])
        return cv2.warpAffine(frame, matrix, self._size, borderMode=cv2.BORDER_REPLICATE)

    def forth_and_back(self) -> Iterator[np.ndarray]:
        """Yield the frames forwards and backwards without end."""
        numbers = range(len(self))
        for number in itertools.cycle([*numbers, *numbers[-2:0:-1]]):
            yield self[number]


def installed(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the methods that are available here."""
    found = []
    for name in names:
        try:
            make_method(name)
        except DependencyError:
            continue
        found.append(name)
    return tuple(found)


def row(title: str, threads: int, timings: list[Timing]) -> str:
    """Return one line of the table."""
    mog2 = next(timing.median for timing in timings if timing.method == "mog2")
    ours = timings[0]
    others = " ".join(f"{timing.median:8.2f}" for timing in timings[1:])
    ratio = ours.median / mog2
    return f"{title:20s} {threads:7d} {ours.median:8.2f} {ours.p99:8.2f} {ratio:7.2f} {others}"


@click.command()
@click.argument("video", required=False)
@click.option("--frames", default=260, show_default=True, type=click.IntRange(120))
@click.option("--sizes", default="320x240,768x576,1920x1080", show_default=True)
@click.option("--shake", default=0.0, help="Standard deviation of the movement of the camera in pixels.")
@click.option("--threads", default=f"1,{os.cpu_count()}", show_default=True)
def main(video: str | None, frames: int, sizes: str, shake: float, threads: str) -> None:
    """Print one table for VIDEO, by default a synthetic street."""
    pictures = load_frames(video, frames)
    peers = installed(("mog2", "knn", "cnt", "subsense"))
    click.echo(f"{len(pictures)} frames of {video or 'a synthetic street'}")
    heads = " ".join(f"{peer:>8s}" for peer in (*peers, "vibe"))
    click.echo(f"{'frames':20s} {'threads':>7s} {'bgsub':>8s} {'p99':>8s} {'to MOG2':>7s} {heads}")
    for size in sizes.split(","):
        width, height = (int(side) for side in size.split("x"))
        for grey in (False, True):
            shown = Resized(pictures, (width, height), grey, shake)
            for count in dict.fromkeys(int(number) for number in threads.split(",")):
                vibe = {"vibe": ViBe}
                timings = time_methods(shown, lambda n=count: BackgroundSubtractor(threads=n), count, 100, peers, vibe)
                click.echo(row(f"{size} {'grey' if grey else 'colour'}", count, timings))


if __name__ == "__main__":
    main()
