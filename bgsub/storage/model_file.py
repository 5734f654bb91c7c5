"""Models on disk: one ``.npz`` file, written whole or not at all, read without unpickling anything."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from bgsub.errors import SinkError, SourceError
from bgsub.storage.atomic import replacing

_KIND = "bgsub model, version 3"


def write(path: Path, parameters: dict[str, Any], state: dict[str, np.ndarray]) -> None:
    """Write `parameters` and the arrays of `state` to `path`; SinkError when that cannot be done."""
    if not path.name:
        raise SinkError(f"the model cannot be written to {path}: it is a folder")
    header = {"kind": np.array(_KIND), "parameters": np.array(json.dumps(parameters))}
    try:
        with replacing(path) as partial, partial.open("wb") as file:
            np.savez(file, **{**header, **state})  # type: ignore[arg-type]
    except OSError as error:
        raise SinkError(f"the model cannot be written to {path}: {error.strerror or error}") from None


def read_parameters(path: Path) -> dict[str, Any]:
    """Return the parameters from `path` without reading the arrays; SourceError as `read`."""
    return _open(path, lambda archive: {name: archive[name] for name in ("kind", "parameters") if name in archive})[0]


def read(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return parameters and state from `path`; SourceError when it is missing or something else."""
    return _open(path, lambda archive: {name: archive[name] for name in archive.files})


def _open(path: Path, take: Callable[[Any], dict[str, Any]]) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    try:
        with np.load(path, allow_pickle=False) as archive:
            content = take(archive)
    except FileNotFoundError:
        raise SourceError(f"there is no model file {path}") from None
    except OSError as error:
        raise SourceError(f"the model {path} cannot be read: {error.strerror or error}") from None
    except (ValueError, TypeError, AttributeError, zipfile.BadZipFile, EOFError):
        raise SourceError(f"{path} is not a bgsub model") from None
    if str(content.pop("kind", "")) != _KIND:
        raise SourceError(f"{path} is not a bgsub model of version 3")
    return json.loads(str(content.pop("parameters"))), content
