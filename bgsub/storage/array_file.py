"""Models and checkpoints on disk: a JSON header and named arrays in one uncompressed ``.npz`` file.

NumPy writes the file and reads each array, without pickle. This module checks that the file has exactly the arrays
that its header names, and that nothing is compressed: the memory needed for reading is bounded by the file size.
"""

import io
import json
import stat
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bgsub.errors import SinkError, SourceError
from bgsub.numerics.state import State
from bgsub.storage.durable_io import os_errors_as, replacing

_HEADER = "header"
_NUMBERS = "biuf"  # kinds of data types
_CHUNK = 1 << 20  # bytes read at once


class Kind(NamedTuple):
    """Noun for messages, format version, and maximum size of the header in bytes."""

    noun: str
    version: int
    header: int = 1 << 62


MODEL = Kind("model", 29, 1 << 20)


def write_model(path: Path, header: dict[str, Any], state: State) -> None:
    """Write a result of `BackgroundSubtractor.snapshot`; raise SinkError on failure."""
    if not path.name:
        raise SinkError(f"the model cannot be written to {path}: it is a folder")
    with os_errors_as(SinkError, f"the model cannot be written to {path}"):
        write(path, MODEL, header, state)


def read_model_parameters(path: Path) -> dict[str, Any]:
    """Return the parameters of a model without reading its arrays; raise as `read`."""
    parameters = read(path, MODEL, with_arrays=False)[0].get("parameters")
    if not isinstance(parameters, dict):
        raise SourceError(f"{path} is a damaged bgsub model: it has no parameters")
    return parameters


def write(path: Path, kind: Kind, header: dict[str, Any], state: State) -> None:
    """Write a JSON header and nested arrays, atomically and synced; raise OSError on failure."""
    arrays = dict(_flat(state))
    text = json.dumps({"kind": kind[:2], "arrays": list(arrays), "header": header})
    with replacing(path) as partial, partial.open("wb") as file:
        np.savez(file, **{_HEADER: np.array(text), **arrays})  # type: ignore[arg-type]


def read(path: Path, kind: Kind, *, with_arrays: bool = True) -> tuple[dict[str, Any], State]:
    """Return header and state; raise SourceError for a missing or damaged file, or another kind or version."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # reading a pipe or a device may never end
            raise SourceError(f"the {kind.noun} {path} is not a regular file")
        with _ChunkedFile(path) as file, zipfile.ZipFile(file) as archive:
            members = {member.filename.removesuffix(".npy"): member for member in archive.infolist()}
            first = members.pop(_HEADER)
            if first.file_size > kind.header:
                raise ValueError("header too long")
            facts = json.loads(str(_array(archive, first, "U")))
            same, header = facts["kind"] == [*kind[:2]], dict(facts["header"])
            if same and (sorted(facts["arrays"]) != sorted(members) or len(members) + 1 != len(archive.infolist())):
                raise ValueError("the header names other arrays")
            if same and sum(member.file_size for member in archive.infolist()) > path.stat().st_size:
                raise ValueError("arrays overlap")
            wanted = members if with_arrays and same else {}
            state = _nested({name: _array(archive, member, _NUMBERS) for name, member in wanted.items()})
    except SourceError:
        raise
    except FileNotFoundError:
        raise SourceError(f"there is no {kind.noun} file {path}") from None
    except OSError as error:
        raise SourceError(f"the {kind.noun} {path} cannot be read: {error.strerror or error}") from None
    except Exception:  # damaged archives raise errors of many types
        raise SourceError(f"{path} is not a bgsub {kind.noun}, or it is damaged") from None
    if not same:
        raise SourceError(
            f"{path} is not a bgsub {kind.noun} of version {kind.version}: "
            "another version of bgsub wrote it; create it again"
        )
    return header, state


class _ChunkedFile(io.FileIO):
    """A file that returns at most `_CHUNK` bytes per read, which bounds the archive directory that `ZipFile` loads."""

    def read(self, size: int | None = -1, /) -> bytes:
        return super().read(min(size, _CHUNK) if size is not None and size >= 0 else _CHUNK)


def _array(archive: zipfile.ZipFile, member: zipfile.ZipInfo, kinds: str) -> np.ndarray:
    """Return one array of an archive, with checked data type, length and checksum."""
    if member.compress_type != zipfile.ZIP_STORED:
        raise ValueError("compressed")
    with archive.open(member) as file:
        array = np.lib.format.read_array(file, allow_pickle=False)
        if file.read(1):  # reading to the end also compares the checksum
            raise ValueError("longer than its array")
    if array.dtype.kind not in kinds:
        raise ValueError("not an array of numbers")
    if array.dtype == np.bool_ and array.view(np.uint8).max(initial=0) > 1:
        raise ValueError("booleans other than 0 and 1")
    return array


def _flat(state: State, prefix: str = "") -> Iterator[tuple[str, np.ndarray]]:
    for name, value in state.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}/") if value else [(f"{prefix}{name}/", np.empty(0))]
        else:
            yield prefix + name, value


def _nested(arrays: dict[str, np.ndarray]) -> State:
    state: State = {}
    for name, value in arrays.items():
        *parts, last = name.split("/")
        inner: Any = state
        for part in parts:
            inner = inner.setdefault(part, {})
        if last:
            inner[last] = value
    return state
