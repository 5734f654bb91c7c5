"""The screen: what a window needs of it, and how OpenCV gives it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

from bgsub._opencv import cv2, installing
from bgsub.errors import SinkError

_FONT_FOLDERS = ("truetype/dejavu", "dejavu", "dejavu-sans-fonts", "TTF", "truetype/liberation", "truetype")
_SLIDERS_HEIGHT, _LEAST_WIDTH = 90, 480  # of a window, in pixels
_MOUSE = {cv2.EVENT_LBUTTONDOWN: "press", cv2.EVENT_MOUSEMOVE: "move", cv2.EVENT_LBUTTONUP: "release"}
_PROBE = "import cv2; cv2.namedWindow('bgsub'); cv2.waitKey(1); cv2.destroyAllWindows()"


class NoWindowError(SinkError):
    """There is no screen, or OpenCV has no windows."""


class CvDisplay:
    """The windows of OpenCV; each is known by its title."""

    def __init__(self) -> None:
        self._size = 0, 0

    def open(self, title: str) -> None:
        """Show an empty window; raise `NoWindowError` where there is no screen."""
        check_display()
        _give_fonts()
        # Without the toolbar of Qt, whose buttons would hide a third of a small window.
        cv2.namedWindow(title, cv2.WINDOW_NORMAL | cv2.WINDOW_KEEPRATIO | cv2.WINDOW_GUI_NORMAL)

    def add_slider(self, title: str, name: str, last: int, moved: Callable[[int], None]) -> None:
        """Put a slider with the positions 0 to `last` into the window; `moved` is called with the new position."""
        cv2.createTrackbar(name, title, 0, last, moved)

    def set_slider(self, title: str, name: str, position: int) -> None:
        """Move a slider; `moved` may be called."""
        cv2.setTrackbarPos(name, title, position)

    def on_mouse(self, title: str, used: Callable[[str, int, int], None]) -> None:
        """Call `used` with "press", "move" or "release" of the left button and the pixel of the picture."""

        def call(event: int, x: int, y: int, _flags: int, _data: object) -> None:
            if event in _MOUSE:
                used(_MOUSE[event], x, y)

        cv2.setMouseCallback(title, call)

    def show(self, title: str, image: np.ndarray) -> None:
        """Put a BGR image into the window; one that is larger than those before makes the window larger."""
        height, width = image.shape[:2]
        if width > self._size[0] or height > self._size[1]:
            self._size = max(width, self._size[0]), max(height, self._size[1])
            cv2.resizeWindow(title, max(self._size[0], _LEAST_WIDTH), self._size[1] + _SLIDERS_HEIGHT)
        cv2.imshow(title, image)

    def key(self, milliseconds: int) -> int:
        """Handle the events of the windows for some time and return the key pressed, or -1."""
        return int(cv2.waitKey(milliseconds))

    def visible(self, title: str) -> bool:
        """Return whether a window is there and was not closed by its cross."""
        try:
            return bool(cv2.getWindowProperty(title, cv2.WND_PROP_VISIBLE) >= 1)
        except cv2.error:
            return False

    def close(self, title: str) -> None:
        """Remove the window, unless its cross did."""
        if self.visible(title):
            cv2.destroyWindow(title)
            cv2.waitKey(1)


def _give_fonts() -> None:
    """Show Qt a folder of fonts: OpenCV's own Qt comes without, and the sliders would have no names."""
    if Path(os.environ.get("QT_QPA_FONTDIR", "none")).is_dir() or not sys.platform.startswith("linux"):
        return
    for name in _FONT_FOLDERS:
        folder = Path("/usr/share/fonts", name)
        if any(folder.glob("*.ttf")):
            os.environ["QT_QPA_FONTDIR"] = str(folder)
            return


def check_display() -> None:
    """Make sure that a window can be opened; NoWindowError without a screen that answers, or an OpenCV with windows.

    On Linux, Qt ends the whole process when it finds no screen; so the environment is looked at first, and in the end
    a process of its own opens a window.
    """
    linux = sys.platform.startswith("linux")
    display = os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    if linux and not display:
        raise NoWindowError("no window can be shown: neither DISPLAY nor WAYLAND_DISPLAY names a screen")
    if re.search(r"GUI: +NONE", cv2.getBuildInformation()):
        command = installing("opencv-python")
        raise NoWindowError(f"no window can be shown: this OpenCV has none (headless); with windows: {command}")
    if linux and not _a_window_opens():
        raise NoWindowError(f"no window can be shown: screen '{display}' does not answer")


def _a_window_opens() -> bool:
    try:
        command = [sys.executable, "-c", _PROBE]
        return subprocess.run(command, capture_output=True, timeout=30, check=False).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False
