"""What a stream takes of the memory, known from the shape of its frames."""

from __future__ import annotations

import math

import numpy as np

from bgsub.numerics.memory import available_memory, check_memory
from bgsub.parameters import SubtractorParameters
from bgsub.scene.frame_format import FrameFormat

_PIXEL, _ENTRY, _COPIES, _BASES = 70, 1, 9, 8  # bytes at the peak, which is the batch start; measured, see the tests
_LEAST_SCALE = 0.05


def stream_memory(frames: FrameFormat, parameters: SubtractorParameters, scale: float | None = None) -> int:
    """Return the bytes that the separation of a stream takes at its peak, the batch start.

    For each pixel that the model sees 70, and for each of its channels 1 + 9 s + 8 k + n s, where s is the size of an
    entry in bytes (1, or 4 for all but uint8), k the rank and n the frames of the start; full frames besides where
    they are reduced.
    """
    scale = parameters.scale if scale is None else scale
    pixels, size = math.prod(frames.shape[:2]), np.dtype(frames.pixels_dtype).itemsize
    entry = _ENTRY + size * (_COPIES + parameters.start_length) + _BASES * parameters.rank
    whole = 0 if scale == 1 else pixels * (5 + 3 * frames.channels * np.dtype(frames.dtype).itemsize)
    return int(scale**2 * pixels * (_PIXEL + frames.channels * entry)) + whole


def check_stream_memory(frames: FrameFormat, parameters: SubtractorParameters) -> None:
    """Raise ParameterError where a stream of such frames takes more memory than there is."""
    needed, available = stream_memory(frames, parameters), available_memory()
    if available is None or needed <= available:
        return
    tried = (step * _LEAST_SCALE for step in range(round(parameters.scale / _LEAST_SCALE) - 1, 0, -1))
    scale = next((scale for scale in tried if stream_memory(frames, parameters, scale) < 0.8 * available), None)
    height, width = frames.shape[:2]
    remedy = "smaller frames" if scale is None else f"--scale {scale:.2g}"
    check_memory(needed, f"a stream of {width}x{height} frames", remedy)
