"""Robust PCA by graduated non-convexity: both factors move together while the cost sharpens and a ridge fades.

The reason for the ridge, and the objective, are in docs/method.md.
"""

from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace

import numpy as np

from bgsub.robust_pca.cost import RobustCost, inverse_gram
from bgsub.robust_pca.descent import Descent, Ending, Step, Task
from bgsub.robust_pca.noise import clipped, scale_of_data
from bgsub.robust_pca.parameters import COMPLETION, SCHEDULES, ContinuationSchedule, Progress, Settings
from bgsub.robust_pca.svd import fill_missing, random_svd

_STEPS = 5000
_WIDEST = 1e6  # scales of the data: a wider cost needs double precision
_START_LARGEST = 10.0  # scales of the data; larger entries are clipped for the start
_LEAST = 4000  # features (or samples) of the part of an elongated matrix ...
_PER_OTHER = 4  # ... for each sample (or feature) ...
_PER_DIRECTION = 20  # ... and for each direction
_ELONGATED = 4  # times the part: the least long side


@dataclass(frozen=True)
class Part:
    """Some features of all samples, or all features of some samples, that determine the factor of the short side."""

    indices: np.ndarray  # (s,), rising
    features: bool  # of features, not of samples

    def of(self, X: np.ndarray) -> np.ndarray:
        """Return the part of `X`, (n, m), contiguous."""
        return np.ascontiguousarray(X[:, self.indices] if self.features else X[self.indices])

    def completed(self, X: np.ndarray, A: np.ndarray, B: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return factors of all of `X`, (n, m), from those of the part; the long one by least squares.  O(m n k)."""
        short, X = (A, X.T) if self.features else (B, X)
        long = X @ (short @ inverse_gram(short, float(np.finfo(short.dtype).eps)))
        return (A, long) if self.features else (long, B)


def part_of(observed: np.ndarray, rank: int, rng: np.random.Generator) -> Part | None:
    """Return a random part, no row or column of it empty, of the mask `observed`, (n, m); None if there is none."""
    short, long = sorted(observed.shape)
    size = max(_LEAST, _PER_OTHER * short, _PER_DIRECTION * rank)
    if long < _ELONGATED * size:
        return None
    part = Part(np.sort(rng.choice(long, size, replace=False)), features=observed.shape[1] == long)
    seen = part.of(observed)
    return part if seen.any(axis=0).all() and seen.any(axis=1).all() else None


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
    rest = replace(task, cost=cost, schedules=(COMPLETION,), first=None, last=some.surrogate.scale, bound=False)
    yield from _numbered("both", _graduate(rest, A, B), progress.iteration)


def _task(settings: Settings, cost: RobustCost) -> Task:
    def width(mu: float | None) -> float | None:
        return mu and settings.surrogate.at_mu(mu).scale

    schedules = SCHEDULES[settings.quality]
    # With missing entries the fast schedule may end wrong.
    skips = settings.quality == "balanced" and not cost.observed.all()
    return Task(
        settings=settings,
        cost=cost,
        unit=scale_of_data(cost.X, cost.observed) or 1.0,
        schedules=schedules[1:] if skips else schedules,
        first=width(settings.first),
        last=width(settings.last),
        tolerance=settings.tolerance_in(cost.X.dtype),
        budget=iter(range(settings.iterations or _STEPS)),
    )


def _numbered(half: str, steps: Iterator[Step], taken: int) -> Iterator[Progress]:
    """Yield the steps as progress, counted from `taken` on; a step without decrease keeps the number."""
    for step in steps:
        taken += int(step.after < step.before or taken == 0)
        yield Progress(taken, half, step.mu, [step.before, step.after], step.A, step.B.T)


def _from_the_start(task: Task, rank: int) -> Iterator[Step]:
    unit = task.unit
    U, Y = random_svd((_cut(task.cost, unit) / unit).astype(np.float32), rank, task.settings.rng)
    real = task.cost.X.dtype
    return _graduate(task, unit * Y.T.astype(real), U.astype(real))


def _cut(cost: RobustCost, unit: float) -> np.ndarray:
    """Return the samples without gaps, clipped, so that large entries do not determine the start."""
    return clipped(fill_missing(cost.X, cost.observed), cost.observed, _START_LARGEST, unit)


def _graduate(task: Task, A: np.ndarray, B: np.ndarray) -> Iterator[Step]:
    """Yield each step, at least one, from the factors A, (n, k), and B, (m, k); the last one has the result."""
    taken = None
    for taken in _fits(task, A, B):
        yield taken
    if taken is None:  # no step lowers the cost, or none is allowed
        value = task.cost.evaluate(B, A.T)
        yield Step(A, B, task.cost.surrogate.mu, value, value)


def _fits(task: Task, A: np.ndarray, B: np.ndarray) -> Iterator[Step]:
    """Yield the steps of each fit, then the remaining ones of the best fit."""
    final = task.cost.surrogate
    best: Descent | None = None
    for schedule in task.schedules:
        descent = yield from _fit(task, schedule, A, B)
        if best is None or (descent.ending is not None and descent.beats(best)):
            best = descent
        if best.ending is Ending.EXACT or (best.ending is Ending.NOISE and not schedule.repeats_on_noise):
            break
    assert best is not None  # there is a schedule
    yield from best.finish(final, repeated=best is not descent)


def _fit(task: Task, schedule: ContinuationSchedule, A: np.ndarray, B: np.ndarray) -> Generator[Step, None, Descent]:
    """Yield the steps of one fit and return it; most steps run in single precision, which takes 40 % less time."""
    too_wide = max(task.first or 0.0, task.last or 0.0) > _WIDEST * task.unit
    ending = None
    if task.bound and not (schedule.repeats_on_noise or A.dtype == np.float32 or too_wide):
        (A, B, *_), mu, ending = yield from _rounded_fit(task, schedule, A, B)
        if not np.isinf(mu):
            task = replace(task, first=float(np.sqrt(mu)), bound=False)
    descent = Descent(task, schedule, A, B)
    if ending is Ending.NOISE:
        descent.mu, descent.ending = mu, ending
    else:
        yield from descent.run()
    return descent


def _rounded_fit(
    task: Task, schedule: ContinuationSchedule, A: np.ndarray, B: np.ndarray
) -> Generator[Step, None, tuple[Step, float, Ending | None]]:
    """Yield the steps of a fit in single precision and units of the data; return the last one, mu and the ending."""
    unit, cost = task.unit, task.cost
    tolerance = max(task.tolerance, task.settings.tolerance_in(np.dtype(np.float32)))
    rounded = replace(
        task,
        cost=RobustCost((cost.X / unit).astype(np.float32), cost.observed, cost.surrogate),
        first=task.first and task.first / unit,
        last=task.last and max(task.last / unit, tolerance),
        tolerance=tolerance,
    )
    descent = Descent(rounded, schedule, (A / unit).astype(np.float32), B.astype(np.float32))
    last = Step(A, B, np.inf, np.inf, np.inf)
    for step in descent.run():
        A, B = (factor.astype(np.float64) for factor in (step.A, step.B))
        last = Step(unit * A, B, *(unit**2 * value for value in step[2:]))
        yield last
    return last, descent.mu * unit**2, descent.ending
