"""Events of the whole frame: a covered lens, a broken frame, a cut to another scene, the way back."""

from __future__ import annotations

from typing import Any

import numpy as np

from bgsub.scene.frame_format import FrameFormat
from bgsub.scene.model import SceneModel, View, is_mostly_foreground

_WHOLE_FRAME = 0.7  # share of the frame above which a mask tells of the scene, not of objects in it


class Scenes:
    """The model of the scene in view and the one of the scene before it.

    A mask that covers most of the frame starts a new model with that frame; the old one is kept and taken up again
    when its scene returns, be it after one broken frame or after an hour.

    Parameters
    ----------
    frames : FrameFormat
        What the frames look like.
    parameters : dict
        All parameters of the subtractor, checked.
    """

    def __init__(self, frames: FrameFormat, parameters: dict[str, Any]) -> None:
        self._frames, self._parameters = frames, parameters
        self._parked: SceneModel | None = None
        self.model = SceneModel(frames, parameters)

    def restart(self) -> None:
        """Begin with a new model, keeping none."""
        self._parked = None
        self.model = SceneModel(self._frames, self._parameters)

    def tune(self) -> None:
        """Follow changes of the parameters in the dict that was given."""
        for model in (self.model, self._parked):
            if model is not None:
                model.tune()

    def view(self, frame: np.ndarray, known: np.ndarray | None, frozen: bool) -> tuple[View, str | None]:
        """Return what is made of a checked frame, and the event that it is."""
        watch = self._parameters["events"] and not frozen and self._frames.shape[:2] != (1, 1)
        if watch and self.model.is_covered_by(frame):
            return self.model.blank(frame), "covered"
        view = self.model.separate(frame, known, frozen)
        if not watch or not is_mostly_foreground(view.mask, known, _WHOLE_FRAME):
            return view, "light-change" if view.light else None
        if self._parked is not None and self._parked.fits(frame):
            self.model, self._parked = self._parked, None
            view = self.model.separate(frame, known, frozen)
            if not is_mostly_foreground(view.mask, known, _WHOLE_FRAME):
                return view, "scene-return"
        if self.model.tracker is not None or self._parked is None:
            self._parked = self.model
        self.model = SceneModel(self._frames, self._parameters)
        return self.model.separate(frame, known, frozen), "scene-change"
