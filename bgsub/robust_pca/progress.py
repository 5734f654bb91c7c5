"""The progress of a fit, as passed to the callback of robust PCA."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True)
class Progress:
    """One step of a fit, or one half of an alternation of the paper, for the callback of `RobustPCA`.

    Parameters
    ----------
    iteration : int
        Number of the step or (``quality="paper"``) of the alternation, from 1.
    half : {"both", "part", "basis", "coefficients"}
        The factors that moved. "part": an elongated matrix is fitted on a part of its features (or samples), and
        `components` (or `coefficients`) are those of the part.
    mu : float
        Smoothing parameter of this step, in the unit of its surrogate.
    objective : list of float
        Objective at the start and after each accepted step, at this mu; it never rises.
    coefficients : ndarray, (n_samples, k)
        Current coefficients; the low-rank part is ``coefficients @ components``, in units of `RobustPCA.scale_`. With
        `center` it is about the medians, and k is one more than the rank.
    components : ndarray, (k, n_features)
        Current components, not always orthonormal.

    Examples
    --------
    >>> from bgsub import RobustPCA
    >>> from bgsub.synthetic import low_rank_plus_sparse
    >>> X, L, S, _ = low_rank_plus_sparse(40, 30, 2, 0.1, seed=0)
    >>> RobustPCA(2, callback=lambda progress: progress.iteration == 5).fit(X).n_iter_  # True ends the fit
    5
    """

    iteration: int
    half: str
    mu: float
    objective: list[float]
    coefficients: np.ndarray = field(repr=False)
    components: np.ndarray = field(repr=False)


Callback = Callable[[Progress], bool | None]


def follow(steps: Iterator[Progress], callback: Callback | None, verbose: int) -> tuple[Progress, list[float]]:
    """Run a fit to its end, or until the callback ends it; return the last step and the objective of each."""
    objectives: list[float] = []
    ended = False
    for progress in steps:
        del objectives[progress.iteration - 1 :]
        objectives.append(progress.objective[-1])
        if verbose and progress.iteration % verbose == 0:
            print(f"step {progress.iteration}: mu {progress.mu:.3g}, objective {objectives[-1]:.6g}")
        ended |= callback is not None and bool(callback(progress))
        if ended and progress.half != "part":  # a part lacks one factor of the whole
            break
    return progress, objectives
