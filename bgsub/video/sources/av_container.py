"""Video files opened by PyAV, with threads or on a hardware decoder, and their frames in order."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bgsub.errors import DependencyError, SourceError, import_optional
from bgsub.video.containment import FORMATS
from bgsub.video.sources.base import logger
from bgsub.video.sources.pipe import Pipe

# Here each packet makes one frame. With other codecs it cannot be known which frames a decoder with threads, whose
# errors come late and at the end swallow what follows, has lost.
ONE_FRAME_PER_PACKET = frozenset({"av1", "dnxhd", "ffv1", "h264", "hevc", "huffyuv", "mjpeg", "prores"})

# More than decoders hold back: a frame for each thread and 16 to put them in order.
_HELD_BACK = 512


def import_av() -> Any:
    """Return the module `av`; `DependencyError` where it is not installed or cannot be loaded."""
    return import_optional("av", "decoding by PyAV needs the package av: pip install 'bgsub[av]'")


def is_available() -> bool:
    """Whether PyAV can be used."""
    try:
        import_av()
    except DependencyError:
        return False
    return True


class Container:
    """An opened video file, or a stream from a pipe; closed with its last frame or by `close`.

    With `threads` several frames are decoded at a time, where it can be known which are lost; `hardware` is the kind of
    a hardware decoder, as ``"cuda"``, which raises FFmpegError, RuntimeError or NotImplementedError where it does not
    work. SourceError where the file is no video. `broken` is whether it has ended within a packet.
    """

    def __init__(self, path: Path | Pipe, threads: bool = True, hardware: str | None = None) -> None:
        av = import_av()
        self._av, self.path, self.broken = av, path, False
        self._lock, self._closed = threading.Lock(), False
        options: dict[str, Any] = {"metadata_errors": "replace", "options": {"format_whitelist": FORMATS}}
        if hardware is not None:
            options["hwaccel"] = av.codec.hwaccel.HWAccel(hardware, allow_software_fallback=False)
        problem = f"'{path}' is not a video that can be read, or it is damaged"
        if isinstance(path, Pipe):
            problem = no_video(path)
        try:
            # FFmpeg takes "take1:2.avi" for a network protocol, but never a path that starts with a slash.
            self.container = av.open(str(path.absolute()) if isinstance(path, Path) else path, **options)
        except (av.error.FFmpegError, OSError):
            if hardware is not None:
                raise
            raise SourceError(problem) from None
        stream = first_video(self.container)
        if stream is None or stream.codec_context is None:
            self.container.close()
            raise SourceError(problem)
        self.stream: Any = stream
        self.one_frame_per_packet = stream.codec_context.codec.canonical_name in ONE_FRAME_PER_PACKET
        self.threads = threads and hardware is None and self.one_frame_per_packet
        stream.thread_type = "AUTO" if self.threads else "SLICE"

    @property
    def has_audio(self) -> bool:
        """Whether there is sound."""
        return bool(self.container.streams.audio)

    @property
    def has_stamps(self) -> bool:
        """Whether the time stamps are true: AVI has none, which shows where frames are not stored in order."""
        return "avi" not in self.container.format.name.split(",") or not self.stream.codec_context.has_b_frames

    @property
    def seconds(self) -> float | None:
        """Duration that the header announces; None if unknown."""
        if self.stream.duration:
            return float(self.stream.duration * self.stream.time_base)
        return self.container.duration / 1e6 if self.container.duration else None

    def packets(self) -> Iterator[Any]:
        """Yield the packets of the video, and at the end one without data; ends early where the file is broken.

        SourceError ends the generator safely once the container is closed, whichever thread closed it.
        """
        packets = self.container.demux(self.stream)
        while True:
            with self._use():
                try:
                    packet = next(packets, None)
                except self._av.error.FFmpegError:
                    self.broken = True
                    return
            if packet is None:
                return
            if packet.size:
                self.broken = packet.is_corrupt
            yield packet

    def frames(self) -> Iterator[Any]:
        """Yield the frames in the order they are seen, None for one that cannot be decoded; errors as `packets`."""
        sent: deque[int] = deque(maxlen=_HELD_BACK)
        last: int | None = None
        for packet in self.packets():
            flush = packet.size == 0 and packet.dts is None
            if packet.pts is not None and not packet.is_discard:
                sent.append(packet.pts)
            for frame in self._decode(packet):
                last = last if frame is None else frame.pts
                yield frame
            if flush:
                break
        if self.threads and last is not None:
            # At the first damage PyAV stops to ask the decoder for what it still holds.
            yield from [None for stamp in sent if stamp > last]

    def _decode(self, packet: Any) -> list[Any]:
        with self._use():
            try:
                return packet.decode()
            except self._av.error.EOFError:
                return []
            except self._av.error.FFmpegError:
                return [None]

    def seek(self, timestamp: int) -> None:
        """Go on at the last keyframe at or before a time stamp of the stream."""
        self.container.seek(timestamp, stream=self.stream, backward=True)

    def close(self) -> None:
        """Release the file; waits for a frame that is being decoded in another thread."""
        with self._lock:
            self._closed = True
            self.container.close()

    @contextmanager
    def _use(self) -> Iterator[None]:
        # FFmpeg reads freed memory after the end of a container.
        with self._lock:
            if self._closed:
                raise SourceError(f"video '{self.path}' is closed")
            yield


def first_video(container: Any) -> Any:
    """Return the first video stream that is no picture of a cover; None if there is none."""
    cover = type(container.streams.video[0].disposition).attached_pic if container.streams.video else 0
    return next((stream for stream in container.streams.video if not stream.disposition & cover), None)


def working_hardware(path: Path, name: str) -> str | None:
    """Return the kind of a hardware decoder that decodes the file; None, with a warning in the log, if none does."""
    av = import_av()
    kinds = list(av.codec.hwaccel.hwdevices_available())
    for kind in kinds:
        try:
            container = Container(path, hardware=kind)
        except (av.error.FFmpegError, OSError, RuntimeError, NotImplementedError):
            continue
        try:
            if container.stream.codec_context.is_hwaccel and next(container.frames(), None) is not None:
                return kind
        except (av.error.FFmpegError, OSError, RuntimeError):
            continue
        finally:
            container.close()
    tried = f"tried {', '.join(kinds)}" if kinds else "this FFmpeg knows none"
    logger.warning("no hardware decoder works for %s (%s): it is decoded in software", name, tried)
    return None


def no_video(pipe: Pipe) -> str:
    """Return what to say of a pipe through which no video comes that can be decoded."""
    return f"{pipe} is not a video that can be read from front to back (of MP4, one whose index is in front)"
