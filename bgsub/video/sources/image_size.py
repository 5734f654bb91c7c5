"""The size of an image by its header, before any of its pixels is made."""

from __future__ import annotations

import struct

from bgsub.memory import check_memory

_PNG = b"\x89PNG\r\n\x1a\n"
_CHANNELS = {0: 1, 2: 3, 3: 3, 4: 2, 6: 4}  # by the type of colour


def check_image_memory(data: bytes | memoryview, what: str) -> None:
    """Raise ParameterError where the pixels of a PNG take more memory than there is.

    A file of a megabyte can stand for gigabytes only where long runs cost nothing; of what is common that is PNG.
    """
    header = bytes(data[:26])
    if not header.startswith(_PNG) or len(header) < 26 or header[12:16] != b"IHDR":
        return
    width, height, depth, colour = struct.unpack(">IIBB", header[16:26])
    decoded = width * height * _CHANNELS.get(colour, 4) * (2 if depth == 16 else 1)
    check_memory(2 * decoded, f"{what}, {width}x{height},", "a smaller image")
