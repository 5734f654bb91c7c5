"""Write packets of video and sound into a file."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from typing import Any

from bgsub.errors import SourceError, logger
from bgsub.storage.durable_io import unlink
from bgsub.video._pyav import ANY_METADATA, av
from bgsub.video.sinks.encoding import FORMATS, TOLERANCE, Encoding
from bgsub.video.sources.av_container import RESTART, starts_over
from bgsub.video.sources.video_file import VideoFileSource

# Codecs that are copied, because players support them in the container; for Matroska FFmpeg gives the list.
_PCM = frozenset({"pcm_s16le", "pcm_s16be", "pcm_s24le", "pcm_s24be", "pcm_f32le"})
#: Before the time of the first frame in the source, in the comment of a file.
BEGIN = "start="
_COPIED = {
    "mp4": frozenset({"aac", "mp3", "ac3", "eac3", "opus", "flac", "alac"}),
    "mov": frozenset({"aac", "mp3", "ac3", "eac3", "alac"}) | _PCM,
}


class AudioTrack:
    """The sound of a file from `begin` seconds after the first picture on, copied to `target`; LookupError for none."""

    def __init__(self, source: Path, begin: float, target: Any, format: str) -> None:
        self._name = source
        self._input = av.open(str(source.absolute()), **ANY_METADATA)
        try:
            self._packets = self._open(begin, target, format)
        except BaseException:
            self._input.close()
            raise
        self._next: Any = None

    def until(self, seconds: float | Fraction) -> Iterator[Any]:
        """Yield the next packets that start before `seconds` after `begin`."""
        while True:
            try:
                self._next = next(self._packets, None) if self._next is None else self._next
            except av.error.FFmpegError as error:
                logger.warning("the sound of '%s' ends where it is damaged: %s", self._name, error)
            if self._next is None or self._next.pts * self._next.time_base >= seconds:
                return
            packet, self._next = self._next, None
            yield packet

    def close(self) -> None:
        """Close the file."""
        self._packets.close()
        self._input.close()

    def _open(self, begin: float, target: Any, format: str) -> Any:
        if not self._input.streams.audio:
            raise LookupError("it has none")
        stream = self._input.streams.audio[0]
        name = stream.codec_context.codec.canonical_name
        if name not in _COPIED.get(format, target.supported_codecs):
            raise LookupError(f"the file cannot hold {name}, .mkv holds most codecs")
        start, jumps = Fraction(begin), begin > 1
        with suppress(SourceError):  # of a file without pictures
            start += VideoFileSource(self._name).files[0].stamp
            jumps = jumps and not starts_over(self._name)
        if jumps:
            self._input.seek(math.floor((start - 1) * av.time_base))
        return self._copy(stream, target.add_stream_from_template(stream), start)

    def _copy(self, stream: Any, output: Any, start: Fraction) -> Iterator[Any]:
        end: Fraction | None = None
        for packet in self._input.demux(stream):
            if packet.pts is None:
                continue
            at = packet.pts * packet.time_base
            if end is not None and at < end - RESTART:
                start += at - end  # the clock starts over
            end = at + (packet.duration or 0) * packet.time_base
            if at < start - TOLERANCE:
                continue
            shift = round(start / packet.time_base)
            packet.pts = max(packet.pts - shift, 0)
            packet.dts = packet.pts if packet.dts is None else max(packet.dts - shift, 0)
            packet.stream = output
            yield packet


class Muxer:
    """Writes video, and sound of `audio_from` from `begin` on, into a path, or as Matroska into an open file."""

    def __init__(
        self,
        target: Any,
        encoding: Encoding,
        size: tuple[int, int],
        fps: Fraction,
        audio_from: Path | None,
        begin: float,
    ) -> None:
        format = FORMATS[target.suffix.lower()] if isinstance(target, Path) else "matroska"
        ticks = encoding.ticks(fps)
        options = {"fflags": "+bitexact"}
        if format in ("mp4", "mov"):
            options |= {"movflags": "+faststart", "video_track_timescale": str(ticks)}
        file: Any = target
        if isinstance(target, Path):
            unlink(target)  # it could be a link to another file
            file = str(target.absolute())  # FFmpeg takes "take1:2.avi" for a network protocol
        else:
            options |= {"cluster_time_limit": "0", "flush_packets": "1"}  # without delay for the reader
        self._container = av.open(file, "w", format=format, options=options)
        self._audio: AudioTrack | None = None
        if begin > 0:
            self._container.metadata["comment"] = f"{BEGIN}{begin:.6f}"
        try:
            self._stream = self._container.add_stream(encoding.codec, rate=fps)
            encoding.configure(self._stream.codec_context, size, fps)
            self._stream.time_base = 1 / ticks
            if audio_from is not None:
                try:
                    self._audio = AudioTrack(audio_from, begin, self._container, format)
                except (OSError, ValueError, LookupError, av.error.FFmpegError) as error:
                    logger.warning("no sound of '%s' in the video: %s", audio_from, error)
            self._container.start_encoding()
        except BaseException:
            self.close()
            raise

    def write(self, packet: Any) -> None:
        """Append one packet of video, after the sound before it."""
        self._write_audio(packet.pts * packet.time_base)
        packet.stream = self._stream
        self._container.mux_one(packet)

    def finish(self, end: float | Fraction) -> None:
        """Complete the file with the sound up to `end`, in seconds."""
        try:
            self._write_audio(end)
        finally:
            self.close()

    def close(self) -> None:
        """Complete the file."""
        if self._audio is not None:
            self._audio.close()
        self._container.close()

    def _write_audio(self, end: float | Fraction) -> None:
        if self._audio is not None:
            for packet in self._audio.until(end):
                self._container.mux_one(packet)
