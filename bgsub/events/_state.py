"""The state of dataclasses as JSON types, for checkpoints."""

import base64
import dataclasses
import math
import types
import zlib
from functools import cache
from typing import Any, Union, get_args, get_origin, get_type_hints

import numpy as np


def dump(value: Any) -> Any:  # noqa: PLR0911 - one return for each type
    """Return a value as JSON types: dataclasses, arrays, bytes, and containers of these."""
    if dataclasses.is_dataclass(value):
        return {field.name: dump(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, np.ndarray):
        data = np.packbits(value) if value.dtype == bool else np.ascontiguousarray(value)
        return {"shape": list(value.shape), "dtype": value.dtype.str, "data": _text(zlib.compress(data.tobytes(), 1))}
    if isinstance(value, bytes):
        return _text(value)
    if isinstance(value, dict):
        return [[dump(key), dump(item)] for key, item in value.items()]
    if isinstance(value, (list, tuple)):
        return [dump(item) for item in value]
    if isinstance(value, float) and math.isinf(value):
        return math.copysign(1e300, value)
    return value


def load(hint: Any, state: Any) -> Any:  # noqa: PLR0911 - as above
    """Return the value of type `hint` that `dump` returned `state` for."""
    origin: Any = get_origin(hint) or hint
    arguments = get_args(hint)
    if origin in (Union, types.UnionType):
        return None if state is None else load(next(one for one in arguments if one is not type(None)), state)
    if isinstance(origin, type) and dataclasses.is_dataclass(origin):
        kind: Any = origin
        made = object.__new__(kind)
        vars(made).update({name: load(one, state[name]) for name, one in _hints(kind).items()})
        return made
    if origin is np.ndarray:
        return _array(state)
    if origin is bytes:
        return base64.b64decode(state)
    if origin is dict:
        return {load(arguments[0], key): load(arguments[1], item) for key, item in state}
    if origin is list:
        return [load(arguments[0], item) for item in state]
    if origin is tuple:
        hints = [arguments[0]] * len(state) if arguments[1:] == (...,) else arguments
        return tuple(load(one, item) for one, item in zip(hints, state, strict=True))
    return state


@cache
def _hints(kind: type) -> dict[str, Any]:
    hints = get_type_hints(kind)
    return {field.name: hints[field.name] for field in dataclasses.fields(kind)}


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _array(state: dict[str, Any]) -> np.ndarray:
    data = zlib.decompress(base64.b64decode(state["data"]))
    shape, dtype = tuple(state["shape"]), np.dtype(state["dtype"])
    if dtype.kind != "b":
        return np.frombuffer(data, dtype).reshape(shape).copy()
    count = math.prod(shape)
    if not 0 <= count <= 8 * len(data):  # NumPy would append zeros
        raise ValueError(f"no {count} bits in {len(data)} bytes")
    return np.unpackbits(np.frombuffer(data, np.uint8), count=count).astype(bool).reshape(shape)
