"""Find the sources of a batch: files, folders of images, globs and lists of them."""

from __future__ import annotations

import errno
import glob
import logging
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bgsub.errors import SourceError
from bgsub.jobs.job_state import InputState, images_in
from bgsub.video.sources.images import is_image, natural_key

logger = logging.getLogger("bgsub")

RECORD = "result.json"
"""File in every finished output folder, with the identity and the result of its job."""

VIDEO_SUFFIXES = frozenset(
    {".3gp", ".asf", ".avi", ".flv", ".gif", ".h264", ".h265", ".hevc", ".m2ts", ".m4v", ".mjpeg", ".mjpg", ".mkv"}
    | {".mov", ".mp4", ".mpeg", ".mpg", ".mts", ".mxf", ".ogv", ".rm", ".ts", ".vob", ".webm", ".wmv", ".y4m"}
)


@dataclass(frozen=True)
class Input:
    """The absolute path of a source, and its state."""

    path: Path
    state: InputState


def find_inputs(patterns: Sequence[str | os.PathLike[str]]) -> list[Input]:
    """Return the sources of some patterns in natural order, each once; SourceError for one without a readable match.

    A pattern is a video file; a folder of images, which is one source; another folder, for the videos in it, but not
    in its subfolders; a glob, in which ``**`` stands for any folders, for videos and folders of images; or ``@FILE``, a
    text file with one of these per line. An existing name is never read as a glob.
    """
    paths = {Path(os.path.abspath(path)) for pattern in patterns for path in _expand(os.fspath(pattern))}
    inputs: dict[object, Input] = {}
    # A file before its links: the folder of the results is named after it.
    for path in sorted(paths, key=lambda path: (os.path.realpath(path) != str(path), natural_key(path))):
        inputs.setdefault(_file_key(path), Input(path, InputState.of(path)))
    if not inputs:
        raise SourceError("a batch takes files, folders or patterns, got none")
    return sorted(inputs.values(), key=lambda source: natural_key(source.path))


def _expand(pattern: str) -> Iterator[Path]:
    for name in _lines(pattern[1:]) if pattern.startswith("@") else [pattern]:
        try:
            yield from _found(name)
        except SourceError:
            raise
        except OSError as error:
            raise SourceError(f"'{name}' cannot be read: {error.strerror or error}") from None


def _found(pattern: str) -> list[Path]:
    path = Path(pattern)
    if "://" in pattern:
        raise SourceError(f"a batch takes files and folders, got the address '{pattern}'")
    if path.is_dir():
        return _in_folder(path)
    if path.is_file():
        return [_readable_video(path)]
    if glob.has_magic(pattern):
        return _matches(pattern)
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
        if images_in(folder):
            return [folder]
        videos = [path for path in folder.iterdir() if _is_video(path)]
    except OSError as error:
        raise SourceError(f"folder '{folder}' cannot be read: {error.strerror or error}") from None
    if not videos:
        raise SourceError(f"no images and no videos in folder '{folder}'{_hint_below(folder)}")
    return videos


def _hint_below(folder: Path) -> str:
    """Return a hint about a subfolder with videos or images; empty without any."""
    for name, folders, files in os.walk(folder):
        folders[:] = sorted(below for below in folders if not below.startswith("."))
        paths = (Path(name, file) for file in files)
        if any((_is_video(path) or _is_still(path)) and not _is_result(path) for path in paths):
            return f" itself, only below it, as in '{name}'; the pattern '{glob.escape(str(folder))}/**' takes them all"
    return ""


def _matches(pattern: str) -> list[Path]:
    ending = Path(pattern).suffix.lower()
    named = bool(ending) and not glob.has_magic(ending)  # as in "*.raw": any ending is accepted if it is explicit
    matched = [Path(name) for name in glob.glob(pattern, recursive=True)]
    files = [path for path in matched if path.is_file()]
    images = [path for path in files if _is_still(path)]
    sources = [path for path in files if path not in set(images) and (named or _is_video(path))]
    sources += [path for path in matched if path.is_dir() and _has_images(path)]
    sources = [path for path in sources if not _is_result(path)]
    if not sources and images:
        raise SourceError(f"'{pattern}' matches only single images; a folder of images is one source, name the folder")
    if not sources:
        raise SourceError(f"no video and no folder of images matches '{pattern}'")
    return sources


def _is_video(path: Path) -> bool:
    return path.suffix.lower() in VIDEO_SUFFIXES and not path.name.startswith(".") and path.is_file()


def _is_still(path: Path) -> bool:
    return is_image(path) and path.suffix.lower() not in VIDEO_SUFFIXES


def _has_images(folder: Path) -> bool:
    """Return whether a folder has images; log a warning if it cannot be read."""
    try:
        return bool(images_in(folder))
    except OSError as error:
        logger.warning("folder '%s' cannot be read and is left out: %s", folder, error.strerror or error)
        return False


def _readable_video(path: Path) -> Path:
    """Check a file that was named explicitly; one that a pattern matches fails later, alone."""
    if _is_still(path):
        raise SourceError(f"'{path}' is a single image; a folder of images is one source, name the folder")
    if not os.access(path, os.R_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    return path


def _is_result(path: Path) -> bool:
    """Return whether a path is in the results of a batch, which a pattern such as ``**`` matches as well."""
    folders = [path, *path.absolute().parents]
    return any((folder / RECORD).is_file() or ".attempt-" in folder.name for folder in folders)


def _file_key(path: Path) -> object:
    state = path.stat()
    return (state.st_dev, state.st_ino) if state.st_ino else os.path.realpath(path)
