"""Import OpenCV in one place; a missing system library raises one clear line with the remedy.

Four packages provide the module ``cv2``; of two, the last installed one wins, and removing one removes the module
(github.com/opencv/opencv-python/issues/467 and 962). So no extra can select the one without windows, but a command can
install it over the other.
"""

import os
import shlex
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from bgsub.errors import DependencyError


def installing(package: str) -> str:
    """Return the command, one line, that installs `package` as the OpenCV of this Python without dependencies."""
    return f"{shlex.quote(sys.executable)} -m pip install --force-reinstall --no-deps {package}"


try:
    import cv2
    from cv2 import imread as _  # noqa: F401 - a removed OpenCV leaves an empty module
except ImportError as error:
    raise DependencyError(
        f"OpenCV cannot be loaded ({error}); with windows it needs, on Debian and Ubuntu: "
        f"apt-get install libgl1 libglib2.0-0; without, and without root: {installing('opencv-python-headless')}"
    ) from None

__all__ = ["cv2", "installing", "out_of_umat", "quiet", "to_umat"]


def out_of_umat(image: Any) -> Any:
    """Return the array of a `cv2.UMat`, and any other value unchanged."""
    return image.get() if isinstance(image, cv2.UMat) else image


def to_umat(image: Any, into: Any) -> Any:
    """Return an array as a `cv2.UMat`; fills `into` if its size and type match, as OpenCV does."""
    return cv2.copyTo(cv2.UMat(image), None, into)


_log = cv2 if hasattr(cv2, "setLogLevel") else cv2.utils.logging  # OpenCV 5 moved the functions
_SILENT = 0

_lock = threading.Lock()
_blocks = 0
_level = _SILENT


@contextmanager
def quiet() -> Iterator[None]:
    """Silence OpenCV's log inside the block; blocks nest, also across threads; ``OPENCV_LOG_LEVEL`` switches it off."""
    global _blocks, _level  # noqa: PLW0603 - the level belongs to the process
    if "OPENCV_LOG_LEVEL" in os.environ:
        yield
        return
    with _lock:
        if _blocks == 0:
            _level = _log.getLogLevel()
            _log.setLogLevel(_SILENT)
        _blocks += 1
    try:
        yield
    finally:
        with _lock:
            _blocks -= 1
            if _blocks == 0:
                _log.setLogLevel(_level)
