"""Sequences with masks: folders in the layout of changedetection.net, and synthetic scenes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import numpy as np

from bgsub.errors import SourceError
from bgsub.synthetic import Scene

_IMAGES = {".jpg", ".jpeg", ".png", ".bmp", ".tif", ".tiff"}
_ROI_NAMES = ("ROI.bmp", "ROI.png", "ROI.tif", "ROI.jpg")


class Labelled(Protocol):
    """What `evaluate` needs of a sequence.

    Attributes
    ----------
    name : str
        Name for the table.
    roi : ndarray, (h, w), bool, or None
        Where frames are scored; None for everywhere.
    """

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
    ``groundtruth/gt000470.png``. Optional: ``temporalROI.txt`` with the first and the last number to score,
    and ``ROI.bmp`` (or .png, .tif, .jpg), zero where nothing is scored.

    Parameters
    ----------
    folder : path
        The folder that holds ``input`` and ``groundtruth``.

    Attributes
    ----------
    folder : Path
        The folder.
    name : str
        Its name.
    temporal_roi : (int, int) or None
        First and last number to score.
    scored : list of int
        Numbers of the frames that have a mask within `temporal_roi`.

    Raises
    ------
    SourceError
        If a folder or all masks are missing, two files have one number, or temporalROI.txt is not readable.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.name = self.folder.resolve().name
        self._frames = numbered(self.folder / "input")
        self._masks = numbered(self.folder / "groundtruth")
        self.temporal_roi = _temporal_roi(self.folder / "temporalROI.txt")
        first, last = self.temporal_roi or (min(self._frames), max(self._frames))
        self.scored = [n for n in self._frames if n in self._masks and first <= n <= last]
        if not self.scored:
            raise SourceError(
                f"no frame of {self.folder} can be scored: no mask in groundtruth has the number of a frame "
                f"in input from {first} to {last}"
            )
        self._roi: np.ndarray | None = None
        self._roi_path = next((p for p in map(self.folder.joinpath, _ROI_NAMES) if p.is_file()), None)

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
            from bgsub._opencv import cv2  # noqa: PLC0415 - scenes need no OpenCV

            image = read_codes(self._roi_path)
            height, width = self.frame(next(iter(self._frames))).shape[:2]
            if image.shape != (height, width):
                image = cv2.resize(image, (width, height), interpolation=cv2.INTER_NEAREST)
            # JPEG leaves a grey seam around black.
            self._roi = image > (127 if self._roi_path.suffix == ".jpg" else 0)
        return self._roi

    def frame(self, number: int) -> np.ndarray:
        """Return one frame as it is stored: (h, w, 3) BGR or (h, w), uint8 or uint16."""
        return _read(self._frames[number])

    def frames(self) -> Iterator[tuple[int, np.ndarray]]:
        """Yield number and picture of all frames in order."""
        return ((number, self.frame(number)) for number in self._frames)

    def truth(self, number: int) -> np.ndarray | None:
        """Return the mask of a frame, (h, w), uint8, or None if the frame is not scored."""
        first, last = self.temporal_roi or (number, number)
        if number not in self._masks or not first <= number <= last:
            return None
        return read_codes(self._masks[number])


class SceneSequence:
    """A synthetic scene as a sequence; every frame is scored.

    Parameters
    ----------
    scene : Scene
        The scene; its frames are numbered from 1.
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
        """Return the mask of a frame, (h, w), uint8."""
        latest, mask = self._latest
        return mask if latest == number else self._scene[number - 1][1]


def numbered(folder: Path, prefix: str = "") -> dict[int, Path]:
    """Return the pictures of a folder by the number in their names, in the order of the numbers.

    Parameters
    ----------
    folder : Path
        The folder.
    prefix : str
        Only names that start so.

    Raises
    ------
    SourceError
        If the folder is missing or empty, or two pictures have one number.
    """
    if not folder.is_dir():
        raise SourceError(f"folder {folder} does not exist")
    found: dict[int, Path] = {}
    for path in sorted(folder.iterdir()):
        digits = re.findall(r"[0-9]+", path.stem)
        if path.suffix.lower() not in _IMAGES or not digits or not path.name.startswith(prefix):
            continue
        number = int(digits[-1])
        if number in found:
            raise SourceError(f"{found[number].name} and {path.name} in {folder} have the same number")
        found[number] = path
    if not found:
        kinds = ", ".join(sorted(_IMAGES))
        raise SourceError(f"folder {folder} holds no numbered pictures {prefix}*[0-9] ({kinds})")
    return dict(sorted(found.items()))


def read_codes(path: Path) -> np.ndarray:
    """Return a mask file as it is coded, (h, w), uint8; palettes and colour files are grey in disguise."""
    image = _read(path)
    if image.dtype != np.uint8:
        raise SourceError(f"mask {path} must have 8 bits, got {image.dtype}")
    # A conversion to grey weighs three channels and may round a code away; one channel is exact.
    return np.ascontiguousarray(image[..., 0]) if image.ndim == 3 else image


def _read(path: Path) -> np.ndarray:
    from bgsub._opencv import cv2  # noqa: PLC0415 - scenes need no OpenCV

    image = cv2.imread(str(path), cv2.IMREAD_UNCHANGED)
    if image is None:
        raise SourceError(f"picture {path} cannot be read")
    return image[..., :3] if image.ndim == 3 and image.shape[2] == 4 else image


def _temporal_roi(path: Path) -> tuple[int, int] | None:
    if not path.is_file():
        return None
    words = path.read_text(encoding="utf-8", errors="replace").split()
    if len(words) != 2 or not all(w.isdecimal() for w in words) or int(words[0]) > int(words[1]):
        raise SourceError(f"{path} must hold the first and the last number to score, got {' '.join(words)!r}")
    return int(words[0]), int(words[1])
