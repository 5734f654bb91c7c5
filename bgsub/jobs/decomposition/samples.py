"""What a decomposition works on: samples as rows, with the way back to the form that they came in."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

import numpy as np

from bgsub.scene.frame_format import FrameFormat
from bgsub.video.sources.base import Frame


@dataclass
class Samples:
    """Samples as rows.

    Attributes
    ----------
    name : str
        What a message calls the input.
    path : Path or None
        The file or folder that was read.
    X : ndarray, (n, m), float32 or float64
        The samples; NaN means missing.
    observed : ndarray, (n, m), bool, optional
        False marks a further entry as missing.
    """

    name: str
    path: Path | None
    X: np.ndarray
    observed: np.ndarray | None = field(default=None, kw_only=True)

    @property
    def description(self) -> str:
        """Number and size of the samples in words."""
        n, m = self.X.shape
        return f"{n} sample{'' if n == 1 else 's'} of {m} value{'' if m == 1 else 's'}"

    def restore(self, rows: np.ndarray) -> np.ndarray:
        """Return an array like the samples, (n, m), in the form that these came in."""
        return rows

    def restore_components(self, components: np.ndarray) -> np.ndarray:
        """Return components, (k, m), each in the form of one sample."""
        return components


@dataclass
class MatrixSamples(Samples):
    """The samples of a matrix or an array.

    Attributes
    ----------
    shape : tuple of int
        Of the array as it was given.
    columns : bool
        Whether its columns are the samples.
    """

    shape: tuple[int, ...] = ()
    columns: bool = False

    def restore(self, rows: np.ndarray) -> np.ndarray:
        """Return rows, (n, m), in the shape and orientation of the array."""
        return rows.T if self.columns else rows.reshape(self.shape)

    def restore_components(self, components: np.ndarray) -> np.ndarray:
        """Return components, (k, m), in the shape of one sample."""
        return components if self.columns else components.reshape(len(components), *self.shape[1:])


@dataclass
class FrameSamples(Samples):
    """Frames as samples, intensities scaled to [0, 1].

    Attributes
    ----------
    format : FrameFormat
        What the frames look like, after a reduction.
    full : FrameFormat
        What they look like in the source.
    frames : list of Frame
        Index, name and time of each; without the pixels.
    fps : Fraction or None
        Frames per second.
    numbered : bool
        Whether they come from image files.
    """

    format: FrameFormat
    full: FrameFormat
    frames: list[Frame]
    fps: Fraction | None = None
    numbered: bool = False

    @property
    def description(self) -> str:
        """Number and size of the frames in words."""
        return describe_frames(len(self.X), self.format)

    def restore(self, rows: np.ndarray) -> np.ndarray:
        """Return rows, (n, h * w * c), as frames of floating point, (n, h, w) or (n, h, w, c)."""
        return rows.reshape(len(rows), *self.format.shape)

    def restore_components(self, components: np.ndarray) -> np.ndarray:
        """Return components, (k, h * w * c), each in the shape of a frame."""
        return self.restore(components)


def describe_frames(n: int, format: FrameFormat) -> str:
    """Return number and size of frames in words: ``30 frames of 160x128x3``."""
    height, width = format.shape[:2]
    colours = f"x{format.channels}" if format.channels > 1 else ""
    return f"{n} frame{'' if n == 1 else 's'} of {width}x{height}{colours}"
