"""Milliseconds per frame with `device="cpu"` and `device="cuda"`: alone in turns (medians), and many streams at once.

Usage: python scripts/gpu.py VIDEO [--sizes 1920x1080,3840x2160 --streams 16]. Every stream has one thread, and a short
start, which takes long at the largest size.
"""

from __future__ import annotations

import itertools
import multiprocessing
import tempfile
import threading
import time
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import click
import numpy as np

from bgsub import BackgroundSubtractor
from bgsub._opencv import cv2

START, TURN = 120, 20  # frames that are not counted, and until the other device's turn
DEVICES = "cpu", "cuda"


class Stream:
    """A subtractor on one thread; `times` are milliseconds per frame."""

    def __init__(self, device: str, scale: Any) -> None:
        self._subtractor = BackgroundSubtractor(threads=1, scale=scale, start_frames=20, device=device)
        self.times: list[float] = []

    def apply(self, frame: np.ndarray) -> np.ndarray:
        """Return the mask of a frame."""
        begin = time.perf_counter()
        mask = self._subtractor.apply(frame)
        self.times.append(1e3 * (time.perf_counter() - begin))
        if len(self.times) == START:  # rare kernels are loaded beside the stream
            for thread in threading.enumerate():
                if thread.name == "kernel-loader":
                    thread.join()
        return mask


def in_turns(pictures: list[np.ndarray], size: tuple[int, int], scale: Any) -> None:
    """Print the row of two streams that take turns on the same frames, and the share of differing pixels."""
    streams, shares = [Stream(device, scale) for device in DEVICES], []
    for first in range(0, len(pictures), TURN):
        frames = [cv2.resize(one, size, interpolation=cv2.INTER_CUBIC) for one in pictures[first : first + TURN]]
        masks: list[list[np.ndarray]] = [[], []]
        pairs = list(zip(streams, masks, strict=True))
        for stream, shown in pairs[:: 1 if first // TURN % 2 else -1]:
            shown += [stream.apply(frame).copy() for frame in frames]
        shares.append(np.mean([one != other for one, other in zip(*masks, strict=True)]))
    show(size, scale, 1, [float(np.median(stream.times[START:])) for stream in streams], f"{np.mean(shares):9.1e}")


def play(device: str, file: str, scale: Any, ready: Any) -> float:
    """Run one stream on frames of a file; return the mean milliseconds of a frame."""
    cv2.setNumThreads(1)
    pictures, stream = np.load(file, mmap_mode="r"), Stream(device, scale)
    frames = itertools.cycle([*pictures, *pictures[-2:0:-1]])
    for number, picture in enumerate(itertools.islice(frames, START + 100)):
        if number == START:
            ready.wait(300)
        stream.apply(np.array(picture))
    return float(np.mean(stream.times[START:]))


def at_once(pictures: list[np.ndarray], size: tuple[int, int], count: int) -> None:
    """Print the rows of several streams at once, in separate processes: means."""
    processes = ProcessPoolExecutor(count, multiprocessing.get_context("spawn"))
    with tempfile.TemporaryDirectory() as folder, multiprocessing.Manager() as manager, processes:
        file = f"{folder}/frames.npy"
        np.save(file, [cv2.resize(picture, size, interpolation=cv2.INTER_CUBIC) for picture in pictures[:60]])
        for scale in (1, "auto"):
            rows = []
            for device in DEVICES:
                inputs = ([value] * count for value in (device, file, scale, manager.Barrier(count)))
                rows.append(float(np.mean(list(processes.map(play, *inputs)))))
            show(size, scale, count, rows)


def show(size: tuple[int, int], scale: Any, count: int, times: list[float], differing: str = "") -> None:
    """Print a row of the table."""
    numbers = " ".join(f"{value:7.2f}" for value in times)
    click.echo(
        f"{size[0]:5d}x{size[1]:<5d} {scale!s:>5s} {count:7d} {numbers} {1 - times[1] / times[0]:5.0%} {differing}"
    )


@click.command()
@click.argument("video")
@click.option("--sizes", default="1920x1080,3840x2160", show_default=True)
@click.option("--streams", default=16, show_default=True, help="At once, on frames of the first size.")
@click.option("--frames", default=START + 100, show_default=True, type=click.IntRange(START + TURN))
def main(video: str, sizes: str, streams: int, frames: int) -> None:
    """Print one table for VIDEO."""
    cv2.setNumThreads(1)
    capture = cv2.VideoCapture(video)
    pictures = [capture.read()[1] for _ in range(frames)]
    click.echo(f"{'frames':11s} {'scale':>5s} {'streams':>7s} {'cpu':>7s} {'cuda':>7s} {'gain':>5s} {'differ':>9s}")
    shapes = [(int(width), int(height)) for width, height in (size.split("x") for size in sizes.split(","))]
    for size, scale in itertools.product(shapes, (1, "auto")):
        in_turns(pictures, size, scale)
    at_once(pictures, shapes[0], streams)


if __name__ == "__main__":
    main()
