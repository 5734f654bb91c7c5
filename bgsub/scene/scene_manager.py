"""Events of the whole frame: a covered lens, a broken frame, a cut to another scene, the way back."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from bgsub.numerics.state import State, part_of
from bgsub.parameters import SubtractorParameters
from bgsub.scene.frame_format import FrameFormat
from bgsub.scene.frame_result import FrameResult
from bgsub.scene.model import SceneModel, is_mostly_foreground
from bgsub.separation import FOREGROUND, FrameEvent

_WHOLE_FRAME = 0.7  # share of the frame above which a mask tells of the scene, not of objects in it
_SUDDEN = 0.5  # share of the frame that turns into foreground at once in a cut
_STANDS = 1.0  # seconds for which a scene that came slowly must have stood still


class SceneManager:
    """The model of the scene in view and the one of the scene before it.

    A mask that covers most of the frame, at once or standing still, starts a new model with that frame; the old one is
    kept and taken up again when its scene returns, be it after one broken frame or after an hour.

    Parameters
    ----------
    frames : FrameFormat
        What the frames look like.
    parameters : SubtractorParameters
        Of the subtractor.
    """

    def __init__(self, frames: FrameFormat, parameters: SubtractorParameters) -> None:
        self._frames, self._parameters = frames, parameters
        self._parked: SceneModel | None = None
        self.model = SceneModel(frames, parameters)

    def restart(self) -> None:
        """Begin with a new model, keeping none."""
        self._parked = None
        self.model = SceneModel(self._frames, self._parameters)

    def tune(self, parameters: SubtractorParameters) -> None:
        """Replace the parameters; what was learned stays."""
        self._parameters = parameters
        for model in (self.model, self._parked):
            if model is not None:
                model.tune(parameters)

    def view(self, frame: np.ndarray, known: np.ndarray | None, frozen: bool) -> FrameResult:
        """Return what is made of a checked frame by the model of its scene, which is `model` then."""
        watch = self._parameters.scene_changes and not frozen and self._frames.shape[:2] != (1, 1)
        if watch and self.model.is_covered_by(frame):
            return self.model.blank(frame)
        before = self.model.mask
        view = self.model.separate(frame, known, frozen)
        if not watch or not is_mostly_foreground(view.mask, known, _WHOLE_FRAME) or not self._is_new(before):
            return view
        if self._parked is not None and self._parked.fits(frame):
            self.model, self._parked = self._parked, None
            view = self.model.separate(frame, known, frozen)
            if not is_mostly_foreground(view.mask, known, _WHOLE_FRAME):
                return replace(view, event=FrameEvent.SCENE_RETURN)
        if self.model.tracker is not None or self._parked is None:
            self._parked = self.model
        self.model = SceneModel(self._frames, self._parameters)
        return replace(self.model.separate(frame, known, frozen), event=FrameEvent.SCENE_CHANGE)

    def _is_new(self, before: np.ndarray) -> bool:
        """Return whether a mask over most of the frame is another scene, given the one before it.

        A cut takes one frame, and what comes slowly, as by a turn of the camera, stands still in the end; leaves
        before the lens do neither.
        """
        found = self.model.mask == FOREGROUND
        sudden = np.count_nonzero(found & (before != FOREGROUND)) > _SUDDEN * found.size
        return sudden or self.model.objects.standing(_STANDS) > _WHOLE_FRAME

    def state(self) -> State:
        """Return what the next frame depends on, copied; see `bgsub.numerics.state`."""
        parked = {} if self._parked is None else {"parked": self._parked.state()}
        return {"model": self.model.state(), **parked}

    @classmethod
    def from_state(cls, frames: FrameFormat, parameters: SubtractorParameters, state: State) -> SceneManager:
        """Return scenes that go on bit for bit where others stood; ParameterError when they do not fit."""
        scenes = cls(frames, parameters)
        scenes.model = SceneModel.from_state(frames, parameters, part_of(state, "model"))
        if "parked" in state:
            scenes._parked = SceneModel.from_state(frames, parameters, part_of(state, "parked"))
        return scenes
