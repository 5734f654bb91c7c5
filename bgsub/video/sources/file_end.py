"""Whether a video file is as long as its header says: AVI, Matroska, MP4 and GIF give it exactly."""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO

_MP4 = frozenset({b"ftyp", b"moov", b"mdat", b"free", b"skip", b"wide"})
_EBML, _SEGMENT = b"\x1a\x45\xdf\xa3", b"\x18\x53\x80\x67"


def is_cut(path: Path) -> bool:
    """Return whether bytes are missing at the end of a file; False for other kinds of files."""
    with path.open("rb") as file:
        begin, size = file.read(12), path.stat().st_size
        if _is_avi(begin):
            return _riff_end(file) > size
        if begin[:4] == _EBML:
            return _segment_end(file) > size
        if begin[:4] == b"GIF8":
            file.seek(max(size - 64, 0))
            return not file.read().rstrip(b"\0").endswith(b";")
        return begin[4:8] in _MP4 and _media_end(file, size) > size


def has_counted_frames(path: Path) -> bool:
    """Return whether the header of a file counts its frames; in other kinds of files they follow from durations."""
    with path.open("rb") as file:
        begin = file.read(12)
    return begin[4:8] in _MP4 or _is_avi(begin)


def _is_avi(begin: bytes) -> bool:
    return begin[:4] == b"RIFF" and begin[8:] == b"AVI "


def _riff_end(file: BinaryIO) -> int:
    """Return the end of the first part of an AVI; 0 if the header does not say it."""
    file.seek(4)
    length = int.from_bytes(file.read(4), "little")
    return 0 if length == 0xFFFFFFFF else 8 + length


def _segment_end(file: BinaryIO) -> int:
    """Return the end of the frames of a Matroska file; 0 if the header does not say it."""
    file.seek(4)
    file.seek(_matroska_number(file) or 0, os.SEEK_CUR)
    length = _matroska_number(file) if file.read(4) == _SEGMENT else None
    return 0 if length is None else file.tell() + length


def _matroska_number(file: BinaryIO) -> int | None:
    """Read a number whose leading zero bits give its length; None for all ones, which means unknown."""
    first = file.read(1)[0:1] or b"\0"
    more = 8 - first[0].bit_length()
    unknown = (1 << 7 * (more + 1)) - 1
    value = int.from_bytes(first + file.read(more), "big") & unknown
    return None if value == unknown else value


def _media_end(file: BinaryIO, size: int) -> int:
    """Return the end of the MP4 box with the frames if it lies after the end of the file, else 0."""
    place = 0
    while place + 8 <= size:
        file.seek(place)
        length, kind = int.from_bytes(file.read(4), "big"), file.read(4)
        if length == 1:
            length = int.from_bytes(file.read(8), "big")
        if length < 8:  # to the end of the file, or no box
            return 0
        place += length
        if kind == b"mdat" and place > size:
            return place
    return 0
