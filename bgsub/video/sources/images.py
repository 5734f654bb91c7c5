"""Frames from image files and from arrays."""

import glob
import os
import re
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress
from fractions import Fraction
from functools import cached_property
from pathlib import Path

import numpy as np

from bgsub._opencv import cv2, quiet
from bgsub.errors import ParameterError, SourceError
from bgsub.numerics.memory import check_memory, is_lack_of_memory
from bgsub.storage.durable_io import AnyPath, os_errors_as
from bgsub.video.sources.base import Frame, FrameSource, number_name, without_alpha
from bgsub.video.sources.image_header import announced_size, is_possible
from bgsub.video.timecode import Part

IMAGE_SUFFIXES = frozenset(
    {".avif", ".bmp", ".dib", ".exr", ".gif", ".hdr", ".jp2", ".jpe", ".jpeg", ".jpg", ".pbm", ".pfm", ".pgm"}
    | {".pic", ".png", ".pnm", ".ppm", ".pxm", ".ras", ".sr", ".tif", ".tiff", ".webp"}
)

_PRINTF = re.compile(r"%(0?)(\d*)d")
_GLOB = re.compile(r"[*?\[]")

_JPEG = b"\xff\xd8"
_PAGED = re.compile(rb"II[*+]\0|MM\0[*+]|\x89PNG.*acTL|RIFF....WEBP.*ANIM", re.DOTALL)
_HEADER = 1 << 12  # bytes that show whether a file has pages
_DECODED = 1 << 26  # bytes of pages that are decoded at once
_LARGE = 1 << 24  # bytes; a check of the memory takes as long as reading a small image

Paths = AnyPath | Sequence[AnyPath]


def natural_key(path: Path) -> tuple[list[str | int], str]:
    """Return a sort key that compares numbers in a path by value, so that in2 comes before in10."""
    parts = re.split(r"([0-9]+)", str(path).casefold())
    return [int(part) if index % 2 else part for index, part in enumerate(parts)], str(path)


def is_image(path: Path) -> bool:
    """Return whether a path has the name of an image file and is not hidden (as ``._in1.png`` of macOS)."""
    return path.suffix.lower() in IMAGE_SUFFIXES and not path.name.startswith(".")


def is_pattern(text: str) -> bool:
    """Return whether the text is a glob or a printf pattern such as ``img_%04d.png``."""
    return bool(_GLOB.search(text) or _PRINTF.search(Path(text).name))


def find_images(spec: AnyPath) -> list[Path]:
    """Return the images that a folder, file, glob or printf pattern names, in natural order; SourceError for none."""
    text, path = os.fspath(spec), Path(spec)
    if path.is_file():
        return [path]
    if path.is_dir():
        with os_errors_as(SourceError, f"folder '{text}' cannot be read"):
            found, message = sorted(path.iterdir(), key=natural_key), f"no images in folder '{text}'"
            if path / "input" in found and not any(map(is_image, found)):  # a sequence of changedetection.net
                return find_images(path / "input")
        message += "; bgsub batch takes folders of videos" if found else ""
    elif is_pattern(text):
        found, message = matches(text), f"no image matches '{text}'"
    else:
        raise SourceError(f"no such file or folder: '{text}'")
    images = [name for name in found if is_image(name) and name.is_file()]
    if not images:
        raise SourceError(message)
    return images


def matches(pattern: str) -> list[Path]:
    """Return the files that match a glob or printf pattern, in natural order, without hidden files."""
    is_glob = bool(_GLOB.search(pattern))
    found = map(Path, glob.glob(pattern, recursive=True)) if is_glob else _match_printf(Path(pattern))
    return sorted((path for path in found if path.is_file() and not path.name.startswith(".")), key=natural_key)


def _match_printf(pattern: Path) -> list[Path]:
    """Return the files that match a printf pattern such as ``img_%04d.png``."""
    field = _PRINTF.search(pattern.name)
    if field is None or not pattern.parent.is_dir():
        return []
    width = int(field[2] or 1)
    # printf pads up to the width and lets longer numbers through, without leading zeros.
    number = rf"(\d{{{width}}}|[1-9]\d{{{width},}})" if field[1] else r"(0|[1-9]\d*)"
    before, after = pattern.name[: field.start()], pattern.name[field.end() :]
    name = re.compile(re.escape(before) + number + re.escape(after))
    return [path for path in pattern.parent.iterdir() if name.fullmatch(path.name)]


