"""Regions of interest: rectangles, polygons and mask images. NumPy and OpenCV are imported at the first mask."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import or_
from pathlib import Path
from typing import TYPE_CHECKING, Self

from bgsub.errors import ParameterError, SourceError

if TYPE_CHECKING:
    import numpy as np

SUFFIXES = (".png", ".bmp", ".tif", ".tiff", ".jpg", ".jpeg")
_FORMS = "[NAME=]x,y,w,h or [NAME=]x1,y1;x2,y2;x3,y3... or [NAME=]MASK.png, in pixels or percent"
_JPEG_SEAM = 127  # JPEG leaves a grey seam around black


@dataclass(frozen=True)
class Length:
    """A coordinate: pixels, or percent of the frame's width or height."""

    value: float
    percent: bool = False

    def pixels(self, whole: int) -> float:
        """Return pixels for a frame that is `whole` pixels wide or high."""
        return self.value * whole / 100 if self.percent else self.value


@dataclass(frozen=True)
class Region:
    """One region of the frame."""

    name: str  # if it is empty, `Regions` gives one
    kind: str  # {"rectangle", "polygon", "image"}
    points: tuple[tuple[Length, Length], ...] = ()  # rectangle: corner (x, y) and size (w, h); polygon: its corners
    path: Path | None = None  # image: the file, in the size of the frames

    def mask(self, shape: tuple[int, ...]) -> np.ndarray:
        """Return the mask, (h, w) bool, clipped to frames of a shape (h, w, ...); ParameterError if it is empty."""
        height, width = shape[:2]
        try:
            inside = _drawn(self, height, width) if self.path is None else _image_mask(self.path, height, width)
        except (SourceError, ParameterError) as error:
            raise ParameterError(f"region '{self.name}': {error}") from None
        if not inside.any():
            where = f"its mask '{self.path}' is black" if self.kind == "image" else "it lies outside of the frame"
            raise ParameterError(
                f"region '{self.name}' must hold pixels of the frame, which is {width}x{height}: {where}"
            )
        return inside


def parse_region(text: str) -> Region:
    """Parse the text of a region, see `Regions`; ParameterError if it is invalid or an image file does not exist."""
    name, body = _split_name(text)
    if body.lower().endswith(SUFFIXES):
        if not Path(body).is_file():
            raise ParameterError(f"a region's mask must be an image file, got '{body}'")
        return Region(name, "image", path=Path(body))
    corners = [part.split(",") for part in body.strip(";").split(";")]
    if len(corners) == 1 and len(corners[0]) == 4:
        x, y, w, h = (_length(word, text) for word in corners[0])
        if w.value <= 0 or h.value <= 0:
            raise ParameterError(f"a region must be wider and higher than 0, got '{text}'")
        return Region(name, "rectangle", ((x, y), (w, h)))
    if len(corners) >= 3 and all(len(pair) == 2 for pair in corners):
        return Region(name, "polygon", tuple((_length(x, text), _length(y, text)) for x, y in corners))
    raise ParameterError(f"a region must be {_FORMS}, got '{text}'")


def _drawn(region: Region, height: int, width: int) -> np.ndarray:
    """Return the mask, (h, w) bool, of a rectangle or polygon, clipped to the frame."""
    import numpy as np  # noqa: PLC0415 - see above

    from bgsub._opencv import cv2  # noqa: PLC0415 - see above

    canvas: np.ndarray = np.zeros((height, width), np.uint8)
    points = [(x.pixels(width), y.pixels(height)) for x, y in region.points]
    if region.kind == "rectangle":
        (x, y), (w, h) = points
        canvas[max(round(y), 0) : max(round(y + h), 0), max(round(x), 0) : max(round(x + w), 0)] = 1
    else:
        if np.linalg.matrix_rank(np.subtract(points[1:], points[0])) < 2:
            raise ParameterError("its corners lie on a line")
        cv2.fillPoly(canvas, [np.array([(round(x), round(y)) for x, y in points], np.int32)], 1)
    return canvas.view(bool)


def _image_mask(path: Path, height: int, width: int) -> np.ndarray:
    """Return the mask, (h, w) bool, in an image file; SourceError or ParameterError where it does not fit."""
    from bgsub.video.sources.base import without_alpha  # noqa: PLC0415 - see above
    from bgsub.video.sources.images import read_with_alpha  # noqa: PLC0415 - see above

    image = read_with_alpha(path)
    found = without_alpha(image)
    if found.shape[:2] != (height, width):
        raise ParameterError(
            f"mask image '{path}' must have the size of the frames, {width}x{height}, "
            f"got {found.shape[1]}x{found.shape[0]}"
        )
    grey = found if found.ndim == 2 else found.max(axis=2)
    inside: np.ndarray = grey > (_JPEG_SEAM if path.suffix.lower() in (".jpg", ".jpeg") else 0)
    opaque = image[:, :, 3] > 0 if image.ndim == 3 and image.shape[2] == 4 else inside
    if opaque.all() or not opaque.any():
        return inside
    return inside & opaque if (inside & opaque).any() else opaque  # a black shape on a transparent layer


