"""One scene: its background model and the parts that turn a frame into a mask."""

import math
from dataclasses import astuple, replace
from itertools import pairwise

import numpy as np

from bgsub._opencv import cv2
from bgsub.errors import ParameterError
from bgsub.numerics.state import State, array_of, numbers_of, part_of
from bgsub.numerics.threads import copied
from bgsub.parameters import SegmenterParameters, SubtractorParameters
from bgsub.scene.background import Comparison, StartBackground, StartFit, TrackedBackground
from bgsub.scene.engine import SweepEngine
from bgsub.scene.exposure import dark_and_bright, exposure_of, has_colour, look_of, sensor_noise
from bgsub.scene.frame_format import FrameFormat, plain
from bgsub.scene.frame_result import FrameResult, TrainingInput
from bgsub.scene.illumination import Illumination, Light, LightChangeTrigger
from bgsub.scene.kernel_table import FIRST_FRAME, START, TRACKING
from bgsub.scene.registration import Movement
from bgsub.scene.segmentation import SceneLook, Segmenter
from bgsub.scene.stabiliser import Stabiliser, to_background, to_frame
from bgsub.scene.standing_objects import StandingObjects
from bgsub.scene.start_colours import NOWHERE
from bgsub.separation import FOREGROUND, SHADOW, FrameEvent, Phase
from bgsub.tracking.tracker import SubspaceTracker

WHOLE_FRAME = 0.7  # share of foreground above which the background is hidden, or the scene may have changed
_MANY = 0.5  # share of candidates above which the mask may be that much foreground
_HIDDEN, _FEWEST = 10.0, 5  # seconds for which a hidden background is kept as it is, but at least this many frames
_LEAVES = 0.6  # share of the sites unexplained by the background that a light change may leave unexplained
_SAME_LIGHT = 0.9  # share of equal sites of successive frames from which on both have the same light
_FLAT = 0.25  # share of the contrast of the background below which the lens is covered
_SHOWS = 0.7  # correlation with the background from which on a dark frame shows it
_CONTRAST = 0.02  # smallest contrast of a background that can be covered
_VEIL_RATE = 0.02  # share of a rise of the darkest brightness that one call of `_adapt` follows
_ADAPTS = 50  # frames between two calls of `_adapt`, and between two measurements of the noise
_SETTLED = 2  # frames from an attempt to explain the light to a call of `_adapt`
_LOOKS = 4  # frames between two tests for a drift of the light; every frame while the background changes
_BLUR = 0.6  # pixels, standard deviation of the Gaussian filter of noisy frames
_NOISY_AT = 2  # frames before the one in which the noise of the start is measured
_TURNS, _BANDS = 4, 4  # later measurements use this many bands of the picture, and all of it in this many of them
_THIN = 3  # fewest lines of a band


