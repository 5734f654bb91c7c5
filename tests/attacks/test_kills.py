"""SIGKILL at any time of a process, again and again, until the same command comes to its end."""

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

COMMANDS = {
    "run": ("run", "-o", "{out}", "--save", "mask", "--save", "mask.npz", "--event-formats", "csv", "--resume"),
    "batch": ("batch", "-o", "{out}", "--save", "mask.npz", "--save", "mask.png", "--workers", "1"),
}
EARLIEST, LATEST = 0.8, 4.0  # seconds after the start, most of which a process needs to be there


def start(folder, kind, out):
    words = [word.replace("{out}", str(out)) for word in COMMANDS[kind]]
    source = folder / "in" if kind == "run" else folder / "in*"
    words += ["--start-frames", "20", "--quiet", *(["--checkpoint-seconds", "0.2"] if kind == "run" else [])]
    command = [sys.executable, "-m", "bgsub", words[0], str(source), *words[1:]]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def outputs(folder):
    own = (".resume", ".lock", "manifest", "result.json")  # with times of the day, or of a dead process
    return {name: data for name, data in content(folder).items() if not any(word in name for word in own)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("inputs")
    frames = np.stack([frame for frame, _ in scene("lobby", size=(96, 64), length=400, seed=2)])
    for name, part in {"in": frames, "in2": frames[:40]}.items():
        write_images(folder / name, part)
    return folder


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="there is no SIGKILL here")
@pytest.mark.parametrize("kind", COMMANDS)
def test_a_process_that_is_killed_goes_on(folder, tmp_path, tries, score, kind):
    count = tries(1 if kind == "run" else 0, 25)
    if not count:
        pytest.skip("with --long")
    assert start(folder, kind, tmp_path / "whole").wait(300) == 0
    survived, whole = 0, outputs(tmp_path / "whole")
    for seed in range(count):
        chance, out = random.Random(seed), tmp_path / str(seed)
        for _ in range(chance.randint(1, 3)):
            process = start(folder, kind, out)
            try:
                process.wait(chance.uniform(EARLIEST, LATEST))
            except subprocess.TimeoutExpired:
                os.kill(process.pid, signal.SIGKILL)
            process.communicate(timeout=60)
            time.sleep(0.2)  # the processes of a batch see that it is gone
        process = start(folder, kind, out)
        error = process.communicate(timeout=300)[1]
        survived += process.returncode == 0 and outputs(out) == whole and "Traceback" not in error
    score(f"SIGKILL at any time of bgsub {kind}", count, survived)
