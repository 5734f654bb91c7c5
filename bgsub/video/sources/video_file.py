"""Video files, one or several in a row."""

import os
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from functools import cached_property, partial
from operator import attrgetter
from pathlib import Path
from typing import Any

from bgsub.errors import CutShortError, SourceError
from bgsub.storage.durable_io import AnyPath
from bgsub.video.sources import av_container
from bgsub.video.sources.base import FilePart, Frame, FrameSource, logger, number_name
from bgsub.video.timecode import Part, Timecode

# The number of frames in a header is the duration times the frame rate, rounded, or a value that an editor left there.
_SLACK_FRAMES, _SLACK_SHARE = 2, 0.02
_PROBED = 100  # frames that are tried for a good one when a file is opened


class VideoFileSource(av_container.DecodedSource):
    """The frames of a video file.

    Times are the time stamps of the file since its first frame, exact also at a variable rate. Frames are rotated as
    the file says. Grey videos stay grey, (h, w) uint8, or uint16 with full scale 65535 for more than 8 bits; all others
    are (h, w, 3) uint8, blue first, with the values that OpenCV 5 gives.

    A frame that cannot be decoded while later ones can is unreadable (see `on_error`). So is the rest of a file that
    lacks bytes or ends well before the end in its header; where that end is an estimate, a warning is logged instead.

    Parameters
    ----------
    path : str or path
        The file.
    on_error, fps : optional
        As for `FrameSource`; times follow a given frame rate, too.

    Raises
    ------
    SourceError
        If the file is missing, empty or no video.

    Examples
    --------
    >>> from bgsub.video import VideoFileSource
    >>> with VideoFileSource("video.mp4") as source:
    ...     print(source.size, float(source.fps), source.length, source.has_audio)
    (64, 48) 25.0 60 False
    """

    restartable = True

    def __init__(self, path: AnyPath, *, on_error: str = "stop", fps: float | Fraction | None = None) -> None:
        super().__init__(f"video '{os.fspath(path)}'", on_error, fps)
        self.path: Path = Path(path)
        self._container: av_container.Container | None = None
        self._first_stamp: int | None = None
        # A recording that begins within a group of pictures shows nothing at first; the header counts that time.
        self._lead = 0.0
        with av_container.open_video(self.path, threads=False) as container:
            self._read_header(container)
        self.is_retimed = self._given_fps not in (None, self._own_fps)
        self.files = (FilePart(self.path, 0.0, (self._first_stamp or 0) * self._time_base),)

    @property
    def is_copyable(self) -> bool:
        has_times = self._has_stamps and self._first_stamp is not None and not self.is_retimed
        return has_times and not av_container.starts_over(self.path)

    def close(self) -> None:
        super().close()
        if self._container is not None:
            self._container.close()

    def _read_header(self, container: av_container.Container) -> None:
        """Read the header, and the time stamp and rotation of the first good frame."""
        stream = container.stream
        self._time_base: Fraction = stream.time_base
        self.has_audio, self._has_stamps = bool(container.container.streams.audio), container.has_stamps
        self.size = (stream.codec_context.width, stream.codec_context.height)
        self._own_fps = container.fps
        self.length, self._counted = stream.frames or None, bool(stream.frames)
        if container.seconds and self._own_fps:
            # An edit list may leave out some of the frames in the file.
            estimate = int(container.seconds * self._own_fps + Fraction(1, 2))
            self.length = min(self.length or estimate, estimate)
        for number, frame in zip(range(_PROBED), container.frames(), strict=False):
            if frame is not None:
                begin = stream.start_time
                self._first_stamp = frame.pts if number == 0 or begin is None else begin
                if begin is not None and self._first_stamp is not None:
                    self._lead = max(float((self._first_stamp - begin) * self._time_base), 0.0)
                self.size = av_container.display_size(frame)
                return

    def _number_at(self, place: Timecode) -> int | None:
        if place.seconds is not None and self._given_fps is None and self._first_stamp is not None:
            with suppress(SourceError), av_container.open_video(self.path, threads=False) as container:
                index = container.stream.index_entries
                if self._counted and len(index) == container.stream.frames:  # not one of keyframes only
                    end = self._first_stamp + place.seconds / self._time_base
                    first, number = (
                        bisect_left(index, at, key=attrgetter("timestamp")) for at in (self._first_stamp, end)
                    )
                    return number - first if number < len(index) else self.length
        return super()._number_at(place)

    def _part(self, part: Part) -> Iterator[Frame]:
        return self._converted(part.select(self._going_on(self._decoded(self._shortcut(part)))))

    def _decoded(self, shortcut: av_container.Shortcut | None) -> Iterator[tuple[int, float | None, Any]]:
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

    def _results(self, shortcut: av_container.Shortcut | None) -> Iterator[tuple[int, Any]]:
        """Yield index and frame, None for a lost frame, from the shortcut or from the start."""
        following = 0
        if shortcut is not None:
            for index, frame in self._from_shortcut(shortcut):
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
                # Without threads damage costs as few frames as possible, and its place is known.
                if frame is None and container.threads:
                    break
                if index >= following:
                    yield index, frame
                    following = index + 1
            else:
                return

    def _from_shortcut(self, shortcut: av_container.Shortcut) -> Iterator[tuple[int, Any]]:
        """Yield index and frame from the target of the shortcut on; nothing if it does not lead there."""
        container = self._open(threads=True)
        container.container.seek(shortcut.seek, stream=container.stream, backward=True)
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

    def _shortcut(self, part: Part) -> av_container.Shortcut | None:
        start = part.start
        if start is None or not self._has_stamps:
            return None
        if self._given_fps is not None:
            start = Timecode(frame=start.in_frames(self._given_fps))
        shortcut = av_container.find_shortcut(self.path, start, self._time_base)
        return shortcut if shortcut is not None and shortcut.stamps[0] == self._first_stamp else None

    def _open(self, threads: bool) -> av_container.Container:
        if self._container is not None:
            self._container.close()
        self._container = av_container.open_video(self.path, threads)
        return self._container

    def _seconds_at(self, index: int, frame: Any) -> float:
        stamp = frame.pts if frame.pts is not None else frame.dts
        if stamp is None or self._first_stamp is None or not self._has_stamps:
            return self._time(index) or 0.0
        return float((stamp - self._first_stamp) * self._time_base)

    def _check_end(self, count: int, seconds: float, damaged: bool) -> None:
        """Raise or log that a file ended too early; only log if no bytes are missing and its length is an estimate."""
        cut = av_container.is_cut(self.path) or (self._container is not None and self._container.broken)
        missing = cut and not (self._counted and count >= (self.length or 0))  # of an index, perhaps
        far = damaged
        if self.length is not None and self._own_fps is not None:
            reached = max(count, seconds * float(self._own_fps) + 1)  # at a variable rate the count is far too low
            far = far or self.length - reached > max(_SLACK_FRAMES, _SLACK_SHARE * self.length)
        if not (missing or far):
            return
        whole = f" of {(self.length or 0) / float(self._own_fps or 1):.1f} s" if far else ""
        message = f"{self.name} is cut short: it ends at {seconds:.1f} s{whole}, after {count} frames"
        if self.on_error == "stop" and (missing or self._counted):
            raise CutShortError(f"{message} (--on-error skip takes it as it is)")
        logger.warning("%s", message)


