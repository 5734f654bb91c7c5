"""Available memory, lazy arrays, and the memory of a stream: the estimate against the peak of a process."""

import json
import resource
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from bgsub import BackgroundSubtractor
from bgsub._opencv import cv2
from bgsub.errors import ParameterError
from bgsub.numerics import memory
from bgsub.numerics.arrays import lazy_zeros
from bgsub.numerics.memory import available_memory, check_memory, in_words, is_lack_of_memory
from bgsub.parameters import SubtractorParameters
from bgsub.scene.frame_format import FrameFormat, stream_memory
from bgsub.scene.segmentation import SampleMemory


@pytest.fixture
def system(tmp_path, monkeypatch):
    """Return a function that writes the limit of a control group, version 1 or 2, of this process."""
    monkeypatch.setattr(memory, "_CGROUP", tmp_path / "groups")
    monkeypatch.setattr(memory, "_PROCESS", tmp_path)
    (tmp_path / "statm").write_text("0 0 0")

    def write(version, path, limit, used, cached=0):
        folder = tmp_path / "groups" / ("memory" if version == 1 else "") / path
        names = ("limit_in_bytes", "usage_in_bytes", "total_") if version == 1 else ("max", "current", "")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"memory.{names[0]}").write_text(f"{limit}\n")
        (folder / f"memory.{names[1]}").write_text(f"{used}\n")
        (folder / "memory.stat").write_text(f"anon 5\n{names[2]}inactive_file {cached}\n")
        (tmp_path / "cgroup").write_text("4:memory:/a/b\n0::/" if version == 1 else "0::/a/b")

    return write


@pytest.mark.parametrize(("version", "path"), [(1, ""), (1, "a/b"), (2, "a"), (2, "a/b")])
def test_limits_of_control_groups(system, version, path):
    system(version, path, 5000, 1500)
    assert available_memory() == 3500
    system(version, path, 5000, 4900, cached=400)  # cached files can be dropped
    assert available_memory() == 500
    system(version, path, "max", 1500)
    assert available_memory() > 1e6


@pytest.mark.parametrize("text", [None, "MemFree: 5 kB\n", "MemAvailable: much\n"])
def test_system_without_the_available_memory(tmp_path, monkeypatch, text):
    monkeypatch.setattr(memory, "Path", lambda _name: tmp_path / "meminfo")
    if text is not None:
        (tmp_path / "meminfo").write_text(text)
    monkeypatch.setattr(memory.os, "sysconf", {"SC_AVPHYS_PAGES": 7, "SC_PAGE_SIZE": 4096}.__getitem__)
    assert memory._of_system() == 7 * 4096
    monkeypatch.delattr(memory.os, "sysconf")
    assert memory._of_system() is None


def test_check_memory(monkeypatch):
    assert [in_words(count) for count in (10, 42_400_000, 1_340_000_000)] == ["1 MB", "42 MB", "1.3 GB"]
    assert available_memory() > 1e6
    monkeypatch.setattr(resource, "getrlimit", lambda _kind: (1000, 1000))
    assert available_memory() == 0
    monkeypatch.setattr(memory, "available_memory", lambda: 2_000_000)
    check_memory(2_000_000, "it", "less")
    with pytest.raises(ParameterError, match="it needs about 3 MB of memory, 2 MB are available"):
        check_memory(2_500_001, "it", "patience")


def test_is_lack_of_memory():
    with pytest.raises(MemoryError) as numpys:
        np.empty(1 << 60, np.uint8)
    lack = "OpenCV(4.9) alloc.cpp:73: error: (-4:Insufficient memory) Failed to allocate"
    other = "OpenCV(4.9) resize.cpp: error: (-215:Assertion failed) in function 'resize'"
    for error in (numpys.value, cv2.error(lack), cv2.error("std::bad_alloc"), RuntimeError("can't start new thread")):
        assert is_lack_of_memory(error)
    assert not any(is_lack_of_memory(error) for error in (cv2.error(other), ValueError("(-4:")))


def test_heaps_are_shared_where_the_c_library_can(monkeypatch):
    calls = []
    library = SimpleNamespace(mallopt=lambda *values: calls.append(values))
    monkeypatch.setattr(memory.ctypes, "CDLL", lambda _: library)
    memory.share_heaps()
    del library.mallopt
    memory.share_heaps()  # another C library
    assert calls == [(-8, 2)]  # M_ARENA_MAX of malloc.h


@pytest.mark.parametrize("shape", [(0, 3), (1,), (5, 3, 16)])
def test_lazy_zeros_are_writable(shape):
    array = lazy_zeros(shape, np.int8)
    assert array.shape == shape
    assert not array.any()
    array[...] = 7
    assert (array == 7).all()
    assert array.flags.c_contiguous


def resident():
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1])


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_one_entry_takes_one_page():
    array = lazy_zeros((1 << 26,), np.uint8)
    before = resident()
    array[:: 1 << 20] = 1  # 64 entries, each of them in another MiB
    assert 64 <= resident() - before < 256


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_restored_sample_memory_takes_no_more_memory():
    first, second = (SampleMemory((1024, 1024), 3) for _ in range(2))
    first.samples[:: 1 << 14] = first._used[:: 1 << 14] = 1
    state = first.state()
    assert len(state["samples"]) == 64  # pixels without samples are omitted
    before = resident()
    second.set_state(state)
    assert np.array_equal(second.samples, first.samples)
    assert resident() - before < 1024


_PEAK = """
import itertools, json, sys
import numpy as np
from bgsub import BackgroundSubtractor
from bgsub.scene import kernel_warmup
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
separate(frames(48, 64))
for warmup in kernel_warmup._warmups.values():
    warmup.join()  # threads that load kernels
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
        match=f"800x600 frames needs about {213 if scale == 1 else 50} MB .*reduce memory with {remedy}$",
    ):
        subtractor.apply(frame)
    assert subtractor.empty()
