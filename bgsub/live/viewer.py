"""The pictures of a live run: a view with text for window or page, backgrounds to replace, and snapshots."""

from __future__ import annotations

import logging
import os
import re
import time
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from bgsub._opencv import cv2
from bgsub.errors import ParameterError, SinkError
from bgsub.jobs.controls import LIVE_VIEWS, SETTINGS, Controls
from bgsub.separation import FOREGROUND, Separation
from bgsub.video._quiet import quiet
from bgsub.video.sinks.base import Sink
from bgsub.video.sinks.images import write_image
from bgsub.video.sources.base import Frame
from bgsub.video.text_overlay import LEAST_SIZE, add_bar, add_box, add_label, enlarged, text_scale
from bgsub.video.views import PANEL_TILES, annotated, get_view, to_bgr8

logger = logging.getLogger("bgsub")

Backdrop = Callable[[Separation], np.ndarray]
Shown = Separation | Frame
"""A separation, or a frame without one yet, which is shown as it is in each view."""

_EMPTY_SIZE = 640, 360
_CHECKER, _DARK, _LIGHT = 8, 110, 160  # cell size in a picture 320 wide, and two greys
_COLOUR = re.compile(r"#([0-9a-f]{2})([0-9a-f]{2})([0-9a-f]{2})", re.IGNORECASE)
_EDGE_SIGMA = 1.0  # pixels; makes the edge soft over 2 pixels on each side
_BLURRED_WIDTH = 80  # pixels; enough for a blurred picture

KEYS = (
    ("q, Esc", "quit"),
    ("space, p", "pause"),
    ("f", "freeze the model"),
    ("r", "reset the model"),
    ("s", "snapshot"),
    ("v, 0..9", "view"),
    ("b", "boxes"),
    ("e", "edit the regions"),
    ("+ -", "threshold"),
    ("[ ]", "noise factor"),
    ("< >", "least area"),
    ("i", "statistics"),
    ("h", "help"),
)
"""Keys of the window and their commands."""


