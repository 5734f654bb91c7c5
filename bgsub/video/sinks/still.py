"""One picture of the background."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from bgsub.errors import ParameterError, SinkError
from bgsub.separation import Separation
from bgsub.storage.durable_io import playable_name, remove_partials, write_whole
from bgsub.video.output_names import STILL_ENDINGS
from bgsub.video.sinks.base import Sink, prepare_folder
from bgsub.video.sinks.images import encode_image
from bgsub.video.sources.base import Frame


class StillSink(Sink):
    """Writes the background of the newest frame as one image, at the end.

    PNG and TIFF keep 16 bit; floating images become 8 bit, and JPEG has 8 bit always. After `abort` the image
    is there as ``NAME.partial.EXT``.

    Parameters
    ----------
    path : str or path
        The file, ending in ``.png``, ``.tif`` or ``.jpg``. Missing folders are created.

    Raises
    ------
    ParameterError
        If the ending is none of the allowed.
    SinkError
        If the file cannot be written.

    Examples
    --------
    >>> import bgsub
    >>> from bgsub.video import StillSink
    >>> summary = bgsub.process_video("video.mp4", StillSink("background.png"))
    >>> bgsub.open_source("background.png").size
    (64, 48)
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.partial_path = playable_name(self.path)
        if self.path.suffix.lower() not in STILL_ENDINGS:
            raise ParameterError(f"a still image must end in {', '.join(STILL_ENDINGS)}, got '{self.path}'")
        self._newest: np.ndarray | None = None
        self._saved: bytes | None = None
        prepare_folder(self.path.parent)

    def write(self, frame: Frame, separation: Separation) -> None:
        self._newest, self._saved = separation.background, None

    def close(self) -> None:
        data = self._data()
        self._newest = self._saved = None  # what fails now would fail again as `abort` keeps it
        if data is None:
            return
        write_whole(self.path, data)
        remove_partials(self.path)

    def abort(self) -> None:
        data = self._data()
        if data is not None:
            write_whole(self.partial_path, data)
        self._newest = self._saved = None

    def checkpoint(self) -> dict[str, Any]:
        data = self._data()
        if data is None:
            return {"bytes": 0}
        write_whole(self.partial_path, data)
        return {"bytes": len(data)}

    def resume(self, state: dict[str, Any]) -> None:
        if not state.get("bytes"):
            return
        try:
            self._saved = self.partial_path.read_bytes()
        except OSError as error:
            raise SinkError(
                f"'{self.path}' cannot be continued: '{self.partial_path}': {error.strerror or error}"
            ) from None

    def _data(self) -> bytes | None:
        return self._saved if self._newest is None else encode_image(self.path, self._newest)