class FileSeries(FrameSource):
    """Consecutive video files of one camera; frame numbers and times continue from file to file."""

    restartable = True

    def __init__(self, paths: Sequence[Path], *, on_error: str, fps: float | Fraction | None) -> None:
        super().__init__(f"{len(paths)} videos '{paths[0]}' to '{paths[-1].name}'", on_error)
        self._open_file = partial(VideoFileSource, on_error=on_error, fps=fps)
        self._members = list(self._headers(paths))  # closed; for their headers
        if not self._members:
            raise SourceError(f"none of {self.name} can be read")
        self.size, self._own_fps = self._members[0].size, self._members[0].fps
        for file in self._members:
            if file.size != self.size:
                ours, theirs = (f"{width}x{height}" for width, height in (file.size, self.size))
                raise SourceError(f"files in a row need frames of one size: {file.name} has {ours}, before it {theirs}")
        self.files: list[FilePart] = list(self._members[0].files)
        self.has_audio = any(file.has_audio for file in self._members)
        self.is_retimed = any(file.is_retimed for file in self._members)
        lengths = [file.length for file in self._members if file.length is not None]
        self.length = sum(lengths) if len(lengths) == len(self._members) else None

    @property
    def paths(self) -> Sequence[Path]:
        return tuple(file.path for file in self._members)

    @cached_property
    def is_copyable(self) -> bool:
        """Whether all files were encoded alike, so that their packets can follow each other."""
        are_copyable = all(file.is_copyable for file in self._members)
        return are_copyable and len({av_container.signature(path) for path in self.paths}) == 1

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
            skipped = self.skipped
            try:
                with self._open_file(member.path) as file:
                    time += file._lead if index and not file.is_retimed else 0.0
                    begin, interval = (index, time), float(1 / file.fps) if file.fps else 0.0
                    if number:
                        self.files += [part._replace(begin=time) for part in file.files]
                    for frame in file:
                        self.skipped = skipped + file.skipped
                        at = None if frame.time is None else begin[1] + frame.time
                        index, time = begin[0] + frame.index + 1, time if at is None else at + interval
                        yield replace(frame, index=index - 1, name=number_name(index - 1), time=at)
                    self.skipped = skipped + file.skipped
            except SourceError as error:
                if self.on_error == "stop":
                    raise
                logger.warning("%s; skipped", error)
        if not index:
            raise SourceError(f"no frame of {self.name} can be decoded")