def _check_memory(needed: int, what: str) -> None:
    if needed > _LARGE:
        check_memory(needed, what, "a smaller image")


def _check_announced(content: bytes, path: Path) -> None:
    if (size := announced_size(content)) is not None:
        width, height, per_pixel = size
        _check_memory(width * height * per_pixel, f"image '{path}', {width}x{height},")


def read_image(path: Path) -> np.ndarray:
    """Return an image with its own depth and channels, without alpha; errors as `read_with_alpha`."""
    return without_alpha(read_with_alpha(path))


def read_with_alpha(path: Path) -> np.ndarray:
    """Return an image with its own depth and channels; SourceError, or ParameterError if too large."""
    with os_errors_as(SourceError, f"image '{path}' cannot be read"):
        state = path.stat()
        if not stat.S_ISREG(state.st_mode):  # reading a pipe or a device may never end
            raise SourceError(f"image '{path}' is not a regular file")
        _check_memory(state.st_size, f"image '{path}'")
        content = path.read_bytes()
    _check_announced(content, path)
    if not is_possible(content):
        raise SourceError(f"image '{path}' cannot be decoded")
    data = np.frombuffer(content, np.uint8)
    # With IMREAD_UNCHANGED, OpenCV ignores the rotation in the EXIF data of a JPEG.
    flags = cv2.IMREAD_ANYCOLOR if content.startswith(_JPEG) else cv2.IMREAD_UNCHANGED
    try:
        with quiet():
            image = cv2.imdecode(data, flags) if data.size else None
    except cv2.error as error:
        if "CV_IO_MAX_IMAGE_PIXELS" in str(error):
            raise SourceError(f"image '{path}' has more pixels than OpenCV reads, see CV_IO_MAX_IMAGE_PIXELS") from None
        if is_lack_of_memory(error):
            raise
        image = None
    if image is None:
        raise SourceError(f"image '{path}' {'cannot be decoded' if data.size else 'is empty'}")
    return image


class ImageSequenceSource(FrameSource):
    """Image files as frames, with the depth and channels of the files; JPEG files are rotated as their EXIF data says.

    Parameters
    ----------
    paths : str, path or sequence of them
        A folder, image, glob (``"in*.jpg"``) or printf pattern (``"img_%04d.png"``), read in natural order (in2 before
        in10); or a list of files.
    on_error, fps : optional
        As for `FrameSource`.

    Raises
    ------
    SourceError
        If there is no image.
    ParameterError
        If an item of the list is not a path.

    Examples
    --------
    >>> from bgsub.video import ImageSequenceSource
    >>> [frame.name for frame in ImageSequenceSource("frames/in*.png")][:2]
    ['in000000', 'in000001']
    """

    restartable = numbered = True
    length: int

    def __init__(self, paths: Paths, *, on_error: str = "stop", fps: float | Fraction | None = None) -> None:
        if isinstance(paths, (str, os.PathLike)):
            super().__init__(f"images '{os.fspath(paths)}'", on_error, fps)
            self._paths = find_images(paths)
        else:
            if wrong := [type(path).__name__ for path in paths if not isinstance(path, (str, os.PathLike))]:
                raise ParameterError(f"a list of images needs paths, got {wrong[0]}; pass frames as one array")
            self._paths = [Path(path) for path in paths]
            if not self._paths:
                raise SourceError("the list of images is empty")
            super().__init__(f"list of {len(self._paths)} images", on_error, fps)
        self.path = self._paths[0].parent
        self.length = len(self._paths)

    @cached_property
    def size(self) -> tuple[int, int]:  # type: ignore[override] # read at the first access
        """Width and height in pixels of the first image that can be read."""
        for path in self._paths:
            try:
                height, width = read_image(path).shape[:2]
            except SourceError:
                if self.on_error == "stop":
                    raise
            else:
                return width, height
        raise SourceError(f"{self.name}: none can be read")

    def _part(self, part: Part) -> Iterator[Frame]:
        read = 0
        for index, time, path in part.select((i, self._time(i), path) for i, path in enumerate(self._paths)):
            try:
                image = read_image(path)
            except SourceError as error:
                self._unreadable(str(error))
                continue
            read += 1
            yield Frame(index, path.stem, time, image)
        if self.skipped and not read:
            raise SourceError(f"{self.name}: none can be read")


