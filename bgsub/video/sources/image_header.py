"""The size that the header of an image announces, before a decoder takes memory for it."""

import math
import re
import struct
from contextlib import suppress

_PNG = b"\x89PNG\r\n\x1a\n"
_CHANNELS = {0: 1, 2: 3, 3: 3, 4: 2, 6: 4}  # of a PNG, by the type of colour
_MOST_COMPRESSED = 1033  # bytes that one byte of a PNG can hold
_JPEG_MARKER = re.compile(rb"\xff[^\0\xff]", re.DOTALL)
_JPEG_SIZES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_JPEG_ALONE = frozenset({1, *range(0xD0, 0xD8)})
_TIFF_TYPES = {1: "B", 3: "H", 4: "I", 6: "B", 8: "H", 9: "I", 16: "Q", 17: "Q"}
_TIFF_SIZE, _TIFF_TILE, _BITS, _SAMPLES = (256, 257), (322, 323), 258, 277  # tags
_TIFF_TAGS = {*_TIFF_SIZE, *_TIFF_TILE, _BITS, _SAMPLES}
_PER_PIXEL = 12  # bytes that decoders of 8 bits, their image and a copy without alpha take

Announced = tuple[int, int, int]  # width, height, and bytes per pixel at the peak


def announced_size(data: bytes) -> Announced | None:
    """Return what the header of a PNG, JPEG, TIFF, WebP, BMP or GIF announces; None for other or damaged data."""
    tiff = dict.fromkeys((b"II*\0", b"MM\0*", b"II+\0", b"MM\0+"), _of_tiff)
    webp = {b"RIFF": _of_webp, b"/": lambda data: _of_webp(bytes(12) + b"VP8L" + bytes(4) + data[:10])}
    readers = {_PNG: _of_png, b"\xff\xd8": _of_jpeg, b"BM": _of_bmp, b"GIF8": _of_gif, **webp, **tiff}
    with suppress(struct.error, OverflowError, IndexError):
        return next((read(data) for first, read in readers.items() if data.startswith(first)), None)
    return None


def is_possible(data: bytes) -> bool:
    """Return whether a PNG can hold its pixels and chunks, for which OpenCV takes memory; True for other formats."""
    if not data.startswith(_PNG) or len(data) < 26:
        return True
    width, height, depth, colour = struct.unpack_from(">IIBB", data, 16)
    begin = len(_PNG)
    while begin + 4 <= len(data):
        begin += 12 + int.from_bytes(data[begin : begin + 4], "big")
    is_small = width * height * _CHANNELS.get(colour, 4) * depth // 8 <= _MOST_COMPRESSED * len(data)
    return is_small and begin <= len(data)


def _of_png(data: bytes) -> Announced:
    width, height, depth, colour = struct.unpack_from(">IIBB", data, 16)
    return width, height, 2 * _CHANNELS.get(colour, 4) * (2 if depth == 16 else 1)


def _of_jpeg(data: bytes) -> Announced | None:
    place = 2
    while (found := _JPEG_MARKER.search(data, place)) is not None:  # libjpeg skips bytes between segments, too
        kind, place = found[0][1], found.end()
        if kind in _JPEG_SIZES:
            height, width = struct.unpack_from(">HH", data, place + 3)
            return width, height, _PER_PIXEL
        place += 0 if kind in _JPEG_ALONE else struct.unpack_from(">H", data, place)[0]
    return None


def _of_tiff(data: bytes) -> Announced | None:
    order, is_big = "<" if data[:1] == b"I" else ">", 43 in data[2:4]

    def read(kind: str, place: int) -> int:
        return int(struct.unpack_from(order + kind, data, place)[0])

    number, word, room, length = ("Q", "Q", 8, 20) if is_big else ("H", "I", 4, 12)  # of an entry, and of its value
    begin = read(word, room)
    first = begin + struct.calcsize(number)
    values: dict[int, int] = {}
    for entry in range(first, min(first + read(number, begin) * length, len(data)), length):
        tag, kind = read("H", entry), _TIFF_TYPES.get(read("H", entry + 2))
        if tag in _TIFF_TAGS and kind is not None and tag not in values:
            place = entry + length - room
            with suppress(struct.error, OverflowError):
                fits = read(word, entry + 4) * struct.calcsize(kind) <= room
                values[tag] = read(kind, place if fits else read(word, place))
    per_pixel = max(2 * values.get(_SAMPLES, 1) * -(-values.get(_BITS, 64) // 8), _PER_PIXEL)
    image, tile = ((values.get(w, 0), values.get(h, 0)) for w, h in (_TIFF_SIZE, _TIFF_TILE))
    return (*max(image, tile, key=math.prod), per_pixel)


def _of_webp(data: bytes) -> Announced | None:
    places = {b"VP8 ": (48, 64, 0x3FFF, 0), b"VP8L": (8, 22, 0x3FFF, 1), b"VP8X": (32, 56, 0xFFFFFF, 1)}
    if data[12:16] not in places:
        return None
    bits = int.from_bytes(data[20:30], "little")
    across, down, most, least = places[data[12:16]]
    return (bits >> across & most) + least, (bits >> down & most) + least, _PER_PIXEL


def _of_bmp(data: bytes) -> Announced:
    is_old = struct.unpack_from("<I", data, 14)[0] == 12
    width, height = struct.unpack_from("<HH" if is_old else "<ii", data, 18)
    return abs(width), abs(height), _PER_PIXEL


def _of_gif(data: bytes) -> Announced:
    width, height = struct.unpack_from("<HH", data, 6)
    return width, height, _PER_PIXEL
