"""The parameters of robust PCA: their checks, the settings and schedules that follow from them, and the progress."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from numbers import Integral
from typing import Any

import numpy as np

from bgsub.errors import ParameterError
from bgsub.numerics.surrogates import CODES, Surrogate
from bgsub.parameters import EXPONENTS, Parameter


@dataclass(frozen=True)
class ContinuationSchedule:
    """How fast mu falls during one fit."""

    # settled: a step gains less than rest * mu per observed entry in each sample and feature; a mean over all would
    # leave those with few entries behind as outliers

    unsettled: float  # factor of mu after `hold` steps without settling
    settled: float  # least factor of mu after one step of a settled fit
    rest: float
    hold: int
    idle: float  # at the last mu, steps that gain less than this share of mu per entry end the fit
    ridge: float  # strength of the ridge
    repeats_on_noise: bool = False  # whether the next schedule runs even if this fit ended at the noise


_FAST = ContinuationSchedule(0.95, 0.05, 3e-3, 3, 1e-4, 1.2)
_SLOW = ContinuationSchedule(0.95, 0.1, 1e-3, 2, 1e-5, 1.2)
_BEST = ContinuationSchedule(0.98, 0.5, 3e-4, 2, 1e-6, 1.2, repeats_on_noise=True)
SCHEDULES = {  # by quality; each next one runs if the fit before left more than outliers
    "fast": (_FAST,),
    "balanced": (replace(_FAST, idle=_SLOW.idle), _SLOW, replace(_SLOW, ridge=1.7)),
    "best": (_BEST, replace(_BEST, ridge=1.7), replace(_BEST, ridge=0.8)),
}
COMPLETION = ContinuationSchedule(0.6, 0.05, 3e-3, 1, 1e-4, 1.2)  # one factor is known already

PAPER = "paper"
QUALITIES = (PAPER, *SCHEDULES)
PAPER_MU = {"lp": (0.9, 1e-4), "log": (2.0, 0.005), "atan": (2.0, 0.05)}

_TABLE = {
    "rank": Parameter(None, "", int, 1),
    "surrogate": Parameter("log", "", str, choices=tuple(CODES)),
    "p": Parameter(0.5, "", float, *EXPONENTS),
    "quality": Parameter("balanced", "", str, choices=QUALITIES),
    "mu_start": Parameter(None, "", float, 0, is_open=True),
    "mu_end": Parameter(None, "", float, 0, is_open=True),
    "iterations": Parameter(None, "", int, 1),
    "tolerance": Parameter(None, "", float, 0, 1),
    "center": Parameter(False, "", bool),
    "scale": Parameter(False, "", bool),
}
_DEFAULT_RANK = 3
_SAMPLES_PER_COMPONENT = 4
_STREAM = 0x62677375  # "bgsu": makes the random stream differ from those of data made with the same seed


class Settings:
    """Checked parameters of a `RobustPCA`; each kind of fit has its own default for those that are None."""

    def __init__(self, model: Any) -> None:
        for name, parameter in _TABLE.items():
            parameter.check(name, getattr(model, name))
        state, verbose = model.random_state, model.verbose
        if not isinstance(verbose, Integral) or int(verbose) < 0:
            raise ParameterError(f"verbose must be an integer >= 0, got {verbose!r}")
        is_generator = isinstance(state, np.random.Generator)
        if not (state is None or is_generator or (isinstance(state, Integral) and int(state) >= 0)):
            wanted = "an integer >= 0, a numpy.random.Generator or None"
            raise ParameterError(f"random_state must be {wanted}, got {state!r}")
        if not (model.callback is None or callable(model.callback)):
            raise ParameterError(f"callback must be callable or None, got {model.callback!r}")
        first, last = PAPER_MU[model.surrogate] if model.quality == PAPER else (None, None)
        # the first and the last mu; None is taken from the data
        self.first: float | None = first if model.mu_start is None else model.mu_start
        self.last: float | None = last if model.mu_end is None else model.mu_end
        if self.first is not None and self.last is not None and self.last > self.first:
            raise ParameterError(f"mu_end must be <= mu_start = {self.first}, got {self.last}")
        self.surrogate = Surrogate(model.surrogate, self.last or 1.0, model.p)  # the cost of the result
        self.quality: str = model.quality
        self.iterations: int | None = model.iterations  # most steps, or alternations
        self._tolerance: float | None = model.tolerance
        # draws the start and the entries for the scale of the residual
        self.rng: np.random.Generator = state if is_generator else np.random.default_rng([_STREAM, int(state or 0)])

    def tolerance_in(self, dtype: np.dtype, default: float = 5e-7, roundings: int = 64) -> float:
        """Return the tolerance for data of a type: at least so many units of its rounding."""
        return max(default if self._tolerance is None else self._tolerance, roundings * float(np.finfo(dtype).eps))


def default_rank(shape: tuple[int, ...]) -> int:
    """Return the default rank: 3, at most a quarter of the shorter side of `shape`, at least 1."""
    return max(1, min(_DEFAULT_RANK, min(shape) // _SAMPLES_PER_COMPONENT))


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
        printed = bool(verbose) and progress.iteration % verbose == 0
        if printed:
            _print(progress)
        ended |= callback is not None and bool(callback(progress))
        if ended and progress.half != "part":  # a part lacks one factor of the whole
            break
    if verbose and not printed:
        _print(progress)
    return progress, objectives


def _print(progress: Progress) -> None:
    print(f"step {progress.iteration}: mu {progress.mu:.3g}, objective {progress.objective[-1]:.6g}")
