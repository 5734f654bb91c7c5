"""Milliseconds per frame, side by side with OpenCV's subtractors on the same frames."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from bgsub.errors import SourceError
from bgsub.evaluation.methods import Method, make_method

_SCENE_SIZE = (320, 240)


@dataclass(frozen=True)
class Timing:
    """How long one method took.

    Attributes
    ----------
    method : str
        Its name.
    milliseconds : ndarray, (n,)
        Time of every frame after the warm-up.
    first : float
        Time of the very first frame in milliseconds, compilation or loading of compiled kernels included.
    longest : float
        Longest single frame of the whole run in milliseconds: the batch start, where a method has one.
    """

    method: str
    milliseconds: np.ndarray
    first: float
    longest: float

    @property
    def median(self) -> float:
        """Median over the frames after the warm-up, in milliseconds."""
        return float(np.median(self.milliseconds))

    @property
    def p99(self) -> float:
        """99th percentile over the frames after the warm-up, in milliseconds."""
        return float(np.percentile(self.milliseconds, 99))


def load_frames(source: str | None, count: int) -> list[np.ndarray]:
    """Return up to `count` frames of a source as `bgsub.open_source` takes it, or of a made street scene.

    Raises
    ------
    SourceError
        When the source cannot be opened or has no frames.
    """
    if source is None:
        from bgsub import synthetic  # noqa: PLC0415

        return [frame for frame, _ in synthetic.scene("street", size=_SCENE_SIZE, length=count)]
    from bgsub.video import open_source  # noqa: PLC0415 - it brings OpenCV along

    frames: list[np.ndarray] = []
    with open_source(source) as opened:
        for frame in opened:
            frames.append(frame.image)
            if len(frames) == count:
                break
    if not frames:
        raise SourceError(f"{source} holds no frames to time")
    return frames


def time_methods(
    frames: list[np.ndarray], make_ours: Callable[[], Method], threads: int | None = None, warm_up: int = 60
) -> list[Timing]:
    """Time ours, MOG2 and KNN on the same frames, taking turns on every frame.

    Parameters
    ----------
    frames : list of ndarray
        The frames; with fewer than `warm_up` + 1, half of them warm up.
    make_ours : callable
        Makes this package's subtractor; the first call's time counts as part of its first frame.
    threads : int, optional
        Threads for OpenCV.
    warm_up : int, default 60
        Frames that are not counted: start phases and caches.

    Returns
    -------
    list of Timing
        For "bgsub", "mog2" and "knn".
    """
    from bgsub._opencv import cv2  # noqa: PLC0415

    if threads is not None:
        cv2.setNumThreads(threads)
    begin = time.perf_counter()
    methods: dict[str, Method] = {"bgsub": make_ours()}
    construction = time.perf_counter() - begin
    methods |= {name: make_method(name) for name in ("mog2", "knn")}
    seconds = {name: np.empty(len(frames)) for name in methods}
    for i, frame in enumerate(frames):
        for name, method in methods.items():
            begin = time.perf_counter()
            method.apply(frame)
            seconds[name][i] = time.perf_counter() - begin
    seconds["bgsub"][0] += construction
    start = min(warm_up, len(frames) // 2)
    return [
        Timing(name, 1e3 * taken[start:], 1e3 * float(taken[0]), 1e3 * float(taken[1:].max(initial=0.0)))
        for name, taken in seconds.items()
    ]


def format_speed(timings: list[Timing]) -> str:
    """Return a text table: median, 99th percentile, frames per second, ratio to MOG2, first and longest frame."""
    mog2 = next(timing.median for timing in timings if timing.method == "mog2")
    heads = ("ms/frame", "p99 ms", "frames/s", "to MOG2", "first ms", "longest ms")
    lines = ["{:8s} {:>9s} {:>8s} {:>9s} {:>8s} {:>9s} {:>11s}".format("method", *heads)]
    lines += [
        f"{t.method:8s} {t.median:9.2f} {t.p99:8.2f} {1e3 / t.median:9.0f} {t.median / mog2:8.2f} "
        f"{t.first:9.1f} {t.longest:11.1f}"
        for t in timings
    ]
    return "\n".join(lines)
