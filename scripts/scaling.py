"""Frames per second against resolution, rank and number of streams, beside OpenCV's MOG2 in the same run.

Usage: python scripts/scaling.py [VIDEO] [--output scaling --sizes 320x240,640x480 --ranks 1,3,10 --streams 1,2]

Writes OUTPUT.csv, OUTPUT.png and what 64 cameras would need. For resolution and rank the methods take turns on the
same frames, and what counts is the median frame after 60; for streams, each of them one thread on frames of 640x480,
all start at once and what counts is the frames of all together. The kernels are loaded, or compiled, before.
"""

from __future__ import annotations

import csv
import itertools
import multiprocessing
import tempfile
import threading
import time
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import click
import numpy as np
from benchmark_speed import Resized
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from bgsub import BackgroundSubtractor
from bgsub._opencv import cv2
from bgsub.evaluation.methods import Method, make_method
from bgsub.evaluation.speed import Timing, load_frames, time_methods
from bgsub.numerics.threads import cores

SIZE, RANK = (640, 480), BackgroundSubtractor().get_params()["rank"]
WARM_UP = 60  # frames: the batch start, and the noise scale begins to be known
CAMERAS, RATE = 64, 25
COLOURS = {"bgsub": "tab:blue", "mog2": "tab:orange"}


class Point(NamedTuple):
    """One measurement; `milliseconds` and `p99` are those of a frame of one stream, `fps` is that of all streams."""

    panel: str
    method: str
    width: int
    height: int
    rank: int
    streams: int
    kind: str
    threads: int
    milliseconds: float
    p99: float
    fps: float


class Stream(NamedTuple):
    """The work of every stream: a method on the frames of a file, (n, h, w, 3) uint8, for some seconds."""

    method: str
    file: str
    seconds: float


def make(method: str, rank: int = RANK, threads: int = 1) -> Method:
    """Return a method for the measurements."""
    return BackgroundSubtractor(rank=rank, threads=threads) if method == "bgsub" else make_method(method)


def wait_for_kernels() -> None:
    """Wait for rare kernels, which are loaded beside the stream."""
    for thread in threading.enumerate():
        if thread.name == "kernel-loader":
            thread.join()


def point(panel: str, timing: Timing, size: tuple[int, int], rank: int, threads: int) -> Point:
    """Return the measurement of one stream."""
    numbers = timing.median, timing.p99, 1e3 / timing.median
    return Point(panel, timing.method, *size, rank, 1, "threads", threads, *numbers)


def against_resolution(frames: list[np.ndarray], sizes: list[tuple[int, int]]) -> list[Point]:
    """Time both methods at some sizes, by one thread and by as many as there are cores."""
    points = []
    for size, threads in itertools.product(sizes, dict.fromkeys((1, cores()))):
        timings = time_methods(
            Resized(frames, size), lambda n=threads: make("bgsub", threads=n), threads, WARM_UP, ("mog2",)
        )
        points += [point("resolution", timing, size, RANK, threads) for timing in timings]
    return points


def against_rank(frames: list[np.ndarray], ranks: list[int]) -> list[Point]:
    """Time both methods at some ranks (MOG2 has none), by one thread."""
    points = []
    for rank in ranks:
        timings = time_methods(Resized(frames, SIZE), lambda k=rank: make("bgsub", k), 1, WARM_UP, ("mog2",))
        points += [point("rank", timing, SIZE, rank, 1) for timing in timings]
    return points


def play(stream: Stream, ready: threading.Barrier) -> np.ndarray:
    """Run one stream as soon as all are warm; return the seconds of each of its frames."""
    cv2.setNumThreads(1)
    pictures = np.load(stream.file, mmap_mode="c")
    frames = itertools.cycle([*pictures, *pictures[-2:0:-1]])
    method, taken = make(stream.method), []
    for frame in itertools.islice(frames, WARM_UP):
        method.apply(frame)
    wait_for_kernels()
    ready.wait(120)
    begin = now = time.perf_counter()
    while now - begin < stream.seconds:
        method.apply(next(frames))
        before, now = now, time.perf_counter()
        taken.append(now - before)
    return np.array(taken)


def against_streams(frames: list[np.ndarray], counts: list[int], seconds: float) -> list[Point]:
    """Run both methods on several streams at once, one thread each, in separate processes and in this one."""
    points, before, most = [], cv2.getNumThreads(), max(counts)
    processes = ProcessPoolExecutor(most, multiprocessing.get_context("spawn"))
    with tempfile.TemporaryDirectory() as folder, multiprocessing.Manager() as manager, processes:
        pools: dict[str, Executor] = {"processes": processes, "threads": ThreadPoolExecutor(most)}
        file = f"{folder}/frames.npy"
        np.save(file, np.stack(list(Resized(frames[:WARM_UP], SIZE))))
        for count, kind, method in itertools.product(counts, pools, COLOURS):
            stream, ready = Stream(method, file, seconds), manager.Barrier(count)
            streams = list(pools[kind].map(play, [stream] * count, [ready] * count))
            times = 1e3 * np.concatenate(streams)
            numbers = float(np.median(times)), float(np.percentile(times, 99)), sum(1 / s.mean() for s in streams)
            points.append(Point("streams", method, *SIZE, RANK, count, kind, 1, *numbers))
    cv2.setNumThreads(before)
    return points


