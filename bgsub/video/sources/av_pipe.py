"""Encoded videos from a pipe, by PyAV."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import chain
from typing import Any

from bgsub.errors import CutShortError, DependencyError, SourceError
from bgsub.video.sources import av_container
from bgsub.video.sources.av_container import Container
from bgsub.video.sources.av_pixels import Converter, quarter_turns
from bgsub.video.sources.base import Frame, rate_as_fraction
from bgsub.video.sources.part import Part
from bgsub.video.sources.pipe import Pipe, PipeSource


class AvPipeSource(PipeSource):
    """The frames of a video that comes through a pipe, in any container that can be read from front to back.

    Matroska, MPEG-TS and fragmented MP4 are such, as ``ffmpeg -f matroska -`` writes them; of MP4 and MOV, those whose
    index is at the front. Pixels and times are as those of `AvSource`; there is no sound.

    Parameters
    ----------
    pipe : Pipe
        Where the bytes come from; closed together with the source.
    on_error : {"stop", "skip"}
        What a frame that cannot be decoded does while later ones can.
    fps : float or Fraction, optional
        Frames per second, if the stream is wrong about it; times then follow it too.

    Raises
    ------
    SourceError
        If nothing comes, or no video.
    DependencyError
        If PyAV is missing.
    CutShortError
        While iterating, after the last frame of a stream that breaks off, where that can be told: in MP4 and AVI.
        Matroska and MPEG-TS just end there.
    """

    def __init__(self, pipe: Pipe, *, on_error: str = "stop", fps: float | Fraction | None = None) -> None:
        super().__init__(pipe, on_error, fps)
        if not av_container.is_available():
            raise DependencyError(
                f"a video from {self.name} needs the package av: pip install 'bgsub[av]'; raw frames (--raw) do not"
            )
        # Damage cannot be looked at again without threads, which say where it is.
        try:
            self._container = Container(pipe, threads=False)
        except SourceError:
            if not pipe.began:
                raise SourceError(f"{self.name} is empty") from None
            raise
        stream = self._container.stream
        self._time_base: Fraction = stream.time_base
        self._stream_fps = rate_as_fraction(float(stream.average_rate or stream.guessed_fps or 0))
        self._decoded = self._good_frames()
        try:
            first = next(self._decoded, None)
        except CutShortError:  # an index that comes behind the pictures, for one
            raise SourceError(av_container.no_video(pipe)) from None
        if first is None:
            raise SourceError(f"no frame of {self.name} can be decoded")
        _, frame = first
        self._first_stamp = frame.pts
        self._size = (frame.height, frame.width) if quarter_turns(frame) % 2 else (frame.width, frame.height)
        self._decoded = chain([first], self._decoded)

    @property
    def size(self) -> tuple[int, int]:
        return self._size

    @property
    def fps(self) -> Fraction | None:
        """Frames per second that the stream tells; None if unknown."""
        return self._given_fps or self._stream_fps

    def close(self) -> None:
        self._pipe.cancel()
        self._container.close()
        super().close()

    def _frames(self) -> Iterator[Frame]:
        return self._part(Part())

    def _part(self, part: Part) -> Iterator[Frame]:
        convert = Converter()
        for index, frame in self._decoded:
            time = self._seconds_at(index, frame)
            wanted = part.wants(index, time)
            if wanted is None:
                return
            if wanted:
                yield self._frame(index, time, convert(frame))

    def _good_frames(self) -> Iterator[tuple[int, Any]]:
        """Yield index and frame of each that can be decoded."""
        index = failures = 0
        for index, frame in enumerate(self._container.frames()):
            if frame is None:
                failures += 1
                continue
            if failures and not self._pipe.ended:  # else the decoder gives what it has held back
                self._unreadable(f"frame {index - failures} of {self.name} cannot be decoded", failures)
                failures = 0
            yield index, frame
        if (failures or self._container.broken) and not self._pipe.cancelled:
            raise CutShortError(f"{self.name} breaks off within frame {index + 1}")

    def _seconds_at(self, index: int, frame: Any) -> float | None:
        if self._given_fps is not None or frame.pts is None or self._first_stamp is None:
            return self._time(index)
        return float((frame.pts - self._first_stamp) * self._time_base)
