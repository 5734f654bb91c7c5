"""The background subtractor: frames in, masks out.  Joins the start, the tracker and the segmenter."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from bgsub._opencv import cv2, out_of_umat, to_umat
from bgsub.errors import ParameterError, SourceError
from bgsub.numerics.arrays import as_array
from bgsub.numerics.state import FINITE, State, array_of, part_of
from bgsub.numerics.surrogates import CODES
from bgsub.numerics.threads import copied
from bgsub.parameters import (
    SUBTRACTOR,
    SubspaceParameters,
    SubtractorArguments,
    SubtractorParameters,
    check_live,
    takes,
)
from bgsub.scene.frame_format import FrameFormat, check_like
from bgsub.scene.frame_result import FrameResult
from bgsub.scene.kernel_table import FIRST_FRAME, Frames
from bgsub.scene.kernel_warmup import prepare
from bgsub.scene.memory import check_stream_memory
from bgsub.scene.reduction import Reduction
from bgsub.scene.scene_manager import SceneManager
from bgsub.separation import FOREGROUND, Phase, Separation
from bgsub.storage import array_file
from bgsub.subtractor.opencv_names import OpenCVNames, checked_rate, in_our_words
from bgsub.tracking.tracker import SubspaceTracker

Image = TypeVar("Image", np.ndarray, cv2.UMat)
"""A frame or a mask of OpenCV's."""


