"""Robust PCA by graduated non-convexity: both factors move at once while the cost sharpens and a ridge fades.

The schedule of the paper solves a least-squares-like problem first, of the full rank. Near the limits of recovery its
solution holds the outliers: the singular values of outliers exceed the smallest ones of the low-rank part, so that
the last directions are taken by outliers, and no later mu gives them back; solving each mu more exactly makes it
worse. A ridge on the factors removes that. It is the maximum a posteriori estimate under Gaussian factors and a
Student-t residual, ``h_mu(X - A B') + c mu sqrt(k) / s (|A|^2 + |B|^2) / 2`` with s the scale of the data: while mu is
large, only what stands above the outliers is let in; it fades with mu, and so does its bias.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import replace

import numpy as np

from bgsub.robust_pca.cost import RobustCost
from bgsub.robust_pca.descent import Descent, Ending, Step
from bgsub.robust_pca.progress import Progress
from bgsub.robust_pca.scale import clipped, scale_of_data
from bgsub.robust_pca.schedule import COMPLETION, Pace, Task, paces_of
from bgsub.robust_pca.settings import Settings
from bgsub.robust_pca.subsampling import part_of
from bgsub.robust_pca.svd import fill_missing, random_svd

_STEPS = 5000
_WIDEST = 1e6  # scales of the data: a wider cost is not for single precision
_START_LARGEST = 10.0  # scales of the data up to which an entry counts for the start


def graduation(settings: Settings, cost: RobustCost, rank: int) -> Iterator[Progress]:
    """Yield each step of the graduated fit; an elongated matrix is fitted on a part first."""
    part = part_of(cost.observed, rank, settings.rng)
    if part is None:
        yield from _numbered("both", _from_the_start(_task(settings, cost), rank), 0)
        return
    some = RobustCost(part.of(cost.X), part.of(cost.observed), cost.surrogate)
    task = _task(settings, some)
    for progress in _numbered("part", _from_the_start(task, rank), 0):
        yield progress
    A, B = part.completed(_cut(cost, task.unit), progress.coefficients, progress.components.T)
    rest = replace(task, cost=cost, paces=COMPLETION, first=None, last=some.surrogate.scale, bound=False)
    yield from _numbered("both", _graduate(rest, A, B), progress.iteration)


def _task(settings: Settings, cost: RobustCost) -> Task:
    def width(mu: float | None) -> float | None:
        return mu and replace(settings.surrogate, mu=mu).scale

    return Task(
        settings=settings,
        cost=cost,
        unit=scale_of_data(cost.X, cost.observed) or 1.0,
        paces=paces_of(settings.quality, complete=bool(cost.observed.all())),
        first=width(settings.first),
        last=width(settings.last),
        tolerance=settings.tolerance_in(cost.X.dtype),
        budget=iter(range(settings.iterations or _STEPS)),
    )


def _numbered(half: str, steps: Iterator[Step], taken: int) -> Iterator[Progress]:
    """Yield the steps as progress, counted from `taken` on; where nothing moved the number stays."""
    for step in steps:
        taken += int(step.after < step.before or taken == 0)
        yield Progress(taken, half, step.mu, [step.before, step.after], step.A, step.B.T)


def _from_the_start(task: Task, rank: int) -> Iterator[Step]:
    unit = task.unit
    U, Y = random_svd((_cut(task.cost, unit) / unit).astype(np.float32), rank, task.settings.rng)
    real = task.cost.X.dtype
    return _graduate(task, unit * Y.T.astype(real), U.astype(real))


def _cut(cost: RobustCost, unit: float) -> np.ndarray:
    """Return the samples without gaps, and without entries so large that the start would be made of them."""
    return clipped(fill_missing(cost.X, cost.observed), cost.observed, _START_LARGEST, unit)


def _graduate(task: Task, A: np.ndarray, B: np.ndarray) -> Iterator[Step]:
    """Yield each step, at least one, from the factors A, (n, k), and B, (m, k); the last one has the result."""
    taken = None
    for taken in _fits(task, A, B):
        yield taken
    if taken is None:  # no step lowers the cost, or none may be taken
        value = task.cost.evaluate(B, A.T)
        yield Step(A, B, task.cost.surrogate.mu, value, value)


def _fit(task: Task, pace: Pace, A: np.ndarray, B: np.ndarray) -> Generator[Step, None, Descent]:
    """Yield the steps of one fit and return it; most of the way it goes in single precision, unless it doubts."""
    too_wide = max(task.first or 0.0, task.last or 0.0) > _WIDEST * task.unit
    if not task.bound or pace.doubts or A.dtype == np.float32 or too_wide:
        descent = Descent(task, pace, A, B)
        yield from descent.run()
        return descent
    rough, mu, ending = yield from _rounded_fit(task, pace, A, B)
    if not np.isinf(mu):
        task = replace(task, first=float(np.sqrt(mu)), bound=False)
    descent = Descent(task, pace, rough.A, rough.B)
    if ending is Ending.NOISE:
        descent.take_over(mu, ending)
    else:
        yield from descent.run()
    return descent


def _rounded_fit(
    task: Task, pace: Pace, A: np.ndarray, B: np.ndarray
) -> Generator[Step, None, tuple[Step, float, Ending | None]]:
    """Yield the steps of a fit in single precision and in units of the data; return the last one, mu and the ending."""
    unit, cost = task.unit, task.cost
    tolerance = max(task.tolerance, task.settings.tolerance_in(np.dtype(np.float32)))
    rounded = replace(
        task,
        cost=RobustCost((cost.X / unit).astype(np.float32), cost.observed, cost.surrogate),
        first=task.first and task.first / unit,
        last=task.last and max(task.last / unit, tolerance),
        tolerance=tolerance,
    )
    descent = Descent(rounded, pace, (A / unit).astype(np.float32), B.astype(np.float32))
    last = Step(A, B, np.inf, np.inf, np.inf)
    for step in descent.run():
        last = _in_units(step, unit)
        yield last
    return last, descent.mu * unit**2, descent.ending


def _in_units(step: Step, unit: float) -> Step:
    A, B = (factor.astype(np.float64) for factor in (step.A, step.B))
    return Step(unit * A, B, *(unit**2 * value for value in step[2:]))


def _fits(task: Task, A: np.ndarray, B: np.ndarray) -> Iterator[Step]:
    """Yield the steps of each fit and what is left to do with the best of them."""
    final = task.cost.surrogate
    best: Descent | None = None
    for pace in task.paces:
        descent = yield from _fit(task, pace, A, B)
        if best is None or (descent.ending is not None and descent.beats(best)):
            best = descent
        if best.ending is Ending.EXACT or (best.ending is Ending.NOISE and not pace.doubts):
            break
    if best is not None:
        yield from best.finish(final, repeated=best is not descent)
