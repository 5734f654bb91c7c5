"""Frames on standard output, as an encoded video."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from bgsub.errors import ParameterError, ReaderGoneError, SinkError
from bgsub.separation import Separation
from bgsub.storage.durable_io import os_errors_as
from bgsub.video.output_names import parse_outputs
from bgsub.video.sinks.base import Sink
from bgsub.video.sinks.encoding import DEFAULT_FPS, SegmentEncoder, choose_encoding
from bgsub.video.sinks.muxing import Muxer
from bgsub.video.sinks.video import Clock
from bgsub.video.sources.base import Frame, FrameSource
from bgsub.video.views import get_view


class Outlet:
    """The writing end of a pipe; when the reader closes it, `write` raises `ReaderGoneError` once."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor, self._gone = descriptor, False

    def write(self, data: bytes) -> None:
        """Write all bytes, waiting for the reader; SinkError if the system refuses them."""
        if self._gone:
            return
        left, self._gone = memoryview(data), True  # stays so after an error
        with os_errors_as(SinkError, "standard output cannot be written"):
            try:
                while left:
                    left = left[os.write(self._descriptor, left) :]
            except BrokenPipeError:
                raise ReaderGoneError("the reader closed standard output") from None
        self._gone = False

    def close(self) -> None:
        """Close the pipe; may be called more than once."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor, self._gone = -1, True


class StreamSink(Sink):
    """Writes one view to a pipe as Matroska with exact times: masks and cutouts lossless (FFV1), others as H.264."""

    def __init__(self, outlet: Outlet, view: str, fps: Fraction | None) -> None:
        self._outlet, self._view, self._fps = outlet, get_view(view), fps or DEFAULT_FPS
        self._shape: tuple[int, ...] = ()
        encoding = choose_encoding(view, ".mkv")
        without_delay = {"tune": "zerolatency"} if encoding.codec == "libx264" else {}
        self._encoding = replace(encoding, options=encoding.options | without_delay)
        self._clock = Clock(self._fps, self._encoding.ticks(self._fps))
        self._buffer = _Buffer()
        self._encoder: SegmentEncoder | None = None
        self._muxer: Muxer | None = None

    def write(self, frame: Frame, separation: Separation) -> None:
        image = self._encoding.prepare(self._view(separation))
        self._shape = self._shape or image.shape
        if image.shape != self._shape:
            raise SinkError(f"standard output has frames of shape {self._shape}, frame {frame.name} has {image.shape}")
        if self._encoder is None:
            size = image.shape[1], image.shape[0]
            self._encoder = SegmentEncoder(self._encoding, size, self._fps)
            self._muxer = Muxer(self._buffer, self._encoding, size, self._fps, None, 0.0)
        self._send(self._encoder.encode(self._encoder.frame_of(image, self._clock.ticks_of(frame))))

    def close(self) -> None:
        encoder, self._encoder = self._encoder, None
        try:
            if encoder is not None and self._muxer is not None:
                self._send(encoder.encode(None))
                self._muxer.finish(self._clock.end)
                self._outlet.write(self._buffer.take())
        finally:
            self._outlet.close()

    def checkpoint(self) -> dict[str, Any]:
        """Raise `SinkError`: a pipe cannot be resumed."""
        raise SinkError("standard output cannot be continued")

    def _send(self, packets: Iterable[Any]) -> None:
        assert self._muxer is not None
        for packet in packets:
            self._muxer.write(packet)
        self._outlet.write(self._buffer.take())


class _Buffer(bytearray):
    """Output buffer for FFmpeg, because Ctrl-C does not interrupt FFmpeg while it waits for a reader."""

    write = bytearray.extend

    def take(self) -> bytes:
        """Return the content and clear the buffer."""
        taken = bytes(self)
        self.clear()
        return taken


def standard_output_sink(outputs: Sequence[str], source: FrameSource) -> tuple[StreamSink, str]:
    """Return the sink of the only output, and its view; other output of the process then goes to standard error."""
    spec, *others = parse_outputs(outputs)
    if others:
        raise ParameterError(f"standard output takes one view, got {', '.join(map(str, (spec, *others)))}")
    if spec.kind == "still":
        raise ParameterError(f"standard output takes a view such as mask or panel, got {spec}")
    if spec.ending not in (None, ".mkv"):
        raise ParameterError(f"standard output takes {spec.view}.mkv, got {spec}")
    if os.isatty(1):
        raise SinkError("standard output is a terminal: frames go into a file or a program, as in '-o - | ffplay -'")
    if sys.stdout is not None:  # it was closed: the first write says so
        sys.stdout.flush()
    outlet = Outlet(os.dup(1))
    os.dup2(2, 1)
    return StreamSink(outlet, spec.view, source.fps), spec.view
