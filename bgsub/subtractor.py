"""The background subtractor: frames in, masks out.  Joins the start, the tracker and the segmenter."""

from __future__ import annotations

import inspect
import math
import numbers
import os
from pathlib import Path
from typing import Any

import numpy as np

from bgsub import _storage
from bgsub.errors import ParameterError, SourceError
from bgsub.frames import FrameFormat
from bgsub.parameters import SUBTRACTOR, TRACKER, check_all
from bgsub.scene_model import SceneModel, View, foreground_share
from bgsub.separation import FOREGROUND, Separation
from bgsub.tracker import SubspaceTracker

_WHOLE_FRAME = 0.7  # share of the frame above which a mask tells of the scene, not of objects in it


class BackgroundSubtractor:
    """Separate what moves in front of a fixed camera from the background, frame by frame.

    The first frames are served by a provisional model, their median; after `start_frames` frames a subspace is fitted
    to them by robust PCA and from then on tracked on the Grassmannian. The interface is that of OpenCV's
    BackgroundSubtractor, so that existing programs change their constructor only. One instance serves one stream and
    one thread at a time; it takes about ``4 m (2 k + 5)`` bytes, m the entries of a frame, and during the start
    `start_frames` frames besides.

    Parameters
    ----------
    rank : int, default 3
        Dimension k of the background subspace; a frame with fewer entries than that limits it.
    surrogate : {"atan", "log", "lp"}, default "atan"
        l0-surrogate cost h.
    mu : float > 0, optional
        Smoothing of the cost, in its own unit; by default it flattens at an intensity of 0.06 of full scale.
    p : float in (0, 1), default 0.5
        Exponent of ``lp``.
    forgetting : float in (0, 1), default 0.05
        Weight w of the newest frame.
    metric, line_search, gradient_carry, subset, random_state
        See `SubspaceTracker`.
    threshold, noise_factor, median, min_area
        See `bgsub.segmentation.Segmenter`.
    start_frames : int, default 50
        Frames n of the batch start, at least `rank`.
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
    C. Hage and M. Kleinsteuber, arXiv 1210.0805, algorithms 5 and 6. A mask that covers more than 70 % of a
    frame tells of the scene, not of objects in it: it is reported as the event "scene-change", comes out empty, and
    the model starts again with that frame.
    """

    __signature__ = inspect.Signature(
        [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=parameter.default)
            for name, parameter in SUBTRACTOR.items()
        ]
    )

    def __init__(self, **parameters: Any) -> None:
        self._parameters = check_all(SUBTRACTOR, parameters)
        rank, start_frames = self._parameters["rank"], self._parameters["start_frames"]
        if rank > start_frames:
            raise ParameterError(f"rank must be at most start_frames, here {start_frames}, got {rank}")
        SubspaceTracker(**self._part(TRACKER))  # a bad combination of parameters shows now, not at the first frame
        self.clear()

    def _part(self, table: dict[str, Any]) -> dict[str, Any]:
        return {name: self._parameters[name] for name in table}

    def get_params(self) -> dict[str, Any]:
        """Return the constructor's parameters by name."""
        return dict(self._parameters)

    # -- state ---------------------------------------------------------------------------------------------------

    def clear(self) -> None:
        """Forget everything, the format of the frames included."""
        self.format: FrameFormat | None = None
        self._model: SceneModel | None = None
        self._background: np.ndarray | None = None

    def empty(self) -> bool:
        """Return whether no frame has been seen yet."""
        return self.format is None

    @property
    def phase(self) -> str:
        """Return "start" while the provisional model serves, "tracking" afterwards."""
        return "start" if self.tracker is None else "tracking"

    @property
    def tracker(self) -> SubspaceTracker | None:
        """The subspace tracker, None before the batch start."""
        return None if self._model is None else self._model.tracker

    def _begin(self, frames: FrameFormat) -> None:
        self.format = frames
        self._restart()

    def _restart(self) -> None:
        """Return to the start phase, keeping the format of the frames."""
        self._model = SceneModel(self._format, self._parameters)

    @property
    def _scene(self) -> SceneModel:
        if self._model is None:
            raise ParameterError("the subtractor has seen no frame yet")
        return self._model

    @property
    def _format(self) -> FrameFormat:
        if self.format is None:
            raise ParameterError("the subtractor has seen no frame yet")
        return self.format

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
            0 background, 255 foreground; 127 is reserved for shadow.

        Raises
        ------
        ParameterError
            When the frame differs in shape or type from the first one, or an argument is out of range.
        """
        if fgmask is not None:
            check_like("fgmask", fgmask, np.shape(image)[:2], "uint8")
        mask = self.process(image, learningRate, knownForegroundMask).mask
        if fgmask is None:
            return mask
        fgmask[...] = mask
        return fgmask

    def process(
        self, image: np.ndarray, learningRate: float = -1, knownForegroundMask: np.ndarray | None = None
    ) -> Separation:
        """Return everything that is known of the next frame; parameters as in `apply`.

        Returns
        -------
        Separation
            Mask, background, foreground, residual, coefficients, phase and event.
        """
        rate = self._checked_rate(learningRate)
        frames = FrameFormat.of(image, self._parameters["max_value"]) if self.format is None else self.format
        frame = frames.check(image)
        known = _checked_known(knownForegroundMask, frames)
        if self.format is None:
            self._begin(frames)
        if rate == 1:
            self._restart()
        view, event = self._view(frame, known, rate)
        phase = self.phase  # before the last frame of the start makes the tracker
        if rate != 0:
            self._learn(None if rate < 0 or rate == 1 else rate)
        if known is not None:
            view.mask[known] = FOREGROUND
        self._background = view.background
        tracker = self._scene.tracker if phase == "tracking" else None
        y = tracker.coefficients_.copy() if tracker is not None else np.empty(0)
        return Separation(frame, view.mask, view.background.copy(), view.residual, y, phase, event)

    def _view(self, frame: np.ndarray, known: np.ndarray | None, rate: float) -> tuple[View, str | None]:
        """Return what the model makes of a frame, after a new start if it shows another scene, and the event."""
        view = self._scene.separate(frame, known, rate == 0)
        share = foreground_share(view.mask, known)
        if share <= _WHOLE_FRAME or view.mask.size == 1 or rate == 0:
            return view, "light-change" if view.light else None
        self._restart()
        return self._scene.separate(frame, known, False), "scene-change"

    def _learn(self, rate: float | None) -> None:
        try:
            self._scene.learn(rate)
        except Exception:
            self._restart()  # the stream can go on with a new start
            raise

    def getBackgroundImage(self, backgroundImage: np.ndarray | None = None) -> np.ndarray:
        """Return the background of the newest frame, shape and type of the frames.

        Parameters
        ----------
        backgroundImage : ndarray, optional
            Filled with the background when given.
        """
        if self._background is None:
            raise ParameterError("there is no background image before the first frame")
        if backgroundImage is not None:
            check_like("backgroundImage", backgroundImage, self._background.shape, self._background.dtype.name)
            backgroundImage[...] = self._background
            return backgroundImage
        return self._background.copy()

    @staticmethod
    def _checked_rate(rate: float) -> float:
        good = isinstance(rate, numbers.Real) and not math.isnan(rate) and rate <= 1
        if not good:
            raise ParameterError(f"learningRate must be a number in [0, 1] or negative for the default, got {rate!r}")
        return float(rate)

    # -- files ---------------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write parameters and model to the file `path` (NumPy's ``.npz``), whole or not at all.

        Raises
        ------
        SinkError
            When the file cannot be written.
        """
        _storage.write(Path(path), self.get_params(), self._state())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> BackgroundSubtractor:
        """Return a subtractor that goes on where the saved one stood.

        Raises
        ------
        SourceError
            When the file is missing or is no model of this program.
        """
        try:
            parameters, state = _storage.read(Path(path))
            subtractor = cls(**parameters)
            subtractor._set_state(state)
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise SourceError(f"{path} is a damaged bgsub model: {error}") from None
        return subtractor

    def _state(self) -> dict[str, np.ndarray]:
        if self.format is None:
            return {}
        state = {
            "format_shape": np.array(self.format.shape),
            "format_dtype": np.array(self.format.dtype),
            "format_max_value": np.array(self.format.max_value),
            "sigma": self._segmenter.sigma,
            "background": self._background if self._background is not None else np.empty(0),
        }
        if self._tracker is not None:
            state |= {f"tracker_{name}": value for name, value in self._tracker.state().items()}
        else:
            state["start_frames_seen"] = self._start_buffer.frames[: self._start_buffer.count]
        return state

    def _set_state(self, state: dict[str, np.ndarray]) -> None:
        if not state:
            return
        shape = tuple(int(n) for n in state["format_shape"])
        frames = FrameFormat(shape, str(state["format_dtype"]), float(state["format_max_value"]))
        self._begin(frames)
        check_like("sigma", state["sigma"], shape[:2], "float32")
        self._segmenter.sigma = state["sigma"]
        if state["background"].size:
            check_like("background", state["background"], shape, frames.dtype)
            self._background = state["background"]
        if "start_frames_seen" in state:
            seen = state["start_frames_seen"]
            check_like("start_frames_seen", seen, (len(seen), frames.size), frames.dtype)
            for frame in seen:
                self._start_buffer.add(frame)
            return
        parameters = self._part(TRACKER)
        parameters["rank"] = min(parameters["rank"], frames.size)
        tracker_state = {n.removeprefix("tracker_"): v for n, v in state.items() if n.startswith("tracker_")}
        self._tracker = SubspaceTracker(**parameters)
        check_like("tracker_rows", tracker_state["rows"], (len(tracker_state["rows"]), frames.size), "float32")
        self._tracker.set_state(tracker_state)
        self._buffer = None


def check_like(name: str, array: np.ndarray, shape: tuple[int, ...], dtype: str) -> None:
    """Raise ParameterError unless `array` has the shape and the type."""
    if not isinstance(array, np.ndarray) or array.shape != shape or array.dtype != dtype:
        came = f"{array.dtype} of shape {array.shape}" if isinstance(array, np.ndarray) else type(array).__name__
        raise ParameterError(f"{name} must be {dtype} of shape {shape}, got {came}")


def _checked_known(known: np.ndarray | None, frames: FrameFormat) -> np.ndarray | None:
    if known is None:
        return None
    known = np.asarray(known)
    if known.shape != frames.shape[:2]:
        raise ParameterError(f"knownForegroundMask must have shape {frames.shape[:2]}, got {known.shape}")
    return known != 0
