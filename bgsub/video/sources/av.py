"""Video files by PyAV: exact time stamps, grey and deep pixels, hardware decoders."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import cached_property
from typing import Any

from bgsub.errors import SourceError
from bgsub.video.sources.av_container import Container, working_hardware
from bgsub.video.sources.av_packets import Shortcut, find_shortcut, varies
from bgsub.video.sources.av_pixels import Converter, quarter_turns
from bgsub.video.sources.base import FilePart, Frame, number_name, rate_as_fraction
from bgsub.video.sources.file import FileSource
from bgsub.video.sources.part import Part
from bgsub.video.timecode import Timecode

# A file without one good frame among its first is looked at no further when it is opened.
_PROBED = 100


class AvSource(FileSource):
    """The frames of a video file, decoded by PyAV (package `av`).

    Times are the time stamps of the file since its first frame, exact also at a variable rate. A rotation that
    the file asks for is applied. Grey videos stay grey, (h, w) uint8, or uint16 with full scale 65535 for more
    than 8 bits; all others are (h, w, 3) uint8, blue first, with the values that OpenCV 5 gives. They differ where
    the file is interlaced, and from OpenCV 4 for ten bits and where the file names a colour space.

    A frame that cannot be decoded while later ones can is unreadable (see `on_error`), and so is the rest of a file
    that ends well before its announced end, in damage, or lacks bytes; where the end is an estimate, it is logged only.

    Parameters
    ----------
    path : str or path
        The file.
    on_error : {"stop", "skip"}
        What a frame that cannot be decoded does.
    fps : float or Fraction, optional
        Frames per second, if the file is wrong about it; times then follow it too.
    hardware : bool
        Decode on a hardware decoder, if one works; otherwise a warning is logged.

    Raises
    ------
    SourceError
        If the file is missing, empty or no video.
    DependencyError
        If PyAV is missing.

    Examples
    --------
    >>> from bgsub.video import AvSource
    >>> with AvSource("video.mp4") as source:
    ...     print(source.size, float(source.fps), source.length, source.has_audio)
    (64, 48) 25.0 60 False
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        on_error: str = "stop",
        fps: float | Fraction | None = None,
        hardware: bool = False,
    ) -> None:
        super().__init__(path, on_error, fps)
        self._container: Container | None = None
        self._first_stamp: int | None = None
        # A recording that begins within a group of pictures shows nothing for a while, which the header counts.
        self._lead = 0.0
        self._read_header()
        self._hardware = working_hardware(self.path, self.name) if hardware else None

    @property
    def duration(self) -> float | None:
        """Seconds that the header announces; None if unknown."""
        return self._seconds if self._given_fps is None else super().duration

    @cached_property
    def is_variable_rate(self) -> bool:
        """Whether the first 300 time stamps, which are read when first asked for, follow no fixed rate."""
        return self._given_fps is None and self._has_varying_stamps

    @cached_property
    def _has_varying_stamps(self) -> bool:
        return self._has_stamps and varies(self.path)

    @property
    def is_retimed(self) -> bool:
        """Whether the given rate is not that of the file."""
        return self._given_fps is not None and (self._given_fps != self._file_fps or self._has_varying_stamps)

    @property
    def has_audio(self) -> bool:
        return self._has_audio

    @property
    def files(self) -> Sequence[FilePart]:
        return (FilePart(self.path, 0.0, (self._first_stamp or 0) * self._time_base),)

    @property
    def is_copyable(self) -> bool:
        return self._has_stamps and self._first_stamp is not None and not self.is_retimed

    def close(self) -> None:
        super().close()
        if self._container is not None:
            self._container.close()

    def _read_header(self) -> None:
        container = Container(self.path, threads=False)
        try:
            stream = container.stream
            self._time_base: Fraction = stream.time_base
            self._has_audio, self._has_stamps = container.has_audio, container.has_stamps
            self._size = (stream.codec_context.width, stream.codec_context.height)
            self._file_fps = rate_as_fraction(float(stream.average_rate or stream.guessed_fps or 0))
            self._seconds = container.seconds
            self._length = stream.frames or None
            if self._seconds and self._file_fps:
                # An edit list may leave out some of the frames that are there.
                estimate = int(self._seconds * self._file_fps + Fraction(1, 2))
                self._length = min(self._length or estimate, estimate)
            self._probe(container)
        finally:
            container.close()

    def _probe(self, container: Container) -> None:
        """Note what only the first frame tells: its time stamp, and by how much it is rotated."""
        for number, frame in zip(range(_PROBED), container.frames(), strict=False):
            if frame is not None:
                begin = container.stream.start_time
                self._first_stamp = frame.pts if number == 0 or begin is None else begin
                if begin is not None and self._first_stamp is not None:
                    self._lead = max(float((self._first_stamp - begin) * self._time_base), 0.0)
                self._size = (frame.height, frame.width) if quarter_turns(frame) % 2 else (frame.width, frame.height)
                return

    def _frames(self) -> Iterator[Frame]:
        return self._part(Part())

    def _part(self, part: Part) -> Iterator[Frame]:
        convert = Converter()
        for index, time, frame in self._decoded(self._shortcut(part)):
            wanted = part.wants(index, time)
            if wanted is None:
                return
            if wanted:
                yield Frame(index, number_name(index), time, convert(frame))

    def _decoded(self, shortcut: Shortcut | None) -> Iterator[tuple[int, float | None, Any]]:
        """Yield index, time in seconds and frame of each that can be decoded."""
        index, seconds, failures, decoded = -1, 0.0, 0, False
        for index, frame in self._results(shortcut):
            if frame is None:
                failures += 1
                continue
            if failures:
                self._unreadable(f"frame {index - failures} of {self.name} cannot be decoded", failures)
            failures, decoded = 0, True
            seconds = self._seconds_at(index, frame)
            yield index, self._time(index) if self._given_fps is not None else seconds, frame
        if not decoded:
            raise SourceError(f"no frame of {self.name} can be decoded")
        self._check_end(index + 1 - failures, seconds + self._lead, damaged=failures > 0)

    def _results(self, shortcut: Shortcut | None) -> Iterator[tuple[int, Any]]:
        """Yield index and frame, None for a frame that is lost, from the shortcut or from the start."""
        following = 0
        if shortcut is not None:
            for index, frame in self._by_shortcut(shortcut):
                if frame is None:
                    break
                yield index, frame
                following = index + 1
            else:
                if following:
                    return
        for threads in (True, False):
            container = self._open(threads)
            for index, frame in enumerate(container.frames()):
                # Decoded one after the other, damage is where it is and takes as little as possible with it.
                if frame is None and container.threads:
                    break
                if index >= following:
                    yield index, frame
                    following = index + 1
            else:
                return

    def _by_shortcut(self, shortcut: Shortcut) -> Iterator[tuple[int, Any]]:
        """Yield index and frame from the target of the shortcut on; nothing if it does not lead there."""
        container = self._open(threads=True)
        container.seek(shortcut.seek)
        index: int | None = None
        for frame in container.frames():
            if index is not None and index >= shortcut.target:
                index += 1
            else:
                place = None if frame is None or frame.pts is None else shortcut.index(frame.pts)
                if place is not None and place < shortcut.keyframe:
                    continue  # shown before the keyframe and made from pictures before it
                if place is None or place != (shortcut.keyframe if index is None else index + 1):
                    return
                index = place
            if index >= shortcut.target:
                yield index, frame

    def _shortcut(self, part: Part) -> Shortcut | None:
        start = part.start
        if start is not None and self._given_fps is not None:
            start = Timecode(frame=start.in_frames(self._given_fps))
        shortcut = None if start is None or not self._has_stamps else find_shortcut(self.path, start, self._time_base)
        return shortcut if shortcut is not None and shortcut.stamps[0] == self._first_stamp else None

    def _open(self, threads: bool) -> Container:
        if self._container is not None:
            self._container.close()
        self._container = Container(self.path, threads, self._hardware)
        return self._container

    def _seconds_at(self, index: int, frame: Any) -> float:
        stamp = frame.pts if frame.pts is not None else frame.dts
        if stamp is None or self._first_stamp is None or not self._has_stamps:
            return self._time(index) or 0.0
        return float((stamp - self._first_stamp) * self._time_base)
