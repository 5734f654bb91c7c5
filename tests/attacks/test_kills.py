"""SIGKILL of a batch at any time, until the same command finishes."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from video_fakes import content, write_images

from bgsub.synthetic import scene

EARLIEST, LATEST = 0.8, 4.0  # seconds after the start, most of which a process needs to start


def start(folder, out):
    words = ["-o", out, "--save", "mask.npz", "--save", "mask.png", "--workers", "1", "--start-frames", "20", "--quiet"]
    command = [sys.executable, "-m", "bgsub", "batch", folder / "in*", *words]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def outputs(folder):
    own = (".resume", ".lock", "manifest", "result.json")  # with times of the day
    return {name: data for name, data in content(folder).items() if not any(word in name for word in own)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("inputs")
    frames = np.stack([frame for frame, _ in scene("lobby", size=(96, 64), length=400, seed=2)])
    for name, part in {"in": frames, "in2": frames[:40]}.items():
        write_images(folder / name, part)
    return folder


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="there is no SIGKILL here")
def test_killed_batch_continues(folder, tmp_path, tries, score):
    assert start(folder, tmp_path / "whole").wait(300) == 0
    survived, whole, count = 0, outputs(tmp_path / "whole"), tries(1, 25)
    for seed in range(count):
        chance, out = random.Random(seed), tmp_path / str(seed)
        for _ in range(chance.randint(1, 3)):
            process = start(folder, out)
            try:
                process.wait(chance.uniform(EARLIEST, LATEST))
            except subprocess.TimeoutExpired:
                os.kill(process.pid, signal.SIGKILL)
            process.communicate(timeout=60)
            time.sleep(0.2)  # the worker processes notice that it is gone
        process = start(folder, out)
        error = process.communicate(timeout=300)[1]
        survived += process.returncode == 0 and outputs(out) == whole and "Traceback" not in error
    score("SIGKILL at any time of bgsub batch", count, survived)
