"""Videos as outputs, with exact times, transparency and sound: files, and frames on standard output."""

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from bgsub.errors import ParameterError, ReaderGoneError, SinkError, logger, on_failure
from bgsub.separation import Separation
from bgsub.storage.durable_io import AnyPath, Journal, os_errors_as, playable_name, rename
from bgsub.video._pyav import av
from bgsub.video.output_names import parse_outputs
from bgsub.video.sinks import encoding
from bgsub.video.sinks.base import Sink, path_with_ending, prepare_folder
from bgsub.video.sources.base import Frame, FrameSource, rate_as_fraction
from bgsub.video.views import get_view

_ERRORS = (OSError, ValueError, LookupError, av.error.FFmpegError)

_SEGMENT = 250  # frames after which one can be decoded without those before it


class VideoSink(Sink):
    """Writes one view into a video file, with the times of the source.

    ========================  =====================================================================
    mask in .mkv              FFV1, lossless
    cutout in .mkv            FFV1 with alpha, lossless
    cutout in .mov            ProRes 4444, lossless alpha channel
    others                    H.264 (MPEG-4 where PyAV has no H.264)
    ========================  =====================================================================

    H.264 and MPEG-4 get an even width and height: the last column or row of an odd frame is repeated once.
    The first frame is at time 0. ``.mkv`` rounds times to milliseconds. Equal frames give equal bytes.

    The file grows as ``NAME.partial.EXT`` and is renamed at the end. With a `checkpoint` before the first frame it
    grows as ``NAME.EXT.partial``, which is no video until the end, with up to 250 lossless frames beside it: a resumed
    run encodes them again, so that the video is the same byte for byte.

    Parameters
    ----------
    path : str or path
        The file; its ending gives the container. Missing folders are created.
    view : str
        One of `VIEWS`.
    fps : float or Fraction, optional
        Frames per second for the header, and for frames without a time; 25 if unknown.
    audio_from : path, optional
        A file whose sound is written from the first frame to the last; `Frame.time` is relative to its first picture.
        It is copied; a warning is logged if the container cannot hold its codec.

    Raises
    ------
    ParameterError
        If the ending or the view is not allowed.
    SinkError
        If the file cannot be written.

    Examples
    --------
    >>> import bgsub
    >>> from bgsub.video import VideoSink
    >>> summary = bgsub.process_video("video.mp4", VideoSink("panel.mp4", "panel", fps=25))
    >>> bgsub.open_source("panel.mp4").size  # input, background, foreground and mask
    (128, 96)
    """

    def __init__(
        self,
        path: AnyPath,
        view: str = "mask",
        fps: float | Fraction | None = None,
        *,
        audio_from: AnyPath | None = None,
    ) -> None:
        self.path = path_with_ending(path, "a video file", tuple(encoding.FORMATS))
        self.partial_path = playable_name(self.path)
        self._view = get_view(view)
        fps = fps if isinstance(fps, Fraction) else rate_as_fraction(float(fps or 0)) or encoding.DEFAULT_FPS
        self._encoding = encoding.choose_encoding(view, self.path.suffix.lower(), fps)
        self._audio_from = None if audio_from is None else Path(audio_from)
        self._clock = Clock(self._encoding)
        self._shape: tuple[int, ...] = ()
        self._count = 0
        self._encoder: encoding.SegmentEncoder | None = None
        self._muxer: encoding.Muxer | None = None
        self._journal: Journal | None = None
        self._frames: encoding.SegmentFrames | None = None  # beside the journal, if frames depend on earlier ones
        self._begin = 0  # bytes of the journal when the segment began
        self._failed = False
        prepare_folder(self.path.parent)

    def write(self, frame: Frame, separation: Separation) -> None:
        image = self._encoding.prepare(self._view(separation))
        if not self._count:
            self._shape = image.shape
        if image.shape != self._shape:
            raise SinkError(f"'{self.path}' has images of shape {self._shape}, frame {frame.name} has {image.shape}")
        ticks = self._clock.ticks_of(frame)
        with self._failures():
            if self._encoder is None:
                if self._frames is not None and self._journal is not None:
                    self._begin = self._journal.size
                    self._frames.begin()
                self._encoder = encoding.SegmentEncoder(self._encoding, self._size)
            picture = self._encoder.frame_of(image, ticks)
            if self._frames is not None:
                self._frames.add(picture)
            self._store(self._encoder.encode(picture))
            self._count += 1
            if self._count % _SEGMENT == 0:
                self._end_segment()

    def close(self) -> None:
        if not self._count:
            return
        with self._failures():
            self._end_segment()
            if self._journal is not None:
                with on_failure(self._close_muxer):
                    for facts, data in self._journal.records():
                        self._mux(encoding.packet_from_bytes(facts, data, 1 / self._encoding.ticks))
            muxer, self._muxer = self._muxer, None
            if muxer is not None:
                muxer.finish(self._clock.end)
            rename(self.partial_path, self.path)
        for file in self._files:
            file.remove()
        self._count = 0

    def abort(self) -> None:
        if not self._count:
            return
        logged = self._failed
        try:
            with self._failures():
                if self._journal is None:
                    self._end_segment()
        except SinkError as error:
            if not logged:  # an earlier error occurs again here
                logger.warning("%s", error)
        self._encoder, self._count = None, 0
        for file in self._files:
            file.close()
        self._close_muxer()

    def checkpoint(self) -> dict[str, Any]:
        """Sync the frames to disk; see `Sink.checkpoint`."""
        if self._count and self._journal is None:
            raise SinkError(f"'{self.path}' can be resumed only with a checkpoint before the first frame")
        journal = self._journal or self._new_journal()
        with self._failures():
            if self._frames is None:
                self._end_segment()
            kept = None if self._frames is None else self._frames.checkpoint(self._encoder is not None)
        size = journal.sync()
        state = {"frames": self._count, "bytes": size if kept is None else self._begin, "kept": kept}
        return {**state, "shape": list(self._shape), "clock": [self._clock.first, self._clock.last]}

    def resume(self, state: dict[str, Any]) -> None:
        journal = self._journal or self._new_journal()
        journal.cut(state["bytes"])
        self._count, self._shape = state["frames"], tuple(state["shape"])
        self._clock.first, self._clock.last = state["clock"]
        if self._frames is not None and state["kept"] is not None:
            self._frames.resume(state["kept"])
            self._begin = state["bytes"]
            with self._failures():
                self._encoder = encoding.SegmentEncoder(self._encoding, self._size)
                for picture in self._frames.frames(self._size, self._encoder.time_base):
                    self._store(self._encoder.encode(picture))

    @property
    def _size(self) -> tuple[int, int]:
        return self._shape[1], self._shape[0]

    def _new_journal(self) -> Journal:
        self._journal = Journal(self.path)
        if self._encoding.codec not in encoding.INTRA:
            self._frames = encoding.SegmentFrames(self.path, self._encoding.pixels)
        return self._journal

    @property
    def _files(self) -> list[Journal | encoding.SegmentFrames]:
        """The temporary files of an output that can be resumed."""
        return [file for file in (self._journal, self._frames) if file is not None]

    def _end_segment(self) -> None:
        """Flush the encoder; the next frame starts a new segment."""
        encoder, self._encoder = self._encoder, None
        if encoder is not None:
            self._store(encoder.encode(None))

    def _store(self, packets: Iterable[Any]) -> None:
        for packet in packets:
            if self._journal is not None:
                self._journal.add(*encoding.packet_to_bytes(packet))
            else:
                self._mux(packet)

    def _mux(self, packet: Any) -> None:
        if self._muxer is None:
            begin = self._clock.first or 0.0
            self._muxer = encoding.Muxer(self.partial_path, self._encoding, self._size, self._audio_from, begin)
        self._muxer.write(packet)

    def _close_muxer(self) -> None:
        muxer, self._muxer = self._muxer, None
        if muxer is not None:
            with suppress(*_ERRORS):  # an earlier error, which was reported, occurs again here
                muxer.close()

    @contextmanager
    def _failures(self) -> Iterator[None]:
        """Raise errors of PyAV and the disk as `SinkError`."""
        try:
            yield
        except SinkError:
            raise
        except _ERRORS as error:
            self._failed = True
            reason = getattr(error, "strerror", None) or str(error)
            raise SinkError(f"'{self.path}' cannot be written: {reason}") from None


