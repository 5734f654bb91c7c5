"""From patterns to sources: files, folders of images, globs and lists of them, each source once."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bgsub.errors import SourceError

RECORD = "result.json"
"""File in every finished output folder; tells what it was made of."""

VIDEO_SUFFIXES = frozenset(
    {".3gp", ".asf", ".avi", ".flv", ".gif", ".h264", ".h265", ".hevc", ".m2ts", ".m4v", ".mjpeg", ".mjpg", ".mkv"}
    | {".mov", ".mp4", ".mpeg", ".mpg", ".mts", ".mxf", ".ogv", ".rm", ".ts", ".vob", ".webm", ".wmv", ".y4m"}
)


@dataclass(frozen=True)
class Identity:
    """What tells one state of a source from another.

    Attributes
    ----------
    path : str
        Absolute, without links.
    size : int
        Bytes; of a folder, those of all its images.
    mtime_ns : int
        Time of the last change in nanoseconds; of a folder, that of its newest image.
    """

    path: str
    size: int
    mtime_ns: int


@dataclass(frozen=True)
class Input:
    """A source as it was named, absolute, and its identity."""

    path: Path
    identity: Identity


def find_inputs(patterns: Sequence[str | os.PathLike[str]]) -> list[Input]:
    """Return the sources that patterns stand for, in natural order, each once however often it is named.

    Parameters
    ----------
    patterns : sequence of str or path
        A video file; a folder of images, which is one source; another folder, for the videos in it; a glob, in
        which ``**`` stands for any folders, for videos and folders of images; or ``@FILE``, a text file with one
        of these per line. A name that exists is never read as a glob.

    Returns
    -------
    list of Input
        At least one.

    Raises
    ------
    SourceError
        For a pattern that stands for nothing that can be read, naming it.
    """
    from bgsub.video.sources.images import natural_key  # noqa: PLC0415 - it brings OpenCV along

    paths = {Path(os.path.abspath(path)) for pattern in patterns for path in _expand(os.fspath(pattern))}
    inputs: dict[object, Input] = {}
    for path in sorted(paths, key=natural_key):
        inputs.setdefault(_file_key(path), Input(path, identify(path)))
    if not inputs:
        raise SourceError("a batch takes files, folders or patterns, got none")
    return list(inputs.values())


def identify(path: Path) -> Identity:
    """Return the identity of a file or a folder of images.

    Raises
    ------
    SourceError
        If it cannot be read.
    """
    real = os.path.realpath(path)
    try:
        files = _images_in(path) if path.is_dir() else [path]
        states = [file.stat() for file in files]
        if not os.access(files[0] if files else path, os.R_OK):
            raise PermissionError(13, "permission denied")
    except OSError as error:
        raise SourceError(f"'{path}' cannot be read: {error.strerror or error}") from None
    return Identity(real, sum(state.st_size for state in states), max((s.st_mtime_ns for s in states), default=0))


def _expand(pattern: str, listed: bool = True) -> Iterator[Path]:
    path = Path(pattern)
    if listed and pattern.startswith("@"):
        for line in _lines(pattern[1:]):
            yield from _expand(line, listed=False)
    elif "://" in pattern:
        raise SourceError(f"a batch takes files and folders, got the address '{pattern}'")
    elif path.is_dir():
        yield from _in_folder(path)
    elif path.is_file():
        _refuse_image(path)
        yield path
    elif glob.has_magic(pattern):
        yield from _matches(pattern)
    else:
        raise SourceError(f"no such file or folder: '{pattern}'")


def _lines(name: str) -> list[str]:
    try:
        text = Path(name).read_text(encoding="utf-8-sig", errors="surrogateescape")
    except OSError as error:
        raise SourceError(f"list '{name}' cannot be read: {error.strerror or error}") from None
    lines = [line.strip() for line in text.splitlines()]
    if not any(lines):
        raise SourceError(f"list '{name}' is empty")
    return [line for line in lines if line]


def _in_folder(folder: Path) -> list[Path]:
    try:
        if _images_in(folder):
            return [folder]
        videos = [path for path in folder.iterdir() if _is_video(path)]
    except OSError as error:
        raise SourceError(f"folder '{folder}' cannot be read: {error.strerror or error}") from None
    if not videos:
        raise SourceError(f"no images and no videos in folder '{folder}'")
    return videos


def _matches(pattern: str) -> list[Path]:
    ending = Path(pattern).suffix.lower()
    named = bool(ending) and not glob.has_magic(ending)  # "*.raw": whoever writes the ending means it
    matched = [Path(name) for name in glob.glob(pattern, recursive=True)]
    files = [path for path in matched if path.is_file()]
    images = [path for path in files if _is_still(path)]
    sources = [path for path in files if path not in set(images) and (named or _is_video(path))]
    sources += [path for path in matched if path.is_dir() and _images_in(path)]
    sources = [path for path in sources if not _is_result(path)]
    if not sources and images:
        raise SourceError(f"'{pattern}' matches only single images; a folder of images is one source, name the folder")
    if not sources:
        raise SourceError(f"no video and no folder of images matches '{pattern}'")
    return sources


def _is_video(path: Path) -> bool:
    return path.suffix.lower() in VIDEO_SUFFIXES and not path.name.startswith(".") and path.is_file()


def _is_still(path: Path) -> bool:
    from bgsub.video.sources.images import is_image  # noqa: PLC0415 - it brings OpenCV along

    return is_image(path) and path.suffix.lower() not in VIDEO_SUFFIXES


def _images_in(folder: Path) -> list[Path]:
    from bgsub.video.sources.images import is_image  # noqa: PLC0415 - it brings OpenCV along

    return [path for path in folder.iterdir() if is_image(path) and path.is_file()]


def _refuse_image(path: Path) -> None:
    if _is_still(path):
        raise SourceError(f"'{path}' is a single image; a folder of images is one source, name the folder")


def _is_result(path: Path) -> bool:
    """Whether a path lies in the results of a batch, which a pattern such as ``**`` finds as well."""
    folders = [path, *path.absolute().parents]
    return any((folder / RECORD).is_file() or ".attempt-" in folder.name for folder in folders)


def _file_key(path: Path) -> object:
    state = path.stat()
    return (state.st_dev, state.st_ino) if state.st_ino else os.path.realpath(path)
