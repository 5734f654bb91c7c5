"""Results as NumPy arrays in one file."""

from __future__ import annotations

import math
import os
import zipfile
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from bgsub.errors import SinkError
from bgsub.separation import Separation
from bgsub.storage.durable_io import Journal, as_sink_error, playable_name, replacing
from bgsub.video.output_names import ARRAY_ENDINGS
from bgsub.video.sinks.base import Sink, path_with_ending, prepare_folder
from bgsub.video.sources.base import Frame
from bgsub.video.views import get_view

# The oldest date in a ZIP file, so that equal results give equal bytes.
_DATE = (1980, 1, 1, 0, 0, 0)
# Masks shrink to a few per cent already at the fastest level.
_LEVEL = 1


class ArraySink(Sink):
    """Writes one view and facts about each frame into a ``.npz`` file for `numpy.load`.

    The arrays, for n frames:

    - the view by its name, (n, h, w) or (n, h, w, c), dtype of the view;
    - ``index`` (n,) int64, and ``time`` (n,) float64 in seconds, NaN where unknown;
    - ``share`` (n,) float64, share of the foreground;
    - ``coefficients`` (n, k) float64, shorter rows padded with NaN;
    - ``event`` (n,) unicode, empty without an event.

    Frames are stored compressed on disk until the end, so that memory does not grow with the length. Until then, and
    after `abort`, the file is ``NAME.partial``, which only bgsub reads.

    Parameters
    ----------
    path : str or path
        The file, ending in ``.npz``. Missing folders are created.
    view : str
        One of `VIEWS`.

    Raises
    ------
    ParameterError
        If the ending or the view is not allowed.
    SinkError
        If the file cannot be written, or a frame has another shape or type than the first one.

    Examples
    --------
    >>> import bgsub
    >>> import numpy as np
    >>> from bgsub.video import ArraySink
    >>> summary = bgsub.process_video("video.mp4", ArraySink("masks.npz"))
    >>> saved = np.load("masks.npz")
    >>> saved["mask"].shape, int(saved["index"][-1]), float(saved["time"][-1])
    ((60, 48, 64), 59, 2.36)
    """

    def __init__(self, path: str | os.PathLike[str], view: str = "mask") -> None:
        self.path = path_with_ending(path, "a file of arrays", ARRAY_ENDINGS)
        self._name, self._view = view, get_view(view)
        self._shape: tuple[int, ...] = ()
        self._dtype = np.dtype(np.uint8)
        self._count = 0
        prepare_folder(self.path.parent)
        self._journal = Journal(self.path)

    def write(self, frame: Frame, separation: Separation) -> None:
        image = np.ascontiguousarray(self._view(separation))
        if not self._count:
            self._shape, self._dtype = image.shape, image.dtype
        if (image.shape, image.dtype) != (self._shape, self._dtype):
            raise SinkError(
                f"'{self.path}' has images of shape {self._shape}, {self._dtype}; "
                f"frame {frame.name} has {image.shape}, {image.dtype}"
            )
        facts = {
            "index": frame.index,
            "time": frame.time,
            "share": separation.share,
            "coefficients": [float(value) for value in separation.coefficients],
            "event": separation.event or "",
        }
        self._journal.add(facts, zlib.compress(image.data, _LEVEL))
        self._count += 1

    def close(self) -> None:
        if not self._count:
            return
        with as_sink_error(self.path), replacing(self.path, playable_name(self.path)) as made:
            self._make(made)
        self._journal.remove()
        self._count = 0

    def abort(self) -> None:
        self._journal.close()
        self._count = 0

    def checkpoint(self) -> dict[str, Any]:
        size = self._journal.sync()
        return {"frames": self._count, "bytes": size, "shape": list(self._shape), "dtype": self._dtype.str}

    def resume(self, state: dict[str, Any]) -> None:
        if not state:
            return
        self._journal.cut(state["bytes"])
        self._count = state["frames"]
        self._shape, self._dtype = tuple(state["shape"]), np.dtype(state["dtype"])

    def _make(self, path: Path) -> None:
        rows = [facts for facts, _data in self._journal.records()]
        width = max(len(row["coefficients"]) for row in rows)
        for row in rows:
            row["coefficients"] += [math.nan] * (width - len(row["coefficients"]))
        # None, for an unknown time, becomes NaN.
        kinds: dict[str, Any] = {"index": np.int64, "time": float, "share": float, "coefficients": float, "event": str}
        columns = {name: np.array([row[name] for row in rows], kind) for name, kind in kinds.items()}
        with zipfile.ZipFile(path, "w") as archive:
            images = (zlib.decompress(data) for _facts, data in self._journal.records())
            _add(archive, self._name, self._dtype, (self._count, *self._shape), images)
            for name, column in columns.items():
                _add(archive, name, column.dtype, column.shape, [column.tobytes()])


def _add(archive: zipfile.ZipFile, name: str, dtype: np.dtype, shape: tuple[int, ...], blocks: Iterable[bytes]) -> None:
    """Write one array, given as blocks of bytes in C order, as ``NAME.npy`` into the archive."""
    entry = zipfile.ZipInfo(f"{name}.npy", _DATE)
    entry.compress_type = zipfile.ZIP_DEFLATED
    description = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
    with archive.open(entry, "w", force_zip64=True) as file:
        np.lib.format.write_array_header_1_0(file, description)
        file.writelines(blocks)