class SceneModel:
    """Background model of one scene. For each frame `SceneManager` calls `separate`, then the subtractor `learn`."""

    def __init__(self, frames: FrameFormat, parameters: SubtractorParameters, smooth: bool = False) -> None:
        self.frames, self._parameters, self._smooth = frames, parameters, smooth
        self._cube = frames.cube
        shape = self._cube[:2]
        self._scale = 1 / frames.pixels_full
        given = parameters.part(SegmenterParameters), parameters.threads, frames.channels, self._scale, parameters.fps
        self.segmenter = Segmenter(shape, *given)
        self.start: StartBackground | None = StartBackground(frames, parameters.start_length, parameters.threads)
        self._fit: StartFit | None = None
        self.tracked: TrackedBackground | None = None
        self.illumination = Illumination(self._cube, parameters.threshold * frames.joint)
        self.objects = StandingObjects(frames, parameters)
        self.stabiliser = Stabiliser(parameters.fps)
        kind, rank = SweepEngine.of(parameters.device), min(parameters.rank, frames.size)
        self.engine = kind(frames, rank, parameters.threads, self.segmenter.noise.sigma)
        self.engine.set_limits(*self.segmenter.limits)
        self._light_trigger, self._darkest = LightChangeTrigger(), 1.0  # darkest brightness of the scene, for the veil
        self._hidden = 0  # frames at the usual rate for which most of the background has been hidden
        self._keeps = False  # whether it stays as it is, because of that
        self._lamps = 0  # 1 if lamps went out in the newest frame, 2 if they went on: then it sets the exposure itself
        self._buffer = np.empty(self._cube, frames.pixels_dtype)  # uses no memory until it is written
        self.mask = np.zeros(shape, np.uint8)
        self._output = np.zeros(shape, np.uint8)

    @property
    def tracker(self) -> SubspaceTracker | None:
        """The subspace tracker, None before the batch start."""
        return None if self.tracked is None else self.tracked.tracker

    @property
    def _unknown(self) -> np.ndarray:
        """The pixels, (n,) indices, whose background is still unknown after the start."""
        return NOWHERE if self.tracked is None else self.tracked.late.where

    @property
    def phase(self) -> Phase:
        """Return "start" until the batch start, "tracking" afterwards."""
        return "tracking" if self.start is None else "start"

    @property
    def stage(self) -> int:
        """Return which kernels of `bgsub.scene.kernel_table` the next frame needs."""
        if self.start is None or self.start.buffer.count + 1 >= len(self.start.buffer.frames):
            return TRACKING
        return START if self.engine.count else FIRST_FRAME

    @property
    def is_replaced(self) -> bool:
        """Whether most of the background has been hidden for so long that it may be that of another scene."""
        return self._hidden > max(min(_HIDDEN, self._parameters.absorb_after) * self._parameters.fps, _FEWEST)

    def tune(self, parameters: SubtractorParameters) -> None:
        """Replace the parameters; the learned state is kept."""
        self._parameters, self._hidden = parameters, 0
        self.segmenter.tune(parameters.part(SegmenterParameters))
        self.engine.set_limits(*self.segmenter.limits)
        self.objects.tune(parameters)
        if self.tracked is not None:
            self.tracked.set_forgetting(parameters.forgetting)

    def rewind(self) -> None:
        """Prepare for the first frame of the same stream."""
        self._hidden = 0
        self.objects.rewind()
        self.segmenter.rewind()
        self.mask, self._light_trigger = np.zeros_like(self.mask), LightChangeTrigger(self._light_trigger.usual)

    def separate(self, frame: np.ndarray, known: np.ndarray | None, frozen: bool) -> FrameResult:
        """Return the result of a checked frame: mask, and on request background, residual and probability."""
        given = self.frames.to_pixels(frame, self._buffer)
        if self._smooth:
            given = cv2.GaussianBlur(given, (3, 3), _BLUR, dst=self._buffer).reshape(self._cube)
        self._follow_exposure(given)
        pixels, movement = given, None
        if self._parameters.stabilise and self.engine.count:
            pixels, movement = self.stabiliser.align(given, self.engine.picture, self._scale)
        has_moved = movement is not None and self.tracked is not None and self.stabiliser.has_new_place and not frozen
        if has_moved:
            self._settle(given, movement, known)
            pixels, movement = given, None
        if movement is not None and given is not self._buffer:
            # The background is made later, with borders of this frame, which the caller may change by then.
            np.copyto(self._buffer, given)
            given = self._buffer
        known = None if known is None else to_background(movement, known)
        phase = self.phase
        tried, compared, light = self._compared(pixels, known, frozen)
        still = None if frozen else self.objects.still(self.engine.strong)  # without learning, ages are outdated
        if compared.candidates or still is not None:
            found = self.engine.over, self.engine.filled, pixels, self.engine.picture
            mask = self.segmenter.segment(*found, frozen, still)
        else:
            mask = self.segmenter.empty()
        if light is not None and light.has_returned and self.objects.settling:
            self.objects.light_returned()
        elif self.objects.frame and (light or (tried and self.objects.settling)):  # all of a first frame is new
            self.objects.light_changed(self.mask, mask, light is not None)
        self.mask = mask
        training = TrainingInput(pixels, known, mask, compared)
        output = mask if movement is None else to_frame(movement, mask, None, smooth=False, out=self._output)
        event = FrameEvent.LIGHT_CHANGE if light else None
        result = self.frames, given, output, self.engine, self.segmenter, phase, movement, training, event
        return FrameResult(*result, has_moved=has_moved)

    def _settle(self, frame: np.ndarray, movement: Movement | None, known: np.ndarray | None) -> None:
        """Move everything learned to the coordinates of `frame`: the camera stays at its new place."""
        shape = self._cube[:2]
        numbers = np.arange(math.prod(shape), dtype=np.float32).reshape(shape)  # exact up to 4096x4096
        places = to_frame(movement, numbers, numbers, smooth=False).astype(np.int64).reshape(-1)
        picture = to_frame(movement, self.engine.picture, frame, smooth=True)
        self.mask = self.mask.take(places).reshape(shape)
        shown = self.objects.around(self.mask) == 0
        if known is not None:
            shown &= ~known
        picture[shown] = frame[shown]  # sharper than the moved background
        self.objects.move(places)
        self.segmenter.move(places)
        self.illumination.move(places)
        assert self.tracked is not None
        self.tracked.move(places, picture)
        self.engine.compare(self._background.low_rank())
        self.stabiliser.settle(picture, self._scale)

    def _follow_exposure(self, given: np.ndarray) -> None:
        """Call `_adapt` from time to time, after a change of the light, and at once when lamps go on or out."""
        picture = self.engine.picture
        if self.engine.count % _ADAPTS == _ADAPTS // 2 or not self.engine.count:
            self._adapt(picture if self.engine.count else given, given)
            return
        if self._light_trigger.since == _SETTLED or self._lamps:
            self._adapt(picture, given, rate=0)
            if self._lamps == 2:  # the reference of the camera movement was dark, its edges mostly noise
                self.stabiliser.settle(picture, self._scale)
        seen, usual = self.illumination.contrasts(given, picture)
        self._lamps = 2 if seen > usual / _FLAT else int(seen < _FLAT * usual)
        if self._lamps and self._shows_background(given):
            self._adapt(given, given, rate=0)
        else:
            self._lamps = 0

    def _adapt(self, picture: np.ndarray, frame: np.ndarray, rate: float = _VEIL_RATE) -> None:
        """Set exposure, black level and colours of the scene; `rate`: followed share of a rise of the darkest level."""
        seen = self.illumination.sites(picture), self.illumination.sites(frame)
        look, self._darkest = look_of(*seen, self._scale, self._darkest, rate)
        self._set_scene(look)

    def _explain(self, x: np.ndarray, bases: list[np.ndarray], leaves: float, of_all: bool = False) -> Light | None:
        """Do `Illumination.explain` for a frame, (m,) in [0, 1], with the limits of the picture with more contrast."""
        scene, (_, bright) = self.segmenter.scene, dark_and_bright(self.illumination.sites(x))
        exposure = max(scene.exposure, exposure_of(bright - scene.black))
        self.illumination.set_limits(self._parameters.threshold * self.frames.joint, exposure, self._unknown)
        return self.illumination.explain(x, bases, leaves, of_all)

    def _set_scene(self, look: SceneLook) -> None:
        self.segmenter.set_scene(look)
        self.engine.set_limits(*self.segmenter.limits)

    def is_noisy(self, frame: np.ndarray) -> bool:
        """Return whether noise of the sensor exceeds the threshold; measured at the third frame, else False."""
        if self._smooth or self.start is None or self.start.buffer.count != _NOISY_AT:
            return False
        pixels = self.frames.to_pixels(frame, self._buffer)
        pictures = [*self.start.buffer.frames[:_NOISY_AT].reshape(-1, *self._cube), pixels]
        return self._is_much(min(sensor_noise(one, other) for one, other in pairwise(pictures)))

    def _look_at_noise(self, tracked: TrackedBackground, pixels: np.ndarray) -> None:
        """Smooth the background, and all frames from now on, if noise has risen above the threshold, as by night."""
        shown = self.engine.picture
        turn = self.engine.count // _ADAPTS % _TURNS  # number of the bands; sqrt(2): the background has no noise
        bands = (np.array_split(image, _TURNS * _BANDS)[turn::_TURNS] for image in (pixels, shown))
        if len(shown) >= _THIN * _TURNS * _BANDS and self._is_much(math.sqrt(2) * min(map(sensor_noise, *bands))):
            self._smooth = True
            picture = cv2.GaussianBlur(shown, (3, 3), _BLUR)
            tracked.tracker.subspace_.retarget(self._unit(picture))

    def _is_much(self, noise: float) -> bool:
        """Return whether noise, in the unit of the pixels, exceeds the threshold."""
        threshold, factor = self.segmenter.limits
        return bool(factor * math.sqrt(self._cube[2]) * noise * self._scale > threshold)

    def blank(self, frame: np.ndarray, event: FrameEvent | None) -> FrameResult:
        """Return an empty mask for a frame that must not be learned: a covered lens, or a possible jolt."""
        self._output[:] = 0
        pixels = self.frames.to_pixels(frame, self._buffer)
        return FrameResult(self.frames, pixels, self._output, self.engine, self.segmenter, self.phase, event=event)

    def is_covered_by(self, frame: np.ndarray) -> bool:
        """Return whether the lens is covered: a checked frame is nearly uniform, and not the background in the dark."""
        if not self.engine.count:
            return False
        left, usual = self.illumination.contrasts(plain(frame), self.engine.picture)
        usual *= self._scale
        is_flat = usual > _CONTRAST and self.frames.scale * left < _FLAT * usual
        return is_flat and not self._shows_background(self.frames.to_pixels(frame, self._buffer))

    def _shows_background(self, pixels: np.ndarray) -> bool:
        """Return whether a frame shows the background in any even light."""
        values = (self.illumination.sites(picture).mean(axis=0) for picture in (pixels, self.engine.picture))
        seen, shown = (brightness - brightness.mean() for brightness in values)
        return bool(seen @ shown > _SHOWS * math.sqrt((seen @ seen) * (shown @ shown)))

    def _compared(
        self, pixels: np.ndarray, known: np.ndarray | None, frozen: bool
    ) -> tuple[bool, Comparison, Light | None]:
        """Compare a frame with the background; return whether a light was tried, the result, and a light that fits."""
        start, frames = self.start, 0 if self.start is None else self.start.buffer.count
        looks = self.engine.has_changed or self.engine.count % _LOOKS == 0
        self.engine.begin(pixels)
        if start is not None and not frames:
            start.add(pixels, known, self.segmenter.noise.sigma)
        compared = self._compare(known)
        may_change = self._parameters.light and not frozen
        if start is not None and looks and may_change and self._follow_drift(pixels, known):
            compared = self._compare(known)
        share, light = self._share(compared, known), None
        tried = self._light_trigger.fires(share, self.objects.settling > 0) and may_change
        if tried:
            light = self._change_light(pixels, known)
            self._light_trigger.fitted(light is not None, share)
            if light is not None:
                compared = self._compare(known)
                share = self._share(compared, known)
        if start is None and (looks or tried) and may_change and not self._keeps and self._follow_drift(pixels, known):
            compared = self._compare(known)
            share = self._share(compared, known)
        if not frozen:
            self._light_trigger.learn(share)
            if start is not None and frames and not start.buffer.is_full:  # colours are counted under the newest light
                start.add(pixels, known, self.segmenter.noise.sigma)
                compared = self._compare(known)
        return tried, compared, light

    def _share(self, compared: Comparison, known: np.ndarray | None) -> float:
        """Return the share of the pixels that are candidates and not known to be foreground."""
        found = 0 if known is None else int(np.count_nonzero(self.engine.over[known]))
        return (compared.candidates - found) / self.mask.size

    @property
    def _background(self) -> StartBackground | TrackedBackground:
        background = self.start or self.tracked
        assert background is not None
        return background

    def _compare(self, known: np.ndarray | None) -> Comparison:
        compared = self._background.separate(self.engine, self.objects.hidden_pixels(), known)
        if not self.segmenter.noise.is_empty:
            return compared
        pictures = self.engine.images.pixels.reshape(self._cube), self.engine.picture
        self.segmenter.noise.begin(self.engine.residual(), lambda: sensor_noise(*pictures) * self._scale)
        return compared._replace(candidates=self.engine.compare())

    def _change_light(self, pixels: np.ndarray, known: np.ndarray | None) -> Light | None:
        """Try to explain a frame by light; if this succeeds, change the background and return the light."""
        x, background, before = self._unit(pixels), self._background.low_rank(), self.engine.before
        light = self._explain(x, self._bases(pixels, background, before), _LEAVES)
        if light is None and self.start is not None and self.start.buffer.newest is not None:
            last = self._unit(self.start.buffer.newest)  # the background of the start may be wrong in most pixels
            if self.illumination.explained(x, last) < _SAME_LIGHT:
                light = self._explain(x, [last], _LEAVES)
            if light is not None and light.base is last:
                light = replace(light, base=background)
        light = self.illumination.returned(x, background, light)
        if light is None:
            return None
        self.illumination.remember(background if before is None else self._unit(before))
        if known is not None:  # `render` must not take saturated values of known foreground
            x.reshape(known.size, -1)[known.reshape(-1)] = 0
        if self.start is not None:
            self._relight_start(self.start, light, background, x)
        elif self.tracked is not None:
            self.tracked.tracker.subspace_.retarget(self.illumination.render(light, x))
        return light

    def _follow_drift(self, pixels: np.ndarray, known: np.ndarray | None) -> bool:
        """Let the background follow a slow change of the light; return whether there is one."""
        mask, unknown = self.mask, self._unknown
        if known is not None or unknown.size:
            mask = mask.copy()
            mask.reshape(-1)[unknown] = FOREGROUND
            if known is not None:
                mask[known] = FOREGROUND
        limit = float(self.segmenter.limits[0])
        factors = self.illumination.drift(pixels, self.engine.picture, mask, limit, self._scale)
        if factors is None:
            return False
        if self.start is not None:
            if self._fit is None:
                self.start.buffer.begin_light(self.illumination.values(self.start.colours.background, self._scale))
            self.start.colours.scale(factors)
        elif self.tracked is not None:
            self.tracked.tracker.subspace_.scale(factors.reshape(-1))
        return True

    def _bases(self, pixels: np.ndarray, background: np.ndarray, before: np.ndarray | None) -> list[np.ndarray]:
        """Return bases to try: the background of this frame, that `before`, and one in grey if a camera turns grey."""
        bases = [background] if before is None else [background, self._unit(before)]
        scene = self.segmenter.scene
        if scene.is_coloured and not has_colour(self.illumination.sites(pixels), scene.exposure / self._scale):
            grey = background.reshape(-1, self.frames.channels).mean(axis=1)
            bases.append(np.repeat(grey, self.frames.channels))
        return bases

    def _unit(self, pixels: np.ndarray) -> np.ndarray:
        """Return pixels as a new vector, (m,), float32 in [0, 1]."""
        return pixels.reshape(-1) * np.float32(self._scale)

    def _relight_start(self, start: StartBackground, light: Light, background: np.ndarray, x: np.ndarray) -> None:
        """Set the colours of the start to a light of the frame `x`; `background`: those before; both (m,)."""
        values, newest = self.illumination.values(background), start.colours.background
        np.multiply(self.illumination.render(light, x), np.float32(1 / self._scale), out=newest)
        if light.base is not background:  # the light is that of a remembered background
            light = self.illumination.between(values, self.illumination.values(newest, self._scale))
        if self._fit is None:  # `StartFit.catch_up` adds later changes
            start.buffer.begin_light(values)
        for picture in start.colours.colours[1:].reshape(-1, newest.size):
            picture[:] = self.illumination.relit(picture, light, self._scale)

    def learn(self, result: FrameResult, rate: float | None, elapsed: int = 1) -> None:
        """Learn from the newest frame; `elapsed`: time since the one before, in frames at `fps`."""
        # `rate` replaces the forgetting factor if given, and absorbs objects sooner
        training = result.training
        if training is None:
            return
        mask, lit = training.mask, self.segmenter.dark
        if training.known is not None:  # as a shadow, it counts neither as standing object nor as seen background
            mask, lit = np.where(training.known, np.uint8(SHADOW), mask), np.where(training.known, np.uint8(0), lit)
        pixels, compared, engine, objects = training.pixels, training.compared, self.engine, self.objects
        found = mask, self.segmenter.filled, engine.strong, engine.filled, lit
        is_much = self.tracked is not None and rate is None and compared.candidates > _MANY * mask.size  # fast
        self._hidden = self._hidden + elapsed if is_much and is_mostly_foreground(mask, None, WHOLE_FRAME) else 0
        self._keeps = self._hidden > 0 and not self.is_replaced and not self._shows_background(pixels)
        if self._keeps and self.tracked is not None and compared.update is not None:
            objects.released(pixels, engine.picture, *found, NOWHERE, elapsed=elapsed, is_hidden=True)
            self.tracked.tracker.subspace_.y = compared.update.fit.start
        else:
            seen = engine.strong, engine.filled, training.known, objects.age, objects.returns, pixels, engine.picture
            skip = self.segmenter.unlearned(*seen, elapsed / self._parameters.fps)
            engine.learn(skip, self.segmenter.noise.rates(compared.due[0]), compared.due)
            returned = NOWHERE
            if self.tracked is not None and compared.update is not None:
                age = objects.hidden_pixels()
                self.tracked.learn(compared.update, rate, age, elapsed)
                returned = self.tracked.returned(pixels, age, training.known)
            if self.start is not None and engine.before is not None:
                objects.follow_light(engine.before, engine.picture)
            due = objects.released(pixels, engine.picture, *found, returned, rate, elapsed)
            if due is not None and self.tracked is not None:
                self.tracked.absorb(pixels, due)
            elif due is not None and self.start is not None:
                self.start.colours.put(pixels, due)
        if self.tracked is not None and engine.count % _ADAPTS == 0 and result.movement is None and not self._smooth:
            self._look_at_noise(self.tracked, pixels)
        if self.start is not None and self.start.buffer.is_full:
            self._advance_fit(self.start)

    def _begin_fit(self, start: StartBackground, state: State) -> StartFit:
        threshold, factor = self.segmenter.limits
        limit = np.hypot(threshold, factor * self.segmenter.noise.sigma.reshape(-1))
        return StartFit(
            TrackedBackground(self.frames, self._parameters, self.engine.block), start, limit, self.illumination, state
        )

    def _advance_fit(self, start: StartBackground) -> None:
        """Do one part of the start fit; when all are done, the subspace is tracked from the next frame on."""
        fit, self._fit = self._fit or self._begin_fit(start, {}), None  # after an interrupt the fit begins again
        if not fit.advance():
            self._fit = fit
            return
        fit.catch_up(start)
        fit.tracked.set_forgetting(self._parameters.forgetting)
        self.start, self.tracked = None, fit.tracked

    def state(self) -> State:
        """Return what the next frame depends on, copied; see `bgsub.numerics.state`."""
        state: State = {
            "segmenter": self.segmenter.state(),
            "illumination": self.illumination.state(),
            "objects": self.objects.state(),
            "stabiliser": self.stabiliser.state(),
            "engine": self.engine.state(),
            "mask": copied(self.mask),
            "scene": np.array(
                [*self.segmenter.scene, self._darkest, self._smooth, self._lamps, self._hidden, self._keeps]
            ),
            "light_trigger": np.array(astuple(self._light_trigger)),
        }
        if self.start is not None:
            fit = {} if self._fit is None else {"fit": self._fit.state()}
            return {**state, "start": self.start.state(), **fit}
        assert self.tracked is not None
        return {**state, "tracker": self.tracked.state()}

    @classmethod
    def from_state(cls, frames: FrameFormat, parameters: SubtractorParameters, state: State) -> "SceneModel":
        """Return a model that continues bit for bit; ParameterError if the state does not fit."""
        exposure, is_coloured, black, darkest, smooth, lamps, hidden, keeps = numbers_of(state, "scene", 8)
        model = cls(frames, parameters, bool(smooth))
        model._darkest, model._lamps, model._hidden = darkest, int(lamps), int(hidden)
        model._keeps = bool(keeps)
        model._set_scene(SceneLook(exposure, bool(is_coloured), black))
        model.segmenter.set_state(part_of(state, "segmenter"))
        model.illumination.set_state(part_of(state, "illumination"))
        model.objects.set_state(part_of(state, "objects"))
        model.stabiliser.set_state(part_of(state, "stabiliser"), frames.cube)
        model.engine.set_state(part_of(state, "engine"))
        model.mask = array_of(state, "mask", model.mask.shape, "uint8")
        model._light_trigger = LightChangeTrigger(*numbers_of(state, "light_trigger", 4))
        if "tracker" not in state and model.start is not None:
            model.start.set_state(part_of(state, "start"))
            if model.engine.count and not model.start.buffer.count:
                raise ParameterError("the start has no frame")
            if "fit" in state and model.start.buffer.is_full:
                model._fit = model._begin_fit(model.start, part_of(state, "fit"))
            return model
        model.tracked = TrackedBackground(frames, parameters, model.engine.block)
        model.tracked.set_state(part_of(state, "tracker"))
        model.start = None
        return model

    def fits(self, frame: np.ndarray, leaves: float) -> bool:
        """Return whether a frame shows this scene, in any light, in all but the share `leaves` of the sites."""
        if not self.engine.count:
            return False
        x = self.frames.to_vector(frame, np.empty(self.frames.size, np.float32))
        bases = [self._background.low_rank()]
        if self.engine.before is not None:  # the newest coefficients may be fitted to a frame of another scene
            bases.append(self._unit(self.engine.before))
        return self._explain(x, bases, leaves, of_all=True) is not None


def is_mostly_foreground(mask: np.ndarray, known: np.ndarray | None, share: float) -> bool:
    """Return whether more than a share of the frame is foreground that is not known."""
    least = share * mask.size
    if cv2.countNonZero(mask) <= least:  # fast upper bound, which includes shadows
        return False
    found = mask if known is None else mask[~known]
    return bool(np.count_nonzero(found == FOREGROUND) > least)
