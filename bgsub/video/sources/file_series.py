"""Several consecutive video files as one source."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from pathlib import Path

from bgsub.errors import SourceError
from bgsub.video.sources.av_packets import signature
from bgsub.video.sources.base import FilePart, Frame, FrameSource, logger, number_name
from bgsub.video.sources.video_file import VideoFileSource


class FileSeries(FrameSource):
    """Consecutive video files of one camera as one source, whose frame numbers and times continue from file to file.

    All headers are read at the start, so that a missing file or another frame size is an error at once.
    """

    def __init__(
        self, paths: Sequence[Path], open_file: Callable[[Path], VideoFileSource], on_error: str = "stop"
    ) -> None:
        super().__init__(f"{len(paths)} videos '{paths[0]}' to '{paths[-1].name}'", on_error)
        self._open_file = open_file
        self._members = list(self._headers(paths))  # closed; for their headers
        if not self._members:
            raise SourceError(f"none of {self.name} can be read")
        for file in self._members:
            if file.size != self.size:
                ours, theirs = (f"{width}x{height}" for width, height in (file.size, self.size))
                raise SourceError(f"files in a row need frames of one size: {file.name} has {ours}, before it {theirs}")
        self.files: list[FilePart] = list(self._members[0].files)
        self.has_audio = any(file.has_audio for file in self._members)

    @property
    def size(self) -> tuple[int, int]:
        return self._members[0].size

    @property
    def fps(self) -> Fraction | None:
        """Frames per second of the first file; None if unknown."""
        return self._members[0].fps

    @property
    def length(self) -> int | None:
        lengths = [file.length for file in self._members]
        return None if None in lengths else sum(filter(None, lengths))

    @property
    def duration(self) -> float | None:
        durations = [file.duration for file in self._members]
        return None if None in durations else sum(filter(None, durations))

    @cached_property
    def is_variable_rate(self) -> bool:
        return any(file.is_variable_rate or file.fps != self.fps for file in self._members)

    @property
    def paths(self) -> Sequence[Path]:
        return tuple(file.path for file in self._members)

    @property
    def is_retimed(self) -> bool:
        return any(file.is_retimed for file in self._members)

    @cached_property
    def is_copyable(self) -> bool:
        """Whether all files were encoded alike, so that their packets can follow each other."""
        return all(file.is_copyable for file in self._members) and len({signature(path) for path in self.paths}) == 1

    def _headers(self, paths: Sequence[Path]) -> Iterator[VideoFileSource]:
        """Yield the files that can be opened, closed again afterwards."""
        for path in paths:
            try:
                with self._open_file(path) as file:
                    yield file
            except SourceError as error:
                if self.on_error == "stop":
                    raise
                logger.warning("%s; skipped", error)

    def _frames(self) -> Iterator[Frame]:
        index, time = 0, 0.0  # of the next file's first frame
        del self.files[1:]
        for number, member in enumerate(self._members):
            with self._open_file(member.path) as file:
                begin, interval = (index, time), float(1 / file.fps) if file.fps else 0.0
                if number:
                    self.files += [part._replace(begin=time) for part in file.files]
                for frame in file:
                    at = None if frame.time is None else begin[1] + frame.time
                    index, time = begin[0] + frame.index + 1, time if at is None else at + interval
                    yield replace(frame, index=index - 1, name=number_name(index - 1), time=at)
                self.skipped += file.skipped
