"""One scene: its background model and the parts that turn a frame into a mask."""

from __future__ import annotations

import numpy as np

from bgsub._opencv import cv2
from bgsub.errors import ParameterError
from bgsub.numerics.state import State, array_of, part_of
from bgsub.numerics.threads import copied
from bgsub.parameters import SegmenterParameters, SubtractorParameters
from bgsub.scene.background import Comparison, StartBackground, TrackedBackground
from bgsub.scene.engine import FrameBuffers, FrameInput
from bgsub.scene.frame_format import FrameFormat
from bgsub.scene.frame_result import FrameResult, TrainingInput
from bgsub.scene.illumination import Illumination, Light, LightChangeTrigger
from bgsub.scene.kernel_table import FIRST_FRAME, START, TRACKING
from bgsub.scene.segmentation import Segmenter
from bgsub.scene.stabiliser import Stabiliser, to_background, to_frame
from bgsub.scene.standing_objects import StandingObjects
from bgsub.separation import FOREGROUND, SHADOW, FrameEvent, Phase
from bgsub.tracking.tracker import SubspaceTracker

_LEAVES = 0.6  # largest remaining share of unexplained sites after a light change
_FLAT = 0.25  # share of the contrast of the background below which the lens is covered
_CONTRAST = 0.02  # smallest contrast of a background that can be covered
_HIGHEST = 0.5  # largest possible contrast
_RETURNS = 0.5  # explained share above which a frame shows a parked scene


