"""Sequences with masks: folders in the layout of changedetection.net, and synthetic scenes."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import numpy as np

from bgsub.errors import SourceError
from bgsub.evaluation.files import find_roi, numbered, read_roi, read_temporal_roi, read_truth
from bgsub.synthetic._scene import Scene
from bgsub.video.sources.images import read_image

_logger = logging.getLogger("bgsub")


class Labelled(Protocol):
    """What `evaluate` needs of a sequence."""

    @property
    def name(self) -> str:
        """Name for the table."""

    @property
    def roi(self) -> np.ndarray | None:
        """Where frames are scored, (h, w), bool; None for everywhere."""

    def __len__(self) -> int:
        """Return the number of frames."""

    def frames(self) -> Iterator[tuple[int, np.ndarray]]:
        """Yield number and picture of all frames in order."""

    def truth(self, number: int) -> np.ndarray | None:
        """Return the mask of a frame, (h, w), uint8, or None if it is not scored."""


class Sequence:
    """A folder in the layout of changedetection.net.

    ``input/`` holds the frames, ``groundtruth/`` the masks, for all frames or for some. A mask belongs to the
    frame of the same number: the last digits of the name, ``input/in000470.jpg`` and
    ``groundtruth/gt000470.png``. Optional: ``temporalROI.txt`` with the first and the last number to score
    (without it, every frame that has a mask is scored), and ``ROI.bmp`` (or .png, .tif, .jpg), zero where
    nothing is scored (without it, every pixel is). A frame inside the temporal region that lacks a mask is not
    scored; a warning in the log tells how many there are.

    Parameters
    ----------
    folder : path
        The folder that holds ``input`` and ``groundtruth``.

    Attributes
    ----------
    folder : Path
        The folder.
    name, category : str
        Its name, and that of the folder that holds it: on changedetection.net, video and category.
    temporal_roi : (int, int) or None
        First and last number to score.
    scored : list of int
        Numbers of the frames that have a mask within `temporal_roi`.

    Raises
    ------
    SourceError
        If a folder or all masks are missing, two files have one number, or temporalROI.txt is not readable.

    Examples
    --------
    >>> from bgsub.evaluation import Sequence
    >>> sequence = Sequence("sequence")
    >>> len(sequence), sequence.scored[:3], sequence.truth(1).shape
    (60, [1, 2, 3], (48, 64))
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        named = Path(os.path.abspath(self.folder))  # a link keeps its own name, which resolve() would lose
        self.name, self.category = named.name, named.parent.name
        self._frames = numbered(self.folder / "input")
        self._masks = numbered(self.folder / "groundtruth")
        self.temporal_roi = read_temporal_roi(self.folder / "temporalROI.txt")
        first, last = self.temporal_roi or (min(self._frames), max(self._frames))
        self.scored = [n for n in self._frames if n in self._masks and first <= n <= last]
        if not self.scored:
            raise SourceError(
                f"no frame of {self.folder} can be scored: no mask in groundtruth has the number of a frame "
                f"in input from {first} to {last}"
            )
        self._roi: np.ndarray | None = None
        self._roi_path = find_roi(self.folder)
        if self.temporal_roi is not None:
            self._tell_gaps(first, last)

    def _tell_gaps(self, first: int, last: int) -> None:
        gaps = [n for n in self._frames if n not in self._masks and first <= n <= last]
        if gaps:
            message = "%s: %d of the frames from %d to %d have no mask and are not scored, the first is %d"
            _logger.warning(message, self.folder, len(gaps), first, last, gaps[0])

    def __len__(self) -> int:
        return len(self._frames)

    @property
    def numbers(self) -> list[int]:
        """Numbers of all frames in order."""
        return list(self._frames)

    @property
    def roi(self) -> np.ndarray | None:
        """Where frames are scored, (h, w), bool; None for everywhere.

        A picture of another size is scaled to the size of the first frame, as some sequences need.
        """
        if self._roi is None and self._roi_path is not None:
            self._roi = read_roi(self._roi_path, self.frame(next(iter(self._frames))).shape[:2])
        return self._roi

    def check(self) -> None:
        """Read the region of interest, the first frame and the first scored mask, before a long run does.

        Raises
        ------
        SourceError
            If one of them cannot be read, or the sizes of frame and mask differ.
        """
        number = self.scored[0]
        self.roi  # noqa: B018 - reading it is the check
        frame, truth = self.frame(number), self.truth(number)
        assert truth is not None
        if truth.shape != frame.shape[:2]:
            raise SourceError(f"mask {self._masks[number]} is {size_of(truth)}, its frame is {size_of(frame)}")

    def frame(self, number: int) -> np.ndarray:
        """Return one frame as it is stored: (h, w, 3) BGR or (h, w), uint8 or uint16."""
        return read_image(self._frames[number])

    def frames(self) -> Iterator[tuple[int, np.ndarray]]:
        """Yield number and picture of all frames in order."""
        return ((number, self.frame(number)) for number in self._frames)

    def truth(self, number: int) -> np.ndarray | None:
        """Return the mask of a frame, (h, w), uint8, or None if it is not scored."""
        first, last = self.temporal_roi or (number, number)
        if number not in self._masks or not first <= number <= last:
            return None
        return read_truth(self._masks[number])


class SceneSequence:
    """A synthetic scene as a sequence; every frame is scored.

    Parameters
    ----------
    scene : Scene
        The scene; its frames are numbered from 1.

    Examples
    --------
    >>> from bgsub.evaluation import SceneSequence, evaluate
    >>> from bgsub.synthetic import scene
    >>> street = SceneSequence(scene("street", size=(64, 48), length=40))
    >>> evaluate(street, "mog2").frames
    40
    """

    roi: np.ndarray | None = None

    def __init__(self, scene: Scene) -> None:
        self.name = scene.name
        self._scene = scene
        self._latest: tuple[int, np.ndarray | None] = (0, None)

    def __len__(self) -> int:
        return len(self._scene)

    def frames(self) -> Iterator[tuple[int, np.ndarray]]:
        """Yield number and picture of all frames in order."""
        for number, (frame, mask) in enumerate(self._scene, start=1):
            self._latest = (number, mask)
            yield number, frame

    def truth(self, number: int) -> np.ndarray | None:
        """Return the mask of a frame, (h, w), uint8, or None if it is not scored."""
        latest, mask = self._latest
        return mask if latest == number else self._scene[number - 1][1]


def size_of(image: np.ndarray) -> str:
    """Return the size of a picture as it is told to people: ``320x240``."""
    return f"{image.shape[1]}x{image.shape[0]}"
