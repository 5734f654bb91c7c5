"""Feed one stream for a long time, with hostile frames among the others, and report the state of its model.

    python scripts/soak.py --frames 100000
    python scripts/soak.py --frames 100000 --command-line

A made street is shown again and again. About every 200 frames something happens to it: noise, black, white, a
covered lens, one bright pixel, a frame that stands still, another scene. The Python interface is given frames
besides that it must refuse, of another size, type, or with NaN in it; the command line gets its frames by a pipe.
At the end the street is shown once more from its beginning, and a fresh model sees that as well. Reports go by
resident memory, orthonormality of the basis, time per frame; the exit code is 1 if memory grew, the basis came off,
a bad frame was taken, or F is less than the fresh model's.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

import av
import click
import numpy as np
import psutil

from bgsub import BackgroundSubtractor, synthetic
from bgsub.errors import ParameterError
from bgsub.evaluation.metrics import Confusion, confusion

SCORED = 100  # frame of the last round from which masks are scored
EVERY, LONGEST = 200, 40  # frames from one incident to the next; frames that one lasts
GROWTH, DRIFT, LOST = 64.0, 1e-4, 0.02  # MiB, largest entry of U U' - I, F
REPORTS = 10


class Street:
    """The repeated scene, its masks, and its incidents."""

    def __init__(self, size: tuple[int, int], length: int) -> None:
        self.frames, self.truth = (np.stack(part) for part in zip(*scene("street", size, length), strict=True))
        self._elsewhere = np.stack([frame for frame, _ in scene("lobby", size, LONGEST)])
        self._kinds = (np.zeros_like, white, covered, one_pixel, self._another_scene, noise, first)

    def stream(self, count: int, seed: int = 0) -> Iterator[np.ndarray]:
        """Yield `count` frames; the last ones show the street from its start."""
        rng, length = np.random.default_rng(seed), len(self.frames)
        hostile, begun = None, self.frames[0]
        left = 0
        for i in range(count - length):
            frame = self.frames[i % length]
            if i % EVERY == 0 and i:
                hostile, left = self._kinds[rng.integers(len(self._kinds))], int(rng.integers(1, LONGEST))
                begun = frame
            if left:
                left -= 1
                frame = hostile(begun if hostile is first else frame)
            yield frame
        yield from self.frames

    def _another_scene(self, frame: np.ndarray) -> np.ndarray:
        return self._elsewhere[int(frame[0, 0, 0]) % LONGEST]

    def f(self, masks: list[np.ndarray]) -> float:
        """Return F of the masks of the last round."""
        pairs = zip(masks[SCORED:], self.truth[SCORED:], strict=True)
        return sum((confusion(mask, truth) for mask, truth in pairs), Confusion()).f_measure


def scene(name: str, size: tuple[int, int], length: int) -> synthetic.Scene:
    return synthetic.scene(name, size=size, length=length)


def white(frame: np.ndarray) -> np.ndarray:
    return np.full_like(frame, 255)


def covered(frame: np.ndarray) -> np.ndarray:
    return frame // 32


def one_pixel(frame: np.ndarray) -> np.ndarray:
    spot = np.zeros_like(frame)
    spot[len(spot) // 2, 0] = 255
    return spot


def noise(frame: np.ndarray) -> np.ndarray:
    return np.random.default_rng(int(frame[0].sum())).integers(0, 256, frame.shape, np.uint8)


def first(frame: np.ndarray) -> np.ndarray:
    """Return the frame itself: the stream continues where the incident began."""
    return frame


class Watch:
    """Resident memory of a process and times of frames, printed at intervals."""

    def __init__(self, pid: int, count: int) -> None:
        self.memory: list[float] = []
        self._process, self._every = psutil.Process(pid), max(count // REPORTS, 1)
        self._times, self._seen = np.empty(self._every), 0

    def frame(self, seconds: float, orthonormality: Callable[[], float | None] = lambda: None) -> None:
        """Record one frame."""
        self._times[self._seen % self._every] = seconds
        self._seen += 1
        if self._seen % self._every == 0:
            self.memory.append(self._process.memory_info().rss / 2**20)
            newest, drift = 1e3 * self._times, orthonormality()
            words = f"{self._seen:9d} frames  {self.memory[-1]:6.1f} MiB  "
            words += f"{np.median(newest):6.2f} ms (99 %: {np.quantile(newest, 0.99):.2f}, most {newest.max():.1f})"
            click.echo(words if drift is None else f"{words}  |U U' - I| {drift:.1e}")

    @property
    def growth(self) -> float:
        """Growth of the memory after the first tenth, in MiB."""
        return self.memory[-1] - self.memory[0]


def drift_of(subtractor: BackgroundSubtractor) -> float:
    """Return the largest entry of ``U U' - I``."""
    U = subtractor.tracker.components_.astype(np.float64)
    return float(np.abs(U @ U.T - np.eye(len(U))).max())


