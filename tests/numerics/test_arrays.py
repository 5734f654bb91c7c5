"""`lazy_zeros` takes memory only where it is written."""

import sys

import numpy as np
import pytest

from bgsub.numerics.arrays import lazy_zeros
from bgsub.scene.segmentation import SampleMemory


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
    before = resident()
    second.set_state(state)
    assert np.array_equal(second.samples, first.samples)
    assert resident() - before < 1024
