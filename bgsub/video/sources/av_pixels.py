"""Pixels of PyAV's frames as arrays, the same that OpenCV makes."""

from __future__ import annotations

from typing import Any

import numpy as np

from bgsub._opencv import cv2
from bgsub.video.sources.av_container import import_av

# Counter-clockwise quarter turns, as PyAV counts degrees, to OpenCV's names.
_TURNS = {1: cv2.ROTATE_90_COUNTERCLOCKWISE, 2: cv2.ROTATE_180, 3: cv2.ROTATE_90_CLOCKWISE}
# What hardware decoders deliver, and the software formats with the same values: swscale interpolates the
# chroma of the two differently.
_PLANAR = {"nv12": "yuv420p", "p010le": "yuv420p10le", "nv16": "yuv422p"}


def quarter_turns(frame: Any) -> int:
    """Return by how many quarters of a turn, counter-clockwise, a frame is to be rotated to be upright."""
    return round(frame.rotation / 90) % 4


class Converter:
    """Makes arrays of frames; one for each stream.

    Grey stays grey, (h, w): uint8, or uint16 with full scale 65535 for more than 8 bits. Everything else becomes
    (h, w, 3) uint8, blue first, with the interpolation that OpenCV chooses.
    """

    def __init__(self) -> None:
        self._reformatter = import_av().video.reformatter.VideoReformatter()

    def __call__(self, frame: Any) -> np.ndarray:
        """Return the pixels of a frame, rotated as it is to be seen."""
        name = frame.format.name
        if name in _PLANAR:
            frame = self._reformatter.reformat(frame, format=_PLANAR[name])
        target = "bgr24" if not name.startswith("gray") else "gray" if name == "gray" else "gray16le"
        image = self._reformatter.reformat(frame, format=target, interpolation="BICUBIC").to_ndarray()
        turns = quarter_turns(frame)
        return cv2.rotate(image, _TURNS[turns]) if turns else image
