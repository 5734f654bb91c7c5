"""Events of the whole frame: a covered lens, a broken frame, a cut to another scene and the return."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from bgsub.numerics.state import State, part_of
from bgsub.parameters import SubtractorParameters
from bgsub.scene.frame_format import FrameFormat
from bgsub.scene.frame_result import FrameResult
from bgsub.scene.model import SceneModel, is_mostly_foreground
from bgsub.separation import FOREGROUND, FrameEvent

_WHOLE_FRAME = 0.7  # share of foreground above which the scene may have changed
_SUDDEN = 0.5  # share of new foreground in a cut
_STANDS = 1.0  # seconds without change after a slow change of the scene


class SceneManager:
    """The model of the current scene and that of the previous one."""

    # a mask that covers most of the frame, suddenly or standing still, starts a new model; the old one is used again
    # when its scene returns

    def __init__(self, frames: FrameFormat, parameters: SubtractorParameters) -> None:
        self._frames, self._parameters = frames, parameters
        self._parked: SceneModel | None = None
        self.model = SceneModel(frames, parameters)

    def tune(self, parameters: SubtractorParameters) -> None:
        """Replace the parameters; the learned state is kept."""
        self._parameters = parameters
        for model in (self.model, self._parked):
            if model is not None:
                model.tune(parameters)

    def rewind(self) -> bool:
        """Prepare for the first frame of the same stream; return whether the background is known well enough."""
        if self._parked is not None:
            self._parked.rewind()
        return self.model.rewind()

    def separate(self, frame: np.ndarray, known: np.ndarray | None, frozen: bool) -> FrameResult:
        """Separate a checked frame by the model of its scene, which becomes `model`."""
        begins = not self.model.objects.frame  # nothing was there before that could have changed
        result = self._separate(frame, known, frozen)
        return replace(result, event=None) if begins and result.event is not None else result

    def _separate(self, frame: np.ndarray, known: np.ndarray | None, frozen: bool) -> FrameResult:
        watch = self._parameters.scene_changes and not frozen and self._frames.shape[:2] != (1, 1)
        if watch and self.model.is_covered_by(frame):
            return self.model.blank(frame)
        if self.model.start is not None and not frozen and self.model.is_noisy(frame):
            self.model = SceneModel(self._frames, self._parameters, smooth=True)
        before = self.model.mask
        result = self.model.separate(frame, known, frozen)
        if not watch or not is_mostly_foreground(result.mask, known, _WHOLE_FRAME) or not self._is_new(before):
            return result
        if self._parked is not None and self._parked.fits(frame):
            self.model, self._parked = self._parked, None
            result = self.model.separate(frame, known, frozen)
            if not is_mostly_foreground(result.mask, known, _WHOLE_FRAME):
                return replace(result, event=FrameEvent.SCENE_RETURN)
        if self.model.tracker is not None or self._parked is None:
            self._parked = self.model
        self.model = SceneModel(self._frames, self._parameters)
        return replace(self.model.separate(frame, known, frozen), event=FrameEvent.SCENE_CHANGE)

    def _is_new(self, before: np.ndarray) -> bool:
        """Return whether a mask over most of the frame shows another scene, given the previous mask."""
        # a cut takes one frame, and a slow change, as of a turning camera, stands still in the end; leaves before the
        # lens do neither
        found = self.model.mask == FOREGROUND
        sudden = np.count_nonzero(found & (before != FOREGROUND)) > _SUDDEN * found.size
        return sudden or self.model.objects.standing(_STANDS) > _WHOLE_FRAME

    def state(self) -> State:
        """Return what the next frame depends on, copied; see `bgsub.numerics.state`."""
        parked = {} if self._parked is None else {"parked": self._parked.state()}
        return {"model": self.model.state(), **parked}

    @classmethod
    def from_state(cls, frames: FrameFormat, parameters: SubtractorParameters, state: State) -> SceneManager:
        """Return a manager that continues bit for bit; ParameterError if the state does not fit."""
        scenes = cls(frames, parameters)
        scenes.model = SceneModel.from_state(frames, parameters, part_of(state, "model"))
        if "parked" in state:
            scenes._parked = SceneModel.from_state(frames, parameters, part_of(state, "parked"))
        return scenes