class Viewer:
    """Compose the pictures that a window or a browser shows of one run.

    Parameters
    ----------
    controls : Controls
        State of the run.
    name : str
        Name of the camera in messages.
    backdrop : callable, optional
        Background of the view cutout, from `make_backdrop`; by default a checkerboard.
    longest_side : int, optional
        Maximum pixels of the longer side; by default the size is kept.
    words : bool, default True
        Whether help, statistics and states are drawn into the picture; a browser shows them beside it.
    """

    def __init__(
        self,
        controls: Controls,
        name: str = "camera",
        *,
        backdrop: Backdrop | None = None,
        longest_side: int | None = None,
        words: bool = True,
    ) -> None:
        self._controls, self._name = controls, name
        self._backdrop = backdrop or (lambda separation: _checkerboard(separation.mask.shape[:2]))
        self._longest, self._words = longest_side, words

    def picture(self, shown: Shown, view: str = "") -> np.ndarray:
        """Return the current or another view, (h, w, 3) uint8; with text it has at least `LEAST_SIZE`."""
        image = self.view(shown, view or self._controls.view)
        return self._with_words(image) if self._words else image

    def shape(self, shown: Shown) -> tuple[int, ...]:
        """Return the shape of the view input, in the upper left corner of a picture with text."""
        return enlarged(self.view(shown, "input")).shape

    def waiting(self) -> np.ndarray:
        """Return the picture before the first frame, (h, w, 3) uint8."""
        image = np.full((_EMPTY_SIZE[1], _EMPTY_SIZE[0], 3), 32, np.uint8)
        return self._with_words(image) if self._words else add_label(image, self._waits)

    @property
    def _waits(self) -> str:
        return f"waiting for {self._name} ..."

    def _states(self) -> list[str]:
        """Return the text of the label."""
        controls = self._controls
        states = [word for word in ("paused", "frozen") if getattr(controls, word)]
        if controls.statistics.is_silent and not controls.paused:
            states.append(self._waits)
        return [word for word in (*states, controls.busy, controls.notice) if word]

    def view(self, shown: Shown, name: str) -> np.ndarray:
        """Return a view without text, (h, w, 3) uint8, reduced to the longest side."""
        if isinstance(shown, Frame):
            return to_bgr8(self._small(shown.image, 1))
        tiles = PANEL_TILES if name == "panel" else 1
        separation = self._reduced(shown, tiles)
        picture = self._plain(replace(separation, annotate=None), name)
        return annotated(separation, picture, tiles) if self._controls.boxes or name == "boxes" else picture

    def _plain(self, separation: Separation, name: str) -> np.ndarray:
        if name == "cutout":
            found = np.equal(separation.mask, FOREGROUND).view(np.uint8)
            return cv2.copyTo(to_bgr8(separation.frame), found, self._backdrop(separation).copy())
        if name not in LIVE_VIEWS:
            raise ParameterError(f"view must be one of {', '.join(LIVE_VIEWS)}, got {name!r}")
        return to_bgr8(get_view(name)(separation))

    def _small(self, image: np.ndarray, tiles: int, how: int = cv2.INTER_AREA) -> np.ndarray:
        """Reduce an image so that `tiles` of them side by side fit into the longest side."""
        height, width = image.shape[:2]
        if self._longest is None or max(height, width) * tiles <= self._longest:
            return image
        factor = self._longest / (tiles * max(height, width))
        size = max(round(width * factor), 1), max(round(height * factor), 1)
        wide = image.astype(np.float32) if image.dtype == np.float16 else image
        return cv2.resize(wide, size, interpolation=how)

    def _reduced(self, separation: Separation, tiles: int) -> Separation:
        """Reduce all images of a separation, see `_small`."""
        return replace(
            separation,
            frame=self._small(separation.frame, tiles),
            mask=self._small(separation.mask, tiles, cv2.INTER_NEAREST),
            background=self._small(separation.background, tiles),
            residual=self._small(separation.residual, tiles),
            soft_vote=lambda: self._small(separation.probability, tiles),
        )

    def _with_words(self, image: np.ndarray) -> np.ndarray:
        controls = self._controls
        image = enlarged(image)
        below, right = max(LEAST_SIZE[1] - image.shape[0], 0), max(LEAST_SIZE[0] - image.shape[1], 0)
        if below or right:
            image = cv2.copyMakeBorder(image, 0, below, 0, right, cv2.BORDER_CONSTANT)
        scale = text_scale(image)
        states = self._states()
        if states:
            image = add_label(image, ", ".join(states), scale)
        if controls.show_help:
            parameters = controls.parameters
            values = [(setting.name.replace("_", " "), f"{parameters[setting.name]:g}") for setting in SETTINGS]
            image = add_box(image, [*KEYS, ("", ""), *values], scale)
        if controls.show_statistics:
            image = add_bar(image, statistics_words(controls.statistics.as_dict()), scale)
        return image


def statistics_words(numbers: dict[str, Any]) -> list[str]:
    """Return the numbers of `LiveStatistics.as_dict` as text of constant width."""
    delay = numbers["latency_ms"]
    return [
        f"{numbers['frames_per_second']:5.1f} frames/s",
        f"delay {'    -' if delay is None else f'{delay:5.0f}'} ms",
        f"dropped {numbers['dropped']:5d}",
        f"foreground {100 * numbers['foreground']:5.1f} %",
        f"{numbers['phase']:8s}",
        f"{numbers['event'] or '':12s}",
    ]


@lru_cache(maxsize=4)
def _checkerboard(size: tuple[int, int]) -> np.ndarray:
    cell = max(round(_CHECKER * max(size) / 320), 1)
    rows, columns = np.arange(size[0]) // cell, np.arange(size[1]) // cell
    odd = (rows[:, np.newaxis] + columns) % 2 == 1
    return np.where(odd, np.uint8(_DARK), np.uint8(_LIGHT))[:, :, np.newaxis].repeat(3, axis=2)


