"""Milliseconds per frame, side by side with OpenCV's subtractors on the same frames."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from bgsub import synthetic
from bgsub._opencv import cv2
from bgsub.errors import SourceError
from bgsub.evaluation.methods import Method, make_method
from bgsub.numerics.compilation import working_time
from bgsub.video.sources.opening import open_source
from bgsub.video.timecode import Timecode

_SCENE_SIZE = (320, 240)
_STRETCH = 20  # frames of a turn: shared machines vary in speed, and each method evicts the other from the caches


@dataclass(frozen=True)
class Timing:
    """Times of one method."""

    method: str
    milliseconds: np.ndarray  # (n,): time of every frame after the warm-up
    first: float  # milliseconds of the first frame, with loading of compiled kernels, without compilation
    longest: float  # milliseconds of the slowest frame after the first

    @property
    def median(self) -> float:
        """Median over the frames after the warm-up, in milliseconds."""
        return float(np.median(self.milliseconds))

    @property
    def p99(self) -> float:
        """99th percentile over the frames after the warm-up, in milliseconds."""
        return float(np.percentile(self.milliseconds, 99))


def load_frames(source: str | None, duration: Timecode | int) -> list[np.ndarray]:
    """Return the first frames of a source, or of a synthetic street scene."""
    if source is None:
        length = Timecode.parse(duration).in_frames(synthetic.Scene.fps) or 1
        return [frame for frame, _ in synthetic.scene("street", size=_SCENE_SIZE, length=length)]
    with open_source(source, duration=duration) as opened:
        frames = [frame.image for frame in opened]
    if len(frames) < 2:
        raise SourceError(f"{source} must have at least 2 frames to be timed, got {len(frames)}")
    return frames


def time_methods(
    frames: Sequence[np.ndarray],
    make_ours: Callable[[], Method],
    threads: int | None = None,
    warm_up: int = 60,
    peers: tuple[str, ...] = ("mog2", "knn"),
    others: Mapping[str, Callable[[], Method]] | None = None,
) -> list[Timing]:
    """Time bgsub, its `peers` (names for `make_method`) and `others` on the same frames, without `warm_up` frames."""
    before = cv2.getNumThreads()
    if threads is not None:
        cv2.setNumThreads(threads)
    begin = working_time()
    methods: dict[str, Method] = {"bgsub": make_ours()}
    construction = working_time() - begin
    methods |= {name: make_method(name) for name in peers}
    methods |= {name: make() for name, make in (others or {}).items()}
    seconds = {name: np.empty(len(frames)) for name in methods}
    for first in range(0, len(frames), _STRETCH):
        for name, method in methods.items():
            for i in range(first, min(first + _STRETCH, len(frames))):
                frame = frames[i]
                begin = working_time()
                method.apply(frame)
                seconds[name][i] = working_time() - begin
    cv2.setNumThreads(before)
    seconds["bgsub"][0] += construction
    start = warm_up if len(frames) > warm_up else len(frames) // 2
    return [
        Timing(name, 1e3 * taken[start:], 1e3 * float(taken[0]), 1e3 * float(taken[1:].max(initial=0.0)))
        for name, taken in seconds.items()
    ]


def format_speed(timings: list[Timing]) -> str:
    """Return a text table of the timings."""
    mog2 = next(timing.median for timing in timings if timing.method == "mog2")
    heads = ("ms/frame", "p99 ms", "frames/s", "to MOG2", "first ms", "longest ms")
    lines = ["{:8s} {:>9s} {:>8s} {:>9s} {:>8s} {:>9s} {:>11s}".format("method", *heads)]
    lines += [
        f"{t.method:8s} {t.median:9.2f} {t.p99:8.2f} {1e3 / t.median:9.0f} {t.median / mog2:8.2f} "
        f"{t.first:9.1f} {t.longest:11.1f}"
        for t in timings
    ]
    return "\n".join(lines)
