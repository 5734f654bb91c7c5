"""The size of an image by its header, before any of its pixels is made."""

from __future__ import annotations

import struct
from pathlib import Path

from bgsub.numerics.memory import check_memory

_PNG = b"\x89PNG\r\n\x1a\n"
_CHANNELS = {0: 1, 2: 3, 3: 3, 4: 2, 6: 4}  # by the type of colour


_HEAD = 26  # bytes, up to the type of colour


def announced_size(path: Path) -> tuple[int, int] | None:
    """Return width and height that the header of a PNG tells; None for other files, and where it cannot be read."""
    try:
        with path.open("rb") as file:
            header = _header(file.read(_HEAD))
    except OSError:
        return None
    return header and header[:2]


def check_image_memory(data: bytes | memoryview, what: str) -> None:
    """Raise ParameterError where the pixels of a PNG take more memory than there is.

    A file of a megabyte can stand for gigabytes only where long runs cost nothing; of what is common that is PNG.
    """
    header = _header(bytes(data[:_HEAD]))
    if header is None:
        return
    width, height, depth, colour = header
    decoded = width * height * _CHANNELS.get(colour, 4) * (2 if depth == 16 else 1)
    check_memory(2 * decoded, f"{what}, {width}x{height},", "a smaller image")


def _header(data: bytes) -> tuple[int, int, int, int] | None:
    if not data.startswith(_PNG) or len(data) < _HEAD or data[12:16] != b"IHDR":
        return None
    width, height, depth, colour = struct.unpack(">IIBB", data[16:_HEAD])
    return width, height, depth, colour
