"""What JSON can say and plain arrays by name, in one ``.npz`` file: the form of models and of checkpoints.

Nothing is ever unpickled, and nothing is compressed: what a file makes of memory goes by its length.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bgsub.errors import SourceError
from bgsub.numerics.state import State
from bgsub.storage.atomic import replacing

_HEADER = "header"


class Kind(NamedTuple):
    """What a file is: a noun, for messages as well, and the version of its form."""

    noun: str
    version: int


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
    text = json.dumps({"kind": list(kind), "arrays": list(arrays), "header": header})
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
        with zipfile.ZipFile(path) as archive:
            if "kind.npy" in archive.namelist():  # where it stood up to version 3 of the models
                facts: dict[str, Any] = {"kind": [kind.noun, 3], "header": {}}
            else:
                facts = json.loads(str(_array(archive, _HEADER)))
            same, header = Kind(*facts["kind"]) == kind, dict(facts["header"])
            wanted = facts["arrays"] if with_arrays and same else []
            state = _nested({name: _array(archive, name) for name in wanted})
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


def _array(archive: zipfile.ZipFile, name: str) -> np.ndarray:
    """Return an array of an archive, its checksum compared, which takes that it is read to its end."""
    member = archive.getinfo(f"{name}.npy")
    if member.compress_type != zipfile.ZIP_STORED:
        raise ValueError("compressed")
    content = io.BytesIO(archive.read(member))
    array = np.lib.format.read_array(content, allow_pickle=False)
    if content.read(1):
        raise ValueError("longer than its array")
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