def draw(points: list[Point], path: Path) -> None:
    """Draw three panels: resolution, rank, streams."""
    figure = Figure(figsize=(12, 3.9), layout="constrained")
    FigureCanvasAgg(figure)
    left, middle, right = figure.subplots(1, 3)
    sizes = {p.width * p.height: f"{p.width}x{p.height}" for p in points if p.panel == "resolution"}
    for method, threads in itertools.product(COLOURS, dict.fromkeys((1, cores()))):
        chosen = [p for p in points if (p.panel, p.method, p.threads) == ("resolution", method, threads)]
        curve(
            left, chosen, [p.width * p.height for p in chosen], f"{threads} thread{'s' * (threads > 1)}", threads == 1
        )
    left.axhline(RATE, color="grey", linewidth=0.8, linestyle=":")
    left.annotate(f"{RATE}", (0.01, RATE), xycoords=("axes fraction", "data"), fontsize=8, va="bottom", color="grey")
    left.set(xscale="log", yscale="log", title=f"resolution (rank {RANK})", ylabel="frames per second")
    left.set_xticks(list(sizes), list(sizes.values()), rotation=40, ha="right", fontsize=8)
    left.xaxis.set_minor_locator(NullLocator())
    left.yaxis.set_major_formatter("{x:g}")
    for method in COLOURS:
        chosen = [p for p in points if (p.panel, p.method) == ("rank", method)]
        curve(middle, chosen, [p.rank for p in chosen], "1 thread", True)
    middle.set(ylim=(0, None), title=f"rank ({SIZE[0]}x{SIZE[1]})", xlabel="rank", ylabel="frames per second")
    for method, kind in itertools.product(COLOURS, ("processes", "threads")):
        chosen = [p for p in points if (p.panel, p.method, p.kind) == ("streams", method, kind)]
        curve(right, chosen, [p.streams for p in chosen], kind, kind == "processes")
    counts = sorted({p.streams for p in points if p.panel == "streams"})
    right.set(xscale="log", ylim=(0, None), title=f"streams ({SIZE[0]}x{SIZE[1]}, {cores()} cores)")
    right.set(xlabel="streams, one thread each", ylabel="frames per second, all together")
    right.set_xticks(counts, [str(count) for count in counts])
    right.xaxis.set_minor_locator(NullLocator())
    for axes in (left, middle, right):
        axes.grid(alpha=0.3)
        axes.legend(fontsize=8)
    figure.savefig(path, dpi=120)


def curve(axes: Axes, points: list[Point], places: list[int], name: str, solid: bool) -> None:
    """Draw the rates of one method."""
    if points:
        method, style = points[0].method, "o-" if solid else "s--"
        label = f"{'MOG2' if method == 'mog2' else method}, {name}"
        axes.plot(places, [p.fps for p in points], style, color=COLOURS[method], markersize=4, label=label)


def advice(points: list[Point]) -> str:
    """Return the needs of many cameras, from the most streams in separate processes."""
    most = max((p for p in points if (p.method, p.kind) == ("bgsub", "processes")), key=lambda p: p.streams)
    needed, each = CAMERAS * RATE, most.fps / min(cores(), most.streams)
    return (
        f"{CAMERAS} cameras of {most.width}x{most.height} at {RATE} frames/s are {needed} frames/s; at {each:.0f} per "
        f"core ({most.streams} streams on {cores()}) that is {needed / each:.1f} cores, decoding not counted"
    )


def numbers(text: str) -> list[int]:
    """Return the numbers of a list."""
    return [int(number) for number in text.split(",")]


@click.command()
@click.argument("video", required=False)
@click.option("--output", "-o", default="scaling", show_default=True, type=click.Path(path_type=Path))
@click.option("--sizes", default="160x120,320x240,640x480,768x576,1280x720,1920x1080,3840x2160", show_default=True)
@click.option("--ranks", default="1,2,3,5,10,20,30", show_default=True)
@click.option("--streams", default="1,2,4,8", show_default=True)
@click.option("--frames", default=80, show_default=True, type=click.IntRange(WARM_UP + 1), help="Of one stream.")
@click.option("--seconds", default=1.5, show_default=True, help="Of several streams.")
def main(video: str | None, output: Path, sizes: str, ranks: str, streams: str, frames: int, seconds: float) -> None:
    """Measure on VIDEO, by default a synthetic street, resized."""
    pictures, begin = load_frames(video, frames), time.perf_counter()
    time_methods(Resized(pictures, (160, 120)), lambda: make("bgsub"), 1, WARM_UP, ())
    wait_for_kernels()
    click.echo(f"loading or compiling the kernels took {time.perf_counter() - begin:.1f} s; {cores()} cores")
    shapes = [(int(width), int(height)) for width, height in (size.split("x") for size in sizes.split(","))]
    points = against_resolution(pictures, shapes) + against_rank(pictures, numbers(ranks))
    points += against_streams(pictures, numbers(streams), seconds)
    with output.with_suffix(".csv").open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(Point._fields)
        table.writerows([f"{value:.4g}" if isinstance(value, float) else value for value in p] for p in points)
    for p in points:
        what = f"{p.width}x{p.height}, rank {p.rank}, {p.streams} streams ({p.kind}, {p.threads} each)"
        click.echo(f"{p.panel:10s} {p.method:6s} {what:55s} {p.milliseconds:8.2f} ms {p.fps:8.1f} frames/s")
    draw(points, output.with_suffix(".png"))
    click.echo(advice(points))


if __name__ == "__main__":
    main()
