"""Frames of a source as samples."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from bgsub._opencv import cv2
from bgsub.errors import ParameterError, SourceError
from bgsub.jobs.decomposition.memory import Tell, needed_memory, tell_memory
from bgsub.jobs.decomposition.samples import FrameSamples, describe_frames
from bgsub.numerics.memory import check_memory
from bgsub.scene.frame_format import FrameFormat
from bgsub.video.sources.base import Frame, FrameSource, logger

_NO_PIXELS = np.empty((0, 0), np.uint8)
_REMEDY = "--scale, --grey, --every or --duration"
_UNKNOWN_LENGTH = 64  # frames to begin with where the source does not tell


def read_frames(
    source: FrameSource, *, scale: float = 1.0, grey: bool = False, rank: int | None = None, tell: Tell = logger.info
) -> FrameSamples:
    """Read all frames of a source into the memory.

    Parameters
    ----------
    source : FrameSource
        With an end; frames of uint8, uint16 or floating point in [0, 1].
    scale : float
        Reduce height and width by this factor, in (0, 1].
    grey : bool
        Take the intensity of colour frames.
    rank : int, optional
        Of the decomposition, for the memory that it takes.
    tell : callable
        Takes the sentence about the memory, once the first frame is known and where the source knows its length.

    Returns
    -------
    FrameSamples
        ``X`` is float32, (n, h * w * c), in [0, 1].

    Raises
    ------
    SourceError
        If there is no frame, or one cannot be read.
    ParameterError
        If the frames differ in shape or type, or are too many for the memory.
    """
    reader = _Reader(source, scale, grey, rank, tell)
    for frame in source.alike(source):
        reader.add(frame)
    if not reader.frames:
        raise SourceError(f"{source.name} has no frame")
    return FrameSamples(
        source.name,
        source.path,
        reader.X[: len(reader.frames)],
        format=reader.format,
        full=reader.full,
        frames=reader.frames,
        fps=source.fps,
        numbered=source.numbered,
    )


class _Reader:
    """Collects frames as rows."""

    X: np.ndarray
    full: FrameFormat
    format: FrameFormat

    def __init__(self, source: FrameSource, scale: float, grey: bool, rank: int | None, tell: Tell) -> None:
        self._source, self._scale, self._grey, self._rank = source, scale, grey, rank
        self._tell = tell
        self.frames: list[Frame] = []

    def add(self, frame: Frame) -> None:
        """Append a frame as a row; ParameterError where it differs from the first, or there is no room for more."""
        try:
            if not self.frames:
                self.full = FrameFormat.of(frame.image)
            image = reduced(self.full.check(frame.image), self._scale, self._grey)
        except ParameterError as error:
            raise ParameterError(f"{self._source.name}, frame {frame.name}: {error}") from None
        if not self.frames:
            self._begin(image)
        if len(self.frames) == len(self.X):
            self._grow(len(self.X) + len(self.X) // 2 + 1)
        self.format.to_vector(image, self.X[len(self.frames)])
        self.frames.append(replace(frame, image=_NO_PIXELS))

    def _begin(self, first: np.ndarray) -> None:
        self.format = replace(self.full, shape=first.shape, dtype=first.dtype.name)
        count = self._source.length or _UNKNOWN_LENGTH
        needed = self._check_room(count)
        if self._source.length:
            tell_memory(self._source.name, describe_frames(count, self.format), needed, self._tell)
        self.X = np.empty((count, self.format.size), np.float32)

    def _grow(self, count: int) -> None:
        self._check_room(count)
        larger = np.empty((count, self.format.size), np.float32)
        larger[: len(self.X)] = self.X
        self.X = larger

    def _check_room(self, count: int) -> int:
        """Return the bytes for so many frames; the rows that are filled already are among them."""
        needed = needed_memory((count, self.format.size), self._rank, 4)
        held = len(self.frames) * self.format.size * 4
        check_memory(needed - held, f"{self._source.name}, {describe_frames(count, self.format)},", _REMEDY)
        return needed


def reduced(image: np.ndarray, scale: float = 1.0, grey: bool = False) -> np.ndarray:
    """Return an image, (h, w) or (h, w, c), in grey and by the factor `scale` smaller, the mean over each new pixel."""
    if image.dtype in (np.float16, np.float64) and (grey or scale < 1):
        image = image.astype(np.float32)  # OpenCV cannot do with all types
    if image.ndim == 3 and (grey or image.shape[2] == 1):
        image = image[:, :, 0] if image.shape[2] < 3 else cv2.cvtColor(image, cv2.COLOR_BGR2GRAY)
    if scale < 1:
        height, width = image.shape[:2]
        size = max(round(scale * width), 1), max(round(scale * height), 1)
        image = cv2.resize(image, size, interpolation=cv2.INTER_AREA)
    return np.ascontiguousarray(image)
