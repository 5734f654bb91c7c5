"""Available memory by system, control groups and process limit; `lazy_zeros` takes memory only where it is written."""

import resource
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from bgsub._opencv import cv2
from bgsub.errors import ParameterError
from bgsub.numerics import memory
from bgsub.numerics.arrays import lazy_zeros
from bgsub.numerics.memory import available_memory, check_memory, in_words, is_lack_of_memory
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
