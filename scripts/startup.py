"""Time to the first mask, cold and with cached kernels, and peak memory, each in a process of its own.

Usage: python scripts/startup.py [--width 320 --height 240 --frames 100]
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile

import click

CHILD = """
import resource, sys, threading, time
begin = time.perf_counter()
import numpy as np
import bgsub
width, height, n = map(int, sys.argv[1:])
subtractor = bgsub.BackgroundSubtractor()
rng = np.random.default_rng(0)
picture = rng.integers(40, 200, (height, width, 3), dtype=np.uint8)
times = []
for i in range(n):
    frame = picture + rng.integers(0, 4, picture.shape, dtype=np.uint8)
    start = time.perf_counter()
    subtractor.apply(frame)
    times.append(time.perf_counter() - start)
    if i == 0:
        print(f"import and first mask {time.perf_counter() - begin:6.2f} s", end="")
for thread in threading.enumerate():  # rare kernels are compiled beside the stream
    if thread.name == "kernel-loader":
        thread.join()
start = subtractor.get_params()["start_frames"] - 1
print(f"; second mask {times[1]:6.2f} s; frame with the batch start {times[start]:6.2f} s; "
      f"first tracked {times[start + 1]:6.2f} s; "
      f"median {1e3 * sorted(times)[n // 2]:.2f} ms; "
      f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB")
"""


@click.command()
@click.option("--width", default=320, show_default=True)
@click.option("--height", default=240, show_default=True)
@click.option("--frames", default=100, show_default=True)
def main(width: int, height: int, frames: int) -> None:
    """Run the same child twice with an empty, then with a filled cache of compiled kernels."""
    with tempfile.TemporaryDirectory() as cache:
        environment = os.environ | {"NUMBA_CACHE_DIR": cache}
        for title in ("cold", "cached"):
            arguments = [sys.executable, "-c", CHILD, str(width), str(height), str(frames)]
            answer = subprocess.run(arguments, env=environment, check=True, capture_output=True, text=True)
            click.echo(f"{title:7s}{answer.stdout.strip()}")


if __name__ == "__main__":
    main()
