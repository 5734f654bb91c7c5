"""Which descent robust PCA runs with its parameters."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from bgsub.numerics.surrogates import Surrogate
from bgsub.robust_pca.alternating import Alternation
from bgsub.robust_pca.conjugate_gradient import CONJUGATE_RULES
from bgsub.robust_pca.descent import Step, Task
from bgsub.robust_pca.graduated import graduate
from bgsub.robust_pca.halves import RobustFit
from bgsub.robust_pca.online import Continuation
from bgsub.robust_pca.parameters import PAPER_MU, generator
from bgsub.robust_pca.progress import Progress
from bgsub.robust_pca.schedule import COMPLETION, PACES
from bgsub.robust_pca.subsampling import part_of
from bgsub.robust_pca.validation import clipped, fill_missing, random_svd, truncated_svd

if TYPE_CHECKING:
    from bgsub.robust_pca.estimator import RobustPCA

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
    """Yield each step of the graduated fit; an elongated matrix is fitted on a part first."""
    rng = generator(model.random_state)
    part = part_of(fit.observed, rank, rng)
    if part is None:
        task = _task(model, fit, rng, first, last)
        yield from _numbered("both", graduate(task, *_start(fit, rank, rng)), 0)
        return
    some = RobustFit(part.of(fit.X), part.of(fit.observed), fit.surrogate)
    task = _task(model, some, rng, first, last)
    progress = None
    for progress in _numbered("part", graduate(task, *_start(some, rank, rng)), 0):
        yield progress
    if progress is None:
        raise AssertionError("a fit yields at least one step")
    A, B = part.completed(_cut(fit), progress.coefficients, progress.components.T)
    rest = replace(task, fit=fit, pace=COMPLETION, first=None, last=some.surrogate.scale)
    yield from _numbered("both", graduate(rest, A, B), progress.iteration)


def _task(model: RobustPCA, fit: RobustFit, rng: np.random.Generator, first: float | None, last: float | None) -> Task:
    return Task(
        fit=fit,
        rule=CONJUGATE_RULES[model.conjugate],
        pace=PACES[model.quality],
        rng=rng,
        first=first and Surrogate(model.surrogate, first, model.p).scale,
        last=last and Surrogate(model.surrogate, last, model.p).scale,
        tolerance=_tolerance(model, fit),
        budget=iter(range(model.iterations or _STEPS)),
    )


def _numbered(half: str, steps: Iterator[Step], taken: int) -> Iterator[Progress]:
    """Yield the steps as progress, counted from `taken` on; where nothing moved the number stays."""
    for step in steps:
        before, after = step.values
        taken += int(after < before or taken == 0)
        yield Progress(taken, half, step.mu, list(step.values), step.A, step.B.T)


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


def _start(fit: RobustFit, rank: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return the factors A, (n, k), and B, (m, k), that a fit begins with."""
    U, Y = random_svd(_cut(fit), rank, rng)
    return Y.T, U


def _cut(fit: RobustFit) -> np.ndarray:
    """Return the samples without gaps, and without entries so large that the start would be made of them."""
    return clipped(fill_missing(fit.X, fit.observed), fit.observed, _START_LARGEST)


def _tolerance(model: RobustPCA, fit: RobustFit) -> float:
    tolerance = _TOLERANCE if model.tolerance is None else model.tolerance
    return max(tolerance, _LEAST * float(np.finfo(fit.X.dtype).eps))