class BackgroundSubtractor(OpenCVNames):
    """Separate what moves in front of a fixed camera from the background, frame by frame.

    The first frames are served by a provisional model, their commonest colours; after `start_frames` frames a subspace
    is fitted to them by robust PCA and from then on tracked on the Grassmannian. The interface is that of OpenCV's
    BackgroundSubtractor, so that existing programs change their constructor only, which takes the arguments of MOG2's
    and KNN's as well, see `bgsub.subtractor.opencv_names`; it is no `cv2.BackgroundSubtractor` for `isinstance`.
    One instance serves one stream and one thread at a time. Its model takes ``4 c (k + 1) + c + 13`` bytes per pixel
    for c channels of uint8, 64 in colour at rank 3, ``16 c`` more where the background is restless, and some 25 for the
    images of the newest frame; during the start ``start_frames c + 16 c + 16`` besides.

    Parameters
    ----------
    rank : int, default 3
        Dimension k of the background subspace; a frame with fewer entries than that limits it.
    surrogate : {"atan", "log", "lp"}, default "atan"
        l0-surrogate cost h, see `SubspaceTracker`.
    mu : float in [1e-12, 1e12], optional
        Smoothing of the cost, in its own unit; by default it flattens at three times a pixel's
        own noise, but between 0.02 and 0.06 of full scale.
    p : float in [0.001, 0.999], default 0.5
        Exponent of ``lp``.
    forgetting : float in (0, 1), default 0.05
        Weight w of the newest frame.
    metric, line_search, gradient_carry, subset, random_state
        See `SubspaceTracker`.
    threshold : float in [1e-6, 2], default 0.08
        Least residual of a foreground pixel in colour, full scale is 1; of a grey one 0.58 times that.
    noise_factor : float in [0, 100], default 2.5
        The same in units of a pixel's own noise scale; a pixel needs both.
    median : int in [1, 31], default 5
        Side of the majority vote in pixels; even ones are made odd, 1 switches it off.
    neighbours : int in [0, 5], default 1
        Reach in pixels within which a moving background, such as leaves, is recognised; 0 switches it and its memory
        off.
    shadows : {"on", "off", "merged"} or bool, default "on"
        Label of cast shadows: 127 ("on" or True), that of the background ("off") or of the foreground ("merged" or
        False).
    min_area : float in [0, 1], default 0.0002
        Least area of a foreground region as a share of the frame.
    start_frames : int, default 50
        Frames n of the batch start, at least `rank`; at less than 2.5 frames per second only what 20 s hold, but 20.
    fps : float, default 25
        Frames per second of the stream; everything set in seconds refers to it.
    stabilise : bool, default True
        Undo small translations and rotations of the camera, up to a tenth of the frame's shorter side; masks are in the
        coordinates of the frame.
    light : bool, default True
        Explain sudden changes of the light by a gain field and a tone curve of the background.
    scene_changes : bool, default True
        Recognise a covered lens, and a cut to another scene or back, see `FrameEvent`.
    ghosts : bool, default True
        Release the places that an object has left, after half a second, unless their background was seen for longer and
        the edges are not clear.
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
    on_change : {"error", "restart"}, default "error"
        What a frame of another size or type does: an error, or, as with OpenCV's, a new model that begins with it.
    history : int, optional
        OpenCV's, in its place, 500 there: sets `absorb_after`, in proportion.
    varThreshold : float, optional
        MOG2's, in its place, 16 there: sets `noise_factor`, in proportion to the square root.
    detectShadows : bool, optional
        OpenCV's, in its place: as `shadows`.
    dist2Threshold : float, optional
        KNN's, 400 there: sets `threshold`, in proportion to the square root.

    Raises
    ------
    ParameterError
        For an unknown parameter, a value outside its range, a rank above `start_frames`, and what two names would set.

    Examples
    --------
    >>> import numpy as np
    >>> from bgsub import BackgroundSubtractor
    >>> subtractor = BackgroundSubtractor()
    >>> mask = subtractor.apply(np.zeros((120, 160, 3), np.uint8))
    >>> mask.shape, mask.dtype
    ((120, 160), dtype('uint8'))
    >>> BackgroundSubtractor(history=250, varThreshold=16, detectShadows=False)
    BackgroundSubtractor(shadows='merged', absorb_after=30.0)

    Notes
    -----
    C. Hage and M. Kleinsteuber, arXiv 1210.0805, algorithms 5 and 6. What is not in the
    paper: light, shadows, camera movements and standing objects, each with its switch, and the events of the whole
    frame: "light-change", "covered" (the lens), "scene-change" (a cut or a broken frame: a new model begins with that
    frame) and "scene-return" (the model of the scene before goes on).
    """

    @takes(SubtractorArguments)
    def __init__(self, *opencv: Any, **parameters: Any) -> None:
        self.note = ""  # of whoever made it, kept with the model
        self._parameters = SubtractorParameters.of(in_our_words(opencv, parameters))
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
        self._scenes: SceneManager | None = None
        self._kernels: Frames | None = None  # that are still to come
        self._reduction: Reduction | None = None
        self._view: FrameResult | None = None
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
        image: Image,
        fgmask: Image | None = None,
        learningRate: float = -1,
        knownForegroundMask: np.ndarray | cv2.UMat | None = None,
    ) -> Image:
        """Return the foreground mask of the next frame.

        Parameters
        ----------
        image : ndarray or cv2.UMat, (h, w) or (h, w, c), uint8, uint16 or floating
            The frame; all frames of a stream have one shape and type, but see `on_change`.
        fgmask : ndarray or cv2.UMat, (h, w), uint8, optional
            Filled with the mask when given, and returned.
        learningRate : float, default -1
            0 freezes the model, 1 restarts it with this frame, a negative value means the forgetting factor, a value
            between 0 and 1 replaces it for this frame once the start phase is over.
        knownForegroundMask : ndarray or cv2.UMat, (h, w), optional
            Pixels known to be foreground (non-zero): the mask shows them and the model does not learn from them.

        Returns
        -------
        ndarray, (h, w), uint8
            0 background, 127 shadow, 255 foreground; a `cv2.UMat` for one.

        Raises
        ------
        ParameterError
            When there is no frame, as at the end of a video, or it differs in shape or type from the first one, or an
            argument is out of range; when frames like the first one take more memory than there is.

        Notes
        -----
        No argument is read after the return: a program may draw on the frame, or reuse it for the next one.
        """
        frames, frame = self._take(out_of_umat(image))
        is_umat = isinstance(image if fgmask is None else fgmask, cv2.UMat)
        out = None if is_umat or fgmask is None else self._checked_output(fgmask, frames)
        known = out_of_umat(knownForegroundMask)
        view = self._see(frames, frame, learningRate, known)
        self._learn(view, learningRate)
        mask: Any = self._mask(frame, view, known, out)
        return to_umat(mask, fgmask) if is_umat else mask

    def process(
        self, image: np.ndarray | cv2.UMat, learningRate: float = -1, knownForegroundMask: Any = None
    ) -> Separation:
        """Return everything that is known of the next frame; parameters as in `apply`.

        Returns
        -------
        Separation
            Mask, background, foreground, residual, probability, coefficients, phase and event. Its arrays are its own,
            the frame a copy: it stays right whatever is drawn on `image` afterwards.
        """
        frames, frame = self._take(out_of_umat(image))
        frame, known = np.array(frame, order="C"), out_of_umat(knownForegroundMask)
        view = self._see(frames, frame, learningRate, known)
        residual = view.residual()
        soft_vote = view.soft_vote(residual, self._reduction)
        self._learn(view, learningRate)
        tracker = self.tracker if view.phase == "tracking" else None
        y = tracker.coefficients_.copy() if tracker is not None else np.empty(0)
        mask = self._mask(frame, view, known)
        if self._reduction is not None:
            residual = self._reduction.enlarge_residual(residual)
        background = self._newest_background()
        assert background is not None
        return Separation(frame, mask, background.copy(), residual, y, view.phase, view.event, soft_vote)

    def _take(self, image: np.ndarray) -> tuple[FrameFormat, np.ndarray]:
        """Return the next frame, checked, and what frames look like from it on, a new format where that changes."""
        frames, given = self.format, self._parameters
        if frames is None or (given.on_change == "restart" and not frames.describes(as_array(image))):
            frames = FrameFormat.of(image, given.max_value)
            check_stream_memory(frames, given)
        return frames, frames.check(image)

    def _checked_output(self, fgmask: Any, frames: FrameFormat) -> np.ndarray | None:
        """Return the array that takes the mask; None for one of before a restart, which OpenCV leaves alone as well."""
        is_array = isinstance(fgmask, np.ndarray)
        if self._parameters.on_change == "restart" and is_array and fgmask.shape != frames.shape[:2]:
            return None
        return check_like("fgmask", fgmask, frames.shape[:2], "uint8")

    def _see(self, frames: FrameFormat, frame: np.ndarray, rate: float, known: np.ndarray | None) -> FrameResult:
        """Separate the next frame, as `_take` returned it; begin anew where its format is a new one."""
        rate, known = checked_rate(rate), None if known is None else frames.check_known(known)
        scenes = self._scenes
        if scenes is None or rate == 1 or frames is not self.format:
            self._view = self._background = None  # which an interrupt would leave beside a model of another size
            scenes = self._scenes = SceneManager(self._begin(frames), self._parameters)
        seen = frames.to_seen(frame)
        if self._reduction is not None:
            seen = self._reduction.reduce(seen)
            known = None if known is None else self._reduction.reduce_known(known)
        if self._kernels is not None:
            self._wait(self._kernels, scenes.model.stage)
        view = self._view = scenes.view(seen, known, rate == 0)
        self._background = None
        return view

    def _mask(
        self, frame: np.ndarray, view: FrameResult, known: np.ndarray | None, out: np.ndarray | None = None
    ) -> np.ndarray:
        """Return a frame's mask, (h, w) uint8, with the pixels known to be foreground; in `out` if that is given."""
        out = np.empty(frame.shape[:2], np.uint8) if out is None else out
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

    def _learn(self, view: FrameResult, rate: float) -> None:
        """Learn from the newest frame at a checked rate."""
        assert self._scenes is not None
        if rate != 0:
            try:
                self._scenes.model.learn(view, None if rate < 0 or rate == 1 else rate)
            except Exception:
                self._scenes.restart()  # the stream can go on with a new start
                raise

    def getBackgroundImage(self, backgroundImage: Any = None) -> np.ndarray | None:
        """Return the background of the newest frame, shape and type of the frames; None before the first, as OpenCV's.

        Parameters
        ----------
        backgroundImage : ndarray or cv2.UMat, optional
            Filled with the background when given, and returned.
        """
        background = self._newest_background()
        if background is None:
            return None
        if isinstance(backgroundImage, cv2.UMat):
            return to_umat(background, backgroundImage)
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
        array_file.write_model(Path(path), *self.snapshot())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> BackgroundSubtractor:
        """Return a subtractor that goes on bit for bit where the saved one stood.

        Raises
        ------
        SourceError
            When the file is missing or is no model of this program.
        """
        header, state = array_file.read_model(Path(path))
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
        subtractor._scenes = SceneManager.from_state(seen, subtractor._parameters, part_of(state, "scenes"))
        subtractor._background = background
        return subtractor
