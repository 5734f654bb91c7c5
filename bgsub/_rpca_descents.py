"""Which descent robust PCA runs with its parameters."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from bgsub._alternation import Alternation
from bgsub._conjugate import CONJUGATE_RULES
from bgsub._continuation import Continuation
from bgsub._descent import Task
from bgsub._graduated import graduate
from bgsub._halves import RobustFit
from bgsub._pace import PACES
from bgsub._progress import Progress
from bgsub._rpca_parameters import PAPER_MU, generator
from bgsub._samples import clipped, fill_missing, random_svd, truncated_svd
from bgsub.surrogates import Surrogate

if TYPE_CHECKING:
    from bgsub.rpca import RobustPCA

_PAPER_ALTERNATIONS = 50
_PAPER_TOLERANCE = 1e-7
_STEPS = 5000
_TOLERANCE = 5e-7
_LEAST = 64  # a tolerance is at least so many units of rounding
_START_LARGEST = 10.0  # scales of the data up to which an entry counts for the start
_FIRST = 2.0  # first mu for new samples, in mean squares of the low-rank part


def alternation(
    model: RobustPCA, fit: RobustFit, rank: int, first: float | None, last: float | None
) -> Iterator[Progress]:
    """Yield each half of the alternations of the paper."""
    start, end = PAPER_MU[model.surrogate]
    mus = np.geomspace(first or start, last or end, model.iterations or _PAPER_ALTERNATIONS)
    tolerance = _PAPER_TOLERANCE if model.tolerance is None else model.tolerance
    turns = Alternation(fit, CONJUGATE_RULES[model.conjugate], model.inner_iterations, tolerance)
    moves = turns.run(*truncated_svd(fill_missing(fit.X, fit.observed), rank), mus)
    for count, (half, U, Y, values) in enumerate(moves):
        yield Progress(count // 2 + 1, half, fit.surrogate.mu, values, Y.T, U.T)


def graduation(
    model: RobustPCA, fit: RobustFit, rank: int, first: float | None, last: float | None
) -> Iterator[Progress]:
    """Yield each step of the graduated fit."""
    rng = generator(model.random_state)
    task = Task(
        fit=fit,
        rule=CONJUGATE_RULES[model.conjugate],
        pace=PACES[model.quality],
        rng=rng,
        first=first and Surrogate(model.surrogate, first, model.p).scale,
        last=last and Surrogate(model.surrogate, last, model.p).scale,
        tolerance=_tolerance(model, fit),
        budget=iter(range(model.iterations or _STEPS)),
    )
    U, Y = random_svd(_start(fit), rank, rng)
    count = 0
    for count, step in enumerate(graduate(task, Y.T, U), start=1):
        yield Progress(count, "both", step.mu, list(step.values), step.A, step.B.T)
    if count == 0:  # the start left nothing to lower
        value = fit.evaluate(U, Y)
        yield Progress(1, "both", fit.surrogate.mu, [value, value], Y.T, U.T)


def continuation(model: RobustPCA, fit: RobustFit, energy: np.ndarray, last: float | None) -> Iterator[Progress]:
    """Yield each round for a batch of new samples; `energy`, (k,), is what the past holds along each component."""
    task = Continuation(
        fit=fit,
        basis=np.ascontiguousarray(model.components_.T, fit.X.dtype),
        moment=np.diag(energy),
        first=max(first_mu(model), last or 0.0),
        last=last,
        tolerance=_tolerance(model, fit),
        rng=generator(model.random_state),
    )
    return task.run()


def last_surrogate(model: RobustPCA) -> Surrogate:
    """Return the cost at the last mu of a fit."""
    return Surrogate(model.surrogate, model.mu_, model.p)


def first_mu(model: RobustPCA) -> float:
    """Return the mu from which it falls for samples after a fit: hardly any residual is an outlier there."""
    last = last_surrogate(model)
    if model.mu_start is not None:
        return max(model.mu_start, model.mu_)
    mean = float(np.mean(np.square(model.low_rank_, dtype=np.float64)))
    return last.at_scale(max(np.sqrt(_FIRST * mean), last.scale)).mu


def _start(fit: RobustFit) -> np.ndarray:
    """Return the samples without gaps, and without entries so large that the start would be made of them."""
    return clipped(fill_missing(fit.X, fit.observed), fit.observed, _START_LARGEST)


def _tolerance(model: RobustPCA, fit: RobustFit) -> float:
    tolerance = _TOLERANCE if model.tolerance is None else model.tolerance
    return max(tolerance, _LEAST * float(np.finfo(fit.X.dtype).eps))
