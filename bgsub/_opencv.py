"""The one place where OpenCV is imported: a missing system library becomes one clear line, with the way out of it.

Four packages bring the one module ``cv2``: where two of them are installed the last one is there, and when one is
removed nothing is [1]_. So no extra can choose the one without windows; a command that puts it over the other can.

References
----------
.. [1] https://github.com/opencv/opencv-python/issues/467 and .../962
"""

from __future__ import annotations

import shlex
import sys
from typing import Any

from bgsub.errors import DependencyError


def installing(package: str) -> str:
    """Return the command, one line, that makes `package` the OpenCV of this Python and touches nothing else."""
    return f"{shlex.quote(sys.executable)} -m pip install --force-reinstall --no-deps {package}"


try:
    import cv2
    from cv2 import imread as _  # noqa: F401 - what is left of a removed OpenCV is an empty module
except ImportError as error:
    raise DependencyError(
        f"OpenCV cannot be loaded ({error}); with windows it needs, on Debian and Ubuntu: "
        f"apt-get install libgl1 libglib2.0-0; without, and without root: {installing('opencv-python-headless')}"
    ) from None

__all__ = ["cv2", "installing", "out_of_umat", "to_umat"]


def out_of_umat(image: Any) -> Any:
    """Return the array in a `cv2.UMat`, OpenCV's image on whichever device, and anything else as it is."""
    return image.get() if isinstance(image, cv2.UMat) else image


def to_umat(image: Any, into: Any = None) -> Any:
    """Return an array as a `cv2.UMat`; one of its size and type that is given `into` is filled, as OpenCV does it."""
    return cv2.copyTo(cv2.UMat(image), None, into)
