"""Watch a loopback camera that is disconnected repeatedly, and print the age of its pictures.

    python scripts/live_endurance.py --seconds 600 --cut-every 20

With --outputs, a page, clips, snapshots, event files and a hook command run as well, and things move twice a second.
Ten hours in fast motion, which take about half an hour:

    python scripts/live_endurance.py --outputs FOLDER --seconds 1800 --cut-every 0.3 --fps 50 --size 160x120 --fast

The camera, a process of its own, writes number and time into each picture; its age is taken when the masks are
there. The exit code is 1 if pictures got old, memory grew, or the stream did not come back each time.
"""

from __future__ import annotations

import ctypes
import gc
import itertools
import logging
import multiprocessing
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from functools import partial
from pathlib import Path
from urllib.request import urlopen

import click
import numpy as np
from serve_camera import LoopbackCamera, age, read_stamp

from bgsub.jobs import Job
from bgsub.jobs.controls import Controls
from bgsub.jobs.run import execute
from bgsub.live import LiveSession
from bgsub.video.sources import camera as cameras
from bgsub.video.sources.base import Frame, FrameSource

OLD = 500  # ms, reached by one picture in a hundred
GROWTH = 16  # MiB from the second tenth of the time to the last, in medians, as single readings vary by 6
STAMP = "0,0,100%,8"  # the region of the stamp
FAST_WAIT = 0.05  # seconds before a camera is tried again
FAST_MOTION = {"min_duration": 0.0, "max_gap": 0.0}
FAST_CLIPS = {"pre_roll": 0.0, "post_roll": 0.0}
REPORTS = 50


class Watch:
    """Records the age of each picture, and memory, until the time is over."""

    def __init__(self, seconds: float, controls: Controls) -> None:
        self.ages: list[float] = []
        self.unread = 0
        self.memory: list[list[float]] = [[] for _ in range(10)]  # of each tenth of the time, 20 readings
        self._controls, self._seconds = controls, seconds
        self._warm_up = max(seconds / 10, min(10.0, seconds / 4))
        self._start = self._reported = self._read = 0.0

    def __call__(self, source: FrameSource) -> nullcontext:
        """Follow a source."""
        self.source = source
        return nullcontext(self._see)

    def _see(self, frame: Frame, _separation: object) -> None:
        now = time.monotonic()
        self._start = self._start or now
        passed = now - self._start
        if passed - self._reported > self._seconds / REPORTS:
            self._reported = passed
            print(f"{passed:6.0f} s, {self.source.reconnections} reconnections, {facts()}", flush=True)
        if passed - self._read > self._seconds / 200:
            self._read = passed
            self.memory[min(int(10 * passed / self._seconds), 9)].append(memory())
        if passed > self._warm_up:  # after compiling, and filling the model
            stamp = read_stamp(frame.image)
            if stamp is None:
                self.unread += 1
            else:
                self.ages.append(age(stamp[1]))
        if passed > self._seconds:
            self._controls.quit()