def as_separation(image: np.ndarray) -> Separation:
    """Wrap a finished image for a sink; its views ``mask`` and ``background`` are the image."""
    return Separation(image, image, image, np.empty(0, np.float32), np.empty(0), "tracking")


class Clock:
    """Converts frame times to increasing ticks, from 0 on."""

    def __init__(self, chosen: encoding.Encoding) -> None:
        self._fps, self._ticks = chosen.fps, chosen.ticks
        self.first: float | None = None
        self.last = -1

    @property
    def end(self) -> Fraction:
        """The end of the last frame, in seconds after the first one."""
        return self.last / self._ticks + 1 / self._fps

    def ticks_of(self, frame: Frame) -> int:
        time = frame.time if frame.time is not None else float(frame.index / self._fps)
        if self.first is None:
            self.first = time
        wanted = (time - self.first) * float(self._ticks)
        self.last = max(round(wanted), self.last + 1)
        return self.last


class Outlet:
    """The writing end of a pipe, with a buffer: Ctrl-C does not interrupt FFmpeg while it waits for a reader."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor, self._gone, self._waiting = descriptor, False, b""

    def write(self, data: bytes) -> None:
        self._waiting += data

    def flush(self) -> None:
        """Send the buffer, waiting for the reader; SinkError if the system refuses it, ReaderGoneError once."""
        if self._gone:
            return
        left, self._waiting, self._gone = memoryview(self._waiting), b"", True  # stays so after an error
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
        self._outlet, self._view = outlet, get_view(view)
        self._shape: tuple[int, ...] = ()
        chosen = encoding.choose_encoding(view, ".mkv", fps or encoding.DEFAULT_FPS)
        without_delay = {"tune": "zerolatency"} if chosen.codec == "libx264" else {}
        self._encoding = replace(chosen, options=chosen.options | without_delay)
        self._clock = Clock(self._encoding)
        self._encoder: encoding.SegmentEncoder | None = None
        self._muxer: encoding.Muxer | None = None

    def write(self, frame: Frame, separation: Separation) -> None:
        image = self._encoding.prepare(self._view(separation))
        self._shape = self._shape or image.shape
        if image.shape != self._shape:
            raise SinkError(f"standard output has frames of shape {self._shape}, frame {frame.name} has {image.shape}")
        if self._encoder is None:
            size = image.shape[1], image.shape[0]
            self._encoder = encoding.SegmentEncoder(self._encoding, size)
            self._muxer = encoding.Muxer(self._outlet, self._encoding, size)
        self._send(self._encoder.encode(self._encoder.frame_of(image, self._clock.ticks_of(frame))))

    def close(self) -> None:
        encoder, self._encoder = self._encoder, None
        with closing(self._outlet):
            if encoder is not None and self._muxer is not None:
                self._send(encoder.encode(None))
                self._muxer.finish(self._clock.end)
                self._send(())

    def checkpoint(self) -> dict[str, Any]:
        raise SinkError("standard output cannot be continued")

    def _send(self, packets: Iterable[Any]) -> None:
        assert self._muxer is not None
        for packet in packets:
            self._muxer.write(packet)
        self._outlet.flush()


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
    if sys.stdout is not None:  # if it is closed, the first write fails
        sys.stdout.flush()
    outlet = Outlet(os.dup(1))
    os.dup2(2, 1)
    return StreamSink(outlet, spec.view, source.fps), spec.view
