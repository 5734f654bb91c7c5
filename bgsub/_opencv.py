"""The one place where OpenCV is imported: a missing system library becomes one clear line."""

from __future__ import annotations

from bgsub.errors import DependencyError

try:
    import cv2
except ImportError as error:
    raise DependencyError(
        f"OpenCV cannot be loaded ({error}); on Debian and Ubuntu: apt-get install libgl1 libglib2.0-0, "
        "or without a window: pip install --force-reinstall opencv-python-headless"
    ) from None

__all__ = ["cv2"]
