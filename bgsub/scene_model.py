"""One scene: its background model and everything that turns a frame into a mask by it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from bgsub import _pixel_kernels
from bgsub._provisional import StartBuffer
from bgsub.errors import ParameterError
from bgsub.frames import FrameFormat, check_like
from bgsub.illumination import Illumination, Light
from bgsub.objects import StandingObjects
from bgsub.parameters import SEGMENTER, TRACKER
from bgsub.segmentation import Segmenter
from bgsub.separation import BACKGROUND, FOREGROUND
from bgsub.stabiliser import Stabiliser
from bgsub.tracker import SubspaceTracker

_SUDDEN = 0.04  # share of the frame that must turn into candidates at once before light is asked for
_LEAVES = 0.6  # light must leave at most this share of what was unexplained
_LONGEST_WAIT = 16  # frames between two questions that were answered with no
_CALM_RATE = 0.1  # of the running share of candidates, per frame
_NOTHING = np.empty(0, np.float32)


@dataclass(frozen=True)
class View:
    """What a scene model makes of one frame; valid until the model sees the next one.

    Attributes
    ----------
    model : SceneModel
        The model.
    frame : ndarray
        The frame.
    mask : ndarray, (h, w), uint8
        In the coordinates of the frame.
    is_blank : bool
        Whether the frame shows nothing.
    light : bool
        Whether the light changed in this frame.
    """

    model: SceneModel
    frame: np.ndarray
    mask: np.ndarray
    is_blank: bool = False
    light: bool = False

    def background(self) -> np.ndarray:
        """Return the background, like the frame, in the coordinates of the frame."""
        picture = self.model.picture()
        return picture if self.is_blank else self.model.stabiliser.back(picture, self.frame, smooth=True)

    def residual(self) -> np.ndarray:
        """Return the joint colour residual, (h, w), float32."""
        nothing = np.zeros(self.mask.shape, np.float32)
        return nothing if self.is_blank else self.model.stabiliser.back(self.model.residual, nothing, smooth=True)


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
        h, w = frames.shape[:2]
        self._cube = (h, w, frames.channels)
        self.tracker: SubspaceTracker | None = None
        self.buffer: StartBuffer | None = StartBuffer(parameters["start_frames"], frames.size, frames.dtype)
        self.segmenter = Segmenter((h, w), **{name: parameters[name] for name in SEGMENTER})
        self._illumination = Illumination(self._cube, parameters["threshold"])
        self.objects = StandingObjects(self._cube, parameters["fps"], parameters["absorb_after"], parameters["ghosts"])
        self.stabiliser = Stabiliser()
        self.background: np.ndarray | None = None  # picture in the model's own coordinates
        self.residual = np.zeros((h, w), np.float32)
        self._x = np.empty(frames.size, np.float32)
        self._low_rank = np.empty(frames.size, np.float32)
        self._mask = np.zeros((h, w), np.uint8)
        self._usual, self._waiting, self._patience = 0.0, 0, 1

    # -- one frame -----------------------------------------------------------------------------------------------

    def separate(self, frame: np.ndarray, known: np.ndarray | None, frozen: bool) -> View:
        """Return mask, residual and background of a checked frame by the model as it stands."""
        self._blank = False
        x = self.frames.to_vector(frame, self._x)
        aligned = self._aligned(frame)
        moved = aligned is not frame
        if moved:
            self.frames.to_vector(aligned, x)
            known = known if known is None else self.stabiliser.forth(known)
        self._known = known
        self._fit(aligned, frozen)
        over = self._candidates()
        share = np.count_nonzero(over) / over.size
        light = False
        self._waiting = max(self._waiting - 1, 0)
        if self._parameters["light"] and not frozen and self._waiting == 0 and share > self._usual + _SUDDEN:
            light = self._change_light()
            if light:
                over = self._candidates()
                share = np.count_nonzero(over) / over.size
        if not frozen:
            self._usual += _CALM_RATE * (min(share, self._usual + _SUDDEN) - self._usual)
        mask = self.segmenter.segment(over, x.reshape(self._cube), self._low_rank.reshape(self._cube), frozen)
        self.background = self.frames.to_image(self._low_rank)
        if light:
            self.objects.light_changed(self._mask, mask)
        self._mask = mask
        if moved:
            mask = self.stabiliser.back(mask, np.zeros_like(mask), smooth=False)
        return View(self, frame, mask if moved else mask.copy(), light=light)

    def blank(self, frame: np.ndarray) -> View:
        """Return an empty view of a frame that shows nothing; the model stays as it is and learns nothing."""
        self._blank = True
        return View(self, frame, np.zeros(self._cube[:2], np.uint8), is_blank=True)

    def picture(self) -> np.ndarray:
        """Return the background as a picture like the frames, in the model's own coordinates."""
        return self.background if self.background is not None else self.frames.to_image(self._low_rank)

    def contrast(self, frame: np.ndarray) -> float:
        """Return the standard deviation of a frame's brightness at some thousand pixels, full scale is 1."""
        return float(self._illumination.at_sites(frame).mean(axis=1, dtype=np.float64).std()) * self.frames.scale

    def _aligned(self, frame: np.ndarray) -> np.ndarray:
        """Return the frame in the coordinates of the background."""
        if not self._parameters["stabilise"] or self.background is None:
            return frame
        if self.stabiliser.needs_reference():
            self.stabiliser.set_reference(self._low_rank.reshape(self._cube))
        return self.stabiliser.align(frame, self._x.reshape(self._cube), self.background)

    def _fit(self, frame: np.ndarray, frozen: bool) -> None:
        """Write the background of a frame into the low-rank part."""
        if self.tracker is not None:
            weights = self._weights()
            self._low_rank[:] = self.tracker.separate(self._x, weights)
            return
        buffer = self.start_buffer
        if buffer.count and self._known is not None:
            frame = frame.copy()
            frame[self._known] = buffer.median.reshape(frame.shape)[self._known]
        if not buffer.is_full and (not frozen or buffer.count == 0):
            buffer.add(frame.reshape(-1))
        self.frames.to_vector(buffer.median.reshape(self.frames.shape), self._low_rank)

    def _weights(self) -> np.ndarray:
        """Return the entries that the tracker looks at: not those of known foreground and of standing objects."""
        hidden = self.objects.held()
        if self._known is not None:
            hidden = self._known if hidden is None else self._known | hidden
        if hidden is None:
            return _NOTHING
        return np.repeat(~hidden.reshape(-1), self.frames.channels).astype(np.float32)

    def _candidates(self) -> np.ndarray:
        """Write the residual image and return which pixels it makes candidates, (h, w) uint8 of 0 and 1."""
        self.residual = np.empty(self._cube[:2], np.float32)
        _pixel_kernels.joint_residual(self._x, self._low_rank, self.frames.channels, self.residual.reshape(-1))
        return self.segmenter.candidates(self.residual)

    @property
    def start_buffer(self) -> StartBuffer:
        """The frames of the start phase."""
        if self.buffer is None:
            raise ParameterError("the start phase is over")
        return self.buffer

    # -- light ---------------------------------------------------------------------------------------------------

    def _change_light(self) -> bool:
        """Try to explain a sudden change of much of the picture by light; return whether that went well.

        When it does not, the next tries come after 1, 2, 4, ... frames: a tree in the wind is not asked every time.
        """
        before = self._illumination.explained(self._x, self._low_rank)
        bases = [self._low_rank]
        if self.background is not None:
            previous = np.empty_like(self._low_rank)
            bases.append(self.frames.to_vector(self.background, previous))
        light = self._illumination.explain(self._x, bases)
        if 1 - light.explained > _LEAVES * (1 - before):
            self._waiting, self._patience = self._patience, min(2 * self._patience, _LONGEST_WAIT)
            return False
        self._waiting, self._patience = 0, 1
        self._illumination.remember(bases[-1])
        self._take_over(light)
        return True

    def _take_over(self, light: Light) -> None:
        """Make the explained background the model's own."""
        target = self._illumination.render(light)
        if self.tracker is None:
            self.start_buffer.map(lambda frame: self._relit(frame, light))
            self._low_rank[:] = target
            return
        self.tracker.retarget(target)
        self._low_rank[:] = self.tracker.separate(self._x, self._weights())

    def _relit(self, frame: np.ndarray, light: Light) -> np.ndarray:
        """Return a frame of the start phase, (m,), as it would look under another light."""
        x = self.frames.to_vector(frame.reshape(self.frames.shape), np.empty(self.frames.size, np.float32))
        lit = Light(x, light.grid, light.tone, 0.0)
        return self.frames.to_image(self._illumination.render(lit)).reshape(-1)

    # -- learning ------------------------------------------------------------------------------------------------

    def learn(self, rate: float | None) -> None:
        """Learn from the last frame; `rate` replaces the forgetting factor when given."""
        if self._blank:
            return
        residual = self.residual
        if self._known is not None:
            residual = np.where(self._known, self.segmenter.sigma, residual)
        self.segmenter.learn(residual, self._mask)
        if self.tracker is not None:
            self.tracker.update(rate)
        self._release()
        if self.tracker is None and self.start_buffer.is_full:
            self._finish_start()

    def _release(self) -> None:
        """Give standing pixels to the background that are due."""
        mask = self._mask if self._known is None else np.where(self._known, BACKGROUND, self._mask)
        due = self.objects.released(self._x, self._low_rank, mask)
        if due is None:
            return
        entries = np.repeat(due.reshape(-1), self.frames.channels)
        if self.tracker is not None:
            self.tracker.retarget(self._x, entries.view(np.uint8))
        else:
            newest = self.start_buffer.frames[self.start_buffer.count - 1, entries]
            self.start_buffer.map(lambda frame: _with(frame, entries, newest))
        self.objects.age[due] = 0

    def _finish_start(self) -> None:
        """Fit the subspace to the buffered frames; from the next frame on it is tracked."""
        buffered = self.start_buffer.frames
        if buffered.dtype == np.float16:  # no arithmetic on half precision in kernels
            buffered = buffered.astype(np.float32)
        self.tracker = self._new_tracker().fit(buffered, self.frames.scale)
        self.buffer = None

    def _new_tracker(self) -> SubspaceTracker:
        parameters = {name: self._parameters[name] for name in TRACKER}
        parameters["rank"] = min(parameters["rank"], self.frames.size)
        return SubspaceTracker(**parameters)

    # -- files ---------------------------------------------------------------------------------------------------

    def state(self) -> dict[str, np.ndarray]:
        """Return what the next frame depends on, as arrays by name."""
        state: dict[str, np.ndarray] = {
            "sigma": self.segmenter.sigma,
            "displaced": self.segmenter.displaced,
            "age": self.objects.age,
            "anchor": self.objects.anchor,
            "model_mask": self._mask,
            "model_background": self.background if self.background is not None else np.empty(0),
            "low_rank": self._low_rank,
            "usual": np.array([self._usual, self._waiting, self._patience, self.segmenter.learned]),
        }
        if self.tracker is not None:
            return state | {f"tracker_{name}": value for name, value in self.tracker.state().items()}
        return state | {"start_frames_seen": self.start_buffer.frames[: self.start_buffer.count]}

    def set_state(self, state: dict[str, np.ndarray]) -> None:
        """Take over what `state` returned; ParameterError when it does not fit the frames."""
        frames, shape = self.frames, self._cube[:2]
        for name, like, dtype in (
            ("sigma", shape, "float32"),
            ("displaced", shape, "float32"),
            ("age", shape, "int32"),
            ("anchor", self.objects.anchor.shape, "float32"),
            ("model_mask", shape, "uint8"),
            ("low_rank", (frames.size,), "float32"),
            ("usual", (4,), "float64"),
        ):
            check_like(name, state[name], like, dtype)
        self.segmenter.set_state(state["sigma"], state["displaced"], int(state["usual"][3]))
        self.objects.age, self.objects.anchor = state["age"], state["anchor"]
        self._mask, self._low_rank = state["model_mask"], state["low_rank"]
        self._usual, self._waiting, self._patience = float(state["usual"][0]), *(int(n) for n in state["usual"][1:3])
        if state["model_background"].size:
            check_like("model_background", state["model_background"], frames.shape, frames.dtype)
            self.background = state["model_background"]
        if "start_frames_seen" in state:
            seen = state["start_frames_seen"]
            check_like("start_frames_seen", seen, (len(seen), frames.size), frames.dtype)
            for frame in seen:
                self.start_buffer.add(frame)
            return
        saved = {name.removeprefix("tracker_"): value for name, value in state.items() if name.startswith("tracker_")}
        check_like("tracker_rows", saved["rows"], (len(saved["rows"]), frames.size), "float32")
        self.tracker = self._new_tracker().set_state(saved)
        self.buffer = None

    # -- other scenes --------------------------------------------------------------------------------------------

    def fits(self, frame: np.ndarray) -> bool:
        """Return whether a frame shows this scene, in whatever light."""
        if self.background is None:
            return False
        x = self.frames.to_vector(frame, np.empty_like(self._x))
        return self._illumination.explain(x, [self._low_rank]).explained > 0.5


def _with(frame: np.ndarray, entries: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return a copy of `frame`, (m,), with other values at some entries."""
    changed = frame.copy()
    changed[entries] = values
    return changed


def foreground_share(mask: np.ndarray, known: np.ndarray | None) -> float:
    """Return the share of the frame that is foreground and not known to be."""
    found = mask if known is None else mask[~known]
    return float(np.count_nonzero(found == FOREGROUND)) / mask.size
