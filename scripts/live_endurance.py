"""Watch a loopback camera that is disconnected repeatedly, and print the age of its pictures.

    python scripts/live_endurance.py --seconds 600 --cut-every 20

The camera, a process of its own, writes number and time into each picture; its age is taken when the masks are
there. The exit code is 1 if pictures got old, memory grew, or the stream did not come back each time.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import time
from pathlib import Path

import click
import numpy as np
from serve_camera import age, read_stamp

from bgsub import BackgroundSubtractor
from bgsub.jobs.controls import Controls
from bgsub.jobs.pipeline import Pipeline
from bgsub.video import CameraSource

SERVE = Path(__file__).with_name("serve_camera.py")
OLD = 500  # ms, reached by one picture in a hundred
GROWTH = 64  # MiB


class Watch:
    """Records the age of each picture, and memory, until the time is over."""

    def __init__(self, seconds: float, controls: Controls, warm_up: float) -> None:
        self.ages: list[float] = []
        self.unread = 0
        self.first_memory = 0.0
        self._controls, self._seconds, self._warm_up = controls, seconds, warm_up
        self._start = 0.0

    def __call__(self, frame, _separation) -> None:
        """Record one frame."""
        now = time.monotonic()
        self._start = self._start or now
        if now - self._start < self._warm_up:  # compiling, and filling the model
            return
        self.first_memory = self.first_memory or memory()
        stamp = read_stamp(frame.image)
        if stamp is None:
            self.unread += 1
        else:
            self.ages.append(age(stamp[1]))
        if now - self._start > self._seconds:
            self._controls.quit()


def memory() -> float:
    """Return the resident memory of this process in MiB."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE") / 2**20


@click.command(help=__doc__)
@click.option("--seconds", type=float, default=600.0, show_default=True)
@click.option("--cut-every", type=float, default=20.0, show_default=True, metavar="SECONDS")
@click.option("--fps", type=float, default=25.0, show_default=True)
@click.option("--size", default="320x240", show_default=True, metavar="WxH")
def main(seconds: float, cut_every: float, fps: float, size: str) -> None:
    logging.basicConfig(format="%(asctime)s %(message)s", level=logging.WARNING)
    command = [sys.executable, "-u", str(SERVE), "--stamp", "--scene", "lobby", "--size", *size.split("x")]
    command += ["--fps", str(fps), "--cut-every", str(cut_every)]
    with subprocess.Popen(command, text=True, stdout=subprocess.PIPE) as camera:
        try:
            address = camera.stdout.readline().split(" at ")[1].split()[0]
            good = watch(address, seconds, cut_every, fps)
        finally:
            camera.terminate()
    sys.exit(0 if good else 1)


def watch(address: str, seconds: float, cut_every: float, fps: float) -> bool:
    controls = Controls()
    source = CameraSource(address)
    watcher = Watch(seconds, controls, min(10.0, seconds / 4))
    summary = Pipeline(source, BackgroundSubtractor(fps=fps), progress=watcher, controls=controls).run()
    ages, growth = np.array(watcher.ages), memory() - watcher.first_memory
    median, late, latest = 1e3 * np.quantile(ages, [0.5, 0.99, 1.0])
    cuts = int(summary.seconds / cut_every)
    print(f"{summary.seconds:.0f} s, {summary.frames} frames, {summary.frames_per_second:.1f} frames/s")
    print(f"latency: median {median:.0f} ms, 99 % {late:.0f} ms, largest {latest:.0f} ms over {len(ages)} frames")
    print(f"dropped: {summary.dropped}; cuts: about {cuts}; reconnections: {source.reconnections}")
    print(f"memory: {watcher.first_memory:.0f} MiB after the start, {growth:+.0f} MiB since")
    print(f"unreadable stamps: {watcher.unread}")
    return late < OLD and growth < GROWTH and source.reconnections >= cuts - 1 and not watcher.unread


if __name__ == "__main__":
    main()
