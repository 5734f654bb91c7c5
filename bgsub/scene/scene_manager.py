"""Events of the whole frame: a covered lens, a broken frame, a cut to another scene and the return."""

from dataclasses import replace

import numpy as np

from bgsub.numerics.state import State, part_of
from bgsub.parameters import SubtractorParameters
from bgsub.scene.engine import SweepEngine
from bgsub.scene.frame_format import FrameFormat
from bgsub.scene.frame_result import FrameResult
from bgsub.scene.model import WHOLE_FRAME, SceneModel, is_mostly_foreground
from bgsub.scene.standing_objects import gradients
from bgsub.separation import FOREGROUND, FrameEvent

_SUDDEN = 0.5  # least share of new foreground in a cut
_RETURNS = 0.5  # largest unexplained share of a frame that shows the previous scene, at a change of the scene
_BROKEN = 0.25  # largest such share later; also the foreground above which a scene is doubtful during its start
_STANDS = 1.0  # seconds for which that foreground must stand still
_STRONG = 0.2  # share of the pixels, those of the strongest edges, that count in `edges_kept`
_ALIKE = 0.3  # largest change of an edge that is still there, relative to it
_NOISE = 8  # squared change of an edge that noise of unit variance explains; a third of the mean of such changes
_CAPTIONS = 1 / 6  # of the height at the top and at the bottom, where captions stand, which survive a cut
_KEPT = 0.03  # largest share of the edges that a cut leaves
_ELSEWHERE = 0.35  # largest share of foreground in a scene that was not the last one
_SCENES = 3  # beside the current one: places that a turning camera comes back to


