"""Rare kernels loaded beside the stream: what the rehearsal shows, and that it happens once and harms nothing."""

import subprocess
import sys
import threading

import numpy as np
import pytest
from numba import config

from bgsub import BackgroundSubtractor
from bgsub.scene import kernel_warmup


@pytest.mark.large
@pytest.mark.parametrize("channels", [1, 3])
def test_the_rehearsal_shows_movement_objects_and_light(channels):
    subtractor = BackgroundSubtractor(rank=2, start_frames=8, fps=5, absorb_after=1, threads=1)
    seen, moved = [], []
    for frame in kernel_warmup.scene(channels):
        seen.append(subtractor.process(frame))
        moved.append(subtractor._view.movement is not None)
    assert sum(moved[14:20]) >= 2
    assert max(result.share for result in seen[22:28]) > 0.1  # the object ...
    assert min(result.share for result in seen[29:36]) < 0.02  # ... absorbed after a second
    assert "light-change" in {result.event for result in seen[40:]}


@pytest.mark.skipif(config.DISABLE_JIT, reason="there is nothing to load")
def test_the_rehearsal_calls_every_kernel_of_the_scene():
    program = """
import importlib
from pathlib import Path

from numba.core.dispatcher import Dispatcher

import bgsub.scene
from bgsub.scene import kernel_warmup
from bgsub.subtractor import _rehearsal

take = _rehearsal()
for frame in kernel_warmup.scene(3):
    take(frame)
for path in sorted(Path(bgsub.scene.__path__[0]).glob("_*_kernels.py")):
    module = importlib.import_module("bgsub.scene." + path.stem)
    for name, value in vars(module).items():
        own = isinstance(value, Dispatcher) and value.__module__ == module.__name__
        if own and value.targetoptions["inline"] != "always" and not value.signatures:
            print(name)
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    # what a reduced frame needs is needed in its first frame
    assert (ended.returncode, ended.stdout.split(), ended.stderr) == (0, ["enlarge"], "")


@pytest.mark.skipif(config.DISABLE_JIT, reason="there is nothing to load")
def test_every_kind_of_frame_is_rehearsed_once(monkeypatch):
    monkeypatch.setattr(kernel_warmup, "_loaded", set())
    played = []

    def process():
        played.append(threading.current_thread().name)
        return lambda frame: None

    for channels in (1, 3, 1):
        kernel_warmup.load_in_background("uint8", channels, process)
        for thread in threading.enumerate():
            if thread.name == "kernel-loader":
                thread.join()
    assert played == ["kernel-loader"] * 2


@pytest.mark.skipif(config.DISABLE_JIT, reason="there is nothing to load")
def test_a_rehearsal_that_fails_disturbs_nobody(monkeypatch, caplog):
    monkeypatch.setattr(kernel_warmup, "_loaded", set())
    caplog.set_level("DEBUG", "bgsub")

    def process():
        raise MemoryError("no room")

    kernel_warmup.load_in_background("float32", 3, process)
    for thread in threading.enumerate():
        if thread.name == "kernel-loader":
            thread.join()
    assert "loading kernels failed" in caplog.text
    assert BackgroundSubtractor().apply(np.zeros((8, 8, 3), np.float32)).shape == (8, 8)


@pytest.mark.skipif(config.DISABLE_JIT, reason="there is nothing to load")
def test_the_end_of_the_process_waits_for_the_frame_that_is_rehearsed():
    program = """
import threading, time
from bgsub.scene import kernel_warmup

begun = threading.Event()

def take(frame):
    begun.set()
    time.sleep(0.3)
    print("whole", flush=True)

kernel_warmup.load_in_background("uint8", 3, lambda: take)
begun.wait()
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "whole\n", "")
