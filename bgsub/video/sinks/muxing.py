"""Write packets of video and sound into a file."""

from __future__ import annotations

import io
import logging
import math
from collections.abc import Iterator
from fractions import Fraction
from itertools import chain
from pathlib import Path
from typing import Any

import av

from bgsub.storage.durable_io import unlink
from bgsub.video.sinks.encoding import FORMATS, Encoding

logger = logging.getLogger("bgsub")

# Codecs that are copied, because players support them in the container; for Matroska FFmpeg gives the list.
_PCM = frozenset({"pcm_s16le", "pcm_s16be", "pcm_s24le", "pcm_s24be", "pcm_f32le"})
_COPIED = {
    "mp4": frozenset({"aac", "mp3", "ac3", "eac3", "opus", "flac", "alac"}),
    "mov": frozenset({"aac", "mp3", "ac3", "eac3", "alac"}) | _PCM,
    "webm": frozenset({"opus", "vorbis"}),
    "avi": frozenset({"aac", "mp3", "ac3", "pcm_s16le"}),
}
_ENCODED = {"mp4": "aac", "mov": "aac", "matroska": "flac", "webm": "libopus"}
_OPUS_RATE = 48_000
_FRAME_SIZE = 1024
# Tolerance for times that the container rounded.
_TOLERANCE = Fraction(1, 2000)


class AudioTrack:
    """The sound of a file from a time on: copied if the container supports its codec, otherwise encoded.

    `begin`, in seconds after the first picture of the file `source`, becomes time 0. `target` is the output container
    of PyAV before its header, `format` FFmpeg's name of it. LookupError if there is no sound for the container.
    """

    def __init__(self, source: Path, begin: float, target: Any, format: str) -> None:
        self._name = source
        self._input = av.open(str(source.absolute()))
        try:
            self._packets = self._open(begin, target, format)
        except BaseException:
            self._input.close()
            raise
        self._next: Any = None

    def until(self, seconds: float | Fraction) -> Iterator[Any]:
        """Yield the next packets that start before `seconds` after `begin`."""
        while True:
            if self._next is None:
                self._next = self._read()
            if self._next is None or self._next.pts * self._next.time_base >= seconds:
                return
            packet, self._next = self._next, None
            yield packet

    def close(self) -> None:
        """Close the file."""
        self._packets.close()
        self._input.close()

    def _read(self) -> Any:
        try:
            return next(self._packets, None)
        except av.error.FFmpegError as error:
            logger.warning("the sound of '%s' ends where it is damaged: %s", self._name, error)
            return None

    def _open(self, begin: float, target: Any, format: str) -> Any:
        if not self._input.streams.audio:
            raise LookupError("it has none")
        stream = self._input.streams.audio[0]
        name = stream.codec_context.codec.canonical_name
        copied = name in _COPIED.get(format, target.supported_codecs)
        if not copied and format not in _ENCODED:
            raise LookupError(f"the file cannot hold {name}")
        video = self._input.streams.best("video")
        start = Fraction(begin)
        if video is not None and video.start_time is not None:
            start += video.start_time * video.time_base
        if start > 1:
            self._input.seek(math.floor((start - 1) * av.time_base))
        if copied:
            return self._copy(stream, target.add_stream_from_template(stream), start)
        return self._encode(stream, target, _ENCODED[format], start)

    def _copy(self, stream: Any, output: Any, start: Fraction) -> Iterator[Any]:
        for packet in self._input.demux(stream):
            if packet.pts is None or packet.pts * packet.time_base < start - _TOLERANCE:
                continue
            shift = round(start / packet.time_base)
            packet.pts = max(packet.pts - shift, 0)
            packet.dts = packet.pts if packet.dts is None else max(packet.dts - shift, 0)
            packet.stream = output
            yield packet

    def _encode(self, stream: Any, target: Any, codec: str, start: Fraction) -> Iterator[Any]:
        rate = _rate_for(codec, stream.codec_context.sample_rate)
        layout = "mono" if stream.codec_context.channels == 1 else "stereo"
        output = target.add_stream(codec, rate=rate)
        output.codec_context.layout = layout
        output.codec_context.options = {"flags": "+bitexact+global_header"}
        format = {"aac": "fltp", "libopus": "flt", "flac": "s16"}[codec]
        output.codec_context.format = format
        resampler = av.AudioResampler(format=format, layout=layout, rate=rate)
        return self._encoded(stream, output, resampler, start)

    def _encoded(self, stream: Any, output: Any, resampler: Any, start: Fraction) -> Iterator[Any]:
        rate = output.codec_context.sample_rate
        fifo, position = av.AudioFifo(), None
        # None flushes resampler and encoder.
        for decoded in chain(self._input.decode(stream), (None,)):
            if decoded is not None and (decoded.pts is None or decoded.pts * decoded.time_base < start - _TOLERANCE):
                continue
            if position is None:
                if decoded is None:
                    return
                position = max(0, round((decoded.pts * decoded.time_base - start) * rate))
            for frame in resampler.resample(decoded):
                frame.pts = None
                fifo.write(frame)
            size = output.codec_context.frame_size or _FRAME_SIZE
            while (frame := fifo.read(size, partial=decoded is None)) is not None:
                frame.pts, frame.time_base = position, Fraction(1, rate)
                position += size
                yield from output.encode(frame)
        yield from output.encode(None)


def _rate_for(codec: str, rate: int) -> int:
    """Return the samples per second of the source, or the next higher rate of the encoder, or its highest."""
    if codec == "libopus":
        return _OPUS_RATE
    known = av.Codec(codec, "w").audio_rates
    if not known or rate in known:
        return rate
    return min((other for other in known if other > rate), default=max(known))


class Muxer:
    """Writes a stream of video and one of sound into a file; equal packets give equal bytes.

    A target other than a path gets Matroska, written from front to back. The sound is that of the file `audio_from`
    from the time `begin` on, in seconds; `fps` is for the header.
    """

    def __init__(
        self,
        target: Path | io.RawIOBase,
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
