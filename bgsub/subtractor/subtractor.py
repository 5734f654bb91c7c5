"""The background subtractor with OpenCV's interface: frames in, masks out."""

import math
import os
from collections.abc import Iterable
from dataclasses import replace
from itertools import islice
from numbers import Real
from pathlib import Path
from threading import get_ident
from typing import Any, TypeVar

import numpy as np

from bgsub._opencv import cv2, out_of_umat, to_umat
from bgsub.errors import BgsubError, DependencyError, ParameterError, SourceError, logger
from bgsub.numerics.arrays import as_array
from bgsub.numerics.state import FINITE, State, array_of, part_of
from bgsub.numerics.surrogates import CODES
from bgsub.numerics.threads import copied
from bgsub.parameters import SUBTRACTOR, SubtractorArguments, SubtractorParameters, check_live, takes
from bgsub.scene.engine import SweepEngine
from bgsub.scene.frame_format import MAX_CHANNELS, FrameFormat, check_like, check_stream_memory, plain, scale_of
from bgsub.scene.frame_result import FrameResult
from bgsub.scene.kernel_table import FIRST_FRAME, Frames
from bgsub.scene.kernel_warmup import prepare
from bgsub.scene.reduction import Reduction
from bgsub.scene.scene_manager import SceneManager
from bgsub.separation import FOREGROUND, FrameEvent, Phase, Separation
from bgsub.storage import array_file
from bgsub.subtractor.opencv_names import OpenCVNames, checked_rate, in_our_words
from bgsub.subtractor.rehearsal import LONGEST
from bgsub.tracking.tracker import SubspaceTracker

#: A frame or a mask.
Image = TypeVar("Image", np.ndarray, cv2.UMat)
_LONGEST_GAP = 1.0  # most seconds that a standing object ages from one frame to the next
_OTHER_SCENE = FrameEvent.SCENE_CHANGE, FrameEvent.SCENE_RETURN