def bad_frames(frame: np.ndarray) -> list[np.ndarray]:
    """Return frames that a stream like this one must refuse."""
    return [frame[:1, :1], frame[:, 1:], frame[..., 0], np.full(frame.shape, np.nan), frame.astype(complex), frame[:0]]


def refused(subtractor: BackgroundSubtractor, frame: np.ndarray) -> bool:
    try:
        subtractor.apply(frame)
    except ParameterError:
        return True
    return False


def by_python(street: Street, count: int) -> tuple[list[np.ndarray], Watch, float, int]:
    """Return the masks of the last round, the watch, the drift of the basis and how many bad frames were taken."""
    subtractor, watch, masks, taken = BackgroundSubtractor(), Watch(psutil.Process().pid, count), [], 0
    for i, frame in enumerate(street.stream(count)):
        if i % EVERY == EVERY // 2:
            taken += sum(not refused(subtractor, bad) for bad in bad_frames(frame))
        begin = time.perf_counter()
        mask = subtractor.apply(frame)
        watch.frame(time.perf_counter() - begin, lambda: drift_of(subtractor))
        if i >= count - len(street.frames):
            masks.append(mask)
    return masks, watch, drift_of(subtractor), taken


def by_command_line(street: Street, count: int, folder: Path) -> tuple[list[np.ndarray], Watch, float, int]:
    """Do as `by_python` by way of ``bgsub run``, frames and masks through pipes."""
    model, error = folder / "end.npz", folder / "error.txt"
    command = [sys.executable, "-m", "bgsub", "run", "-", "-q"]
    command += ["-o", "-", "--save", "mask", "--save-model", str(model)]
    with (
        error.open("w") as messages,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=messages) as program,
    ):
        watch, masks = Watch(program.pid, count), []
        threading.Thread(target=feed, args=(street.stream(count), program.stdin), daemon=True).start()
        with av.open(program.stdout) as video:
            begin = time.perf_counter()
            for i, frame in enumerate(video.decode(video=0)):
                watch.frame(time.perf_counter() - begin)
                if i >= count - len(street.frames):
                    masks.append(frame.to_ndarray())
                begin = time.perf_counter()
        if i < count - 1:
            raise SystemExit(f"the masks end at frame {i}: {error.read_text()}")
    if program.returncode:
        raise SystemExit(f"exit code {program.returncode}: {error.read_text()}")
    return masks, watch, drift_of(BackgroundSubtractor.load(model)), 0


def feed(frames: Iterator[np.ndarray], pipe: IO[bytes]) -> None:
    with pipe, av.open(pipe, "w", format="matroska") as video:
        stream = None
        for frame in frames:
            if stream is None:
                stream = video.add_stream("ffv1", rate=25)
                stream.height, stream.width, stream.pix_fmt = *frame.shape[:2], "bgr0"
            video.mux(stream.encode(av.VideoFrame.from_ndarray(frame, format="bgr24")))
        if stream is not None:
            video.mux(stream.encode())


@click.command(help=__doc__)
@click.option("--frames", default=100_000, show_default=True, type=click.IntRange(1))
@click.option("--size", default="160x120", show_default=True, metavar="WxH")
@click.option("--round", "length", default=400, show_default=True, type=click.IntRange(2 * SCORED))
@click.option("--command-line", is_flag=True, help="Feed bgsub run by a pipe instead of the Python interface.")
def main(frames: int, size: str, length: int, command_line: bool) -> None:
    width, height = (int(number) for number in size.split("x"))
    street = Street((width, height), length)
    count = max(frames, 2 * length)
    with tempfile.TemporaryDirectory() as folder:
        by = by_command_line(street, count, Path(folder)) if command_line else by_python(street, count)
    masks, watch, drift, taken = by
    fresh = BackgroundSubtractor()
    f, alone = street.f(masks), street.f([fresh.apply(frame) for frame in street.frames])
    click.echo(f"memory: {watch.memory[0]:.1f} MiB after the first tenth, {watch.growth:+.1f} MiB since")
    click.echo(f"basis: |U U' - I| {drift:.1e}; bad frames taken: {taken}")
    click.echo(f"F of the last {length} frames: {f:.4f}; of a fresh model: {alone:.4f}")
    sys.exit(0 if watch.growth < GROWTH and drift < DRIFT and not taken and f > alone - LOST else 1)


if __name__ == "__main__":
    main()
