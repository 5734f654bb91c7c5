"""The memory of a stream: the estimate against the peak of a process, and the refusal."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from bgsub import BackgroundSubtractor
from bgsub.errors import ParameterError
from bgsub.parameters import SubtractorParameters
from bgsub.scene.frame_format import FrameFormat, stream_memory

_PEAK = """
import itertools, json, sys
import numpy as np
from bgsub import BackgroundSubtractor
size, channels, dtype, top, parameters = json.loads(sys.argv[1])
rng = np.random.default_rng(0)
def frames(height, width):
    shape = (height, width, channels)[: 2 + (channels > 1)]
    return [((0.4 + 0.05 * rng.random(shape)) * top).astype(dtype) for _ in range(2)]
def separate(pictures):
    subtractor, left = BackgroundSubtractor(**parameters), 3
    for picture in itertools.cycle(pictures):
        result = subtractor.process(picture)
        result.background, result.residual, result.probability
        left -= subtractor.phase == "tracking"  # the batch start is spread over frames
        if not left:
            return
def of(name):
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith(name)) * 1024
separate(frames(48, 64))  # load kernels
pictures = frames(*size)
before = of("VmRSS")
open("/proc/self/clear_refs", "w").write("5")
separate(pictures)
print(of("VmHWM") - before)
"""


@pytest.mark.slow
@pytest.mark.large
@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="only Linux resets the peak of a process")
@pytest.mark.parametrize(
    ("channels", "dtype", "parameters"),
    [
        (3, "uint8", {}),
        (3, "uint16", {"rank": 6}),
        (1, "uint8", {"start_frames": 40}),
        (3, "uint8", {"scale": 0.5}),
        (3, "uint8", {"scale": "auto"}),
        (1, "uint8", {"scale": "auto"}),
        (3, "uint16", {"scale": "auto"}),
        (3, "float32", {"scale": "auto"}),
    ],
)
def test_estimate_is_a_close_upper_bound_of_the_peak(channels, dtype, parameters):
    height, width = (1440, 1920) if "scale" in parameters else (720, 1280)
    parameters = {"start_frames": 12, "threads": 1, "scale": 1, "light": False, **parameters}
    top = {"uint8": 255, "uint16": 65535, "float32": 1}[dtype]
    given = json.dumps([[height, width], channels, dtype, top, parameters])
    told = subprocess.run([sys.executable, "-c", _PEAK, given], capture_output=True, text=True, check=True, timeout=300)
    frames = FrameFormat.of(np.empty((height, width, channels)[: 2 + (channels > 1)], dtype))
    needed = stream_memory(frames, SubtractorParameters(**parameters))
    assert 0.75 * needed < int(told.stdout) <= needed


@pytest.mark.parametrize(
    ("scale", "available", "remedy"),
    [(1, 10**8, "--scale 0.55"), (1, 10**4, "smaller frames"), ("auto", 3 * 10**7, "--scale 0.1")],
)
def test_stream_without_memory_is_refused(monkeypatch, scale, available, remedy):
    monkeypatch.setattr("bgsub.numerics.memory.available_memory", lambda: available)
    subtractor, frame = BackgroundSubtractor(scale=scale), np.zeros((600, 800, 3), np.uint8)
    with pytest.raises(
        ParameterError,
        match=f"800x600 frames needs about {212 if scale == 1 else 50} MB .*reduce memory with {remedy}$",
    ):
        subtractor.apply(frame)
    assert subtractor.empty()
