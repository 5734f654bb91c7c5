"""Everything that a running subtractor knows as bytes and back, and the files that hold it.

Unlike `BackgroundSubtractor.save`, which keeps the model of the scene in view, `freeze` keeps every number that a later
result depends on: the scene before, the remembered lamps, pending steps. The thawed subtractor goes on bit for bit.
"""

from __future__ import annotations

import contextlib
import copy
import io
import json
import os
import pickle
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bgsub.errors import OutputError, SourceError
from bgsub.storage.atomic import replacing

if TYPE_CHECKING:
    from bgsub.subtractor import BackgroundSubtractor

_MAGIC = b"bgsub checkpoint, version 1\n"
_LENGTH = 8  # bytes of the length of the header
_LONGEST_HEADER = 1 << 30

_CLASSES = {
    "bgsub.tracking.basis": {"Basis"},
    "bgsub.tracking.deferred": {"DeferredStep"},
    "bgsub.scene.provisional": {"StartBuffer"},
    "bgsub.tracking.coefficients": {"PixelSubset"},
    "bgsub.scene.background": {"Canvas", "StartBackground", "TrackedBackground", "_Comparison"},
    "bgsub.scene.frame_format": {"FrameFormat"},
    "bgsub.scene.illumination": {"Illumination", "_Look"},
    "bgsub.scene.standing_objects": {"StandingObjects"},
    "bgsub.scene.reduction": {"Reduction"},
    "bgsub.scene.registration": {"Movement", "Registration", "_Pyramid", "_Scale"},
    "bgsub.scene.model": {"SceneModel"},
    "bgsub.scene.changes": {"Scenes"},
    "bgsub.scene.segmentation": {"Segmenter"},
    "bgsub.scene.shadows": {"ShadowDetector"},
    "bgsub.scene.stabiliser": {"Stabiliser"},
    "bgsub.subtractor": {"BackgroundSubtractor"},
    "bgsub.numerics.surrogates": {"Surrogate"},
    "bgsub.tracking.tracker": {"SubspaceTracker"},
    "numpy": {"dtype", "ndarray"},
    # NumPy 2 and, without the underscore, NumPy 1
    "numpy._core.multiarray": {"_reconstruct", "scalar"},
    "numpy._core.numeric": {"_frombuffer"},
    "numpy.core.multiarray": {"_reconstruct", "scalar"},
    "numpy.core.numeric": {"_frombuffer"},
}


def freeze(subtractor: BackgroundSubtractor) -> bytes:
    """Return everything that the next frames depend on, between two frames.

    O(model): some 80 bytes per pixel in colour at rank 3, during the start 3 bytes per pixel and frame besides.
    """
    frozen = copy.copy(subtractor)
    # The newest background is all that may still be asked of the newest frame.
    frozen._background = subtractor._newest_background()
    frozen._view = None
    frozen._is_rehearsed = False  # a new process loads the rare kernels anew
    return pickle.dumps(frozen, protocol=5)


def thaw(data: bytes) -> BackgroundSubtractor:
    """Return the subtractor that `freeze` made `data` of; it goes on exactly as the frozen one does.

    Raises
    ------
    SourceError
        When the bytes are damaged, or hold anything but a subtractor: no other code is ever run.
    """
    try:
        subtractor = _Thawing(io.BytesIO(data)).load()
    except SourceError:
        raise
    except Exception as error:  # a damaged pickle raises anything
        raise SourceError(f"the frozen subtractor is damaged: {type(error).__name__}: {error}") from None
    if f"{type(subtractor).__module__}.{type(subtractor).__name__}" != "bgsub.subtractor.BackgroundSubtractor":
        raise SourceError(f"a frozen subtractor was expected, got {type(subtractor).__name__}")
    return subtractor


class _Thawing(pickle.Unpickler):
    """Makes arrays and the classes of the model, and nothing else."""

    def find_class(self, module: str, name: str) -> Any:
        """Return a class of the list; refuse all others."""
        if name not in _CLASSES.get(module, ()):
            raise SourceError(
                f"a frozen subtractor holds no {module}.{name}: it was tampered with, or is of another version"
            )
        return super().find_class(module, name)


def write(path: Path, header: dict[str, Any], frozen: bytes) -> None:
    """Write a checkpoint to `path`, whole or not at all and safe against a power cut: `header` as JSON, and bytes.

    Raises
    ------
    OutputError
        When that cannot be done.
    """
    text = json.dumps(header).encode()
    parts = _MAGIC, len(text).to_bytes(_LENGTH, "little"), text, frozen
    checksum = 0
    try:
        with replacing(path) as partial, partial.open("wb") as file:
            for part in parts:
                checksum = zlib.crc32(part, checksum)
                file.write(part)
            file.write(checksum.to_bytes(4, "little"))
            file.flush()
            os.fsync(file.fileno())
        _sync_folder(path.parent)
    except OSError as error:
        raise OutputError(f"the checkpoint cannot be written to '{path}': {error.strerror or error}") from None


def remove(path: Path) -> None:
    """Remove the checkpoint at `path`, if there is one, and what a killed process left of another."""
    for file in (path, path.with_name(f"{path.name}.partial")):
        with contextlib.suppress(OSError):
            file.unlink(missing_ok=True)


def read(path: Path) -> tuple[dict[str, Any], bytes]:
    """Return header and bytes of the checkpoint at `path`.

    Raises
    ------
    SourceError
        When it cannot be read, is damaged or no checkpoint.
    """
    header, frozen, checksum = _read(path)
    if checksum != int.from_bytes(frozen[-4:], "little"):
        raise SourceError(f"the checkpoint '{path}' is damaged")
    return json.loads(header), frozen[:-4]


def read_header(path: Path) -> dict[str, Any]:
    """Return the header of the checkpoint at `path` alone, unchecked; SourceError when it cannot be read."""
    try:
        header: dict[str, Any] = json.loads(_read(path, 0)[0])
    except ValueError:
        raise SourceError(f"the checkpoint '{path}' is damaged") from None
    return header


def _read(path: Path, size: int = -1) -> tuple[bytes, bytes, int]:
    """Return the header, up to `size` bytes of what follows it, and the checksum of both but for the last 4 bytes."""
    try:
        with path.open("rb") as file:
            start = file.read(len(_MAGIC) + _LENGTH)
            if not start.startswith(_MAGIC):
                raise SourceError(f"'{path}' is no checkpoint of this version of bgsub")
            header = file.read(min(int.from_bytes(start[len(_MAGIC) :], "little"), _LONGEST_HEADER))
            rest = file.read(size)
    except OSError as error:
        if isinstance(error, SourceError):
            raise
        raise SourceError(f"the checkpoint '{path}' cannot be read: {error.strerror or error}") from None
    return header, rest, zlib.crc32(memoryview(rest)[:-4], zlib.crc32(header, zlib.crc32(start)))


def _sync_folder(folder: Path) -> None:
    """Make the renaming of a file in it last; Windows can not and need not."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
