"""Models on disk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bgsub.errors import SinkError, SourceError
from bgsub.numerics.state import State
from bgsub.storage import array_file

_KIND = array_file.Kind("model", 7, 1 << 20)


def write(path: Path, header: dict[str, Any], state: State) -> None:
    """Write what `BackgroundSubtractor.snapshot` returns to `path`; SinkError when that cannot be done."""
    if not path.name:
        raise SinkError(f"the model cannot be written to {path}: it is a folder")
    try:
        array_file.write(path, _KIND, header, state)
    except OSError as error:
        raise SinkError(f"the model cannot be written to {path}: {error.strerror or error}") from None


def read(path: Path) -> tuple[dict[str, Any], State]:
    """Return header and state from `path`; SourceError when it is missing or something else."""
    return array_file.read(path, _KIND)


def read_parameters(path: Path) -> dict[str, Any]:
    """Return the parameters from `path` without reading the arrays; SourceError as `read`."""
    parameters = array_file.read_header(path, _KIND).get("parameters")
    if not isinstance(parameters, dict):
        raise SourceError(f"{path} is a damaged bgsub model: it has no parameters")
    return parameters
