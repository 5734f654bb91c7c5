"""Models and checkpoints on disk: what JSON can say and plain arrays in one ``.npz`` file; nothing is unpickled."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from bgsub.errors import SinkError, SourceError
from bgsub.numerics.state import State
from bgsub.storage.atomic import replacing

VERSION = 4
_KIND = "bgsub model, version "
_HEADER = "header"


def write(path: Path, header: dict[str, Any], state: State) -> None:
    """Write a model to `path`, whole or not at all; SinkError when that cannot be done.

    Parameters
    ----------
    path : Path
        The file.
    header : dict
        In types that JSON knows.
    state : dict
        Arrays by name, nested.
    """
    if not path.name:
        raise SinkError(f"the model cannot be written to {path}: it is a folder")
    text = json.dumps({"kind": f"{_KIND}{VERSION}", **header})
    try:
        with replacing(path) as partial, partial.open("wb") as file:
            np.savez(file, **{_HEADER: np.array(text), **dict(_flat(state))})  # type: ignore[arg-type]
    except OSError as error:
        raise SinkError(f"the model cannot be written to {path}: {error.strerror or error}") from None


def read_header(path: Path) -> dict[str, Any]:
    """Return the header from `path` without reading the arrays; SourceError as `read`."""
    return _open(path, lambda names: [])[0]


def read(path: Path) -> tuple[dict[str, Any], State]:
    """Return header and state from `path`; SourceError when it is missing or something else."""
    header, arrays = _open(path, lambda names: names)
    return header, _nested(arrays)


def _open(path: Path, choose: Callable[[list[str]], list[str]]) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    try:
        with np.load(path, allow_pickle=False) as archive:
            if any(member.compress_type != zipfile.ZIP_STORED for member in archive.zip.infolist()):
                raise ValueError("compressed")  # no model is: small files must not become large arrays
            names = [name for name in archive.files if name not in (_HEADER, "kind")]
            arrays = {name: archive[name] for name in choose(names)}
            text = str(archive[_HEADER] if _HEADER in archive else json.dumps({"kind": str(archive["kind"])}))
        header = json.loads(text)
        kind = header.pop("kind")
    except FileNotFoundError:
        raise SourceError(f"there is no model file {path}") from None
    except OSError as error:
        raise SourceError(f"the model {path} cannot be read: {error.strerror or error}") from None
    except (ValueError, TypeError, AttributeError, KeyError, zipfile.BadZipFile, EOFError):
        raise SourceError(f"{path} is not a bgsub model") from None
    if kind != f"{_KIND}{VERSION}":
        raise SourceError(f"{path} is a {kind}; this is version {VERSION}: save it anew")
    return header, arrays


def _flat(state: State, prefix: str = "") -> Iterator[tuple[str, np.ndarray]]:
    for name, value in state.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}/")
        else:
            yield prefix + name, value


def _nested(arrays: dict[str, np.ndarray]) -> State:
    state: State = {}
    for name, value in arrays.items():
        *parts, last = name.split("/")
        inner = state
        for part in parts:
            inner = inner.setdefault(part, {})  # type: ignore[assignment]
            if not isinstance(inner, dict):
                raise SourceError(f"an array and a part have one name: {name}")
        inner[last] = value
    return state
