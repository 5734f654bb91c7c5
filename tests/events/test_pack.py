"""Arrays of a checkpoint as text."""

import numpy as np
import pytest

from bgsub.events._pack import pack, unpack


@pytest.mark.parametrize("array", [np.eye(3, 5) > 0, np.zeros((0, 4), bool), np.arange(6, dtype=np.uint8)])
def test_an_array_comes_back(array):
    again = unpack(pack(array))
    assert (again.shape, again.dtype) == (array.shape, array.dtype)
    np.testing.assert_array_equal(again, array)


@pytest.mark.parametrize("shape", [[1_000_000_000, 1_000_000_000], [3, 6], [-3, 5]])
def test_bits_that_are_not_there_are_not_made_up(shape):
    with pytest.raises(ValueError, match=r"no -?\d+ bits in 2 bytes"):
        unpack({**pack(np.eye(3, 5) > 0), "shape": shape})
