"""What the callback of robust PCA is told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True)
class Progress:
    """One step of a fit, or one half of an alternation of the paper, as given to the callback of `RobustPCA`.

    Parameters
    ----------
    iteration : int
        Number of the step or (``quality="paper"``) of the alternation, from 1.
    half : {"both", "part", "basis", "coefficients"}
        What was moved; "part" while an elongated matrix is fitted on a part of its features (samples), when
        `components` (`coefficients`) are those of the part.
    mu : float
        Smoothing parameter of this step, in the unit of its surrogate.
    objective : list of float
        Objective at the start and after each accepted step, at this mu; it never rises.
    coefficients : ndarray, (n_samples, k)
        Present coefficients; the low-rank part is ``coefficients @ components``.
    components : ndarray, (k, n_features)
        Present components, which need not be orthonormal.
    """

    iteration: int
    half: str
    mu: float
    objective: list[float]
    coefficients: np.ndarray = field(repr=False)
    components: np.ndarray = field(repr=False)


Callback = Callable[[Progress], bool | None]
