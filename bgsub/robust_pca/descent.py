"""One graduated fit of robust PCA: the path from a large mu to the noise, or to nothing but outliers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np

from bgsub.numerics.surrogates import Surrogate
from bgsub.robust_pca.conjugate_gradient import ConjugateGradients, Rule
from bgsub.robust_pca.factors import FactorProblem, ResidualScale
from bgsub.robust_pca.halves import RobustFit
from bgsub.robust_pca.noise_and_rank import NORMAL_RIDGE, NoiseFloor, gap, is_noise, is_within, noise_norm, stands_out
from bgsub.robust_pca.schedule import Pace
from bgsub.robust_pca.validation import factor_svd

_FIRST = np.sqrt(2)  # the first width, in scales of the data
_FIRST_RESIDUAL = 6  # and at most this many scales of the first residual ...
_FIRST_WORST = 2  # ... or times its root mean square in the worst sample or feature
_WIDTH = 3  # the width that a settled fit may go down to, in scales of its residual
_CHECKED = 1.3  # fall of mu after which the singular values are looked at again
_VANISHED = 1e-3  # share of an earlier residual
_TESTED = 1e-2  # of the first mu: the least at which the influence is tested
_STEPS = 1000  # of one fit
_RESTS = 3  # steps at rest that end a fit


@dataclass(frozen=True)
class Step:
    """One step of the descent.

    Parameters
    ----------
    A, B : ndarray, (n, k) and (m, k)
        The factors.
    mu : float
        Smoothing parameter of the surrogate in use.
    values : tuple of two float
        The objective, ridge included, before and after the step.
    scale : float
        Standard deviation of the inliers' residual.
    """

    A: np.ndarray
    B: np.ndarray
    mu: float
    values: tuple[float, float]
    scale: float


@dataclass
class Task:
    """The data, the cost and the limits of a fit.

    Parameters
    ----------
    fit : RobustFit
        Data and mask; its surrogate is the one of the result.
    rule : callable
        One of `bgsub.robust_pca.conjugate_gradient.CONJUGATE_RULES`.
    pace : Pace
        One of `PACES`.
    rng : Generator
        Draws the entries that the scale of the residual is taken from.
    first, last : float or None
        Widths (`Surrogate.scale`) to begin and to end with; None takes them from the data.
    tolerance : float
        End when the scale of the residual is below this share of that of the data.
    budget : iterator
        One item for each step that may be taken, by all fits together.
    """

    fit: RobustFit
    rule: Rule
    pace: Pace
    rng: np.random.Generator
    first: float | None
    last: float | None
    tolerance: float
    budget: Iterator[int]


class Descent:
    """One fit at one strength of the ridge."""

    def __init__(self, task: Task, strength: float, A: np.ndarray, B: np.ndarray) -> None:
        self._task = task
        self._ridge = strength
        self._strength = strength * np.sqrt(A.shape[1])
        self._fit = task.fit
        self._scale = ResidualScale(task.fit.X, task.fit.observed, A.shape[1], task.rng)
        self._data_scale = self._scale.of_data()
        self._entries = int(np.count_nonzero(task.fit.observed))
        self._counts = np.concatenate([task.fit.observed.sum(axis=axis) for axis in (1, 0)]).clip(1)
        self._problem = FactorProblem(task.fit, np.concatenate(_balanced(A, B)), 0.0)
        self._search = ConjugateGradients(self._problem, task.rule, probing=False)
        self._residual = self._scale.of_residual(A, B)
        self._checked = np.inf
        self.noisy = self.exact = self.unfinished = False
        self.mu = np.inf

    def run(self) -> Iterator[Step]:
        """Yield each step down to the last width, the noise, or nothing left but outliers."""
        if self._data_scale == 0:
            self.exact = True
            return
        self._least = self._task.tolerance * self._data_scale
        self._end = (self._task.last or self._least) ** 2
        self._problem.evaluate(self._problem.point)
        first = self._task.first or min(_FIRST * self._data_scale, self._first_residual())
        self._set(max(first**2, self._end))
        noise = NoiseFloor()
        waited = rests = 0
        for _ in islice(self._task.budget, _STEPS):
            step = self._step()
            if step is None:
                if self.mu <= self._end:
                    return
                self._set(self._pace.unsettled * self.mu)
                continue
            yield step
            if self._task.last is None:
                if self._residual <= self._least:
                    self.exact = True
                    return
                if noise.reached(self.mu, self._residual, self._problem.point, self._settled):
                    self._problem.point, self.mu, self.noisy = noise.point, noise.mu, True
                    return
            fewer = self._fewer() if self._settled else None
            if fewer is not None:
                yield from fewer.run()
                if fewer.explains(self._residual):
                    self._adopt(fewer)
                    yield self._seen(self._value, self._value)
                    return
                self._problem.evaluate(self._problem.point)
                self._set(self.mu)
                yield self._seen(self._value, self._value)  # if nothing is left of the budget it is the result
            waited += 1
            mu = self._next(waited)
            if mu < self.mu:
                self._set(mu)
                waited = rests = 0
            else:
                rests = rests + 1 if self._at_rest(step) else 0
                if rests == _RESTS:
                    self.exact = self._task.last is not None and is_within(self._residual, self.mu)
                    return
        self.unfinished = True

    def explains(self, residual: float) -> bool:
        """Tell whether nothing of low rank is left: no residual, seen from the scale that it had, or but noise."""
        return (self._residual < _VANISHED * residual or self.noisy) and self._is_noise()

    def _is_noise(self) -> bool:
        """Tell whether the influence has no singular value that stands out of those of independent entries.

        Not that at a mu far below the first one, where the few outliers of about that size make up nearly all of it.
        """
        last = self.mu
        self._problem.evaluate(self._problem.point)
        self._set(max(last, _TESTED * (self._task.first or 0) ** 2))
        self.mu = last
        return is_noise(self._fit.influence, self._task.rng)

    def finish(self, surrogate: Surrogate, repeated: bool) -> Iterator[Step]:
        """Yield the steps that are left at the last width with the surrogate of the result.

        Parameters
        ----------
        surrogate : Surrogate
            The cost of the result; its own mu does not matter.
        repeated : bool
            Other fits came after this one.
        """
        if np.isinf(self.mu):  # nothing but zeros
            self._fit.surrogate = surrogate
            value = self._problem.evaluate(self._problem.point)
            yield self._seen(value, value)
            return
        if surrogate.name == "log" and not repeated and not self.noisy:
            return
        self._fit.surrogate = surrogate.at_scale(np.sqrt(self.mu))
        self._problem.ridge = self._strength * self.mu / self._data_scale
        if self.noisy:
            self._problem.ridge *= NORMAL_RIDGE / self._ridge
        self._value = self._problem.evaluate(self._problem.point)
        yield self._seen(self._value, self._value)
        self._search = ConjugateGradients(self._problem, self._task.rule, probing=False)
        for _ in self._task.budget:
            step = self._step()
            if step is None:
                return
            yield step
            if self._at_rest(step):
                return

    def beats(self, other: Descent) -> bool:
        """Tell whether the cost is lower than that of another fit, at the larger of both mu and without the ridge."""
        mu = max(self.mu, other.mu)
        return self.exact or self._cost(mu) < other._cost(mu)

    def _fewer(self) -> Descent | None:
        """Return a fit from here on without the directions that the ridge has left empty, if there is a clear gap.

        While mu is large a true direction shows well above the outliers, and one that has nothing to hold is empty;
        later on it fills with outliers. But it may also be a true one that is weak: the fit without must prove itself.
        """
        if self._checked <= _CHECKED * self.mu or self._problem.point.shape[1] == 1:
            return None
        self._checked = self.mu
        A, values, B = factor_svd(self._problem.A, self._problem.B)
        noise = noise_norm(self._fit.influence)
        rank = gap(values, noise)
        if rank is not None or stands_out(values[-1], noise):
            self._checked = 0.0
        if rank is None:
            return None
        task = replace(self._task, first=float(np.sqrt(self.mu)))
        return Descent(task, self._ridge, A[:, :rank] * values[:rank], B[:, :rank])

    def _adopt(self, other: Descent) -> None:
        """Take over a fit with fewer directions, filled up with empty ones."""
        point = np.zeros_like(self._problem.point)
        point[:, : other._problem.point.shape[1]] = other._problem.point
        self._problem.point = point
        self.exact, self.noisy, self._scale, self._strength = other.exact, other.noisy, other._scale, other._strength
        self._problem.evaluate(point)
        self._set(other.mu)

    def _first_residual(self) -> float:
        """Return a width that holds the residual of the inliers, before the first step.  O(m n).

        Few outliers spoil the start of their own samples and features, and of no others: the worst ones count, too, by
        their root mean square. The residual takes the place of the influence.
        """
        r = np.subtract(self._fit.X, self._fit.low_rank, out=self._fit.influence)
        np.multiply(r, self._fit.observed, out=r)
        squares = np.concatenate([np.einsum(to, r, r, dtype=np.float64) for to in ("ij,ij->i", "ij,ij->j")])
        return max(_FIRST_RESIDUAL * self._residual, _FIRST_WORST * float(np.sqrt(np.max(squares / self._counts))))

    @property
    def _pace(self) -> Pace:
        return self._task.pace

    @property
    def _settled(self) -> bool:
        return bool(np.all(self._search.decrements() <= self._pace.rest * self.mu * self._counts))

    def _at_rest(self, step: Step) -> bool:
        return step.values[0] - step.values[1] < self._pace.idle * self.mu * self._entries

    def _cost(self, mu: float) -> float:
        self._fit.surrogate = Surrogate("log", mu)
        return self._fit.evaluate(self._problem.B, self._problem.A.T)

    def _set(self, mu: float) -> None:
        """Change mu and with it the ridge, at the point evaluated last."""
        self.mu = mu
        self._fit.surrogate = Surrogate("log", mu)
        self._problem.ridge = self._strength * mu / self._data_scale
        self._value = self._problem.evaluate_again()

    def _next(self, waited: int) -> float:
        """Return the mu of the next step."""
        mu = self.mu
        if self._settled:
            mu = max(min((_WIDTH * self._residual) ** 2, self._pace.unsettled * mu), self._pace.settled * mu)
        elif waited >= self._pace.hold:
            mu = self._pace.unsettled * mu
        return max(mu, self._end)

    def _step(self) -> Step | None:
        before = self._value
        after = self._search.step(before)
        if after is None:
            self._value = self._problem.evaluate(self._problem.point)  # the trial evaluated last was refused
            return None
        self._value = after
        return self._seen(before, after)

    def _seen(self, before: float, after: float) -> Step:
        self._residual = self._scale.of_residual(self._problem.A, self._problem.B, self.mu)
        return Step(self._problem.A, self._problem.B, self._fit.surrogate.mu, (before, after), self._residual)


def _balanced(A: np.ndarray, B: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return factors of the same product whose columns have the same norms; A has orthogonal columns or B has."""
    a, b = np.linalg.norm(A, axis=0), np.linalg.norm(B, axis=0)
    share = np.sqrt(np.where((a > 0) & (b > 0), b / np.where(a > 0, a, 1), 1))
    share = np.where(share > 0, share, 1).astype(A.dtype)
    return A * share, B / share
