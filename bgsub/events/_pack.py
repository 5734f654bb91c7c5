"""Arrays as text, for checkpoints that JSON can hold."""

from __future__ import annotations

import base64
import math
import zlib
from typing import Any

import numpy as np


def pack(array: np.ndarray) -> dict[str, Any]:
    """Return an array of any shape and plain type as types that JSON knows; bits of a mask are packed."""
    data = np.packbits(array) if array.dtype == bool else np.ascontiguousarray(array)
    text = base64.b64encode(zlib.compress(data.tobytes(), 1)).decode("ascii")
    return {"shape": list(array.shape), "dtype": array.dtype.str, "data": text}


def unpack(state: dict[str, Any]) -> np.ndarray:
    """Return the array that `pack` made `state` of."""
    data = zlib.decompress(base64.b64decode(state["data"]))
    shape, dtype = tuple(state["shape"]), np.dtype(state["dtype"])
    if dtype.kind == "b":
        count = math.prod(shape)
        if not 0 <= count <= 8 * len(data):  # what is missing would be made up
            raise ValueError(f"no {count} bits in {len(data)} bytes")
        bits = np.unpackbits(np.frombuffer(data, np.uint8), count=count)
        return bits.astype(bool).reshape(shape)
    return np.frombuffer(data, dtype).reshape(shape).copy()