def memory() -> float:
    """Return the resident memory of this process in MiB."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE") / 2**20


class _Allocated(ctypes.Structure):
    _names = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"
    _fields_ = [(name, ctypes.c_size_t) for name in _names.split()]


def facts() -> str:
    """Return memory, what of it is in use (malloc, mmap) and free, objects, threads and descriptors."""
    mallinfo = ctypes.CDLL(None).mallinfo2
    mallinfo.restype = _Allocated
    heap = mallinfo()
    used, mapped, free = (value / 2**20 for value in (heap.uordblks, heap.hblkhd, heap.fordblks))
    files = len(os.listdir("/proc/self/fd"))
    objects = f"{len(gc.get_objects())} objects, {threading.active_count()} threads, {files} files"
    return f"{memory():.1f} MiB (malloc {used:.1f}, mmap {mapped:.1f}, free {free:.1f}), {objects}"


def moving(size: tuple[int, int]) -> Iterator[np.ndarray]:
    """Yield a still picture in which a box appears at random places for two of seven frames."""
    rng = np.random.default_rng(0)
    still = rng.integers(60, 120, (*size[::-1], 3), np.uint8)
    side = size[1] // 4
    for number in itertools.count():
        if number % 7 == 0:
            x, y = (int(rng.integers(8, length - side)) for length in size)
            colour = rng.integers(170, 255, 3)
        picture = still.copy()
        if number > 500 and number % 7 < 2:
            picture[y : y + side, x + number % 7 : x + number % 7 + side] = colour
        yield picture


def serve(pipe, cut_every: float, fps: float, size: tuple[int, int], is_moving: bool) -> None:
    """Serve the camera, in a process of its own."""
    pictures = moving(size) if is_moving else "lobby"
    with suppress(KeyboardInterrupt), LoopbackCamera(pictures, fps, size=size, stamped=True) as camera:
        pipe.send(camera.address)
        while True:
            time.sleep(cut_every)
            camera.cut()


def browse(address: str) -> None:
    """Show the stream of the page, and the pictures and clips of its events."""

    def read(name: str) -> None:
        with suppress(OSError), urlopen(address + name) as answer:
            while answer.read1():
                pass

    threading.Thread(target=read, args=("stream?view=panel",), daemon=True).start()
    for number in itertools.count():
        time.sleep(0.5)
        for name in ("statistics", f"event.jpg?number={number}", f"clip?number={number}"):
            read(name)


@click.command(help=__doc__)
@click.option("--seconds", type=float, default=600.0, show_default=True)
@click.option("--cut-every", type=float, default=20.0, show_default=True, metavar="SECONDS")
@click.option("--fps", type=float, default=25.0, show_default=True)
@click.option("--size", default="320x240", show_default=True, metavar="WxH")
@click.option("--outputs", type=Path, help="Folder for clips, snapshots and event files.")
@click.option("--fast", is_flag=True, help="Shorten the waits for the camera, events and clips.")
def main(seconds: float, cut_every: float, fps: float, size: str, outputs: Path | None, fast: bool) -> None:
    logging.basicConfig(format="%(asctime)s %(message)s", level=logging.WARNING)
    logging.getLogger("bgsub").setLevel(logging.ERROR)
    width, height = map(int, size.split("x"))
    here, there = multiprocessing.get_context("spawn").Pipe()
    options = (there, cut_every, fps, (width, height), outputs is not None)
    camera = multiprocessing.get_context("spawn").Process(target=serve, args=options, daemon=True)
    camera.start()
    try:
        good = watch(here.recv(), seconds, cut_every, outputs, fast)
    finally:
        camera.terminate()
    sys.exit(0 if good else 1)


def watch(address: str, seconds: float, cut_every: float, outputs: Path | None, fast: bool) -> bool:
    made = {}
    if outputs is not None:
        formats = ("csv", "jsonl", "html", "pictures")
        made = {"record": outputs / "clips", "snapshots": outputs / "pictures", "event_formats": formats}
        made |= {"on_event": "true {event} {type} {clip}", "overwrite": True}
    if fast:
        cameras.FIRST_WAIT = FAST_WAIT
        made |= {"motion": FAST_MOTION, "recording": FAST_CLIPS}
    job = Job(address, outputs or ".", save=(), ignore=STAMP, **made)
    page = None if outputs is None else {"port": 0}
    with LiveSession([job], window=False, page=page) as session:
        (controls,) = session.controls.values()
        watcher = Watch(seconds, controls)
        session._runner = partial(execute, watch=watcher)
        if session.server is not None:
            threading.Thread(target=browse, args=(session.server.address,), daemon=True).start()
        (outcome,) = session.run()
    summary = outcome.result.summary
    tenths = [float(np.median(readings)) for readings in watcher.memory]
    ages, growth = np.array(watcher.ages), tenths[-1] - tenths[1]
    median, late, latest = 1e3 * np.quantile(ages, [0.5, 0.99, 1.0])
    cuts, reconnections = int(summary.seconds / cut_every), watcher.source.reconnections
    print(f"{summary.seconds:.0f} s, {summary.frames} frames, {summary.frames_per_second:.1f} frames/s")
    print(f"latency: median {median:.0f} ms, 99 % {late:.0f} ms, largest {latest:.0f} ms over {len(ages)} frames")
    print(f"dropped: {summary.dropped}; cuts: about {cuts}; reconnections: {reconnections}")
    print(f"clips: {outcome.result.clips}; notifications: {outcome.result.notifications}")
    print(f"memory in MiB, medians of tenths of the time: {' '.join(f'{tenth:.0f}' for tenth in tenths)}")
    print(f"unreadable stamps: {watcher.unread}")
    return late < OLD and growth < GROWTH and reconnections >= cuts - 1 and not watcher.unread


if __name__ == "__main__":
    main()
