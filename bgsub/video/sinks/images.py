"""Image sequences as outputs."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path

import numpy as np

from bgsub._opencv import cv2
from bgsub.errors import SinkError
from bgsub.separation import Separation
from bgsub.video.sinks.base import Sink, prepare_folder
from bgsub.video.sources import Frame
from bgsub.video.views import get_view, to_uint8


class ImageSequenceSink(Sink):
    """Writes one view as PNG images that keep the numbers of the source: in000123.jpg gives bin000123.png.

    Each image appears whole or not at all, as soon as it is written; `close` and `abort` have nothing left to
    do. 8 and 16 bit stay as they are, floating images become 8 bit. A frame whose name has no number, or one
    that was there before, gives ``PREFIX_NAME.png``.

    Parameters
    ----------
    folder : str or path
        Where to; created if missing.
    view : str
        One of `VIEWS`.
    prefix : str, optional
        What stands before the number: by default ``bin`` for masks, as on changedetection.net, and the name
        of the view otherwise.

    Raises
    ------
    ParameterError
        If the view is none of the allowed.
    SinkError
        If the folder or an image cannot be written.
    """

    def __init__(self, folder: str | os.PathLike[str], view: str = "mask", prefix: str | None = None) -> None:
        self.folder = Path(folder)
        self._view = get_view(view)
        self._prefix = prefix if prefix is not None else ("bin" if view == "mask" else view)
        self._names: set[str] = set()
        prepare_folder(self.folder)

    def write(self, frame: Frame, separation: Separation) -> None:
        """Write the view of one frame."""
        write_png(self.folder / f"{self._name(frame.name)}.png", self._view(separation))

    def close(self) -> None:
        """Do nothing: each image is complete already."""

    def _name(self, name: str) -> str:
        number = re.search(r"[0-9]+$", name)
        candidates = [f"{self._prefix}{number[0]}"] if number else []
        candidates.append(f"{self._prefix}_{name}")
        candidates += [f"{self._prefix}_{name}_{len(self._names)}"]
        result = next(candidate for candidate in candidates if candidate not in self._names)
        self._names.add(result)
        return result


def write_png(path: Path, image: np.ndarray) -> None:
    """Write an image of 8 or 16 bit, or a floating one as 8 bit, so that the file appears whole.

    Raises
    ------
    SinkError
        If it cannot be.
    """
    data = _encoded(path, image if image.dtype == np.uint16 else to_uint8(image))
    partial = path.with_name(f"{path.name}.partial")
    try:
        partial.write_bytes(data)
        os.replace(partial, path)
    except OSError as error:
        raise SinkError(f"'{path}' cannot be written: {error.strerror or error}") from None
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)


def _encoded(path: Path, image: np.ndarray) -> bytes:
    try:
        good, data = cv2.imencode(".png", image)
    except cv2.error:
        good = False
    if not good:
        raise SinkError(f"'{path}' cannot be written: no PNG can hold shape {image.shape}, {image.dtype}")
    return data.tobytes()
