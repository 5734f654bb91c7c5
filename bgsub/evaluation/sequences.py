"""Sequences with masks: folders in the layout of changedetection.net."""

import math
import os
import re
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path

import numpy as np

from bgsub._opencv import cv2
from bgsub.errors import SourceError, logger
from bgsub.evaluation.metrics import CODES, Confusion, confusion
from bgsub.separation import Separation
from bgsub.storage.durable_io import os_errors_as
from bgsub.synthetic.scenes import Scene
from bgsub.video.sources.base import Frame
from bgsub.video.sources.images import ArraySource, read_image

# changedetection.net has both ROI.bmp and ROI.jpg; JPEG blurs the border, so it comes last.
_IMAGES = (".bmp", ".png", ".tif", ".tiff", ".jpg", ".jpeg")


class Sequence:
    """A folder in the layout of changedetection.net.

    ``input/`` has the frames, ``groundtruth/`` the masks of all or some frames. A mask belongs to the frame with the
    same number, the last digits of the name: ``input/in000470.jpg`` and ``groundtruth/gt000470.png``. Optional files:
    ``temporalROI.txt`` with the first and last number to score (default: all frames with a mask), and ``ROI.bmp`` (or
    .png, .tif, .jpg), which is zero where pixels are not scored (default: all pixels are). A warning in the log
    reports frames inside the temporal region that have no mask; they are not scored.

    Parameters
    ----------
    folder : path
        The folder with ``input`` and ``groundtruth``.

    Attributes
    ----------
    folder : Path
        The folder.
    name, category : str
        Its name and that of its parent folder: video and category on changedetection.net.
    temporal_roi : (int, int) or None
        First and last number to score.
    scored : list of int
        Numbers of the frames that have a mask within `temporal_roi`.

    Raises
    ------
    SourceError
        If a folder or all masks are missing, two files have the same number, or temporalROI.txt is invalid.

    Examples
    --------
    >>> from bgsub.evaluation import Sequence
    >>> sequence = Sequence("sequence")
    >>> len(sequence), sequence.scored[:3], sequence.truth(1).shape
    (60, [1, 2, 3], (48, 64))
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        named = Path(os.path.abspath(self.folder))  # resolve() would lose the name of a symbolic link
        self.name, self.category = named.name, named.parent.name
        self._frames = numbered(self.folder / "input")
        self._masks = numbered(self.folder / "groundtruth")
        self.temporal_roi = _read_temporal_roi(self.folder / "temporalROI.txt")
        first, last = self.temporal_roi or (min(self._frames), max(self._frames))
        self.scored = [n for n in self._frames if n in self._masks and first <= n <= last]
        if not self.scored:
            raise SourceError(
                f"no frame of {self.folder} can be scored: no mask in groundtruth has the number of a frame "
                f"in input from {first} to {last}"
            )
        found = {path.suffix.lower(): path for path in sorted(_list_folder(self.folder)) if path.stem.lower() == "roi"}
        self._roi_path = next((found[suffix] for suffix in _IMAGES if suffix in found), None)
        gaps = [n for n in self._frames if n not in self._masks and first <= n <= last]
        if self.temporal_roi is not None and gaps:
            message = "%s: %d of the frames from %d to %d have no mask and are not scored, the first is %d"
            logger.warning(message, self.folder, len(gaps), first, last, gaps[0])

    def __len__(self) -> int:
        return len(self._frames)

    @cached_property
    def roi(self) -> np.ndarray | None:
        """Scored pixels, (h, w), bool, scaled to the size of the first frame where the file differs; None for all."""
        path = self._roi_path
        if path is None:
            return None
        image, (height, width) = read_mask(path), self.frame(next(iter(self._frames))).shape[:2]
        if image.shape != (height, width):
            image = cv2.resize(image, (width, height), interpolation=cv2.INTER_NEAREST)
        # JPEG leaves a grey border around black.
        inside = image > (127 if path.suffix.lower() in {".jpg", ".jpeg"} else 0)
        if not inside.any():
            raise SourceError(f"region of interest {path} is black: no pixel would be scored")
        return inside

    def check(self) -> None:
        """Read the region of interest, the first scored frame and its mask.

        SourceError if one of them cannot be read, or frame and mask differ in size.
        """
        number = self.scored[0]
        self.roi  # noqa: B018 - reading it is the check
        frame, truth = self.frame(number), self.truth(number)
        assert truth is not None
        if truth.shape != frame.shape[:2]:
            raise SourceError(f"mask {self._masks[number]} is {size_of(truth)}, its frame is {size_of(frame)}")

    def frame(self, number: int) -> np.ndarray:
        """Return one frame as stored: (h, w, 3) BGR or (h, w), uint8 or uint16."""
        return read_image(self._frames[number])

    def frames(self) -> Iterator[tuple[int, np.ndarray]]:
        """Yield number and picture of all frames in order."""
        return ((number, self.frame(number)) for number in self._frames)

    def truth(self, number: int) -> np.ndarray | None:
        """Return the mask of a frame, (h, w), uint8, or None if it is not scored."""
        first, last = self.temporal_roi or (number, number)
        if number not in self._masks or not first <= number <= last:
            return None
        path = self._masks[number]
        mask = read_mask(path)
        unknown = np.setdiff1d(np.flatnonzero(np.bincount(mask.ravel(), minlength=256)), CODES)
        if unknown.size:
            raise SourceError(f"mask {path} must have only the values {CODES}, got {int(unknown[0])}")
        return mask


def find_sequences(folders: Iterable[str | Path]) -> list[Sequence]:
    """Find and check all sequences in folders; return each once, in the order of the folders and then of the names.

    Parameters
    ----------
    folders : iterable of path
        Each a sequence (a folder with ``input`` or ``groundtruth``), or a folder with sequences at any depth, such as
        a category or the tree ``dataset/<category>/<video>`` of changedetection.net. Hidden folders are skipped.

    Raises
    ------
    SourceError
        If a folder is missing or has no sequence, a sequence is invalid (`Sequence.check`), or two have the same
        category and name.

    Examples
    --------
    >>> from bgsub.evaluation import find_sequences
    >>> [sequence.name for sequence in find_sequences(["."])]
    ['sequence']
    """
    found: dict[Path, Path] = {}
    for folder in map(Path, folders):
        below = list(_below(folder, set()))
        if not below:
            raise SourceError(f"no sequence in {folder}: a sequence is a folder with input and groundtruth")
        for path in below:
            found.setdefault(path.resolve(), path)
    sequences = [Sequence(path) for path in found.values()]
    names: dict[tuple[str, str], Sequence] = {}
    for sequence in sequences:
        other = names.setdefault((sequence.category, sequence.name), sequence)
        if other is not sequence:
            name = f"{sequence.category}/{sequence.name}"
            raise SourceError(f"{other.folder} and {sequence.folder} have the same name {name}; score one at a time")
    for sequence in sequences:
        sequence.check()
    return sequences


def _below(folder: Path, visited: set[Path]) -> Iterator[Path]:
    """Yield the sequences in a folder; `visited` ends cycles of symbolic links."""
    inside = sorted(path for path in _list_folder(folder) if path.is_dir() and not path.name.startswith("."))
    if any(path.name in ("input", "groundtruth") for path in inside):
        yield folder
        return
    visited.add(folder.resolve())
    for path in inside:
        if path.resolve() not in visited:
            yield from _below(path, visited)


def numbered(folder: Path, prefix: str = "") -> dict[int, Path]:
    """Return the pictures of a folder that start with `prefix` by the number in their names, sorted."""
    found: dict[int, Path] = {}
    for path in sorted(_list_folder(folder)):
        digits = re.findall(r"[0-9]+", path.stem)
        picture = path.suffix.lower() in _IMAGES and digits and not path.name.startswith(".")
        if not picture or not path.name.startswith(prefix):
            continue
        number = int(digits[-1])
        if number in found:
            raise SourceError(f"{found[number].name} and {path.name} in {folder} have the same number")
        found[number] = path
    if not found:
        kinds = ", ".join(sorted(_IMAGES))
        raise SourceError(f"folder {folder} has no numbered pictures {prefix}*[0-9] ({kinds})")
    return dict(sorted(found.items()))


def read_mask(path: Path) -> np.ndarray:
    """Return a mask file as coded, (h, w), uint8; palettes and colour files have equal channels."""
    image = read_image(path)
    if image.dtype != np.uint8:
        raise SourceError(f"mask {path} must have 8 bits, got {image.dtype}")
    # A conversion to grey weights three channels and may round; one channel is exact.
    return np.ascontiguousarray(image[..., 0]) if image.ndim == 3 else image


def size_of(image: np.ndarray) -> str:
    """Return the size of an image for messages, such as ``320x240``."""
    return f"{image.shape[1]}x{image.shape[0]}"


def _list_folder(folder: Path) -> list[Path]:
    if not folder.is_dir():
        raise SourceError(f"{folder} is not a folder" if folder.exists() else f"folder {folder} does not exist")
    with os_errors_as(SourceError, f"folder {folder} cannot be read"):
        return list(folder.iterdir())


def _read_temporal_roi(path: Path) -> tuple[int, int] | None:
    """Return the first and last number to score, or None where there is no such file."""
    if not path.exists():
        return None
    with os_errors_as(SourceError, f"{path} cannot be read"):
        words = path.read_text(encoding="utf-8-sig", errors="replace").split()
    if len(words) != 2 or not all(w.isdecimal() for w in words) or int(words[0]) > int(words[1]):
        raise SourceError(f"{path} must contain the first and last number to score, got {' '.join(words)!r}")
    return int(words[0]), int(words[1])


class OnlineScorer:
    """Score each frame of a scene; `source` yields the rendered frames."""

    def __init__(self, scene: Scene) -> None:
        frames, self._truths = (np.stack(part) for part in zip(*scene, strict=True))
        self.source = ArraySource(frames, fps=scene.fps)
        self.total = Confusion()

    def __call__(self, frame: Frame, separation: Separation) -> None:
        self.total += confusion(separation.mask, self._truths[frame.index])

    def scores(self) -> dict[str, float | None]:
        """Return the scores by name, None where nothing was counted."""
        c = self.total
        scores = {"recall": c.recall, "precision": c.precision, "f_measure": c.f_measure}
        return {name: None if math.isnan(score) else score for name, score in scores.items()}

    def text(self) -> str:
        shown = ("-" if score is None else f"{score:.3f}" for score in self.scores().values())
        return "recall {}, precision {}, F {}".format(*shown)
