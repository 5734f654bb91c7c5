"""The samples of a decomposition, as rows, and their parts; both can be restored to the form of the input."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from bgsub.numerics.memory import available_memory, in_words
from bgsub.robust_pca.parameters import default_rank
from bgsub.scene.frame_format import FrameFormat
from bgsub.video.sources.base import Frame

Tell = Callable[[str], None]

_MATRICES, _MASKS = (
    5.5,
    4,
)  # peak of a fit with missing entries, in sizes of the samples; the tests measure it


@dataclass
class Samples:
    """Samples as rows."""

    name: str  # of the input in messages
    X: np.ndarray  # (n, m), float32 or float64; NaN means missing
    observed: np.ndarray | None = field(default=None, kw_only=True)  # (n, m) bool; False marks more missing entries

    @property
    def description(self) -> str:
        """Number and size of the samples in words."""
        n, m = self.X.shape
        return f"{n} sample{'' if n == 1 else 's'} of {m} value{'' if m == 1 else 's'}"

    def restore(self, rows: np.ndarray) -> np.ndarray:
        """Return an array like the samples, (n, m), in the form of the input."""
        return rows

    def restore_components(self, components: np.ndarray) -> np.ndarray:
        """Return components, (k, m), each in the form of one sample."""
        return components


@dataclass
class MatrixSamples(Samples):
    """The samples of a matrix or an array."""

    shape: tuple[int, ...] = ()  # of the array in the file
    columns: bool = False  # whether its columns are the samples

    def restore(self, rows: np.ndarray) -> np.ndarray:
        return rows.T if self.columns else rows.reshape(self.shape)

    def restore_components(self, components: np.ndarray) -> np.ndarray:
        return components if self.columns else components.reshape(len(components), *self.shape[1:])


@dataclass
class FrameSamples(Samples):
    """Frames as samples, intensities scaled to [0, 1]."""

    format: FrameFormat  # of the frames after a reduction
    full: FrameFormat  # of the frames of the source
    frames: list[Frame]  # index, name and time of each, without the pixels
    fps: Fraction | None = None

    @property
    def description(self) -> str:
        return describe_frames(len(self.X), self.format)

    def restore(self, rows: np.ndarray) -> np.ndarray:
        return rows.reshape(len(rows), *self.format.shape)

    def restore_components(self, components: np.ndarray) -> np.ndarray:
        return self.restore(components)

    def image(self, row: np.ndarray, sparse_picture: str = "") -> np.ndarray:
        """Return one row of a part, (m,), as an image; `sparse_picture` as in `DecompositionJob`."""
        if sparse_picture == "absolute":
            row = np.abs(row)
        elif sparse_picture == "offset":
            row = (1 + row) / 2
        if self.format.dtype.startswith("float"):
            row = row.clip(0, 1)
        return self.format.to_image(np.ascontiguousarray(row, np.float32))


@dataclass
class Decomposition:
    """The parts of n samples of m features.

    Attributes
    ----------
    low_rank, sparse : ndarray, (n, m)
        Their sum is the input; the sparse part is 0 where nothing was observed.
    components : ndarray, (k, m)
        Orthonormal rows.
    coefficients : ndarray, (n, k)
        ``low_rank = coefficients @ components``.
    singular_values : ndarray, (k,)
        Of the low-rank part.
    iterations : int
        Steps of the fit.
    threshold : float
        Deviation from which an entry counts as an outlier.
    outliers : float
        Share of the observed entries that are outliers.
    """

    low_rank: np.ndarray
    sparse: np.ndarray
    components: np.ndarray
    coefficients: np.ndarray
    singular_values: np.ndarray
    iterations: int
    threshold: float
    outliers: float


def describe_frames(n: int, format: FrameFormat) -> str:
    """Return number and size of frames in words: ``30 frames of 160x128x3``."""
    height, width = format.shape[:2]
    colours = f"x{format.channels}" if format.channels > 1 else ""
    return f"{n} frame{'' if n == 1 else 's'} of {width}x{height}{colours}"


def needed_memory(shape: tuple[int, int], rank: int | None, itemsize: int) -> int:
    """Return the peak memory in bytes of a decomposition of samples (n, m), the samples included."""
    n, m = shape
    rank = default_rank(shape) if rank is None else rank
    bases = 8 * rank * (n + m) * itemsize  # basis, gradient, directions and similar arrays
    return int(n * m * (_MATRICES * itemsize + _MASKS)) + bases


def tell_memory(name: str, size: str, needed: int, tell: Tell) -> None:
    """Report how much memory an input takes, and how much is available."""
    available = available_memory()
    of = "" if available is None else f" of {in_words(available)}"
    tell(f"{name}: {size} take about {in_words(needed)}{of} of memory")
