"""The window of a live run, with keys, on OpenCV's windows."""

import os
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from operator import methodcaller

import numpy as np

from bgsub._opencv import cv2, installing
from bgsub.errors import SinkError
from bgsub.jobs.controls import LIVE_VIEWS, SETTINGS, Controls
from bgsub.live.viewer import Shown, SnapshotSink, Viewer
from bgsub.separation import Separation
from bgsub.video.sinks.base import Sink
from bgsub.video.sources.base import Frame

_SWITCHES = {" ": "paused", "p": "paused", "f": "frozen", "b": "boxes", "h": "show_help", "i": "show_statistics"}
_VIEWS = dict(zip("1234567890", LIVE_VIEWS, strict=False))
_ACTIONS: dict[str, Callable[[Controls], object]] = {
    **{"q": Controls.quit, "\N{ESC}": Controls.quit, "r": Controls.reset, "s": Controls.request_snapshot},
    **{one.keys[0]: methodcaller("nudge", one, -1) for one in SETTINGS},
    **{one.keys[1]: methodcaller("nudge", one, 1) for one in SETTINGS},
}
# Keys that work with and without shift.
_ACTIONS |= {other: _ACTIONS[key] for key, other in {"+": "=", "-": "_", "<": ",", ">": "."}.items()}
LONGEST_SIDE = 1920  # maximum pixels of the picture in a window
# OpenCV does not return the size of the screen; a window opens at most this large, and the user may enlarge it.
_FIRST_SIZE = 1280, 680

_PROBE = "import cv2; cv2.namedWindow('bgsub'); cv2.waitKey(1); cv2.destroyAllWindows()"


class NoWindowError(SinkError):
    """No screen, or an OpenCV without windows."""


class CvDisplay:
    """The windows of OpenCV, by title."""

    def __init__(self) -> None:
        self._size = 0, 0

    def open(self, title: str) -> None:
        """Open an empty window; raise `NoWindowError` without a screen."""
        check_display()
        # The toolbar of Qt would hide a third of a small window.
        cv2.namedWindow(title, cv2.WINDOW_NORMAL | cv2.WINDOW_KEEPRATIO | cv2.WINDOW_GUI_NORMAL)

    def show(self, title: str, image: np.ndarray) -> None:
        """Show a BGR image; enlarge the window if the image is larger than all before, but not beyond small screens."""
        height, width = image.shape[:2]
        if width > self._size[0] or height > self._size[1]:
            self._size = max(width, self._size[0]), max(height, self._size[1])
            shrink = min(1, _FIRST_SIZE[0] / self._size[0], _FIRST_SIZE[1] / self._size[1])
            cv2.resizeWindow(title, *(max(round(shrink * side), 1) for side in self._size))
        cv2.imshow(title, image)

    def key(self, milliseconds: int) -> int:
        """Handle window events for some time; return the pressed key, or -1."""
        return int(cv2.waitKey(milliseconds))

    def visible(self, title: str) -> bool:
        """Return whether a window exists; the user may have closed it."""
        with suppress(cv2.error):
            return bool(cv2.getWindowProperty(title, cv2.WND_PROP_VISIBLE) >= 1)
        return False

    def close(self, title: str) -> None:
        if self.visible(title):
            cv2.destroyWindow(title)
            cv2.waitKey(1)


def check_display() -> None:
    """Raise NoWindowError unless a window can be opened: Qt aborts the process without a screen, so try in another."""
    linux = sys.platform.startswith("linux")
    display = os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    if linux and not display:
        raise NoWindowError("no window can be shown: neither DISPLAY nor WAYLAND_DISPLAY is set")
    if re.search(r"GUI: +NONE", cv2.getBuildInformation()):
        command = installing("opencv-python")
        raise NoWindowError(f"no window can be shown: this OpenCV is headless; install one with windows: {command}")
    if linux and not _can_open_window():
        raise NoWindowError(f"no window can be shown: screen '{display}' does not respond")


def _can_open_window() -> bool:
    with suppress(OSError, subprocess.TimeoutExpired):
        command = [sys.executable, "-c", _PROBE]
        return subprocess.run(command, capture_output=True, timeout=30, check=False).returncode == 0
    return False


def press(key: int, cameras: Sequence[Controls]) -> bool:
    """Run the command of a code of `cv2.waitKey`, see `KEYS`, for all cameras, switches as of the first; else False."""
    pressed, first = chr(key & 0xFF) if key >= 0 else "", cameras[0]
    if pressed in _ACTIONS:
        for controls in cameras:
            _ACTIONS[pressed](controls)
        return True
    value: bool | str
    if pressed in _SWITCHES:
        name = _SWITCHES[pressed]
        value = first.toggle(name)
    elif pressed in _VIEWS:
        name, value = "view", _VIEWS[pressed]
    elif pressed == "v":
        name, value = "view", LIVE_VIEWS[(LIVE_VIEWS.index(first.view) + 1) % len(LIVE_VIEWS)]
    else:
        return False
    for controls in cameras:
        setattr(controls, name, value)
    return True


class WindowSink(Sink):
    """Show a run in a window whose keys and close button control the run.

    Use it from the main thread, as `Pipeline` does.

    Parameters
    ----------
    view : str, optional
        One of `bgsub.video.VIEWS`; by default that of the controls.
    title : str
        Title of the window.
    controls : Controls, optional
        State of the run; give it to the `Pipeline` as well.
    viewer : Viewer, optional
        Composes the pictures; by default with at most 1920 pixels on the longer side.
    cameras : sequence of Controls, optional
        States of the runs that the keys control; by default this run alone.
    snapshots : Sink, optional
        Stores the snapshots; by default a `SnapshotSink`, which writes into the working folder.
    display : CvDisplay, optional
        The screen.

    Raises
    ------
    SinkError
        If no window can be shown.

    Examples
    --------
    >>> import bgsub
    >>> from bgsub.live import WindowSink
    >>> summary = bgsub.process_video(0, WindowSink("panel"))  # doctest: +SKIP
    """

    def __init__(
        self,
        view: str | None = None,
        title: str = "bgsub",
        *,
        controls: Controls | None = None,
        viewer: Viewer | None = None,
        cameras: Sequence[Controls] = (),
        snapshots: SnapshotSink | None = None,
        display: CvDisplay | None = None,
    ) -> None:
        self.controls = controls if controls is not None else Controls()
        if view is not None:
            self.controls.view = view
        self._title = title
        self._cameras = cameras or [self.controls]
        self._viewer = viewer or Viewer(self.controls, longest_side=LONGEST_SIDE)
        self._snapshots = snapshots or SnapshotSink(self.controls)
        self._display = display or CvDisplay()
        self._shown: Shown | None = None
        self._display.open(title)
        self._is_open = True
        self._display.show(title, self._viewer.picture(None))

    def write(self, frame: Frame, separation: Separation) -> None:
        self._shown = separation
        self._snapshots.write(frame, separation)
        self.idle()

    def preview(self, frame: Frame) -> None:
        self._shown = frame

    def idle(self) -> None:
        self._snapshots.idle()
        self._refresh()
        if press(self._display.key(1), self._cameras):
            self._snapshots.idle()
            self._refresh()
        if not self._display.visible(self._title):  # its close button was used
            self.controls.quit()

    def close(self) -> None:
        if self._is_open:
            self._is_open = False
            self._snapshots.close()
            self._display.close(self._title)

    def _refresh(self) -> None:
        if self._is_open and not self.controls.quitting:  # showing a picture would reopen a closed window
            self._display.show(self._title, self._viewer.picture(self._shown))