class SceneModel:
    """Background model of one scene: start, subspace, camera, light, noise, standing objects."""

    def __init__(self, frames: FrameFormat, parameters: SubtractorParameters) -> None:
        self.frames, self._parameters = frames, parameters
        self._cube = frames.cube
        shape = self._cube[:2]
        self.segmenter = Segmenter(shape, parameters.part(SegmenterParameters), parameters.threads, frames.channels)
        self.start: StartBackground | None = StartBackground(frames, parameters.start_length, parameters.threads)
        self.tracked: TrackedBackground | None = None
        self.illumination = Illumination(self._cube, parameters.threshold * frames.joint)
        self.objects = StandingObjects(frames, parameters)
        self.stabiliser = Stabiliser()
        self.buffers = FrameBuffers(frames)
        self._light_trigger = LightChangeTrigger()
        self._scale = 1 / frames.pixels_full
        self._buffer = np.empty(self._cube, frames.pixels_dtype)  # uses no memory until it is written
        self.mask = np.zeros(shape, np.uint8)
        self._output = np.zeros(shape, np.uint8)

    @property
    def tracker(self) -> SubspaceTracker | None:
        """The subspace tracker, None before the batch start."""
        return None if self.tracked is None else self.tracked.tracker

    @property
    def phase(self) -> Phase:
        """Return "start" until the batch start, "tracking" afterwards."""
        return "tracking" if self.start is None else "start"

    @property
    def stage(self) -> int:
        """Return which kernels of `bgsub.scene.kernel_table` the next frame needs."""
        if self.start is None or self.start.buffer.is_nearly_full:
            return TRACKING
        return START if self.buffers.count else FIRST_FRAME

    def tune(self, parameters: SubtractorParameters) -> None:
        """Replace the parameters; the learned state is kept."""
        self._parameters = parameters
        self.segmenter.tune(parameters.part(SegmenterParameters))
        self.illumination.set_threshold(parameters.threshold * self.frames.joint)
        self.objects.tune(parameters)
        if self.tracker is not None:
            self.tracker.set_forgetting(parameters.forgetting)

    def separate(self, frame: np.ndarray, known: np.ndarray | None, frozen: bool) -> FrameResult:
        """Return mask, residual and background of a checked frame by the current model."""
        given = self.frames.to_pixels(frame, self._buffer)
        pixels, movement = given, None
        if self._parameters.stabilise and self.buffers.count:
            if self.stabiliser.needs_reference():
                self.stabiliser.set_reference(self.buffers.picture, self._scale)
            pixels, movement = self.stabiliser.align(given, self.buffers.picture, self._scale)
        if movement is not None and given is not self._buffer:
            # The background is made later, with borders of this frame, which the caller may change by then.
            np.copyto(self._buffer, given)
            given = self._buffer
        known = None if known is None else to_background(movement, known)
        phase = self.phase
        if self.start is not None:
            self.start.add(pixels, known, frozen, self.segmenter.noise.sigma)
        self.buffers.turn()
        tried, compared, light = self._compared(pixels, known, frozen)
        mask = self.segmenter.segment(self.buffers.over, pixels, self.buffers.picture, frozen, self._scale)
        if light or (tried and self.objects.is_settling):
            self.objects.light_changed(self.mask, mask, light)
        self.mask = mask
        training = TrainingInput(pixels, known, mask, compared.update)
        output = to_frame(movement, mask, None, smooth=False, out=self._output)
        event = FrameEvent.LIGHT_CHANGE if light else None
        return FrameResult(self.frames, given, output, self.buffers, self.segmenter, phase, movement, training, event)

    def blank(self, frame: np.ndarray) -> FrameResult:
        """Return an empty result for a covered lens; the model is unchanged."""
        self._output[:] = 0
        pixels = self.frames.to_pixels(frame, self._buffer)
        return FrameResult(
            self.frames, pixels, self._output, self.buffers, self.segmenter, self.phase, event=FrameEvent.COVERED
        )

    def is_covered_by(self, frame: np.ndarray) -> bool:
        """Return whether a checked frame is nearly uniform while the background is not: the lens is covered."""
        if not self.buffers.count:
            return False
        left = self.illumination.contrast(frame, self.frames.scale)
        if left >= _FLAT * _HIGHEST:
            return False
        usual = self.illumination.contrast(self.buffers.picture, self._scale)
        return usual > _CONTRAST and left < _FLAT * usual

    def _compared(self, pixels: np.ndarray, known: np.ndarray | None, frozen: bool) -> tuple[bool, Comparison, bool]:
        """Compare a frame with the background; return whether light was tried, the result, and whether it was light."""
        compared = self._compare(pixels, known)
        share, light = compared.candidates / self.mask.size, False
        self._light_trigger = self._light_trigger.next(self.objects.is_settling)
        tried = self._parameters.light and not frozen and self._light_trigger.fires(share)
        if tried:
            light = self._change_light(pixels)
            self._light_trigger = self._light_trigger.after_fit(light)
            if light:
                compared = self._compare(pixels, known)
                share = compared.candidates / self.mask.size
        if not frozen:
            self._light_trigger = self._light_trigger.after(share)
        return tried, compared, light

    def _compare(self, pixels: np.ndarray, known: np.ndarray | None) -> Comparison:
        """Fill the buffers from the frame."""
        hidden = self.objects.hidden_pixels()
        if known is not None:
            hidden = known.astype(np.uint16) if hidden is None else hidden | known
        segmenter = self.segmenter
        compared = self._background().separate(
            FrameInput(pixels, hidden, segmenter.noise.sigma, *segmenter.limits), self.buffers
        )
        if not segmenter.noise.is_empty:
            return compared
        count = np.count_nonzero(segmenter.candidates(self.buffers.residual, self.buffers.over))
        return Comparison(int(count), compared.update)

    def _background(self) -> StartBackground | TrackedBackground:
        background = self.start or self.tracked
        assert background is not None
        return background

    def _change_light(self, pixels: np.ndarray) -> bool:
        """Try to explain a sudden change by light; return whether this succeeded."""
        x, bases = self._unit(pixels), [self._background().low_rank()]
        before = self.illumination.explained(x, bases[0])
        if self.buffers.before is not None:
            bases.append(self._unit(self.buffers.before))
        min_explained = 1 - _LEAVES * (1 - before)
        light = self.illumination.explain(x, bases, min_explained=min_explained)
        if light.explained < min_explained:
            return False
        self.illumination.remember(bases[-1])
        self._take_over(light)
        return True

    def _unit(self, pixels: np.ndarray) -> np.ndarray:
        """Return pixels as a new vector, (m,), float32 in [0, 1]."""
        return pixels.reshape(-1) * np.float32(self._scale)

    def _take_over(self, light: Light) -> None:
        """Make the explained background that of the model."""
        if self.start is not None:
            self.start.buffer.map(lambda frame: self._relit(frame, light))
            self.start.colours.map(lambda picture: self._relit_picture(picture, light))
        elif self.tracked is not None:
            self.tracked.tracker.subspace_.retarget(self.illumination.render(light))

    def _relit(self, frame: np.ndarray, light: Light) -> np.ndarray:
        """Return a frame of the start phase, (m,), under another light, in the type of the frames."""
        lit = self.illumination.render(Light(self._unit(frame), light.grid, light.tone, 0.0))
        return self.frames.to_image(lit).reshape(-1) if self.frames.dtype == "uint8" else lit

    def _relit_picture(self, picture: np.ndarray, light: Light) -> np.ndarray:
        """Return a picture, (m,) float32 in the unit of the pixels, under another light."""
        unit = picture * np.float32(self._scale)
        return self.illumination.render(Light(unit, light.grid, light.tone, 0.0)) / np.float32(self._scale)

    def learn(self, result: FrameResult, rate: float | None) -> None:
        """Learn from the newest frame; `rate` replaces the forgetting factor if given."""
        training = result.training
        if training is None:
            return
        mask = training.mask
        if training.known is not None:  # neither standing object nor confirmed background
            mask = np.where(training.known, np.uint8(SHADOW), mask)
        compared = training.pixels, self.buffers.picture, self._scale
        self.segmenter.learn(self.buffers.residual, training.known, self.objects.age, *compared)
        if self.tracked is not None and training.update is not None:
            self.tracked.learn(training.update, rate)
            self.tracked.follow(self.buffers.residual, training.known)
        due = self.objects.released(training.pixels, self.buffers.picture, mask)
        if due is not None:
            self._release(training.pixels, due)
        if self.start is not None and self.start.buffer.is_full:
            self._finish_start()

    def _release(self, pixels: np.ndarray, due: np.ndarray) -> None:
        """Give pixels, (h, w) bool, to the background."""
        if self.tracked is not None:
            self.tracked.absorb(pixels, due)
        elif self.start is not None:
            self.start.colours.put(pixels, due)

    def _finish_start(self) -> None:
        """Fit the subspace to the buffered frames; it is tracked from the next frame on."""
        start, self.start = self.start, None
        assert start is not None
        threshold, factor = self.segmenter.limits
        limit = np.maximum(threshold, factor * self.segmenter.noise.sigma.reshape(-1))
        tracked = TrackedBackground(self.frames, self._parameters)
        buffer = tracked.cleaned(start, limit)
        del start  # the fit is the peak of memory use and needs the frames only
        tracked.fit(buffer)
        self.tracked = tracked

    def state(self) -> State:
        """Return what the next frame depends on, copied; see `bgsub.numerics.state`."""
        state: State = {
            "segmenter": self.segmenter.state(),
            "illumination": self.illumination.state(),
            "objects": self.objects.state(),
            "stabiliser": self.stabiliser.state(),
            "buffers": self.buffers.state(),
            "mask": copied(self.mask),
            **self._light_trigger.state(),
        }
        if self.start is not None:
            return {**state, "start": self.start.state()}
        if self.tracked is None:
            return state
        return {**state, "tracker": self.tracked.tracker.state(), "cost_scale": copied(self.tracked.scale)}

    @classmethod
    def from_state(cls, frames: FrameFormat, parameters: SubtractorParameters, state: State) -> SceneModel:
        """Return a model that continues bit for bit; ParameterError if the state does not fit."""
        model = cls(frames, parameters)
        model.segmenter.set_state(part_of(state, "segmenter"))
        model.illumination.set_state(part_of(state, "illumination"))
        model.objects.set_state(part_of(state, "objects"))
        model.stabiliser.set_state(part_of(state, "stabiliser"), frames.cube, np.dtype(frames.pixels_dtype))
        model.buffers.set_state(part_of(state, "buffers"))
        model.mask = array_of(state, "mask", model.mask.shape, "uint8")
        model._light_trigger = LightChangeTrigger.from_state(state)
        if "tracker" not in state and model.start is not None:
            model.start.set_state(part_of(state, "start"))
            if model.buffers.count and not model.start.buffer.count:
                raise ParameterError("the start has no frame")
            return model
        model.tracked = TrackedBackground(frames, parameters)
        model.tracked.set_state(part_of(state, "tracker"), array_of(state, "cost_scale", frames.cube[:2], "float32"))
        model.start = None
        return model

    def fits(self, frame: np.ndarray) -> bool:
        """Return whether a frame shows this scene, in any light."""
        if not self.buffers.count:
            return False
        x = self.frames.to_vector(frame, np.empty(self.frames.size, np.float32))
        return (
            self.illumination.explain(x, [self._background().low_rank()], min_explained=_RETURNS).explained > _RETURNS
        )


def is_mostly_foreground(mask: np.ndarray, known: np.ndarray | None, share: float) -> bool:
    """Return whether more than a share of the frame is foreground that is not known."""
    least = share * mask.size
    if cv2.countNonZero(mask) <= least:  # includes shadows, but fast
        return False
    found = mask if known is None else mask[~known]
    return bool(np.count_nonzero(found == FOREGROUND) > least)
