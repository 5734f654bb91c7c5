"""The picture that a person sees of a live run: one view, and the words that belong to it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from bgsub._opencv import cv2
from bgsub.errors import ParameterError
from bgsub.jobs.controls import LIVE_VIEWS, SETTINGS, Controls
from bgsub.separation import FOREGROUND, Separation
from bgsub.video.lettering import LEAST_SIZE, add_bar, add_box, add_label, enlarged, text_scale
from bgsub.video.sources.base import Frame
from bgsub.video.views import PANEL_TILES, annotated, get_view, to_bgr8

Backdrop = Callable[[Separation], np.ndarray]
Shown = Separation | Frame
"""What can be looked at: a frame whose separation is not there yet is its own picture, in every view."""

_EMPTY_SIZE = 640, 360
_CHECKER, _DARK, _LIGHT = 8, 110, 160  # cells, in pixels of a picture 320 wide; their two greys

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
"""The keys of the window and what they do."""


class Viewer:
    """Composes what a window or a browser shows of one run.

    Parameters
    ----------
    controls : Controls
        State of the run: the view, what is switched on, the numbers.
    name : str
        What messages call the camera.
    backdrop : callable, optional
        From a separation to the picture, (h, w, 3) uint8, behind its foreground in the view cutout, such as
        `bgsub.live.backdrops.make_backdrop` returns; by default a checkerboard.
    longest_side : int, optional
        Pixels that the longer side of the view is reduced to where it is larger; by default it keeps its size.
    words : bool, default True
        Whether help, statistics and states are written into the picture; a browser shows them beside it.
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
        self._backdrop = backdrop or _checkerboard
        self._longest, self._words = longest_side, words

    def picture(self, shown: Shown, view: str = "") -> np.ndarray:
        """Return the view of the controls, or another, (h, w, 3) uint8; with words it has at least `LEAST_SIZE`."""
        image = self.view(shown, view or self._controls.view)
        return self._with_words(image) if self._words else image

    def shape(self, shown: Shown) -> tuple[int, ...]:
        """Return the shape that the view input has in a picture with words, in its upper left corner."""
        return enlarged(self.view(shown, "input")).shape

    def waiting(self) -> np.ndarray:
        """Return the picture before the first frame, (h, w, 3) uint8."""
        image = np.full((_EMPTY_SIZE[1], _EMPTY_SIZE[0], 3), 32, np.uint8)
        return self._with_words(image) if self._words else add_label(image, self._waits)

    @property
    def _waits(self) -> str:
        return f"waiting for {self._name} ..."

    def _states(self) -> list[str]:
        """Return the words of the label."""
        controls = self._controls
        states = [word for word in ("paused", "frozen") if getattr(controls, word)]
        if controls.statistics.is_silent and not controls.paused:
            states.append(self._waits)
        return [word for word in (*states, controls.busy, controls.notice) if word]

    def view(self, shown: Shown, name: str) -> np.ndarray:
        """Return a view without words, (h, w, 3) uint8, reduced to the longest side.

        Raises
        ------
        ParameterError
            If there is no view of that name.
        """
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
        """Return an image small enough that so many side by side keep to the longest side."""
        height, width = image.shape[:2]
        if self._longest is None or max(height, width) * tiles <= self._longest:
            return image
        factor = self._longest / (tiles * max(height, width))
        size = max(round(width * factor), 1), max(round(height * factor), 1)
        wide = image.astype(np.float32) if image.dtype == np.float16 else image
        return cv2.resize(wide, size, interpolation=how)

    def _reduced(self, separation: Separation, tiles: int) -> Separation:
        """Return a separation whose images are small enough for so many tiles."""
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
        image = _at_least(enlarged(image), LEAST_SIZE)
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
    """Return the numbers of `LiveStatistics.as_dict` in words, each as wide as it will ever be."""
    delay = numbers["latency_ms"]
    return [
        f"{numbers['frames_per_second']:5.1f} frames/s",
        f"delay {'    -' if delay is None else f'{delay:5.0f}'} ms",
        f"dropped {numbers['dropped']:5d}",
        f"foreground {100 * numbers['foreground']:5.1f} %",
        f"{numbers['phase']:8s}",
        f"{numbers['event'] or '':12s}",
    ]


def _at_least(image: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """Return an image padded to its least size."""
    below, right = max(size[1] - image.shape[0], 0), max(size[0] - image.shape[1], 0)
    return cv2.copyMakeBorder(image, 0, below, 0, right, cv2.BORDER_CONSTANT) if below or right else image


def _checkerboard(separation: Separation) -> np.ndarray:
    """Return (h, w, 3) uint8 of two greys."""
    return _checkers(separation.mask.shape[:2])


@lru_cache(maxsize=4)
def _checkers(size: tuple[int, int]) -> np.ndarray:
    cell = max(round(_CHECKER * max(size) / 320), 1)
    rows, columns = np.arange(size[0]) // cell, np.arange(size[1]) // cell
    odd = (rows[:, np.newaxis] + columns) % 2 == 1
    return np.where(odd, np.uint8(_DARK), np.uint8(_LIGHT))[:, :, np.newaxis].repeat(3, axis=2)
