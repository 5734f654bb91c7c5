"""Packets into a container, with the sound between them."""

from __future__ import annotations

import io
from fractions import Fraction
from pathlib import Path
from typing import Any

from bgsub.storage.durable_io import unlink
from bgsub.video.sinks._av_audio import open_audio
from bgsub.video.sinks._av_encoding import FORMATS, Encoding
from bgsub.video.sources.av_container import import_av


class Muxer:
    """Writes one video stream, and one of sound, into a file; the same packets always give the same bytes.

    What is no path is written to from front to back, as Matroska. The sound is that of the file `audio_from` from
    `begin` on, the time of the first frame in it in seconds; `fps` stands in the header. Where the file cannot be
    written, all methods raise FFmpegError or OSError.
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
        av = import_av()
        format = FORMATS[target.suffix.lower()] if isinstance(target, Path) else "matroska"
        ticks = encoding.ticks(fps)
        options = {"fflags": "+bitexact"}
        if format in ("mp4", "mov"):
            options |= {"movflags": "+faststart", "video_track_timescale": str(ticks)}
        # An absolute path, as FFmpeg takes "take1:2.avi" for a network protocol.
        if not isinstance(target, Path):
            options |= {"cluster_time_limit": "0", "flush_packets": "1"}  # whoever reads need not wait for the next
        else:
            unlink(target)  # a link of somebody else would lead to another file
        file = str(target.absolute()) if isinstance(target, Path) else target
        self._container = av.open(file, "w", format=format, options=options)
        self._audio = None
        try:
            self._stream = self._container.add_stream(encoding.codec, rate=fps)
            encoding.configure(self._stream.codec_context, size, fps)
            self._stream.time_base = 1 / ticks
            self._audio = open_audio(audio_from, begin, self._container, format)
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