def make_backdrop(spec: str | os.PathLike[str]) -> Backdrop:
    """Return a function from a separation to the picture behind its foreground, (h, w, 3) uint8.

    `spec` is ``"blur"`` (the background out of focus), a colour ``"#rrggbb"``, or an image file, which is cropped to
    the proportions of the frame.
    """
    text = os.fspath(spec)
    if text == "blur":
        return _blurred
    colour = _COLOUR.fullmatch(text)
    if colour is not None:
        return _Still(np.array([[[int(part, 16) for part in colour.groups()[::-1]]]], np.uint8))
    with quiet():
        image = None if text.startswith("#") else cv2.imread(text, cv2.IMREAD_COLOR)
    if image is None:
        raise ParameterError(f"backdrop must be 'blur', a colour such as '#00b140' or an image file, got '{text}'")
    return _Still(image)


def compose(separation: Separation, backdrop: Backdrop) -> np.ndarray:
    """Return the foreground in front of a backdrop with a soft edge, (h, w, 3) uint8 BGR."""
    alpha = np.equal(separation.mask, FOREGROUND).astype(np.float32)
    alpha = cv2.GaussianBlur(alpha, (0, 0), _EDGE_SIGMA)
    return cv2.blendLinear(to_bgr8(separation.frame), backdrop(separation), alpha, 1 - alpha)


def _blurred(separation: Separation) -> np.ndarray:
    image = to_bgr8(separation.background)
    height, width = image.shape[:2]
    shrink = max(1.0, width / _BLURRED_WIDTH)
    small = cv2.resize(image, (round(width / shrink), max(1, round(height / shrink))), interpolation=cv2.INTER_AREA)
    return cv2.resize(cv2.GaussianBlur(small, (0, 0), 1.5), (width, height), interpolation=cv2.INTER_LINEAR)


class _Still:
    """A still picture, fitted to the size of the frames."""

    def __init__(self, image: np.ndarray) -> None:
        self._image = self._fitted = image

    def __call__(self, separation: Separation) -> np.ndarray:
        height, width = separation.mask.shape
        if self._fitted.shape[:2] != (height, width):
            self._fitted = _cover(self._image, width, height)
        return self._fitted


def _cover(image: np.ndarray, width: int, height: int) -> np.ndarray:
    """Resize and crop an image to a rectangle."""
    scale = max(width / image.shape[1], height / image.shape[0])
    size = max(width, round(image.shape[1] * scale)), max(height, round(image.shape[0] * scale))
    image = cv2.resize(image, size, interpolation=cv2.INTER_AREA if scale < 1 else cv2.INTER_LINEAR)
    left, top = (size[0] - width) // 2, (size[1] - height) // 2
    return np.ascontiguousarray(image[top : top + height, left : left + width])


class SnapshotSink(Sink):
    """Write the current frame as pictures when `Controls.request_snapshot` asks for it.

    The files are ``NAME-TIME-FRAME-VIEW.png`` for the current view, in full size without text, the mask and the
    background. A failure is logged and shown; it does not end the run.
    """

    def __init__(self, controls: Controls, folder: str | os.PathLike[str] = ".", name: str = "snapshot") -> None:
        self._controls, self._folder, self._name = controls, Path(folder), name
        self._viewer = Viewer(controls, words=False)
        self._newest: tuple[Frame, Separation] | None = None

    def write(self, frame: Frame, separation: Separation) -> None:
        self._newest = frame, separation
        self.idle()

    def idle(self) -> None:
        if self._newest is not None and self._controls.take_snapshot_request():
            self._store(*self._newest)

    def close(self) -> None:
        self._newest = None

    def _store(self, frame: Frame, separation: Separation) -> None:
        views = dict.fromkeys((self._controls.view, "mask", "background"))
        stem = f"{self._name}-{time.strftime('%Y%m%d-%H%M%S')}-{frame.name}"
        paths = [self._folder / f"{stem}-{view}.png" for view in views]
        try:
            for view, path in zip(views, paths, strict=True):
                write_image(path, separation.mask if view == "mask" else self._viewer.view(separation, view))
        except SinkError as error:
            logger.warning("no snapshot: %s", error)
            self._controls.notice = "the snapshot cannot be written"
        else:
            logger.info("snapshot: %s", ", ".join(map(str, paths)))
            self._controls.notice = f"snapshot: {stem}"
            if self._controls.on_snapshot is not None:
                self._controls.on_snapshot(frame, paths[0])
