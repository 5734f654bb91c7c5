"""What the readers of video files have in common."""

from __future__ import annotations

import os
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

from bgsub.errors import CutShortError, SourceError
from bgsub.video.sources.base import FilePart, FrameSource, logger
from bgsub.video.sources.file_end import has_counted_frames, is_cut

# The announced number of frames is the duration times the rate, rounded, or what an editor left there.
_SLACK_FRAMES, _SLACK_SHARE = 2, 0.02


class FileSource(FrameSource):
    """A video file, with what its header announces; parameters as those of `VideoFileSource`."""

    def __init__(self, path: str | os.PathLike[str], on_error: str, fps: float | Fraction | None) -> None:
        super().__init__(f"video '{os.fspath(path)}'", on_error, fps)
        self.path: Path = Path(path)
        self._size = (0, 0)
        self._file_fps: Fraction | None = None
        self._length: int | None = None
        self._check_file()

    @property
    def size(self) -> tuple[int, int]:
        """Width and height of the frames in pixels, as they are to be seen: after the rotation."""
        return self._size

    @property
    def fps(self) -> Fraction | None:
        """Frames per second that the header tells, which at a variable rate may be far off; None if unknown."""
        return self._given_fps or self._file_fps

    @property
    def length(self) -> int | None:
        """Number of frames that the header announces: an estimate."""
        return self._length

    @property
    def files(self) -> Sequence[FilePart]:
        return (FilePart(self.path, 0.0, Fraction(0)),)

    def _check_file(self) -> None:
        if not self.path.is_file():
            raise SourceError(f"no such file: '{self.path}'")
        try:
            with self.path.open("rb") as file:
                empty = not file.read(1)
        except OSError as error:
            raise SourceError(f"{self.name} cannot be read: {error.strerror or error}") from None
        if empty:
            raise SourceError(f"{self.name} is empty")

    def _at_end(self, count: int, seconds: float) -> bool:
        """Whether `count` frames, the last at `seconds`, are about what the file announces."""
        if self._length is None or self._file_fps is None:
            return True
        # At a variable rate the count falls short by far, so that the clock has a say as well.
        reached = max(count, seconds * float(self._file_fps) + 1)
        return self._length - reached <= max(_SLACK_FRAMES, _SLACK_SHARE * self._length)

    def _check_end(self, count: int, seconds: float, damaged: bool = False) -> None:
        """Raise or log, as `on_error` says, that a file ended too early after `count` frames, the last at `seconds`.

        Where its bytes are all there and it is the header that may be an estimate, it is logged in either case.
        """
        counted = has_counted_frames(self.path)
        missing = is_cut(self.path) and not (counted and count >= (self._length or 0))  # of an index, perhaps
        far = damaged or not self._at_end(count, seconds)
        if not (missing or far):
            return
        whole = f" of {(self._length or 0) / float(self._file_rate or 1):.1f} s" if far else ""
        message = f"{self.name} is cut short: it ends at {seconds:.1f} s{whole}, after {count} frames"
        if self.on_error == "stop" and (missing or counted):
            raise CutShortError(f"{message} (--on-error skip takes it as it is)")
        logger.warning("%s", message)
