"""A subtractor for regions of interest."""

from __future__ import annotations

from typing import Any

import numpy as np

from bgsub.errors import ParameterError
from bgsub.scene.frame_format import check_like
from bgsub.separation import Separation
from bgsub.video.regions import Regions, bounding_box


class RegionSubtractor:
    """A subtractor that processes the bounding box of its regions, and returns results for the whole frame.

    Outside of the regions, mask, residual and probability are 0 and the background is the frame. Other attributes are
    those of the inner subtractor, whose images have the size of the box; a model that `save` writes fits the same
    regions only.

    Parameters
    ----------
    subtractor : BackgroundSubtractor or similar
        Any object with ``process(image, learningRate)``; new, or loaded from a model of the same regions.
    regions : Regions
        The regions of interest.
    """

    def __init__(self, subtractor: Any, regions: Regions) -> None:
        self._subtractor, self._regions = subtractor, regions
        self._shape: tuple[int, ...] = ()
        self._box: tuple[slice, slice] = (slice(0), slice(0))
        self._inside: np.ndarray | None = None

    @property
    def regions(self) -> Regions:
        """The regions of interest."""
        return self._regions

    def __getattr__(self, name: str) -> Any:
        # pickle calls this before __init__
        if name.startswith("__") or "_subtractor" not in self.__dict__:
            raise AttributeError(name)
        return getattr(self._subtractor, name)

    def process(
        self, image: np.ndarray, learningRate: float = -1, knownForegroundMask: np.ndarray | None = None
    ) -> Separation:
        """Separate the next frame, in its full size; see `BackgroundSubtractor.process`.

        Raises
        ------
        ParameterError
            If a region is outside of the frame, the frame differs from the first one in shape, or by the subtractor.
        """
        frame = np.array(image)  # a copy, like that of the inner subtractor
        self._fit(frame)
        extra = {} if knownForegroundMask is None else {"knownForegroundMask": self._known(knownForegroundMask)}
        part = self._subtractor.process(np.ascontiguousarray(frame[self._box]), learningRate=learningRate, **extra)
        mask, residual = self._placed(part.mask), self._placed(part.residual)
        background = frame.copy()
        assert self._inside is not None
        inside = self._inside if frame.ndim == 2 else self._inside[:, :, np.newaxis]
        np.copyto(background[self._box], part.background.reshape(background[self._box].shape), where=inside)
        return Separation(
            frame, mask, background, residual, part.coefficients, part.phase, part.event,
            lambda: self._placed(part.probability),
        )  # fmt: skip

    def _placed(self, part: np.ndarray) -> np.ndarray:
        """Return an image of the box in the size of the frame, (h, w), zero outside of the regions."""
        assert self._inside is not None
        image: np.ndarray = np.zeros(self._shape[:2], part.dtype)
        np.copyto(image[self._box], part, where=self._inside)
        return image

    def apply(
        self,
        image: np.ndarray,
        fgmask: np.ndarray | None = None,
        learningRate: float = -1,
        knownForegroundMask: np.ndarray | None = None,
    ) -> np.ndarray:
        """Return the foreground mask of the next frame, (h, w) uint8, written into `fgmask` where that is given."""
        mask = self.process(image, learningRate, knownForegroundMask).mask
        if fgmask is None:
            return mask
        check_like("fgmask", fgmask, mask.shape, "uint8")
        fgmask[...] = mask
        return fgmask

    def clear(self) -> None:
        """Reset the model and the format of the frames."""
        self._shape = ()
        self._subtractor.clear()

    def _fit(self, frame: np.ndarray) -> None:
        """Clip the regions to the first frame; raise ParameterError for a later one of another shape."""
        if self._shape:
            if frame.shape != self._shape:
                raise ParameterError(f"image must have shape {self._shape} like the first one, got {frame.shape}")
            return
        if frame.ndim not in (2, 3):
            raise ParameterError(f"image must have shape (h, w) or (h, w, c), got {frame.shape}")
        inside = self._regions.union(frame.shape)
        self._box = bounding_box(inside)
        self._inside, self._shape = inside[self._box].copy(), frame.shape

    def _known(self, known: np.ndarray) -> np.ndarray:
        known = np.asarray(known)
        if known.shape != self._shape[:2]:
            raise ParameterError(f"knownForegroundMask must have shape {self._shape[:2]}, got {known.shape}")
        return known[self._box]