def bounding_box(inside: np.ndarray) -> tuple[slice, slice]:
    """Return the rows and the columns of the smallest box around the pixels of a mask that is not all False."""
    import numpy as np  # noqa: PLC0415 - see above

    rows, columns = np.flatnonzero(inside.any(axis=1)), np.flatnonzero(inside.any(axis=0))
    return slice(int(rows[0]), int(rows[-1]) + 1), slice(int(columns[0]), int(columns[-1]) + 1)


def surroundings(inside: np.ndarray) -> tuple[slice, slice]:
    """Return rows and columns of a box twice as large as `bounding_box`, and at least half of the frame."""

    def widened(part: slice, side: int) -> slice:
        length = part.stop - part.start
        margin = (max(length, -(-side // 2) - length) + 1) // 2
        return slice(max(part.start - margin, 0), min(part.stop + margin, side))

    rows, columns = map(widened, bounding_box(inside), inside.shape)
    return rows, columns


def absolute_region(text: str) -> str:
    """Return the text of a region with an absolute path; ParameterError if the text is invalid."""
    region = parse_region(text)
    if region.path is None:
        return text
    path = os.path.abspath(region.path)
    return f"{region.name}={path}" if region.name else path


def _split_name(text: str) -> tuple[str, str]:
    found = re.fullmatch(r"\s*([^=,;/\\]*[^=,;/\\\s])\s*=(.*)", text)
    if found:
        if not found[1].isprintable():
            raise ParameterError(f"a region's name must be printable, got {found[1]!a}")
        return found[1], found[2].strip()
    if text.lstrip().startswith("="):
        raise ParameterError(f"a region must be {_FORMS}, got '{text}'")
    return "", text.strip()


def _length(word: str, text: str) -> Length:
    percent = word.strip().endswith("%")
    try:
        value = float(word.strip().removesuffix("%"))
    except ValueError:
        value = math.nan
    if not abs(value) <= 1e6:
        raise ParameterError(f"a region must be {_FORMS}, got '{word.strip()}' in '{text}'")
    return Length(value, percent)


def processed(
    shape: tuple[int, ...],
    regions: Regions | None,
    ignored: Regions | None,
    privacy: Regions | None = None,
    *,
    or_nothing: bool = False,
) -> np.ndarray:
    """Return the processed pixels, (h, w) bool; ParameterError if they (unless `or_nothing`) or a region are empty."""
    import numpy as np  # noqa: PLC0415 - see above

    inside = np.ones(shape[:2], bool) if regions is None else regions.union(shape)
    if ignored is not None:
        inside &= ~ignored.union(shape)
    if not (or_nothing or inside.any()):
        raise ParameterError("the ignored regions cover all that is processed")
    hidden = np.zeros(shape[:2], bool) if privacy is None else privacy.union(shape)
    for region in regions or ():
        if not (region.mask(shape) & ~hidden).any():
            raise ParameterError(f"the privacy regions cover region '{region.name}', in which nothing can be found")
    return inside


class Regions(tuple[Region, ...]):
    """Regions with unique names; regions without a name become region1, region2, ... by position.

    Parameters
    ----------
    regions : str, or iterable of Region or str
        At least one. A text is ``[NAME=]x,y,w,h`` (rectangle), ``[NAME=]x1,y1;x2,y2;x3,y3...`` (polygon) or
        ``[NAME=]MASK.png`` (image of the size of the frames; black and transparent pixels are outside). Numbers are
        pixels, or percent of the frame with ``%``. Regions are clipped to the frame.

    Raises
    ------
    ParameterError
        If there is no region, two have the same name, or a text is invalid.

    Examples
    --------
    >>> from bgsub.video import Regions
    >>> regions = Regions(["door=10%,20%,50%,30%", "0,0;20,0;0,20"])
    >>> regions.names
    ('door', 'region2')
    >>> regions.masks((48, 64))["door"].shape
    (48, 64)
    """

    def __new__(cls, regions: str | Iterable[Region | str]) -> Self:
        given = [regions] if isinstance(regions, str) else regions
        parsed = [parse_region(region) if isinstance(region, str) else region for region in given]
        self = super().__new__(cls, (replace(one, name=one.name or f"region{n}") for n, one in enumerate(parsed, 1)))
        if not self:
            raise ParameterError("regions must be at least one, got none")
        for number, name in enumerate(self.names):
            if name in self.names[:number]:
                raise ParameterError(f"regions must have different names, got '{name}' twice")
        return self

    @classmethod
    def of(cls, texts: Sequence[Region | str]) -> Regions | None:
        """Return the regions of some texts, None if there are none."""
        return cls(texts) if texts else None

    @property
    def names(self) -> tuple[str, ...]:
        """The names in order."""
        return tuple(region.name for region in self)

    def masks(self, shape: tuple[int, ...]) -> dict[str, np.ndarray]:
        """Return the mask, (h, w) bool, of each region by name, for frames of a shape.

        ParameterError if no pixel of the frame lies inside of one, or a mask image has another size or cannot be read.
        """
        return {region.name: region.mask(shape) for region in self}

    def union(self, shape: tuple[int, ...]) -> np.ndarray:
        """Return the mask of all regions together, (h, w) bool; errors as in `masks`."""
        return reduce(or_, self.masks(shape).values())
