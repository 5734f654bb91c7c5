"""Copy parts of video files without encoding them."""

import heapq
import io
import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from fractions import Fraction
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from bgsub.errors import SinkError, on_failure
from bgsub.separation import Separation
from bgsub.storage.durable_io import playable_name, replacing
from bgsub.video._pyav import ANY_METADATA, av
from bgsub.video.sinks.base import Sink, prepare_folder
from bgsub.video.sinks.encoding import FORMATS, TOLERANCE
from bgsub.video.sources.av_container import first_video
from bgsub.video.sources.base import FilePart, Frame
from bgsub.video.timecode import CLOSE

_ERRORS = (OSError, ValueError, av.error.FFmpegError)
_STEP_BACK = 10  # seconds, if a seek without an index ends after the keyframe


class Piece(NamedTuple):
    """A part of a file, in seconds on its clock; None for the start or end of the file."""

    path: Path
    begin: Fraction | None = None  # of a frame; the copy starts at the keyframe at or before it
    end: Fraction | None = None  # of the last frame


class PacketCopy:
    """Copies pieces of files such as `like`, video and the first sound, into a path or an open file with a `format`."""

    def __init__(self, target: Path | io.BytesIO, like: Path, format: str | None = None) -> None:
        place: Any = target
        options = {"fflags": "+bitexact"}
        if isinstance(target, Path):
            format, place = FORMATS[target.suffix.lower()], str(target.absolute())
            options |= {"movflags": "+faststart"} if format in ("mp4", "mov") else {}
        self._container = av.open(place, "w", format=format, options=options)
        with on_failure(self._container.close):
            with av.open(str(like.absolute()), **ANY_METADATA) as source:
                streams = [first_video(source), *source.streams.audio[:1]]
                self._streams = [self._container.add_stream_from_template(stream) for stream in streams]
                self._streams[0].codec_context.framerate = streams[0].average_rate or 0  # for the header
            self._container.start_encoding()
        self._last = [-float("inf")] * len(streams)  # decoding times, which must increase
        self._end = Fraction(0)  # where the next piece begins

    def append(self, piece: Piece) -> Fraction:
        """Append a piece; return the time of its first picture on the clock of its file."""
        pictures = self._pictures(piece)
        first = next(pictures)  # there is one, as the keyframe was found
        start = first.pts * first.time_base
        shift, packets = self._end - start, [chain([first], pictures), self._sounds(piece, start)]
        for packet in heapq.merge(*packets, key=lambda packet: packet.dts * packet.time_base):
            number = int(packet.stream.type != "video")
            ticks = round(shift / packet.time_base)
            packet.pts, packet.dts = packet.pts + ticks, packet.dts + ticks
            if not number:
                self._end = max(self._end, (packet.pts + packet.duration) * packet.time_base)
            self._mux(packet, number)
        return start

    def close(self) -> None:
        self._container.close()

    def _mux(self, packet: Any, number: int) -> None:
        packet.stream = stream = self._streams[number]
        # At the border of two pieces, reordered packets of the first may come as late as the start of the second.
        rounded = packet.dts * packet.time_base / stream.time_base
        if rounded <= self._last[number]:
            rounded = self._last[number] + 1
            packet.dts = round(rounded * stream.time_base / packet.time_base)
            packet.pts = max(packet.pts, packet.dts)
        self._last[number] = rounded
        self._container.mux_one(packet)

    def _pictures(self, piece: Piece) -> Iterator[Any]:
        with av.open(str(piece.path.absolute()), **ANY_METADATA) as source:
            stream = first_video(source)
            key = self._go_to_keyframe(source, stream, piece.begin)
            interval = round(1 / (stream.average_rate or 25) / stream.time_base)
            end = None if piece.end is None else round(piece.end / stream.time_base)
            waiting: list[Any] = []  # Matroska has no decoding times for the first packets
            newest = key
            for packet in self._packets(source, stream):
                if packet.pts < key:  # pictures shown before the keyframe depend on earlier ones
                    continue
                # A reordered group of pictures is copied to its end.
                if packet.dts is not None and end is not None and packet.dts > end and packet.pts > newest:
                    break
                newest = max(newest, packet.pts)
                packet.duration = packet.duration or interval
                waiting.append(packet)
                if packet.dts is not None:
                    yield from _with_order(waiting, interval)
                    waiting = []
            yield from _with_order(waiting, interval)

    def _go_to_keyframe(self, source: Any, stream: Any, begin: Fraction | None) -> int:
        """Seek to the last keyframe at or before a frame, or to the first one; return its time stamp."""
        earliest = stream.start_time or 0
        target = earliest if begin is None else round(begin / stream.time_base)
        back = 0
        while True:
            place = max(target - round(back / stream.time_base), earliest)
            source.seek(place, stream=stream, backward=True)
            key: int | None = None
            for packet in self._packets(source, stream):
                if packet.pts > target and (key is not None or place > earliest):
                    break
                key = packet.pts if packet.is_keyframe else key
            if key is not None:
                source.seek(place, stream=stream, backward=True)
                return key
            if place == earliest:
                raise ValueError("it has no keyframe")
            back = 2 * back or _STEP_BACK

    def _sounds(self, piece: Piece, start: Fraction) -> Iterator[Any]:
        if len(self._streams) < 2:
            return
        with av.open(str(piece.path.absolute()), **ANY_METADATA) as source:
            stream = source.streams.audio[0]
            fps = first_video(source).average_rate or 25
            source.seek(max(int((start - 1) / stream.time_base), 0), stream=stream, backward=True)
            for packet in self._packets(source, stream):
                at = packet.pts * packet.time_base
                if piece.end is not None and at >= piece.end + 1 / fps:
                    return
                if at >= start - TOLERANCE:
                    packet.dts = packet.pts if packet.dts is None else packet.dts
                    yield packet

    def _packets(self, source: Any, stream: Any) -> Iterator[Any]:
        """Yield the packets of a stream with times; end early where the file is broken."""
        with suppress(av.error.FFmpegError):
            for packet in source.demux(stream):
                packet.pts = packet.dts if packet.pts is None else packet.pts
                if packet.pts is not None and packet.size:
                    yield packet


