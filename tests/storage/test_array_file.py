"""Array files: round trips and detection of damage."""

import os

import numpy as np
import pytest

from bgsub.errors import SourceError
from bgsub.storage import array_file

KIND = array_file.Kind("thing", 7)
HEADER = {"frames": 250, "share": 0.1 + 0.2, "name": "ä"}


def state():
    part = {"b": np.array([True]), "inner": {"c": np.array(3)}}
    return {"a": np.arange(6, dtype=np.float32).reshape(2, 3), "part": part}


def same(one, other):
    return str(one) == str(other)


def test_round_trip(tmp_path):
    path = tmp_path / "state"
    array_file.write(path, KIND, {}, {"part": {"none": {}}})
    assert array_file.read(path, KIND) == ({}, {"part": {"none": {}}})
    array_file.write(path, KIND, HEADER, state())
    header, arrays = array_file.read(path, KIND)
    assert header == array_file.read(path, KIND, with_arrays=False)[0] == HEADER
    assert same(arrays, state())
    assert arrays["a"].dtype == np.float32
    assert os.listdir(tmp_path) == ["state"]


def test_any_changed_byte_is_detected_or_harmless(tmp_path):
    path = tmp_path / "state"
    array_file.write(path, KIND, HEADER, state())
    whole, refused = path.read_bytes(), 0
    for position in range(0, len(whole), 3):
        path.write_bytes(whole[:position] + bytes([whole[position] ^ 1]) + whole[position + 1 :])
        try:
            found = array_file.read(path, KIND)
        except SourceError:
            refused += 1
        else:  # a date, for example
            assert same(found, (HEADER, state()))
        if position % 4 == 0:
            path.write_bytes(whole[:position])
            with pytest.raises(SourceError, match="state"):
                array_file.read(path, KIND)
    assert refused > len(whole) / 6