class SceneManager:
    """The model of the current scene, and those of the last three others."""

    # a cut, or foreground over most of the frame that stands still, begins a new model; old ones are kept (`_parked`)

    def __init__(self, frames: FrameFormat, parameters: SubtractorParameters) -> None:
        self._frames, self._parameters = frames, parameters
        self._parked: list[SceneModel] = []  # the newest first
        self._is_jolt = False  # whether a cut in the frame before may have been a jolt of the camera
        self.model = SceneModel(frames, parameters)

    def tune(self, parameters: SubtractorParameters) -> None:
        """Replace the parameters; the learned state is kept."""
        self._parameters = parameters
        for model in (self.model, *self._parked):
            model.tune(parameters)

    def rewind(self) -> None:
        """Prepare for the first frame of the same stream."""
        for model in (self.model, *self._parked):
            model.rewind()

    def separate(self, frame: np.ndarray, known: np.ndarray | None, frozen: bool) -> FrameResult:
        """Separate a checked frame by the model of its scene, which becomes `model`."""
        begins = not self.model.objects.frame  # an event needs a frame before it
        result = self._separate(frame, known, frozen)
        return replace(result, event=None) if begins and result.event is not None else result

    def _separate(self, frame: np.ndarray, known: np.ndarray | None, frozen: bool) -> FrameResult:
        watch = self._parameters.scene_changes and not frozen and self._frames.shape[:2] != (1, 1)
        if watch and self.model.is_covered_by(frame):
            return self.model.blank(frame, FrameEvent.COVERED)
        if self.model.start is not None and not frozen and self.model.is_noisy(frame):
            self.model = SceneModel(self._frames, self._parameters, smooth=True)
        before = self.model.mask
        result = self.model.separate(frame, known, frozen)
        if not watch or result.training is None:
            return result
        known_there = result.training.known
        is_new = self._is_new(before, known_there)
        # a new scene may have been a single broken frame, or an object that covered most of the old one for a while
        least = _SUDDEN if self.model.start is None else _BROKEN
        if self._parked and is_mostly_foreground(self.model.mask, known_there, least):
            is_whole = is_new or is_mostly_foreground(self.model.mask, known_there, WHOLE_FRAME)
            returned = self._return(frame, known, frozen, _RETURNS if is_whole else _BROKEN)
            if returned is not None:
                return returned
        if not is_new:
            return self.model.blank(frame, None) if self._is_jolt else result
        self._park()
        self.model = SceneModel(self._frames, self._parameters)
        return replace(self.model.separate(frame, known, frozen), event=FrameEvent.SCENE_CHANGE)

    def _return(self, frame: np.ndarray, known: np.ndarray | None, frozen: bool, leaves: float) -> FrameResult | None:
        """Separate a frame by a parked model that explains all of it but a share, and go on with this; None if none."""
        for i, model in enumerate(self._parked):
            if model.fits(frame, leaves):
                returned = model.separate(frame, known, frozen)
                if not is_mostly_foreground(returned.mask, known, _ELSEWHERE if i else WHOLE_FRAME):
                    self._park(i)
                    self.model = model
                    is_first = not model.objects.frame  # it was seen in the look-ahead only
                    return replace(returned, event=FrameEvent.SCENE_CHANGE if is_first else FrameEvent.SCENE_RETURN)
        return None

    def _park(self, instead: int | None = None) -> None:
        """Keep the model for the return of its scene, `instead` of a parked one; a model of few frames only alone."""
        is_known = self.model.tracker is not None
        others = [m for i, m in enumerate(self._parked) if i != instead and (m.tracker is not None or not is_known)]
        self._parked = [self.model, *others][:_SCENES] if is_known or not self._parked else others

    def _is_new(self, before: np.ndarray, known: np.ndarray | None) -> bool:
        """Return whether the newest frame shows another scene; `before`: previous mask, in background coordinates."""
        # a cut takes one frame and leaves no edge; a slow change, as of a turning camera, stands still in the end; an
        # object close to the lens leaves edges, and moves
        was_jolt, self._is_jolt = self._is_jolt, False
        if not is_mostly_foreground(self.model.mask, known, _SUDDEN):
            return False
        new = self.model.mask if was_jolt else np.where(before == FOREGROUND, np.uint8(0), self.model.mask)
        if is_mostly_foreground(new, known, _SUDDEN) and edges_kept(self.model.engine, self.model.mask) < _KEPT:
            self._is_jolt = self.model.stabiliser.is_lost  # a jolt leaves no edge, either: the next frame decides
            if not self._is_jolt:
                return True
        is_whole = is_mostly_foreground(self.model.mask, known, WHOLE_FRAME)
        return is_whole and (self.model.is_replaced or self.model.objects.standing(_STANDS) > WHOLE_FRAME)

    def state(self) -> State:
        """Return what the next frame depends on, copied; see `bgsub.numerics.state`."""
        jolt = {"jolt": np.ones(1)} if self._is_jolt else {}
        parked: State = {f"parked{i}": model.state() for i, model in enumerate(self._parked)}
        return {"model": self.model.state(), **parked, **jolt}

    @classmethod
    def from_state(cls, frames: FrameFormat, parameters: SubtractorParameters, state: State) -> "SceneManager":
        """Return a manager that continues bit for bit; ParameterError if the state does not fit."""
        scenes = cls(frames, parameters)
        scenes.model = SceneModel.from_state(frames, parameters, part_of(state, "model"))
        scenes._is_jolt = "jolt" in state
        parked = [name for name in (f"parked{i}" for i in range(_SCENES)) if name in state]
        scenes._parked = [SceneModel.from_state(frames, parameters, part_of(state, name)) for name in parked]
        return scenes


def edges_kept(engine: SweepEngine, mask: np.ndarray) -> float:
    """Return the share of the strong edges of the background that the newest frame shows outside the foreground."""
    margin = round(_CAPTIONS * len(mask))
    rows = slice(margin, len(mask) - margin)
    pictures = (image.reshape(engine.picture.shape)[rows] for image in (engine.picture, engine.images.pixels))
    background, frame = (gradients(picture) for picture in pictures)
    size = np.sum(background * background, axis=0)
    alike = np.sum((frame - background) ** 2, axis=0) <= _ALIKE**2 * size + _NOISE * engine.noise() ** 2
    kept = alike & (mask[rows] != FOREGROUND)
    return float(np.mean(kept[size >= np.quantile(size, 1 - _STRONG)]))