class BackgroundSubtractor(OpenCVNames):
    """Separate moving objects from the background of a fixed camera, frame by frame.

    The commonest colours of the first frames serve as a provisional background; after `start_frames` frames, robust PCA
    fits a subspace to them, which is then tracked on the Grassmannian. The interface is that of OpenCV's
    BackgroundSubtractor, and the constructor also accepts the arguments of MOG2 and KNN, see
    `bgsub.subtractor.opencv_names`; `isinstance` with `cv2.BackgroundSubtractor` is false. An instance serves one
    stream and one thread at a time.

    Parameters
    ----------
    rank : int, default 3
        Dimension k of the background subspace; at most the number of entries of a frame.
    surrogate : {"atan", "log", "lp"}, default "atan"
        l0-surrogate cost h, see `SubspaceTracker`.
    mu : float in [1e-12, 1e12], optional
        Smoothing of the cost, in its own unit; by default it flattens at 0.03 of full scale.
    p : float in [0.001, 0.999], default 0.5
        Exponent of ``lp``.
    forgetting : float in (0, 1), default 0.03
        Weight w of the newest frame.
    metric, line_search, gradient_carry, subset, random_state
        See `SubspaceTracker`.
    threshold : float in [1e-6, 2], default 0.08
        Minimum colour difference of a foreground pixel, full scale is 1; adapted to the channels, colours and light.
    noise_factor : float in [0, 100], default 2
        Further difference in units of the noise scale of the pixel: the root of the sum of both squares is the limit.
    median : int in [1, 31], default 5
        Side of the majority filter in pixels; even values are made odd, 1 switches it off.
    neighbours : int in [0, 5], default 1
        Radius in pixels in which a moving background, such as leaves, is recognised; 0 switches this and its memory
        off.
    shadows : {"on", "off", "merged"} or bool, default "on"
        Label of cast shadows: 127 ("on" or True), that of the background ("off") or of the foreground ("merged" or
        False).
    min_area : float in [0, 1], default 0.0002
        Minimum area of a foreground region as a share of the frame.
    start_frames : int, default 50
        Frames n of the batch start, at least `rank`; below 2.5 frames per second, the frames of 20 s, but at least 20.
    fps : float, default 25
        Frames per second of the stream; the unit of all parameters in seconds.
    stabilise : bool, default True
        Compensate small translations and rotations of the camera, up to .3 of the frame's shorter side; masks are
        in the coordinates of the frame.
    light : bool, default True
        Explain changes of the light by a gain field and, if sudden, a tone curve of the background.
    scene_changes : bool, default True
        Detect a covered lens, and a cut to another scene and back, see `FrameEvent`.
    ghosts : bool, default True
        Release the place of an object that left after 0.3 seconds, unless its background was seen for longer and the
        edges are not clear.
    absorb_after : float, default 60
        Seconds until a standing object becomes background; inf for never.
    scale : float in [0.05, 1], "auto" or "fast", default "auto"
        Process frames reduced by this factor in height and width. By default 1 for frames of at most 35,000 pixels, .5
        from 320x240 to 500x380, (19,200 / (h w))^0.3 beyond: .39 at 768x576, .25 at 1920x1080; between 35,000 and
        76,800 pixels, such that 19,200 are left. "fast" is three quarters of "auto".
        Results keep their full size: the mask has the edges of the frame, the background its detail; the residual is
        interpolated.
    threads : int, optional
        Threads of the kernels for large frames; by default all cores.
    device : {"cpu", "cuda"}, default "cpu"
        Where the pass over the model runs: "cuda" is an NVIDIA GPU, with ``pip install 'bgsub[cuda]'`` and surrogate
        "atan". It pays with ``scale=1`` and large frames; at the default scale it is slower.
    max_value : float, optional
        Full scale of the frames: by default 255 for uint8, 65535 for uint16, 1 for floating point; 4095 for a camera
        with 12 bits in 16.
    on_change : {"error", "restart"}, default "error"
        Reaction to a frame of another size or type: an error, or a new model, as OpenCV does it.
    history : int, optional
        OpenCV's argument (500): sets `absorb_after`, in proportion.
    varThreshold : float, optional
        MOG2's argument (16): sets `noise_factor`, in proportion to the square root.
    detectShadows : bool, optional
        OpenCV's argument: as `shadows`.
    dist2Threshold : float, optional
        KNN's argument (400): sets `threshold`, in proportion to the square root.
    neighbors, stabilize : optional
        American spellings of `neighbours` and `stabilise`.

    Raises
    ------
    ParameterError
        For an unknown parameter, a value out of range, a rank above `start_frames`, or a parameter set by two names.

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
    C. Hage and M. Kleinsteuber, arXiv 1210.0805, algorithms 5 and 6. Light, shadows, camera movements, standing objects
    and the events of the whole frame are additions to the paper, see ``docs/method.md``.
    """

    @takes(SubtractorArguments)
    def __init__(self, *opencv: Any, **parameters: Any) -> None:
        self.note = ""  # free text, saved with the model
        self._parameters = SubtractorParameters.of(in_our_words(opencv, parameters))
        SubspaceTracker(**self._parameters.tracker(self._parameters.rank).as_dict())  # raises for a bad combination
        SweepEngine.of(self._parameters.device)  # raises without a GPU
        self.clear()

    def __repr__(self) -> str:
        """Return the constructor call with the parameters that differ from their defaults."""
        given = [f"{name}={value!r}" for name, value in self.get_params().items() if value != SUBTRACTOR[name].default]
        return f"{type(self).__name__}({', '.join(given)})"

    def get_params(self) -> dict[str, Any]:
        """Return the constructor's parameters by name."""
        return self._parameters.as_dict()

    def tune(self, **parameters: Any) -> None:
        """Change parameters between two frames; the model is kept.

        Parameters
        ----------
        **parameters
            Any of `forgetting`, `threshold`, `noise_factor`, `median`, `neighbours`, `shadows`, `min_area`, `light`,
            `scene_changes`, `ghosts`, `absorb_after`.

        Raises
        ------
        ParameterError
            For another parameter or a value out of range; nothing is changed then.
        """
        self._parameters = replace(self._parameters, **check_live(parameters))
        if self._scenes is not None:
            self._scenes.tune(self._parameters)

    def clear(self) -> None:
        """Forget everything, including the format of the frames."""
        self._worker: dict[str, int] = {}  # thread that processes a frame; a dictionary, as `setdefault` is atomic
        self._time: float | None = None  # seconds, of the newest frame
        self._next_time: float | None = None  # set by `set_time`
        self._is_consistent = True  # False while a frame changes the model, and if it was interrupted meanwhile
        self.format: FrameFormat | None = None
        self._scenes: SceneManager | None = None
        self._kernels: Frames | None = None  # kernels to wait for; None once they are loaded
        self._reduction: Reduction | None = None
        self._result: FrameResult | None = None
        self._background: np.ndarray | None = None

    def empty(self) -> bool:
        """Return whether no frame has been seen yet."""
        return self.format is None

    @property
    def phase(self) -> Phase:
        """Return "start" while the background is provisional, "tracking" afterwards."""
        return "start" if self._scenes is None else self._scenes.model.phase

    @property
    def tracker(self) -> SubspaceTracker | None:
        """The subspace tracker, None before the batch start."""
        return None if self._scenes is None else self._scenes.model.tracker

    def _set_format(self, frames: FrameFormat) -> FrameFormat:
        """Set the format of the frames and prepare kernels and reduction; return the format of the model's frames."""
        self.format, frames = frames, frames.seen
        scale, threads = scale_of(frames, self._parameters), self._parameters.threads
        self._kernels = Frames(frames.pixels_dtype, frames.channels, CODES[self._parameters.surrogate], scale != 1)
        prepare(self._kernels)
        self._reduction = None if scale == 1 else Reduction(frames, scale, threads)
        return frames if self._reduction is None else self._reduction.frames

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
            The frame; all frames of a stream have one shape and type, unless `on_change` allows changes. Of four
            channels the last, alpha, is ignored.
        fgmask : ndarray or cv2.UMat, (h, w), uint8, optional
            Receives the mask, and is returned.
        learningRate : float, default -1
            0 freezes the model, 1 restarts it with this frame, a negative value means `forgetting`. After the start
            phase a value r between 0 and 1 replaces it for this frame, and objects that have been standing for 0.12 / r
            seconds become background: as with ``history=1/r``, 2.4 s at 0.05, never later than `absorb_after`.
        knownForegroundMask : ndarray or cv2.UMat, (h, w), optional
            Known foreground (non-zero): shown in the mask and not learned.

        Returns
        -------
        ndarray, (h, w), uint8
            0 background, 127 shadow, 255 foreground; a `cv2.UMat` for a `cv2.UMat`.

        Raises
        ------
        ParameterError
            If there is no frame, as at the end of a video, if it differs in shape or type from the first one, if an
            argument is out of range, or if such frames need more memory than available.
        BgsubError
            If another thread is processing a frame.

        Notes
        -----
        The arguments are not used after the return and may be changed or reused. After an exception in the middle of a
        frame, such as KeyboardInterrupt, the next frame starts a new model, with a warning in the log.
        """
        self._claim()
        try:
            frames, frame, known = self._checked_inputs(image, knownForegroundMask)
            is_umat = isinstance(image if fgmask is None else fgmask, cv2.UMat)
            out = None if is_umat or fgmask is None else self._checked_output(fgmask, frames)
            if out is not None and np.may_share_memory(out, frame):
                frame = frame.copy()  # as it is read while the mask is written
            result, seen = self._separate(frames, frame, learningRate, known)
            self._learn(result, learningRate)
            mask: Any = self._mask(seen, result, known, out)
            return to_umat(mask, fgmask) if is_umat else mask
        finally:
            self._worker.clear()

    def process(
        self, image: np.ndarray | cv2.UMat, learningRate: float = -1, knownForegroundMask: Any = None
    ) -> Separation:
        """Return mask, background and further results of the next frame; parameters as in `apply`.

        Returns
        -------
        Separation
            Mask, background, foreground, residual, probability, coefficients, phase and event, in arrays of its own,
            with a copy of the frame.
        """
        self._claim()
        try:
            frames, frame, known = self._checked_inputs(image, knownForegroundMask)
            frame = np.array(frame, order="C")
            result, seen = self._separate(frames, frame, learningRate, known)
            residual = result.residual()
            probability = result.probability(residual, self._reduction)
            self._learn(result, learningRate)
            tracker = self.tracker if result.phase == "tracking" else None
            y = tracker.coefficients_.copy() if tracker is not None else np.empty(0)
            mask = self._mask(seen, result, known)
            if self._reduction is not None:
                residual = self._reduction.enlarge_residual(residual)
            background = self._newest_background()
            assert background is not None
            return Separation(frame, mask, background.copy(), residual, y, result.phase, result.event, probability)
        finally:
            self._worker.clear()

    def set_time(self, seconds: float | None) -> None:
        """Set the time of the next frame, of a stream whose frames are not 1 / `fps` apart.

        Standing objects age by these times; without them, frame by frame.

        Raises
        ------
        ParameterError
            If `seconds` is not a finite number.
        """
        if seconds is not None and not (isinstance(seconds, Real) and math.isfinite(seconds)):
            raise ParameterError(f"the time of a frame must be a finite number of seconds, got {seconds!r}")
        self._next_time = seconds

    def _elapsed(self) -> int:
        """Return the time since the last call in frames at `fps`: by `set_time`, else 1; once per frame."""
        fps, before = self._parameters.fps, self._time
        self._time, self._next_time = self._next_time, None
        if before is None or self._time is None or self._time < before:
            return 1
        return min(round(self._time * fps) - round(before * fps), max(round(_LONGEST_GAP * fps), 1))

    def rehearse(self, frames: Iterable[np.ndarray]) -> bool:
        """Learn from the first frames of a video that will be processed from its beginning afterwards.

        The masks need no start phase then, and an object that is there at the beginning and leaves is found from the
        first frame on. Results that use this are not causal: compare them with other methods that look ahead.

        Parameters
        ----------
        frames : iterable of ndarray, (h, w) or (h, w, c), uint8, uint16 or floating
            The frames as `apply` takes them; at most 500 are used.

        Returns
        -------
        bool
            Whether there was a frame.

        Raises
        ------
        ParameterError
            As `apply`; the model of the frames before is ready for use then. If `frames` is one image, a str, or no
            iterable.

        Examples
        --------
        >>> import numpy as np
        >>> from bgsub import BackgroundSubtractor
        >>> frames = np.random.default_rng(0).integers(90, 110, (60, 48, 64), np.uint8)
        >>> subtractor = BackgroundSubtractor()
        >>> subtractor.rehearse(frames), subtractor.phase
        (True, 'tracking')
        >>> masks = [subtractor.apply(frame) for frame in frames]
        """
        if isinstance(frames, str) or not isinstance(frames, Iterable):
            raise ParameterError(f"frames must be an iterable of arrays, got {type(frames).__name__}")
        shape = frames.shape if isinstance(frames, np.ndarray) else None
        if shape is not None and (len(shape) < 3 or (len(shape) == 3 and shape[2] <= MAX_CHANNELS < shape[1])):
            raise ParameterError(f"frames must be several images, got one of shape {shape}")
        has_frames, is_one = False, True  # whether all frames show one scene
        absorb_after = self._parameters.absorb_after
        self.tune(absorb_after=math.inf)  # an object that stops later is no background at the beginning
        try:
            for frame in islice(frames, LONGEST):
                self.apply(frame)
                has_frames = True
                is_one &= self._result is None or self._result.event not in _OTHER_SCENE
        finally:
            self.tune(absorb_after=absorb_after)
            self._time = self._next_time = None
            if self._scenes is None:
                self.clear()
            else:
                self._scenes.rewind()
                if self._reduction is not None and not is_one:
                    self._reduction.forget_detail()
        return has_frames

    def _claim(self) -> None:
        """Mark this thread as processing a frame; BgsubError if another one is."""
        if self._worker.setdefault("thread", get_ident()) != get_ident():
            raise BgsubError("a subtractor processes one frame at a time; use one subtractor for each stream")

    def _checked_inputs(self, image: Any, known: Any) -> tuple[FrameFormat, np.ndarray, np.ndarray | None]:
        """Check a frame and its known foreground; return the format (new if `on_change` allows it) and both."""
        image = image if type(image) is np.ndarray else out_of_umat(image)
        frames, given = self.format, self._parameters
        if frames is None or (given.on_change == "restart" and not frames.describes(as_array(image))):
            frames = FrameFormat.of(image, given.max_value)
            check_stream_memory(frames, given)
        return frames, frames.check(image), None if known is None else frames.check_known(out_of_umat(known))

    def _checked_output(self, fgmask: Any, frames: FrameFormat) -> np.ndarray | None:
        """Return `fgmask` checked; None, as in OpenCV, if its size is that of frames before a restart."""
        is_array = isinstance(fgmask, np.ndarray)
        if self._parameters.on_change == "restart" and is_array and fgmask.shape != frames.shape[:2]:
            return None
        return check_like("fgmask", fgmask, frames.shape[:2], "uint8")

    def _separate(
        self, frames: FrameFormat, frame: np.ndarray, rate: float, known: np.ndarray | None
    ) -> tuple[FrameResult, np.ndarray]:
        """Separate a checked frame, with a new model if necessary; return it in the format `seen`, too."""
        rate = checked_rate(rate)
        scenes, was_consistent, self._is_consistent = self._scenes, self._is_consistent, False
        if scenes is not None and not was_consistent:
            logger.warning("the frame before was interrupted: a new model starts with this frame")
        if scenes is None or not was_consistent or rate == 1 or frames is not self.format:
            self._result = self._background = None  # an interrupt must not leave them beside a new model
            scenes = self._scenes = SceneManager(self._set_format(frames), self._parameters)
        seen = reduced = frames.to_seen(frame)
        if self._reduction is not None:
            reduced = self._reduction.reduce(seen)
            known = None if known is None else self._reduction.reduce_known(known)
        if self._kernels is not None:
            self._wait_for_kernels(self._kernels, scenes.model.stage)
        result = self._result = scenes.separate(reduced, known, rate == 0)
        self._background, self._is_consistent = None, True
        return result, seen

    def _mask(
        self, frame: np.ndarray, result: FrameResult, known: np.ndarray | None, out: np.ndarray | None = None
    ) -> np.ndarray:
        """Return the full-size mask, (h, w) uint8, with known foreground, in `out` if given; renew the detail."""
        out = np.empty(frame.shape[:2], np.uint8) if out is None else out
        if self._reduction is None:
            out[...] = result.mask
        else:
            frame = plain(frame)
            self._reduction.enlarge(result.mask, frame, result.pixels, result.picture(), out)
        if known is not None:
            out[known] = FOREGROUND
        if self._reduction is not None and result.training is not None:
            if result.event in _OTHER_SCENE or result.has_moved or not self._reduction.has_detail:
                self._reduction.begin_detail(out, frame)
            else:
                self._reduction.renew_detail(out, frame, result.movement)
        return out

    def _wait_for_kernels(self, kernels: Frames, stage: int) -> None:
        """Wait for the kernels of a stage of `kernel_table`; once all are ready, load them in a thread."""
        warmup = prepare(kernels)
        if warmup is None:
            self._kernels = None
        elif warmup.wait(stage) and stage != FIRST_FRAME:  # not during the first frame
            self._kernels = None
            warmup.load()

    def _learn(self, result: FrameResult, rate: float) -> None:
        """Learn from the newest frame at a checked rate."""
        assert self._scenes is not None
        elapsed = self._elapsed()
        if rate != 0:
            self._is_consistent = False
            self._scenes.model.learn(result, None if rate < 0 or rate == 1 else rate, elapsed)
            self._is_consistent = True

    def getBackgroundImage(self, backgroundImage: Any = None) -> np.ndarray | None:
        """Return the background of the newest frame in shape and type of the frames; None before the first frame.

        Parameters
        ----------
        backgroundImage : ndarray or cv2.UMat, optional
            Receives the background, and is returned.
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
        """Return the background of the newest frame, cached."""
        if self._background is None and self._result is not None and self._is_consistent:
            assert self.format is not None
            background = self._result.frames.from_pixels(self._result.picture())
            if self._reduction is not None:
                background = self._reduction.enlarge_background(background, self._result.movement)
            self._background = self.format.from_seen(background)
        return self._background

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write parameters and model atomically to the file `path` (NumPy's ``.npz``).

        Raises
        ------
        SinkError
            If the file cannot be written.
        BgsubError
            After an interrupted frame.
        """
        array_file.write_model(Path(path), *self.snapshot())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "BackgroundSubtractor":
        """Return a subtractor that continues a saved one bit for bit.

        Raises
        ------
        SourceError
            If the file is missing or is not a model of this program.
        """
        header, state = array_file.read(Path(path), array_file.MODEL)
        try:
            return cls.from_snapshot(header, state)
        except ParameterError as error:
            raise SourceError(f"{path} is a damaged bgsub model: {error}") from None

    def __reduce__(self) -> tuple[Any, ...]:
        """Return the parts of a copy or a pickle, which continues bit for bit."""
        return type(self).from_snapshot, self.snapshot()

    def snapshot(self) -> tuple[dict[str, Any], State]:
        """Return the state that the next frames depend on: JSON values, and arrays, copied.

        O(model); during the start `start_frames` frames besides.

        Raises
        ------
        BgsubError
            After an interrupted frame.
        """
        if not self._is_consistent and self._scenes is not None:
            raise BgsubError("the last frame was interrupted, and the model with it: the next frame starts a new one")
        header: dict[str, Any] = {"parameters": self.get_params(), "format": None, "note": self.note}
        background = self._newest_background()
        if self.format is None or self._scenes is None or background is None:  # no successful frame yet
            return header, {}
        header["format"] = self.format.as_dict()
        more: State = {} if self._reduction is None else {"reduction": self._reduction.state()}
        if self._time is not None:
            more["time"] = np.array([self._time])
        return header, {"scenes": self._scenes.state(), "background": copied(background), **more}

    @classmethod
    def from_snapshot(cls, header: dict[str, Any], state: State) -> "BackgroundSubtractor":
        """Return a subtractor that continues another one bit for bit.

        Raises
        ------
        ParameterError
            If `header` and `state` are not a result of `snapshot`.
        """
        parameters = header.get("parameters")
        if not isinstance(parameters, dict) or "format" not in header:
            raise ParameterError("parameters or format of frames missing")
        try:
            subtractor = cls(**parameters)
        except DependencyError as error:
            logger.warning("%s; the model goes on without it", error)
            subtractor = cls(**{**parameters, "device": "cpu"})
        subtractor.note = str(header.get("note", ""))
        if header["format"] is None:
            return subtractor
        frames = FrameFormat.from_dict(header["format"])
        background = array_of(state, "background", frames.shape, frames.dtype, -FINITE, FINITE)
        seen = subtractor._set_format(frames)
        subtractor._scenes = SceneManager.from_state(seen, subtractor._parameters, part_of(state, "scenes"))
        if subtractor._reduction is not None:
            subtractor._reduction.set_state(part_of(state, "reduction"))
        subtractor._background = background
        subtractor._time = float(array_of(state, "time", (1,), "float64")[0]) if "time" in state else None
        return subtractor
