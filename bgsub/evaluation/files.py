"""The files of a sequence: numbered pictures, coded masks, regions of interest."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from bgsub._opencv import cv2
from bgsub.errors import SourceError
from bgsub.evaluation.metrics import CODES
from bgsub.video.sources.images import read_image

_IMAGES = {".jpg", ".jpeg", ".png", ".bmp", ".tif", ".tiff"}
# The site has both ROI.bmp and ROI.jpg; JPEG blurs the border, so it comes last.
_ROI_SUFFIXES = (".bmp", ".png", ".tif", ".tiff", ".jpg", ".jpeg")


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
    found: dict[int, Path] = {}
    for path in sorted(list_folder(folder)):
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
        raise SourceError(f"folder {folder} holds no numbered pictures {prefix}*[0-9] ({kinds})")
    return dict(sorted(found.items()))


def list_folder(folder: Path) -> list[Path]:
    """Return what a folder holds; SourceError where it is missing, no folder or not readable."""
    if not folder.is_dir():
        raise SourceError(f"{folder} is no folder" if folder.exists() else f"folder {folder} does not exist")
    try:
        return list(folder.iterdir())
    except OSError as error:
        raise SourceError(f"folder {folder} cannot be read: {error.strerror or error}") from None


def read_codes(path: Path) -> np.ndarray:
    """Return a mask file as it is coded, (h, w), uint8; palettes and colour files are grey in disguise."""
    image = read_image(path)
    if image.dtype != np.uint8:
        raise SourceError(f"mask {path} must have 8 bits, got {image.dtype}")
    # A conversion to grey weighs three channels and may round a code away; one channel is exact.
    return np.ascontiguousarray(image[..., 0]) if image.ndim == 3 else image


def read_truth(path: Path) -> np.ndarray:
    """Return a true mask, (h, w), uint8; SourceError where it holds other values than `metrics.CODES`."""
    image = read_codes(path)
    strange = np.setdiff1d(np.flatnonzero(np.bincount(image.ravel(), minlength=256)), CODES)
    if strange.size:
        raise SourceError(f"mask {path} must hold only the values {CODES}, got {int(strange[0])} as well")
    return image


def find_roi(folder: Path) -> Path | None:
    """Return the file of the region of interest: ``ROI`` in any case, ``.bmp`` before the others."""
    found = {path.suffix.lower(): path for path in sorted(list_folder(folder)) if path.stem.lower() == "roi"}
    return next((found[suffix] for suffix in _ROI_SUFFIXES if suffix in found), None)


def read_roi(path: Path, size: tuple[int, int]) -> np.ndarray:
    """Return a region of interest, (h, w), bool, scaled to `size` = (h, w) where a file has another size.

    Raises
    ------
    SourceError
        If the file cannot be read, or nothing lies inside.
    """
    image = read_codes(path)
    if image.shape != size:
        image = cv2.resize(image, (size[1], size[0]), interpolation=cv2.INTER_NEAREST)
    # JPEG leaves a grey seam around black.
    inside = image > (127 if path.suffix.lower() in {".jpg", ".jpeg"} else 0)
    if not inside.any():
        raise SourceError(f"region of interest {path} is black: nothing would be scored")
    return inside


def read_temporal_roi(path: Path) -> tuple[int, int] | None:
    """Return the first and the last number to score, or None where there is no such file."""
    try:
        words = path.read_text(encoding="utf-8-sig", errors="replace").split()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise SourceError(f"{path} cannot be read: {error.strerror or error}") from None
    if len(words) != 2 or not all(w.isdecimal() for w in words) or int(words[0]) > int(words[1]):
        raise SourceError(f"{path} must hold the first and the last number to score, got {' '.join(words)!r}")
    return int(words[0]), int(words[1])
