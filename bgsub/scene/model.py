"""One scene: its background model and everything that turns a frame into a mask by it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from bgsub._opencv import cv2
from bgsub.errors import ParameterError
from bgsub.parameters import SEGMENTER
from bgsub.scene._pixel_kernels import UNLEARNED
from bgsub.scene.background import Background, Canvas, StartBackground, TrackedBackground
from bgsub.scene.frame_format import FrameFormat, check_like
from bgsub.scene.illumination import Illumination, Light
from bgsub.scene.provisional import StartBuffer
from bgsub.scene.segmentation import Segmenter
from bgsub.scene.stabiliser import Stabiliser
from bgsub.scene.standing_objects import StandingObjects
from bgsub.separation import FOREGROUND
from bgsub.tracking.tracker import SubspaceTracker

_SUDDEN = 0.04  # share of the frame that must turn into candidates at once before light is asked for
_LEAVES = 0.6  # light must leave at most this share of what was unexplained
_LONGEST_WAIT = 16  # frames between two questions that were answered with no
_FLAT = 0.25  # of the background's contrast, below which a frame shows nothing
_CONTRAST = 0.02  # least contrast of a background that can be covered, full scale is 1
_RETURNS = 0.5  # share of a frame that must be explained by a scene for it to be that scene
_CALM_RATE = 0.1  # of the running share of candidates, per frame


@dataclass(frozen=True)
class View:
    """What a scene model makes of one frame; valid until the model sees the next one.

    Attributes
    ----------
    model : SceneModel
        The model.
    frame : ndarray
        The frame.
    pixels : ndarray, (h, w, c)
        The frame as the engine works on it.
    mask : ndarray, (h, w), uint8
        In the coordinates of the frame; a buffer.
    is_blank : bool
        Whether the frame shows nothing.
    light : bool
        Whether the light changed in this frame.
    """

    model: SceneModel
    frame: np.ndarray
    pixels: np.ndarray
    mask: np.ndarray
    is_blank: bool = False
    light: bool = False

    def picture(self) -> np.ndarray:
        """Return the background as the engine works on it, (h, w, c), in the coordinates of the frame."""
        picture = self.model.canvas.picture
        return picture if self.is_blank else self.model.stabiliser.back(picture, self.pixels, smooth=True)

    def background(self) -> np.ndarray:
        """Return the background, like the frame, in the coordinates of the frame."""
        return self.model.frames.from_pixels(self.picture())

    def residual(self) -> np.ndarray:
        """Return the joint colour residual, (h, w), float32."""
        if self.is_blank:
            return np.zeros(self.mask.shape, np.float32)
        residual = self.model.stabiliser.back(self.model.canvas.residual, None, smooth=True)
        return residual.copy() if residual is self.model.canvas.residual else residual


class SceneModel:
    """Background model of one scene: start, subspace, camera, light, noise, standing objects.

    Parameters
    ----------
    frames : FrameFormat
        What the frames look like.
    parameters : dict
        All parameters of the subtractor, checked.
    """

    def __init__(self, frames: FrameFormat, parameters: dict[str, Any]) -> None:
        self.frames, self._parameters = frames, parameters
        self._cube = frames.cube
        shape = self._cube[:2]
        self.segmenter = Segmenter(shape, parameters["threads"], **_of_segmenter(parameters))
        self.start: StartBackground | None = StartBackground(frames, self.segmenter.limits, parameters["start_frames"])
        self.tracked: TrackedBackground | None = None
        self._illumination = Illumination(self._cube, parameters["threshold"])
        self.objects = StandingObjects(
            self._cube,
            parameters["fps"],
            parameters["absorb_after"],
            parameters["ghosts"],
            frames.pixels_dtype,
            frames.pixels_full,
            parameters["threads"],
        )
        self.stabiliser = Stabiliser()
        self.canvas = Canvas(frames)
        self._scale = 1 / frames.pixels_full
        self._buffer = np.empty(self._cube if frames.dtype != "uint8" else (0,), np.float32)
        self._pixels = self._buffer
        self._mask = np.zeros(shape, np.uint8)
        self._output = np.zeros(shape, np.uint8)
        self._usual, self._waiting, self._patience = 0.0, 0, 1

    @property
    def tracker(self) -> SubspaceTracker | None:
        """The subspace tracker, None before the batch start."""
        return None if self.tracked is None else self.tracked.tracker

    def tune(self) -> None:
        """Follow changes of the parameters in the dict that the model was given."""
        parameters = self._parameters
        self.segmenter.tune(**_of_segmenter(parameters))
        self._background().set_limits(self.segmenter.limits)
        self._illumination.set_threshold(parameters["threshold"])
        self.objects.tune(parameters["absorb_after"], parameters["ghosts"])
        if self.tracker is not None:
            self.tracker.set_forgetting(parameters["forgetting"])

    # -- one frame -----------------------------------------------------------------------------------------------

    def separate(self, frame: np.ndarray, known: np.ndarray | None, frozen: bool) -> View:
        """Return mask, residual and background of a checked frame by the model as it stands."""
        self._blank = False
        given = self.frames.to_pixels(frame, self._buffer)
        pixels = self._aligned(given)
        moved = pixels is not given
        if moved and known is not None:
            known = self.stabiliser.forth(known)
        self._known, self._pixels = known, pixels
        if self.start is not None:
            self.start.see(pixels, known, frozen)
        self.canvas.turn()
        share = self._compare() / self._mask.size
        light = False
        self._waiting = max(self._waiting - 1, 0)
        if self._parameters["light"] and not frozen and self._waiting == 0 and share > self._usual + _SUDDEN:
            light = self._change_light()
            if light:
                share = self._compare() / self._mask.size
        if not frozen:
            self._usual += _CALM_RATE * (min(share, self._usual + _SUDDEN) - self._usual)
        mask = self.segmenter.segment(self.canvas.over, pixels, self.canvas.picture, frozen, self._scale)
        if light:
            self.objects.light_changed(self._mask, mask)
        self._mask = mask
        if moved:
            mask = self.stabiliser.back(mask, None, smooth=False, out=self._output)
        return View(self, frame, given, mask, light=light)

    def blank(self, frame: np.ndarray) -> View:
        """Return an empty view of a frame that shows nothing; the model stays as it is and learns nothing."""
        self._blank = True
        self._output[:] = 0
        return View(self, frame, self._pixels, self._output, is_blank=True)

    def is_covered_by(self, frame: np.ndarray) -> bool:
        """Return whether a checked frame is nearly uniform where the background is not: the lens is covered."""
        if not self.canvas.count:
            return False
        usual = self._illumination.contrast(self.canvas.picture, self._scale)
        seen = frame.astype(np.float32) if frame.dtype == np.float16 else frame
        return usual > _CONTRAST and self._illumination.contrast(seen.reshape(self._cube), self.frames.scale) < (
            _FLAT * usual
        )

    def _aligned(self, pixels: np.ndarray) -> np.ndarray:
        """Return the frame in the coordinates of the background."""
        if not self._parameters["stabilise"] or not self.canvas.count:
            return pixels
        if self.stabiliser.needs_reference():
            self.stabiliser.set_reference(self.canvas.picture, self._scale)
        return self.stabiliser.align(pixels, self.canvas.picture, self._scale)

    def _compare(self) -> int:
        """Fill the canvas from the frame; return the number of candidates."""
        sigma = self.segmenter.sigma
        count = self._background().separate(self._pixels, self._hidden(), sigma, self.canvas)
        if not self.segmenter.knows_nothing:
            return count
        return int(np.count_nonzero(self.segmenter.candidates(self.canvas.residual, self.canvas.over)))

    def _background(self) -> Background:
        background: Background | None = self.start or self.tracked
        assert background is not None
        return background

    def _hidden(self) -> np.ndarray | None:
        """Return the pixels that the tracker does not look at: known foreground and standing objects, (h, w) uint8."""
        hidden = self.objects.held()
        if self._known is not None:
            hidden = self._known.view(np.uint8) if hidden is None else hidden | self._known.view(np.uint8)
        return hidden

    @property
    def start_buffer(self) -> StartBuffer:
        """The frames of the start phase."""
        if self.start is None:
            raise ParameterError("the start phase is over")
        return self.start.buffer

    # -- light ---------------------------------------------------------------------------------------------------

    def _change_light(self) -> bool:
        """Try to explain a sudden change of much of the picture by light; return whether that went well.

        When it does not, the next tries come after 1, 2, 4, ... frames: a tree in the wind is not asked every time.
        """
        x, bases = self._unit(self._pixels), [self._background().low_rank()]
        before = self._illumination.explained(x, bases[0])
        if self.canvas.before is not None:
            bases.append(self._unit(self.canvas.before))
        enough = 1 - _LEAVES * (1 - before)
        light = self._illumination.explain(x, bases, enough=enough)
        if light.explained < enough:
            self._waiting, self._patience = self._patience, min(2 * self._patience, _LONGEST_WAIT)
            return False
        self._waiting, self._patience = 0, 1
        self._illumination.remember(bases[-1])
        self._take_over(light)
        return True

    def _unit(self, pixels: np.ndarray) -> np.ndarray:
        """Return what the engine works on as a new vector, (m,), float32 in [0, 1]."""
        return pixels.reshape(-1) * np.float32(self._scale)

    def _take_over(self, light: Light) -> None:
        """Make the explained background the model's own."""
        if self.tracked is None:
            self.start_buffer.map(lambda frame: self._relit(frame, light))
        else:
            self.tracked.tracker.retarget(self._illumination.render(light))

    def _relit(self, frame: np.ndarray, light: Light) -> np.ndarray:
        """Return a frame of the start phase, (m,), as it would look under another light."""
        lit = self._illumination.render(Light(self._unit(frame), light.grid, light.tone, 0.0))
        return self._as_pixels(lit)

    def _as_pixels(self, x: np.ndarray) -> np.ndarray:
        """Return a unit vector, (m,), in the type that the engine works on."""
        return self.frames.to_image(x).reshape(-1) if self.frames.dtype == "uint8" else x

    # -- learning ------------------------------------------------------------------------------------------------

    def learn(self, rate: float | None) -> None:
        """Learn from the last frame; `rate` replaces the forgetting factor when given."""
        if self._blank:
            return
        mask = self._mask
        if self._known is not None:
            mask = np.where(self._known, np.uint8(UNLEARNED), mask)
        self.segmenter.learn(self.canvas.residual, mask)
        if self.tracked is not None:
            self.tracked.tracker.update(rate)
        self._release(mask)
        if self.start is not None and self.start.buffer.is_full:
            self._finish_start()

    def _release(self, mask: np.ndarray) -> None:
        """Give standing pixels to the background that are due."""
        due = self.objects.released(self._pixels, self.canvas.picture, mask)
        if due is None:
            return
        if self.tracked is not None:
            self.tracked.absorb(self._pixels, due)
            return
        buffer = self.start_buffer
        entries = np.repeat(due.reshape(-1), self.frames.channels)
        newest = buffer.frames[buffer.count - 1, entries]
        buffer.map(lambda frame: _with(frame, entries, newest))

    def _finish_start(self) -> None:
        """Fit the subspace to the buffered frames; from the next frame on it is tracked."""
        self.tracked = TrackedBackground(self.frames, self.segmenter.limits, self._parameters)
        self.tracked.tracker.fit(self.start_buffer.frames, self._scale)
        self.start = None

    # -- files ---------------------------------------------------------------------------------------------------

    def state(self) -> dict[str, np.ndarray]:
        """Return what the next frame depends on, as arrays by name."""
        state: dict[str, np.ndarray] = {
            "sigma": self.segmenter.sigma,
            "displaced": self.segmenter.displaced,
            "age": self.objects.age,
            "anchor": self.objects.anchor,
            "model_mask": self._mask,
            "picture": self.canvas.picture if self.canvas.count else np.empty(0),
            "usual": np.array([self._usual, self._waiting, self._patience, self.segmenter.learned, self.objects.frame]),
        }
        if self.tracker is not None:
            return state | {f"tracker_{name}": value for name, value in self.tracker.state().items()}
        return state | {"start_frames_seen": self.start_buffer.frames[: self.start_buffer.count]}

    def set_state(self, state: dict[str, np.ndarray]) -> None:
        """Take over what `state` returned; ParameterError when it does not fit the frames."""
        frames, shape = self.frames, self._cube[:2]
        for name, like, dtype in (
            ("sigma", shape, "float32"),
            ("displaced", shape, "uint8"),
            ("age", shape, "uint16"),
            ("anchor", self.objects.anchor.shape, frames.pixels_dtype),
            ("model_mask", shape, "uint8"),
            ("usual", (5,), "float64"),
        ):
            check_like(name, state[name], like, dtype)
        self.segmenter.set_state(state["sigma"], state["displaced"], int(state["usual"][3]))
        self.objects.set_state(state["age"], state["anchor"], int(state["usual"][4]))
        self._mask = state["model_mask"]
        self._usual, self._waiting, self._patience = float(state["usual"][0]), *(int(n) for n in state["usual"][1:3])
        if state["picture"].size:
            check_like("picture", state["picture"], self._cube, frames.pixels_dtype)
            self.canvas.turn()
            self.canvas.picture[:] = state["picture"]
        if "start_frames_seen" in state:
            seen = state["start_frames_seen"]
            check_like("start_frames_seen", seen, (len(seen), frames.size), frames.pixels_dtype)
            for frame in seen:
                self.start_buffer.add(frame)
            return
        saved = {name.removeprefix("tracker_"): value for name, value in state.items() if name.startswith("tracker_")}
        check_like("tracker_rows", saved["rows"], (len(saved["rows"]), frames.size), "float32")
        self.tracked = TrackedBackground(frames, self.segmenter.limits, self._parameters)
        self.tracked.tracker.set_state(saved)
        self.start = None

    # -- other scenes --------------------------------------------------------------------------------------------

    def fits(self, frame: np.ndarray) -> bool:
        """Return whether a frame shows this scene, in whatever light."""
        if not self.canvas.count:
            return False
        x = self.frames.to_vector(frame, np.empty(self.frames.size, np.float32))
        return self._illumination.explain(x, [self._background().low_rank()], enough=_RETURNS).explained > _RETURNS


def _of_segmenter(parameters: dict[str, Any]) -> dict[str, Any]:
    return {name: parameters[name] for name in SEGMENTER}


def _with(frame: np.ndarray, entries: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return a copy of `frame`, (m,), with other values at some entries."""
    changed = frame.copy()
    changed[entries] = values
    return changed


def is_mostly_foreground(mask: np.ndarray, known: np.ndarray | None, share: float) -> bool:
    """Return whether more than a share of the frame is foreground that is not known to be."""
    least = share * mask.size
    if cv2.countNonZero(mask) <= least:  # shadows among them, but quick
        return False
    found = mask if known is None else mask[~known]
    return bool(np.count_nonzero(found == FOREGROUND) > least)
