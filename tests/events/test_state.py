"""State of dataclasses as JSON."""

import json
import math
from dataclasses import dataclass, field

import numpy as np
import pytest

from bgsub.events._state import dump, load


@dataclass
class Inner:
    number: float
    pair: tuple[int, str] = (1, "a")
    many: tuple[str, ...] = ()


@dataclass
class Outer:
    arrays: list[np.ndarray]
    data: bytes
    names: dict[int, Inner]
    inner: Inner | None = None
    derived: int = field(init=False, default=3)


def test_values_survive_json():
    arrays = [np.eye(3, 5) > 0, np.zeros((0, 4), bool), np.arange(6, dtype=np.uint8), np.full((2, 2), np.nan)]
    value = Outer(arrays, b"\0\xff", {7: Inner(1.5, (2, "b"), ("x", "y"))}, Inner(-math.inf))
    value.derived = 5
    again = load(Outer, json.loads(json.dumps(dump(value), allow_nan=False)))
    for one, other in zip(arrays, again.arrays, strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)
    assert (again.data, again.names, again.derived) == (value.data, value.names, 5)
    assert again.inner.number < -1e299
    assert load(Outer, dump(Outer([], b"", {}))).inner is None


@pytest.mark.parametrize("shape", [[1_000_000_000, 1_000_000_000], [3, 6], [-3, 5]])
def test_too_few_bits_are_an_error(shape):
    state = dump(Outer([np.eye(3, 5) > 0], b"", {}))
    state["arrays"][0]["shape"] = shape
    with pytest.raises(ValueError, match="bits in 2 bytes"):
        load(Outer, state)
