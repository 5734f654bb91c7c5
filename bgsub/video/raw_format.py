"""What ``640x480:bgr24@25`` stands for: frames as bytes without a header. Imports nothing heavy."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction

from bgsub.errors import ParameterError, did_you_mean

PIXELS = {"bgr24": (3, 1), "rgb24": (3, 1), "gray": (1, 1), "gray16le": (1, 2)}
"""Channels, and bytes of each, by FFmpeg's name of the pixel format."""

_LARGEST = 1 << 16
_SYNTAX = re.compile(r"(?P<width>[0-9]{1,6})x(?P<height>[0-9]{1,6}):(?P<pixels>\w+)(?:@(?P<rate>[0-9./]+))?")


@dataclass(frozen=True)
class RawFormat:
    """Size, pixel format and, if it was told, frames per second of raw frames."""

    width: int
    height: int
    pixels: str  # one of `PIXELS`
    fps: Fraction | None = None

    @classmethod
    def parse(cls, text: str) -> RawFormat:
        """Return what a text such as ``640x480:bgr24@25`` or ``1920x1080:gray@30000/1001`` stands for.

        Raises
        ------
        ParameterError
            If it is none, or the pixel format none of `PIXELS`.
        """
        match = _SYNTAX.fullmatch(text)
        if match is None:
            raise ParameterError(
                f"raw frames are told by size, pixel format and rate as in 640x480:bgr24@25, got '{text}'"
            )
        if match["pixels"] not in PIXELS:
            hint = did_you_mean(match["pixels"], PIXELS)
            raise ParameterError(f"raw frames are of {', '.join(PIXELS)}, got '{match['pixels']}'{hint}")
        width, height = int(match["width"]), int(match["height"])
        if not (0 < width <= _LARGEST and 0 < height <= _LARGEST):
            raise ParameterError(f"raw frames have sides of 1 to {_LARGEST} pixels, got {width}x{height}")
        try:
            fps = None if match["rate"] is None else Fraction(match["rate"])
        except (ValueError, ZeroDivisionError):
            fps = Fraction(0)
        if fps == 0:
            raise ParameterError(f"raw frames have a rate such as 25, 29.97 or 30000/1001, got '{match['rate']}'")
        return cls(width, height, match["pixels"], fps)

    @property
    def frame_bytes(self) -> int:
        """Bytes of one frame."""
        channels, depth = PIXELS[self.pixels]
        return self.width * self.height * channels * depth

    def __str__(self) -> str:
        return f"{self.width}x{self.height}:{self.pixels}"
