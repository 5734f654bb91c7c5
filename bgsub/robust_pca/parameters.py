"""The parameters of robust PCA: their checks, and the settings and schedules that follow from them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import numpy as np

from bgsub.errors import ParameterError
from bgsub.numerics.surrogates import CODES, Surrogate
from bgsub.robust_pca.conjugate_gradient import CONJUGATE_RULES, Rule


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

_COUNTS = (("rank", 1, True), ("iterations", 1, True), ("inner_iterations", 1, False), ("verbose", 0, False))
_DEFAULT_RANK = 3
_SAMPLES_PER_COMPONENT = 4
_STREAM = 0x62677375  # "bgsu": makes the random stream differ from those of data made with the same seed


@dataclass(frozen=True)
class Settings:
    """Checked parameters of `bgsub.RobustPCA`; each kind of fit has its own default for those that are None."""

    surrogate: Surrogate  # the cost of the result; its mu is `last`, or 1 if that is None
    quality: str  # one of `QUALITIES`
    rule: Rule
    first: float | None  # the first and the last mu
    last: float | None
    iterations: int | None  # most steps, or alternations
    inner_iterations: int  # most steps in each half of an alternation
    tolerance: float | None
    rng: np.random.Generator  # draws the start and the entries for the scale of the residual

    def tolerance_in(self, dtype: np.dtype, default: float = 5e-7, roundings: int = 64) -> float:
        """Return the tolerance for data of a type: at least so many units of its rounding."""
        tolerance = default if self.tolerance is None else self.tolerance
        return max(tolerance, roundings * float(np.finfo(dtype).eps))


def checked(model: Any) -> Settings:
    """Return the parameters of a `RobustPCA`; ParameterError for those that no samples allow."""
    _check_numbers(model)
    _check_choices(model)
    first, last = _mus(model)
    return Settings(
        surrogate=Surrogate(model.surrogate, last or 1.0, model.p),
        quality=model.quality,
        rule=CONJUGATE_RULES[model.conjugate],
        first=first,
        last=last,
        iterations=model.iterations,
        inner_iterations=model.inner_iterations,
        tolerance=model.tolerance,
        rng=_generator(model.random_state),
    )


def default_rank(shape: tuple[int, ...]) -> int:
    """Return the default rank: 3, at most a quarter of the shorter side of `shape`, at least 1."""
    return max(1, min(_DEFAULT_RANK, min(shape) // _SAMPLES_PER_COMPONENT))


def schedules_of(quality: str, *, complete: bool) -> tuple[ContinuationSchedule, ...]:
    """Return the schedules of a quality; with missing entries "balanced" skips the fast one, which may end wrong."""
    return SCHEDULES[quality] if complete or quality != "balanced" else SCHEDULES[quality][1:]


def _generator(random_state: int | np.random.Generator | None) -> np.random.Generator:
    if isinstance(random_state, np.random.Generator):
        return random_state
    return np.random.default_rng([_STREAM, random_state or 0])


def _mus(model: Any) -> tuple[float | None, float | None]:
    """Return the first and the last mu; None is taken from the data."""
    default = PAPER_MU[model.surrogate] if model.quality == PAPER else (None, None)
    first = default[0] if model.mu_start is None else model.mu_start
    last = default[1] if model.mu_end is None else model.mu_end
    for name, mu in (("mu_start", first), ("mu_end", last)):
        is_number = isinstance(mu, (int, float, np.integer, np.floating))
        if mu is not None and not (is_number and np.isfinite(mu) and mu > 0):
            raise ParameterError(f"{name} must be a finite number > 0, got {mu!r}")
    if first is not None and last is not None and last > first:
        raise ParameterError(f"mu_end must be <= mu_start = {first}, got {last}")
    return first, last


def _check_numbers(model: Any) -> None:
    for name, least, optional in _COUNTS:
        value: Any = getattr(model, name)
        if value is None and optional:
            continue
        if not isinstance(value, Integral) or (isinstance(value, bool) and name != "verbose") or value < least:
            raise ParameterError(f"{name} must be an integer >= {least}, got {value!r}")
    for name, value in (("tolerance", model.tolerance), ("forgetting", model.forgetting)):
        if value is None and name == "tolerance":
            continue
        if not isinstance(value, (int, float, np.number)) or not 0 <= value < 1:
            raise ParameterError(f"{name} must be in [0, 1), got {value!r}")


def _check_choices(model: Any) -> None:
    for name, choices in (("surrogate", tuple(CODES)), ("conjugate", tuple(CONJUGATE_RULES)), ("quality", QUALITIES)):
        if getattr(model, name) not in choices:
            raise ParameterError(f"{name} must be one of {', '.join(choices)}, got {getattr(model, name)!r}")
    for name in ("center", "scale"):
        if not isinstance(getattr(model, name), (bool, np.bool_)):
            raise ParameterError(f"{name} must be True or False, got {getattr(model, name)!r}")
    state: Any = model.random_state
    if not (
        state is None or isinstance(state, np.random.Generator) or (isinstance(state, (int, np.integer)) and state >= 0)
    ):
        raise ParameterError(f"random_state must be an integer >= 0, a numpy.random.Generator or None, got {state!r}")
    if not (model.callback is None or callable(model.callback)):
        raise ParameterError(f"callback must be callable or None, got {model.callback!r}")
