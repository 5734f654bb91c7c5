"""A process with a table of three small kernels, which counts the processes that it starts."""

BEGIN = """
import os, subprocess, sys, threading
from bgsub.scene import _segment_kernels, kernel_table, kernel_warmup
from bgsub.scene.kernel_table import FIRST_FRAME, TRACKING, Frames
import numpy as np

ROWS = [["scene._segment_kernels.paint: u1_1, i8, u1_1, u1_1"], ["scene._frame_kernels.sum_windows: u2_1, i8, u2_1"],
        ["tracking._step_kernels.compose: f8_2, f8_2, f8_1, f8_1, f8_1"]]
kernel_warmup.stages = lambda frames: ROWS
FRAMES = Frames("uint8", 3, 3)
started = []

class Counted(subprocess.Popen):
    def __init__(self, *arguments, **named):
        super().__init__(*arguments, **named)
        started.append(self.pid)

kernel_warmup.subprocess.Popen = Counted

def say(*words):
    print(*words, flush=True)

def lock():
    return kernel_warmup._stamp(FRAMES).with_name("bgsub-kernels.lock")

def works():
    flat = np.zeros(4, np.uint8)
    _segment_kernels.paint(np.ones(4, np.uint8), 7, flat, np.ones(1, np.uint8))
    return flat.tolist() == [7] * 4

def tell():
    stats = _segment_kernels.paint.stats
    stamp = kernel_warmup._stamp(FRAMES)
    say(len(started), sum(stats.cache_misses.values()), stamp is not None and stamp.exists(), works())
"""
WHOLE = BEGIN + "warmup = kernel_warmup.prepare(FRAMES)\nwarmup.wait(TRACKING)\nwarmup.load()\nwarmup.join()\ntell()\n"
