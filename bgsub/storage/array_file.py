"""What JSON can say and plain arrays by name, in one ``.npz`` file: the form of models and of checkpoints.

Nothing is ever unpickled, and nothing is compressed: what a file makes of memory goes by its length. It holds the
header and the arrays that the header names, once each, and nothing else.
"""

from __future__ import annotations

import io
import json
import math
import stat
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bgsub.errors import SourceError
from bgsub.numerics.state import State
from bgsub.storage.atomic import replacing

_HEADER = "header"
_NUMBERS = "biuf"  # kinds of types
_SIP = 1 << 20  # bytes that are read at once


class Kind(NamedTuple):
    """What a file is: a noun, for messages as well, the version of its form, and the most bytes of its header."""

    noun: str
    version: int
    header: int = 1 << 62


def write(path: Path, kind: Kind, header: dict[str, Any], state: State) -> None:
    """Write a file, whole or not at all and lasting; OSError when that cannot be done.

    Parameters
    ----------
    path : Path
        The file.
    kind : Kind
        What it is.
    header : dict
        In types that JSON knows.
    state : dict
        Arrays by name, nested.
    """
    arrays = dict(_flat(state))
    text = json.dumps({"kind": kind[:2], "arrays": list(arrays), "header": header})
    with replacing(path) as partial, partial.open("wb") as file:
        np.savez(file, **{_HEADER: np.array(text), **arrays})  # type: ignore[arg-type]


def read_header(path: Path, kind: Kind) -> dict[str, Any]:
    """Return the header of a file without reading its arrays; raises as `read`."""
    return _read(path, kind, with_arrays=False)[0]


def read(path: Path, kind: Kind) -> tuple[dict[str, Any], State]:
    """Return header and state of a file.

    Parameters
    ----------
    path : Path
        The file.
    kind : Kind
        What it should be.

    Raises
    ------
    SourceError
        When it is missing, damaged, of another kind or another version.
    """
    return _read(path, kind, with_arrays=True)


def _read(path: Path, kind: Kind, with_arrays: bool) -> tuple[dict[str, Any], State]:
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # a pipe would be waited for, a device has no end
            raise SourceError(f"the {kind.noun} {path} is no file")
        with _Sips(path) as file, zipfile.ZipFile(file) as archive:
            members = {member.filename.removesuffix(".npy"): member for member in archive.infolist()}
            if "kind" in members:  # where it stood up to version 3 of the models
                facts: dict[str, Any] = {"kind": [kind.noun, 3], "header": {}}
            else:
                facts = _header(archive, members.pop(_HEADER), kind.header)
            same, header = facts["kind"] == [*kind[:2]], dict(facts["header"])
            if same and (sorted(facts["arrays"]) != sorted(members) or len(members) + 1 != len(archive.infolist())):
                raise ValueError("other arrays than the header says")
            if same and sum(member.file_size for member in archive.infolist()) > path.stat().st_size:
                raise ValueError("arrays of one place")
            wanted = members if with_arrays and same else {}
            state = _nested({name: _array(archive, member, _NUMBERS) for name, member in wanted.items()})
    except SourceError:
        raise
    except FileNotFoundError:
        raise SourceError(f"there is no {kind.noun} file {path}") from None
    except OSError as error:
        raise SourceError(f"the {kind.noun} {path} cannot be read: {error.strerror or error}") from None
    except Exception:  # damaged archives raise anything
        raise SourceError(f"{path} is not a bgsub {kind.noun}, or a damaged one") from None
    if not same:
        what = f"{path} is not a bgsub {kind.noun} of version {kind.version}"
        raise SourceError(f"{what}: another version of bgsub made it, and it must be made anew")
    return header, state


class _Sips(io.FileIO):
    """A file of which little is read at once: a directory of millions of members, for one, is none to `ZipFile`."""

    def read(self, size: int | None = -1, /) -> bytes:
        return super().read(min(size, _SIP) if size is not None and size >= 0 else _SIP)


def _header(archive: zipfile.ZipFile, member: zipfile.ZipInfo, most: int) -> dict[str, Any]:
    if member.file_size > most:
        raise ValueError("too long")
    return json.loads(str(_array(archive, member, "U")))


def _array(archive: zipfile.ZipFile, member: zipfile.ZipInfo, kinds: str) -> np.ndarray:
    """Return an array, of one of the kinds of types, of an archive; its checksum is compared, and its length."""
    if member.compress_type != zipfile.ZIP_STORED:
        raise ValueError("compressed")
    with archive.open(member) as file:
        if np.lib.format.read_magic(file) != (1, 0):
            raise ValueError("another form")
        shape, by_columns, dtype = np.lib.format.read_array_header_1_0(file)
        if dtype.kind not in kinds or math.prod(shape) * dtype.itemsize != member.file_size - file.tell():
            raise ValueError("no array of that length")
        array = np.empty(shape, dtype, "F" if by_columns else "C")
        content = array.reshape(-1, order="A").view(np.uint8) if array.size else np.empty(0, np.uint8)
        for first in range(0, content.size, _SIP):
            part = content[first : first + _SIP]
            part[:] = np.frombuffer(file.read(part.size), np.uint8)  # of another length where the file is cut
        if file.read(1):  # not there, but asking for it compares the checksum
            raise ValueError("longer than its array")
        if dtype == np.bool_ and content.max(initial=0) > 1:
            raise ValueError("truth values that are none")
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