def _with_order(packets: list[Any], interval: int) -> list[Any]:
    """Give each packet a decoding time, in steps of `interval` back from the last packet."""
    for packet, after in zip(packets[-2::-1], packets[:0:-1], strict=True):
        packet.dts = (after.pts if after.dts is None else after.dts) - interval
    if packets and packets[-1].dts is None:
        packets[-1].dts = packets[-1].pts
    return packets


class CopySink(Sink):
    """Copies the files of a source, from the keyframe before the first written frame to the last one, with sound."""

    def __init__(self, path: Path, files: Sequence[FilePart]) -> None:
        self.path, self._files = path, files
        self.start: float | None = None  # after `close`, of the first picture in the file, in seconds of the source
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
            parts = list(_parts(self._files, first, self._last))
            start = _join([piece for _, piece in parts], self.path)
            self.start = parts[0][0].begin + float(start - parts[0][0].stamp)

    def abort(self) -> None:
        self._first = None


def _parts(files: Sequence[FilePart], first: float, last: float) -> Iterator[tuple[FilePart, Piece]]:
    """Yield the files that overlap a span, and the pieces of them."""
    ends = [*(part.begin for part in files[1:]), math.inf]
    for part, end in zip(files, ends, strict=False):  # the list may grow meanwhile
        if part.begin <= last + CLOSE and first < end - CLOSE:
            times = (first if first > part.begin + CLOSE else None, last if last < end - CLOSE else None)
            places = (None if time is None else Fraction(time - part.begin) + part.stamp for time in times)
            yield part, Piece(part.path, *places)


def _join(pieces: Sequence[Piece], path: Path) -> Fraction:
    """Copy pieces one after the other into one file; return the time of its first frame in the first piece."""
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
                with suppress(*_ERRORS):  # the error occurs again here
                    copy.close()
                raise
            copy.close()
            return starts[0]
    except _ERRORS as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise SinkError(f"'{path}' cannot be copied out of '{reading}': {reason}") from None


def ending_of_copy(path: Path) -> str | None:
    """Return the ending for files with copied parts of a video file; None if they cannot be copied."""
    ending = path.suffix.lower()
    ending = ending if ending in FORMATS else ".mkv"
    with suppress(*_ERRORS):
        PacketCopy(io.BytesIO(), path, FORMATS[ending]).close()
        return ending
    return None