def pages_of(path: Path) -> int:
    """Return the number of pages of a TIFF stack or of an animated PNG or WebP; 1 for other files."""
    with suppress(OSError, cv2.error), quiet():
        with path.open("rb") as file:
            header = file.read(_HEADER)
        return max(int(cv2.imcount(os.fspath(path), cv2.IMREAD_UNCHANGED)), 1) if _PAGED.match(header) else 1
    return 1


class PagedImageSource(FrameSource):
    """The pages of one image file as frames; parameters and errors as those of `ImageSequenceSource`."""

    restartable = True
    length: int

    def __init__(self, path: AnyPath, *, on_error: str = "stop", fps: float | Fraction | None = None) -> None:
        super().__init__(f"image '{os.fspath(path)}'", on_error, fps)
        self.path, self._file = Path(path), os.fspath(path)
        with os_errors_as(SourceError, f"{self.name} cannot be read"), self.path.open("rb") as file:
            _check_announced(file.read(_DECODED), self.path)
        self.length, self._together = pages_of(self.path), 1
        pages = self._read(0)
        if not pages:
            raise SourceError(f"{self.name} cannot be decoded")
        self.size = pages[0].shape[1::-1]
        self._together = max(_DECODED // pages[0].nbytes, 1)  # a decoder seeks from the first page on

    def _part(self, part: Part) -> Iterator[Frame]:
        pages: Sequence[np.ndarray] = ()
        first = 0
        for index, time, _ in part.select((i, self._time(i), None) for i in range(self.length)):
            if index - first >= len(pages):
                first, pages = index, self._read(index)
            if pages:
                yield Frame(index, number_name(index), time, without_alpha(pages[index - first]))
            else:
                self._unreadable(f"page {index} of {self.name} cannot be decoded")

    def _read(self, first: int) -> Sequence[np.ndarray]:
        """Return some pages from the given one on, up to an unreadable one."""
        count = min(self._together, self.length - first)
        with suppress(cv2.error), quiet():
            pages: Sequence[np.ndarray] = cv2.imreadmulti(self._file, first, count, flags=cv2.IMREAD_UNCHANGED)[1]
            return pages
        return ()


class ArraySource(FrameSource):
    """The frames of an array.

    Parameters
    ----------
    array : ndarray, (n, h, w) or (n, h, w, c) with c in {1, 3, 4}, uint8, uint16 or floating
        The frames; the alpha channel of four is dropped. Frames are views into it, not copies.
    fps : float or Fraction, optional
        Frames per second.

    Raises
    ------
    ParameterError
        If the array has another shape or type.

    Examples
    --------
    >>> import numpy as np
    >>> from bgsub.video import ArraySource
    >>> source = ArraySource(np.zeros((10, 48, 64, 3), np.uint8), fps=25)
    >>> [frame.time for frame in source][:3]
    [0.0, 0.04, 0.08]
    """

    restartable = True
    length: int

    def __init__(self, array: np.ndarray, *, fps: float | Fraction | None = None) -> None:
        super().__init__("array", fps=fps)
        array = np.asarray(array)
        layout = array.ndim == 3 or (array.ndim == 4 and array.shape[3] in (1, 3, 4))
        if not layout or array.size == 0:
            raise ParameterError(f"array must have shape (n, h, w) or (n, h, w, c) with c 1, 3 or 4, got {array.shape}")
        if array.dtype not in (np.uint8, np.uint16) and not np.issubdtype(array.dtype, np.floating):
            raise ParameterError(f"array must be uint8, uint16 or floating, got {array.dtype}")
        self._array, self.size, self.length = array, (array.shape[2], array.shape[1]), len(array)

    def _frames(self) -> Iterator[Frame]:
        for index, image in enumerate(self._array):
            yield Frame(index, number_name(index), self._time(index), without_alpha(image))
