"""Bytes per pixel of one stream: the arrays of a subtractor, and the growth of its process.

Usage: python scripts/memory.py [VIDEO] [--frames 200 --sizes 1280x720,1600x900,1920x1080 --arrays]

Every size runs in a process of its own, in colour and in grey, after a small stream has loaded the kernels. The
figures are slopes over the pixels, so that what does not grow with the frame is in none of them; below a megapixel
the allocator keeps what is given back. "held" counts all arrays that can be reached from the subtractor, the newest
frame included, "touched" those of their pages that were ever used (Linux: /proc/self/pagemap), "steady" is the
resident memory after the last frame and "peak" the largest.
"""

from __future__ import annotations

import gc
import math
import multiprocessing
import threading
from concurrent.futures import ProcessPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import click
import numpy as np
from benchmark_speed import Resized

from bgsub import BackgroundSubtractor
from bgsub.evaluation.speed import load_frames

SOURCE_FRAMES = 60
PAGE = 4096
CAMERAS, CAMERA = 64, (640, 480)


class Stream(NamedTuple):
    """The measurements of a child process."""

    video: str | None
    size: tuple[int, int]
    grey: bool
    frames: int


class Held(NamedTuple):
    """An array of a subtractor: its path, its bytes, and those of its used pages."""

    path: str
    nbytes: int
    touched: int


class Memory(NamedTuple):
    """Bytes of one stream."""

    pixels: int
    arrays: list[Held]
    steady: int
    peak: int

    def figures(self) -> tuple[int, int, int, int]:
        """Return the bytes held, touched, in the steady state and at the peak."""
        held, used = (sum(array[i] for array in self.arrays) for i in (1, 2))
        return held, used, self.steady, self.peak


def arrays_of(root: Any) -> dict[str, np.ndarray]:
    """Return the arrays, by the shortest path, that own the memory which an object of this package reaches."""
    found: dict[int, tuple[str, np.ndarray]] = {}
    seen, waiting = set(), [("", root)]
    while waiting:
        path, value = waiting.pop(0)
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, np.ndarray):
            while isinstance(value.base, np.ndarray):
                value = value.base
            found.setdefault(id(value), (path, value))
        elif isinstance(value, dict):
            waiting += [(f"{path}[{key!r}]", kept) for key, kept in value.items()]
        elif isinstance(value, list | tuple):
            waiting += [(f"{path}[{i}]", kept) for i, kept in enumerate(value)]
        elif type(value).__module__.startswith("bgsub"):
            waiting += [(f"{path}.{name}".lstrip("."), kept) for name, kept in getattr(value, "__dict__", {}).items()]
    return dict(found.values())


def touched(array: np.ndarray) -> int:
    """Return the bytes of the pages of an array that this process has in memory."""
    begin = array.ctypes.data // PAGE
    end = -(-(array.ctypes.data + array.nbytes) // PAGE)
    with open("/proc/self/pagemap", "rb", buffering=0) as pages:
        pages.seek(8 * begin)
        entries = np.frombuffer(pages.read(8 * (end - begin)), np.uint64)
    return min(int(np.count_nonzero(entries >> np.uint64(63))) * PAGE, array.nbytes)


def resident(field: str) -> int:
    """Return VmRSS or VmHWM, its largest value, of this process in bytes."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field))


def measure(stream: Stream) -> Memory:
    """Run one stream in this process, which should be a fresh one."""
    source = load_frames(stream.video, SOURCE_FRAMES)
    frames = Resized(source, stream.size, stream.grey)
    small, subtractor = Resized(source, (64, 48), stream.grey), BackgroundSubtractor()
    for frame in islice(small.forth_and_back(), SOURCE_FRAMES):
        subtractor.apply(frame)
    for thread in threading.enumerate():  # rare kernels are loaded beside the stream
        if thread.name == "kernel-loader":
            thread.join()
    subtractor.clear()
    frame = frames[0]
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the largest value starts over
    before = resident("VmRSS")
    for frame in islice(frames.forth_and_back(), stream.frames):
        subtractor.apply(frame)
    gc.collect()
    arrays = [Held(path, array.nbytes, touched(array)) for path, array in arrays_of(subtractor).items()]
    steady, peak = (resident(field) - before for field in ("VmRSS", "VmHWM"))
    return Memory(stream.size[0] * stream.size[1], arrays, steady, peak)


def per_pixel(runs: list[Memory]) -> np.ndarray:
    """Return the figures in bytes per pixel, (4,): slopes by least squares, or quotients where there is one run."""
    pixels, figures = np.array([run.pixels for run in runs]), np.array([run.figures() for run in runs])
    return figures[0] / pixels[0] if len(runs) == 1 else np.polyfit(pixels, figures, 1)[0]


def listed(run: Memory) -> list[str]:
    """Return a line for every array of half a byte per pixel or more: held, touched, where."""
    arrays = sorted(run.arrays, key=lambda array: -array.nbytes)
    return [
        f"  {array.nbytes / run.pixels:20.1f} {array.touched / run.pixels:8.1f}  {array.path}"
        for array in arrays
        if array.nbytes >= run.pixels / 2
    ]


@click.command()
@click.argument("video", required=False)
@click.option("--frames", default=200, show_default=True, type=click.IntRange(1))
@click.option("--sizes", default="1280x720,1600x900,1920x1080", show_default=True)
@click.option("--arrays", is_flag=True, help="List the arrays of the largest size, too.")
def main(video: str | None, frames: int, sizes: str, arrays: bool) -> None:
    """Print bytes per pixel for VIDEO, by default a synthetic street."""
    shapes = [(int(width), int(height)) for width, height in (size.split("x") for size in sizes.split(","))]
    context = multiprocessing.get_context("spawn")
    click.echo(f"{'bytes per pixel':16s} {'held':>6s} {'touched':>8s} {'steady':>7s} {'peak':>6s}")
    for name in ("grey", "colour"):
        streams = [Stream(video, shape, name == "grey", frames) for shape in shapes]
        with ProcessPoolExecutor(1, context, max_tasks_per_child=1) as pool:
            runs = list(pool.map(measure, streams))
        figures = per_pixel(runs)
        click.echo(f"{name:16s} {figures[0]:6.1f} {figures[1]:8.1f} {figures[2]:7.1f} {figures[3]:6.1f}")
        if arrays:
            click.echo("\n".join(listed(max(runs, key=lambda run: run.pixels))))
    steady, peak = figures[2:] * CAMERAS * math.prod(CAMERA) / 2**30
    cameras = f"{CAMERAS} cameras of {CAMERA[0]}x{CAMERA[1]} in colour"
    click.echo(f"{cameras}: {steady:.1f} GiB, {peak:.1f} GiB if all start at once")


if __name__ == "__main__":
    main()
