"""A window on the run, with keys and sliders."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from bgsub.jobs.controls import LIVE_VIEWS, SETTINGS, Controls, Setting
from bgsub.live.display import CvDisplay
from bgsub.live.region_drawing import RegionDrawing
from bgsub.live.region_store import RegionStore
from bgsub.live.snapshots import SnapshotSink
from bgsub.live.viewer import Shown, Viewer
from bgsub.separation import Separation
from bgsub.video.sinks.base import Sink
from bgsub.video.sources.base import Frame

_ESCAPE = 27
LONGEST_SIDE = 1920
"""Of the picture in the window, in pixels; what a screen can show."""

# Where the character with the shift key is meant, the one without it serves as well.
_SAME_KEYS = {"+": "=", "-": "_", "<": ",", ">": "."}


class KeyCommands:
    """What the keys do, see `bgsub.live.viewer.KEYS`.

    All cameras of a run follow the keys; the switches of all are set to what the first one's become. While regions are
    edited, the keys are for `drawing`.
    """

    def __init__(self, *controls: Controls, drawing: RegionDrawing | None = None) -> None:
        self._all = controls
        self.drawing = drawing or RegionDrawing(RegionStore())
        self._commands: dict[int, Callable[[], None]] = {
            ord("q"): partial(self._each, Controls.quit),
            _ESCAPE: partial(self._each, Controls.quit),
            ord(" "): partial(self._toggle, "paused"),
            ord("p"): partial(self._toggle, "paused"),
            ord("f"): partial(self._toggle, "frozen"),
            ord("b"): partial(self._toggle, "boxes"),
            ord("e"): self._edit,
            ord("h"): partial(self._toggle, "show_help"),
            ord("i"): partial(self._toggle, "show_statistics"),
            ord("r"): partial(self._each, Controls.reset),
            ord("s"): partial(self._each, Controls.request_snapshot),
            ord("v"): self._next_view,
        }
        for key, view in zip("1234567890", LIVE_VIEWS, strict=False):
            self._commands[ord(key)] = partial(self._show, view)
        for setting in SETTINGS:
            for key, steps in zip(setting.keys, (-1, 1), strict=True):
                command = partial(self._nudge, setting, steps)
                self._commands[ord(key)] = self._commands[ord(_SAME_KEYS.get(key, key))] = command

    def press(self, key: int) -> bool:
        """Do what a key code of `cv2.waitKey` says; False if it says nothing."""
        if key >= 0 and self.drawing.active:
            if notice := self.drawing.press(key & 0xFF):
                self._each(lambda controls: setattr(controls, "notice", notice))
            return True
        command = self._commands.get(key & 0xFF) if key >= 0 else None
        if command is not None:
            command()
        return command is not None

    def _each(self, command: Callable[[Controls], None]) -> None:
        for controls in self._all:
            command(controls)

    def _edit(self) -> None:
        numbers = self._all[0].statistics.as_dict()
        self.drawing.begin(numbers["width"], numbers["height"])

    def _toggle(self, switch: str) -> None:
        now = self._all[0].toggle(switch)
        for controls in self._all[1:]:
            setattr(controls, switch, now)

    def _next_view(self) -> None:
        self._show(LIVE_VIEWS[(LIVE_VIEWS.index(self._all[0].view) + 1) % len(LIVE_VIEWS)])

    def _show(self, view: str) -> None:
        for controls in self._all:
            controls.view = view

    def _nudge(self, setting: Setting, steps: int) -> None:
        for controls in self._all:
            controls.nudge(setting, steps)


class WindowSink(Sink):
    """Shows a run in a window; its keys, its sliders and its cross command the run.

    Must be used from the main thread, as `Pipeline` does.

    Parameters
    ----------
    view : str, optional
        One of `bgsub.video.VIEWS`; by default that of the controls.
    title : str
        Title of the window.
    controls : Controls, optional
        State of the run; to be given to the `Pipeline` as well.
    viewer : Viewer, optional
        Composes the pictures; by default one of at most 1920 pixels to the side.
    keys : KeyCommands, optional
        What the keys do; by default they command this run alone.
    snapshot_folder : str or path
        Where the pictures go that somebody asks for by the key s.
    snapshots : Sink, optional
        What stores them, instead.
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
        keys: KeyCommands | None = None,
        snapshot_folder: str | os.PathLike[str] = ".",
        snapshots: SnapshotSink | None = None,
        display: CvDisplay | None = None,
    ) -> None:
        self.controls = controls if controls is not None else Controls()
        if view is not None:
            self.controls.view = view
        self._title = title
        self._keys = keys or KeyCommands(self.controls)
        self._viewer = viewer or Viewer(self.controls, longest_side=LONGEST_SIDE)
        self._snapshots = snapshots or SnapshotSink(self.controls, snapshot_folder)
        self._display = display or CvDisplay()
        self._shown: Shown | None = None
        self._display.open(title)
        self._is_open = True
        self._display.on_mouse(title, self._use_mouse)
        self._sliders = _Sliders(self._display, title, self.controls, SETTINGS)
        self._display.show(title, self._viewer.waiting())

    def write(self, frame: Frame, separation: Separation) -> None:
        self._shown = separation
        self._snapshots.write(frame, separation)
        self._refresh()
        self._attend()

    def preview(self, frame: Frame) -> None:
        self._shown = frame

    def idle(self) -> None:
        self._snapshots.idle()
        self._refresh()
        self._attend()

    def close(self) -> None:
        if self._is_open:
            self._is_open = False
            self._snapshots.close()
            self._display.close(self._title)

    def _attend(self) -> None:
        """Serve the window: its keys, its sliders, and its cross."""
        if self._keys.press(self._display.key(1)):
            self._snapshots.idle()
            self._refresh()
        if not self._display.visible(self._title):
            self.controls.quit()
        else:
            self._sliders.follow()

    def _refresh(self) -> None:
        # A window that its cross has closed would come back.
        if self._is_open and not self.controls.quitting:
            self._display.show(self._title, self._picture())

    def _picture(self) -> np.ndarray:
        shown, drawing = self._shown, self._keys.drawing
        if shown is None:
            return self._viewer.waiting()
        if not drawing.active:
            return self._viewer.picture(shown)
        return drawing.draw(self._viewer.picture(shown, "input"), self._viewer.shape(shown))

    def _use_mouse(self, action: str, x: int, y: int) -> None:
        drawing = self._keys.drawing
        if self._shown is None or not drawing.active:
            return
        shape = self._viewer.shape(self._shown)
        place = 100 * x / shape[1], 100 * y / shape[0]
        if action == "press" and max(place) <= 100:
            drawing.grab(place, shape)
        elif action == "move":
            drawing.drag(place)
        elif action == "release":
            drawing.drop()


class _Sliders:
    """Sliders in a window that move parameters and follow them."""

    def __init__(self, display: CvDisplay, title: str, controls: Controls, settings: Sequence[Setting]) -> None:
        self._display, self._title, self._controls, self._settings = display, title, controls, settings
        self._positions: dict[str, int] = {}
        for setting in settings:
            display.add_slider(title, setting.name, setting.positions, partial(self._moved, setting))
        self.follow()

    def _moved(self, setting: Setting, position: int) -> None:
        if position != self._positions.get(setting.name):  # by a person, not by `follow`
            self._positions[setting.name] = position
            self._controls.tune(**{setting.name: setting.value(position)})

    def follow(self) -> None:
        """Move the sliders to the parameters, which a key or a browser may have changed."""
        parameters = self._controls.parameters
        for setting in self._settings:
            position = setting.position(parameters[setting.name])
            if position != self._positions.get(setting.name):
                self._positions[setting.name] = position
                self._display.set_slider(self._title, setting.name, position)
