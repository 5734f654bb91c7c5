"""The background subtractor: frames in, masks out.  Joins the start, the tracker and the segmenter."""

from __future__ import annotations

import math
import numbers
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from bgsub.errors import ParameterError, SourceError
from bgsub.numerics.arrays import as_array
from bgsub.numerics.state import FINITE, State, array_of, part_of
from bgsub.numerics.surrogates import CODES
from bgsub.numerics.threads import copied
from bgsub.parameters import SUBTRACTOR, SubspaceParameters, SubtractorParameters, check_live, takes
from bgsub.scene.changes import Scenes
from bgsub.scene.frame_format import FrameFormat, check_like
from bgsub.scene.kernel_table import FIRST_FRAME, Frames
from bgsub.scene.kernel_warmup import prepare
from bgsub.scene.memory import check_stream_memory
from bgsub.scene.reduction import Reduction
from bgsub.scene.view import View
from bgsub.separation import FOREGROUND, Phase, Separation
from bgsub.storage import model_file
from bgsub.tracking.tracker import SubspaceTracker


class BackgroundSubtractor:
    """Separate what moves in front of a fixed camera from the background, frame by frame.

    The first frames are served by a provisional model, their commonest colours; after `start_frames` frames a subspace
    is fitted to them by robust PCA and from then on tracked on the Grassmannian. The interface is that of OpenCV's
    BackgroundSubtractor, so that existing programs change their constructor only. One instance serves one stream and
    one thread at a time. Its model takes ``4 c (k + 1) + c + 13`` bytes per pixel for c channels of uint8, 64 in
    colour at rank 3, ``16 c`` more where the background is restless, and some 25 for the images of the newest frame;
    during the start ``start_frames c + 16 c + 16`` besides.

    Parameters
    ----------
    rank : int, default 3
        Dimension k of the background subspace; a frame with fewer entries than that limits it.
    surrogate : {"atan", "log", "lp"}, default "atan"
        l0-surrogate cost h.
    mu : float in [1e-12, 1e12], optional
        Smoothing of the cost, in its own unit; by default it flattens at three times a pixel's
        own noise, but between 0.02 and 0.06 of full scale.
    p : float in [0.001, 0.999], default 0.5
        Exponent of ``lp``.
    forgetting : float in (0, 1), default 0.05
        Weight w of the newest frame.
    metric, line_search, gradient_carry, subset, random_state
        See `SubspaceTracker`.
    threshold, noise_factor, median, neighbours, shadows, min_area
        See `bgsub.scene.segmentation.Segmenter`.
    start_frames : int, default 50
        Frames n of the batch start, at least `rank`; at less than 2.5 frames per second only what 20 s hold, but 20.
    fps : float, default 25
        Frames per second of the stream; everything set in seconds refers to it.
    stabilise : bool, default True
        Undo small movements of the camera; see `bgsub.scene.stabiliser`.
    light : bool, default True
        Explain sudden changes of the light; see `bgsub.scene.illumination`.
    scene_changes : bool, default True
        Recognise a covered lens and a cut to another scene; see `bgsub.scene.changes`.
    ghosts : bool, default True
        Release the places that an object has left; see `bgsub.scene.standing_objects`.
    absorb_after : float, default 60
        Seconds until a standing object is background; inf for never.
    scale : float in [0.05, 1], default 1
        Work on frames reduced by this factor in height and width, for large frames on small machines. All results
        keep their full size: the mask with edges as sharp as the frame's, background and residual interpolated.
    threads : int, optional
        Threads of the kernels for frames that are large enough for more than one; by default all cores.
    max_value : float, optional
        Full scale of the frames: by default 255 for uint8, 65535 for uint16, 1 for floating point. A camera with
        12 bits in 16 wants 4095.

    Examples
    --------
    >>> import numpy as np
    >>> from bgsub import BackgroundSubtractor
    >>> subtractor = BackgroundSubtractor()
    >>> mask = subtractor.apply(np.zeros((120, 160, 3), np.uint8))
    >>> mask.shape, mask.dtype
    ((120, 160), dtype('uint8'))

    Notes
    -----
    C. Hage and M. Kleinsteuber, arXiv 1210.0805, algorithms 5 and 6. What is not in the
    paper: light, shadows, camera movements and standing objects, each with its switch, and the events of the whole
    frame: "light-change", "covered" (the lens), "scene-change" (a cut or a broken frame: a new model begins with that
    frame) and "scene-return" (the model of the scene before goes on).
    """

    @takes(SubtractorParameters)
    def __init__(self, **parameters: Any) -> None:
        self.note = ""  # of whoever made it, kept with the model
        self._parameters = SubtractorParameters.of(parameters)
        SubspaceTracker(**self._parameters.part(SubspaceParameters).as_dict())  # a bad combination shows now
        self.clear()

    def __repr__(self) -> str:
        """Return the constructor's call with the parameters that are not at their defaults."""
        given = [f"{name}={value!r}" for name, value in self.get_params().items() if value != SUBTRACTOR[name].default]
        return f"{type(self).__name__}({', '.join(given)})"

    def get_params(self) -> dict[str, Any]:
        """Return the constructor's parameters by name."""
        return self._parameters.as_dict()

    def tune(self, **parameters: Any) -> None:
        """Change parameters between two frames; the model stays as it is.

        Parameters
        ----------
        **parameters
            Of the constructor, those that may change while it runs: `forgetting`, `threshold`, `noise_factor`,
            `median`, `neighbours`, `shadows`, `min_area`, `light`, `scene_changes`, `ghosts`, `absorb_after`.

        Raises
        ------
        ParameterError
            For another parameter, and for a value outside its range; nothing has changed then.
        """
        self._parameters = replace(self._parameters, **check_live(parameters))
        if self._scenes is not None:
            self._scenes.tune(self._parameters)

    # -- state ---------------------------------------------------------------------------------------------------

    def clear(self) -> None:
        """Forget everything, the format of the frames included."""
        self.format: FrameFormat | None = None
        self._scenes: Scenes | None = None
        self._kernels: Frames | None = None  # that are still to come
        self._reduction: Reduction | None = None
        self._view: View | None = None
        self._background: np.ndarray | None = None

    def empty(self) -> bool:
        """Return whether no frame has been seen yet."""
        return self.format is None

    @property
    def phase(self) -> Phase:
        """Return "start" while the provisional model serves, "tracking" afterwards."""
        return "start" if self._scenes is None else self._scenes.model.phase

    @property
    def tracker(self) -> SubspaceTracker | None:
        """The subspace tracker, None before the batch start."""
        return None if self._scenes is None else self._scenes.model.tracker

    def _begin(self, frames: FrameFormat) -> FrameFormat:
        """Take the format of the frames; return that of the frames that the model sees."""
        scale, threads = self._parameters.scale, self._parameters.threads
        self.format, frames = frames, frames.seen
        self._kernels = Frames(frames.pixels_dtype, frames.channels, CODES[self._parameters.surrogate], scale != 1)
        prepare(self._kernels)
        self._reduction = None if scale == 1 else Reduction(frames, scale, threads)
        return frames if self._reduction is None else self._reduction.frames

    # -- frames --------------------------------------------------------------------------------------------------

    def apply(
        self,
        image: np.ndarray,
        fgmask: np.ndarray | None = None,
        learningRate: float = -1,
        knownForegroundMask: np.ndarray | None = None,
    ) -> np.ndarray:
        """Return the foreground mask of the next frame.

        Parameters
        ----------
        image : ndarray, (h, w) or (h, w, c), uint8, uint16 or floating
            The frame; all frames of a stream have one shape and type.
        fgmask : ndarray, (h, w), uint8, optional
            Filled with the mask when given.
        learningRate : float, default -1
            0 freezes the model, 1 restarts it with this frame, a negative value means the forgetting factor, a value
            between 0 and 1 replaces it for this frame once the start phase is over.
        knownForegroundMask : ndarray, (h, w), optional
            Pixels known to be foreground (non-zero): the mask shows them and the model does not learn from them.

        Returns
        -------
        ndarray, (h, w), uint8
            0 background, 127 shadow, 255 foreground.

        Raises
        ------
        ParameterError
            When the frame differs in shape or type from the first one, or an argument is out of range; when frames
            like the first one take more memory than there is.

        Notes
        -----
        No argument is read after the return: a program may draw on the frame, or reuse it for the next one.
        """
        if fgmask is not None:
            check_like("fgmask", fgmask, as_array(image).shape[:2], "uint8")
        frame, view = self._see(image, learningRate, knownForegroundMask)
        self._learn(view, learningRate)
        out = np.empty(frame.shape[:2], np.uint8) if fgmask is None else fgmask
        return self._mask(frame, view, knownForegroundMask, out)

    def process(
        self, image: np.ndarray, learningRate: float = -1, knownForegroundMask: np.ndarray | None = None
    ) -> Separation:
        """Return everything that is known of the next frame; parameters as in `apply`.

        Returns
        -------
        Separation
            Mask, background, foreground, residual, probability, coefficients, phase and event. Its arrays are its own,
            the frame a copy: it stays right whatever is drawn on `image` afterwards.
        """
        frame, view = self._see(np.array(as_array(image), order="C"), learningRate, knownForegroundMask)
        residual = view.residual()
        soft_vote = view.soft_vote(residual, self._reduction)
        self._learn(view, learningRate)
        tracker = self.tracker if view.phase == "tracking" else None
        y = tracker.coefficients_.copy() if tracker is not None else np.empty(0)
        mask = self._mask(frame, view, knownForegroundMask, np.empty(frame.shape[:2], np.uint8))
        if self._reduction is not None:
            residual = self._reduction.enlarge_residual(residual)
        background = self.getBackgroundImage()
        assert background is not None
        return Separation(frame, mask, background, residual, y, view.phase, view.event, soft_vote)

    def _see(self, image: np.ndarray, rate: float, known: np.ndarray | None) -> tuple[np.ndarray, View]:
        """Separate the next frame; return it checked, and what is made of it."""
        rate = _checked_rate(rate)
        frames = FrameFormat.of(image, self._parameters.max_value) if self.format is None else self.format
        if self.format is None:
            check_stream_memory(frames, self._parameters)
        frame = frames.check(image)
        known = _checked_known(known, frames)
        scenes = self._scenes
        if scenes is None or rate == 1:
            scenes = self._scenes = Scenes(self._begin(frames), self._parameters)
        seen = frames.to_seen(frame)
        if self._reduction is not None:
            seen = self._reduction.reduce(seen)
            known = None if known is None else self._reduction.reduce_known(known)
        if self._kernels is not None:
            self._wait(self._kernels, scenes.model.stage)
        view = self._view = scenes.view(seen, known, rate == 0)
        self._background = None
        return frame, view

    def _mask(self, frame: np.ndarray, view: View, known: np.ndarray | None, out: np.ndarray) -> np.ndarray:
        """Return `out`, (h, w) uint8, filled with a frame's mask and the pixels known to be foreground."""
        if self._reduction is None:
            np.copyto(out, view.mask)
        else:
            assert self.format is not None
            self._reduction.enlarge(view.mask, self.format.to_seen(frame), view.pixels, view.picture(), out)
        if known is not None:
            out[np.asarray(known) != 0] = FOREGROUND
        return out

    def _wait(self, kernels: Frames, stage: int) -> None:
        """Wait for the kernels that the next frame needs; once all are there, have them loaded beside the stream."""
        warmup = prepare(kernels)
        if warmup is None:
            self._kernels = None
        elif warmup.wait(stage) and stage != FIRST_FRAME:  # which should not share the time of the first mask
            self._kernels = None
            warmup.load()

    def _learn(self, view: View, rate: float) -> None:
        """Learn from the newest frame at a checked rate."""
        assert self._scenes is not None
        if rate != 0:
            try:
                self._scenes.model.learn(view, None if rate < 0 or rate == 1 else rate)
            except Exception:
                self._scenes.restart()  # the stream can go on with a new start
                raise

    def getBackgroundImage(self, backgroundImage: np.ndarray | None = None) -> np.ndarray | None:
        """Return the background of the newest frame, shape and type of the frames; None before the first, as OpenCV's.

        Parameters
        ----------
        backgroundImage : ndarray, optional
            Filled with the background when given.
        """
        background = self._newest_background()
        if background is None:
            return None
        if backgroundImage is not None:
            check_like("backgroundImage", backgroundImage, background.shape, background.dtype.name)
            backgroundImage[...] = background
            return backgroundImage
        return background.copy()

    def _newest_background(self) -> np.ndarray | None:
        if self._background is None and self._view is not None:
            assert self.format is not None
            background = self._view.background()
            if self._reduction is not None:
                background = self._reduction.enlarge_background(background)
            self._background = self.format.from_seen(background)
        return self._background

    # -- files ---------------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write parameters and model to the file `path` (NumPy's ``.npz``), whole or not at all.

        Raises
        ------
        SinkError
            When the file cannot be written.
        """
        model_file.write(Path(path), *self.snapshot())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> BackgroundSubtractor:
        """Return a subtractor that goes on bit for bit where the saved one stood.

        Raises
        ------
        SourceError
            When the file is missing or is no model of this program.
        """
        header, state = model_file.read(Path(path))
        try:
            return cls.from_snapshot(header, state)
        except ParameterError as error:
            raise SourceError(f"{path} is a damaged bgsub model: {error}") from None

    def snapshot(self) -> tuple[dict[str, Any], State]:
        """Return everything that the next frames depend on: what JSON can say, and arrays, copied.

        O(model), see the class; during the start `start_frames` frames besides.
        """
        header: dict[str, Any] = {"parameters": self.get_params(), "format": None, "note": self.note}
        background = self._newest_background()
        if self.format is None or self._scenes is None or background is None:  # no frame yet, or none that went well
            return header, {}
        header["format"] = self.format.as_dict()
        return header, {"scenes": self._scenes.state(), "background": copied(background)}

    @classmethod
    def from_snapshot(cls, header: dict[str, Any], state: State) -> BackgroundSubtractor:
        """Return a subtractor that goes on bit for bit where another one stood.

        Raises
        ------
        ParameterError
            When `header` and `state` are not what `snapshot` returned.
        """
        parameters = header.get("parameters")
        if not isinstance(parameters, dict) or "format" not in header:
            raise ParameterError("no parameters or no format of frames")
        subtractor = cls(**parameters)
        subtractor.note = str(header.get("note", ""))
        if header["format"] is None:
            return subtractor
        frames = FrameFormat.from_dict(header["format"])
        # Of that size for sure before anything is made of it.
        background = array_of(state, "background", frames.shape, frames.dtype, -FINITE, FINITE)
        seen = subtractor._begin(frames)
        subtractor._scenes = Scenes.from_state(seen, subtractor._parameters, part_of(state, "scenes"))
        subtractor._background = background
        return subtractor


def _checked_rate(rate: float) -> float:
    good = isinstance(rate, numbers.Real) and not math.isnan(rate) and rate <= 1
    if not good:
        raise ParameterError(f"learningRate must be a number in [0, 1] or negative for the default, got {rate!r}")
    return float(rate)


def _checked_known(known: np.ndarray | None, frames: FrameFormat) -> np.ndarray | None:
    if known is None:
        return None
    known = np.asarray(known)
    if known.shape != frames.shape[:2]:
        raise ParameterError(f"knownForegroundMask must have shape {frames.shape[:2]}, got {known.shape}")
    return known != 0
