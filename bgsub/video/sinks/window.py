"""A window on the run, with keys."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import numpy as np

from bgsub._opencv import cv2
from bgsub.errors import SinkError
from bgsub.separation import Separation
from bgsub.video.controls import Controls
from bgsub.video.sinks.base import Sink
from bgsub.video.sinks.images import write_png
from bgsub.video.sources import Frame
from bgsub.video.views import get_view, put_text, to_bgr8

logger = logging.getLogger("bgsub")

_ESCAPE = 27
_PAUSE_TICK_MS = 30
_PROBE = "import cv2; cv2.namedWindow('bgsub'); cv2.waitKey(1); cv2.destroyAllWindows()"


class Display(Protocol):
    """What the sink needs of a screen; `CvDisplay` in earnest, a fake in tests."""

    def open(self, title: str) -> None:
        """Show an empty window; raise `SinkError` where there is no screen."""

    def show(self, title: str, image: np.ndarray) -> None:
        """Put a BGR image into the window."""

    def key(self, milliseconds: int) -> int:
        """Handle the events of the window for some time and return the key pressed, or -1."""

    def visible(self, title: str) -> bool:
        """Whether the window is still there."""

    def close(self, title: str) -> None:
        """Remove the window."""


class CvDisplay:
    """The windows of OpenCV."""

    def open(self, title: str) -> None:
        """Show an empty window; raise `SinkError` where there is no screen."""
        check_display()
        try:
            cv2.namedWindow(title, cv2.WINDOW_NORMAL | cv2.WINDOW_KEEPRATIO)
        except cv2.error:
            raise SinkError("no window can be shown: this OpenCV is built without windows (headless)") from None

    def show(self, title: str, image: np.ndarray) -> None:
        """Put a BGR image into the window."""
        cv2.imshow(title, image)

    def key(self, milliseconds: int) -> int:
        """Handle the events of the window for some time and return the key pressed, or -1."""
        return int(cv2.waitKey(milliseconds))

    def visible(self, title: str) -> bool:
        """Whether the window is still there."""
        try:
            return bool(cv2.getWindowProperty(title, cv2.WND_PROP_VISIBLE) >= 1)
        except cv2.error:
            return False

    def close(self, title: str) -> None:
        """Remove the window, unless its cross did."""
        if self.visible(title):
            cv2.destroyWindow(title)
            cv2.waitKey(1)


def check_display() -> None:
    """Make sure that a window can be opened.

    On Linux, Qt ends the whole process when it finds no screen; so the environment is looked at first, and
    then a process of its own opens a window.

    Raises
    ------
    SinkError
        If there is no screen, or it does not answer.
    """
    if not sys.platform.startswith("linux"):
        return
    display = os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    if not display:
        raise SinkError("no window can be shown: neither DISPLAY nor WAYLAND_DISPLAY names a screen")
    try:
        command = [sys.executable, "-c", _PROBE]
        probe = subprocess.run(command, capture_output=True, timeout=30, check=False)
        works = probe.returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        works = False
    if not works:
        raise SinkError(f"no window can be shown: screen '{display}' does not answer or OpenCV is headless")


class KeyCommands:
    """What the keys do: q or Esc quit, space or p pause, s snapshot, r reset the model, f freeze it.

    Parameters
    ----------
    controls : Controls
        Where the commands go.
    snapshot : callable
        Called for a snapshot.
    """

    def __init__(self, controls: Controls, snapshot: Callable[[], None]) -> None:
        self._controls = controls
        self._commands: dict[int, Callable[[], None]] = {
            ord("q"): controls.quit,
            _ESCAPE: controls.quit,
            ord(" "): self._pause,
            ord("p"): self._pause,
            ord("s"): snapshot,
            ord("r"): controls.reset,
            ord("f"): self._freeze,
        }

    def press(self, key: int) -> bool:
        """Do what a key code of `cv2.waitKey` says; False if it says nothing."""
        command = self._commands.get(key & 0xFF) if key >= 0 else None
        if command is not None:
            command()
        return command is not None

    def _pause(self) -> None:
        self._controls.paused = not self._controls.paused

    def _freeze(self) -> None:
        self._controls.frozen = not self._controls.frozen


class WindowSink(Sink):
    """Shows one view in a window; its keys (see `KeyCommands`) and its cross command the run.

    Must be used from the main thread, as `Pipeline` does.

    Parameters
    ----------
    view : str
        One of `VIEWS`.
    title : str
        Title of the window.
    controls : Controls, optional
        The switches that the keys move; to be given to the `Pipeline` as well.
    snapshot_folder : str or path
        Where the key s puts ``snapshot-NAME.png``.
    display : Display, optional
        The screen.

    Raises
    ------
    SinkError
        If no window can be shown.
    """

    def __init__(
        self,
        view: str = "panel",
        title: str = "bgsub",
        *,
        controls: Controls | None = None,
        snapshot_folder: str | os.PathLike[str] = ".",
        display: Display | None = None,
    ) -> None:
        self.controls = controls if controls is not None else Controls()
        self._view = get_view(view)
        self._title = title
        self._folder = Path(snapshot_folder)
        self._keys = KeyCommands(self.controls, self._snapshot)
        self._display: Display = display if display is not None else CvDisplay()
        self._shown: tuple[str, np.ndarray] | None = None
        self._display.open(title)
        self._is_open = True

    def write(self, frame: Frame, separation: Separation) -> None:
        """Show the view of one frame; return when the next one is wanted."""
        self._shown = frame.name, to_bgr8(self._view(separation))
        self._refresh()
        self._attend(1)
        while self.controls.paused and not self.controls.quitting:
            self._attend(_PAUSE_TICK_MS)

    def close(self) -> None:
        """Remove the window."""
        if self._is_open:
            self._is_open = False
            self._display.close(self._title)

    def _attend(self, milliseconds: int) -> None:
        """Serve the window for some time: its keys, and its cross."""
        if self._keys.press(self._display.key(milliseconds)):
            self._refresh()
        if not self._display.visible(self._title):
            self.controls.quit()

    def _refresh(self) -> None:
        if self._shown is None:
            return
        image = self._shown[1]
        states = [word for word in ("paused", "frozen") if getattr(self.controls, word)]
        if states:
            # In the lower left corner, which no caption of a panel uses.
            image = image.copy()
            put_text(image[-min(24, len(image)) :], ", ".join(states), 0.5)
        self._display.show(self._title, image)

    def _snapshot(self) -> None:
        if self._shown is None:
            return
        name, image = self._shown
        path = self._folder / f"snapshot-{name}.png"
        try:
            write_png(path, image)
        except SinkError as error:
            logger.warning("no snapshot: %s", error)
        else:
            logger.info("snapshot: %s", path)
