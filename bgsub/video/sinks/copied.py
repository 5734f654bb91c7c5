"""Parts of video files, copied instead of encoded."""

from __future__ import annotations

import io
import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from fractions import Fraction
from pathlib import Path

from bgsub.errors import SinkError
from bgsub.separation import Separation
from bgsub.storage.durable_io import playable_name, replacing
from bgsub.video.sinks._av_copy import PacketCopy, Piece
from bgsub.video.sinks._av_encoding import FORMATS
from bgsub.video.sinks.base import Sink, prepare_folder
from bgsub.video.sources.av_container import import_av
from bgsub.video.sources.base import FilePart, Frame

_CLOSE = 1e-6  # seconds


class CopySink(Sink):
    """From the keyframe before the first frame that is written to the last one, with sound, as they are in the source.

    Nothing is encoded: `close` copies the packets. What lies between two frames that are written is there as well.

    Parameters
    ----------
    path : Path
        The file, with the ending that `ending_of_copy` returns for those of the source.
    files : sequence of FilePart
        Those of the source, see `FrameSource.files`; at least one.

    Attributes
    ----------
    start : float or None
        Once it is closed: when the first picture in the file is shown, in seconds of the source.

    Raises
    ------
    SinkError
        If the file cannot be written, or the source cannot be read any more.
    """

    def __init__(self, path: Path, files: Sequence[FilePart]) -> None:
        self.path, self._files = path, files
        self.start: float | None = None
        self._first: float | None = None
        self._last = 0.0
        prepare_folder(path.parent)

    def write(self, frame: Frame, separation: Separation) -> None:
        assert frame.time is not None
        self._first = frame.time if self._first is None else self._first
        self._last = frame.time

    def close(self) -> None:
        first, self._first = self._first, None
        if first is not None:
            self.start = copy_spans(self._files, [(first, self._last)], self.path)

    def abort(self) -> None:
        self._first = None


def copy_spans(files: Sequence[FilePart], spans: Sequence[tuple[float, float]], path: Path) -> float:
    """Copy spans of a source behind each other into one file, each from the keyframe before it on.

    Parameters
    ----------
    files : sequence of FilePart
        Those of the source.
    spans : sequence of (float, float)
        Times of the first and the last frame of each, in seconds of the source.
    path : Path
        The file.

    Returns
    -------
    float
        When the first picture is shown, in seconds of the source.

    Raises
    ------
    SinkError
        As `join_files`.
    """
    parts = [part for first, last in spans for part in _parts(files, first, last)]
    start = _join([piece for _, piece in parts], path)
    return parts[0][0].begin + float(start - parts[0][0].stamp)


def _parts(files: Sequence[FilePart], first: float, last: float) -> Iterator[tuple[FilePart, Piece]]:
    """Yield the files with something of a span, and what of them."""
    ends = [*(part.begin for part in files[1:]), math.inf]
    for part, end in zip(files, ends, strict=False):  # the list may grow meanwhile
        if part.begin <= last + _CLOSE and first < end - _CLOSE:
            times = (first if first > part.begin + _CLOSE else None, last if last < end - _CLOSE else None)
            places = (None if time is None else Fraction(time - part.begin) + part.stamp for time in times)
            yield part, Piece(part.path, *places)


def join_files(paths: Sequence[Path], path: Path) -> None:
    """Copy whole video files, which were encoded alike, behind each other into one file.

    Raises
    ------
    SinkError
        If one cannot be read, or the file not be written; nothing is left of it.
    """
    _join([Piece(name) for name in paths], path)


def _join(pieces: Sequence[Piece], path: Path) -> Fraction:
    """Do what `join_files` does; return when the first picture is shown, on the clock of the first file."""
    errors = (OSError, ValueError, import_av().error.FFmpegError)
    reading = pieces[0].path
    try:
        with replacing(path, playable_name(path)) as partial:
            copy = PacketCopy(partial, reading)
            starts = []
            try:
                for piece in pieces:
                    reading = piece.path
                    starts.append(copy.append(piece))
            except BaseException:
                with suppress(*errors):  # what failed once fails again here
                    copy.close()
                raise
            copy.close()
            return starts[0]
    except errors as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise SinkError(f"'{path}' cannot be copied out of '{reading}': {reason}") from None


def ending_of_copy(path: Path) -> str | None:
    """Return the ending of the files that parts of a video file can be copied into; None if there is none."""
    ending = path.suffix.lower()
    ending = ending if ending in FORMATS and ending != ".avi" else ".mkv"
    try:
        PacketCopy(io.BytesIO(), path, FORMATS[ending]).close()
    except (OSError, ValueError, import_av().error.FFmpegError):
        return None
    return ending
