"""One graduated fit of robust PCA: the path from a large mu to the noise, or to nothing but outliers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from enum import Enum, auto
from itertools import islice
from typing import NamedTuple

import numpy as np

from bgsub.numerics.surrogates import Surrogate
from bgsub.robust_pca.conjugate_gradient import ConjugateGradients
from bgsub.robust_pca.factors import FactorProblem, balanced
from bgsub.robust_pca.noise_and_rank import CLEAR, NORMAL_RIDGE, NoiseFloor, gap, is_noise, is_within, noise_norm
from bgsub.robust_pca.scale import ResidualScale
from bgsub.robust_pca.schedule import Pace, Task
from bgsub.robust_pca.stragglers import mended
from bgsub.robust_pca.svd import factor_svd

_FIRST = np.sqrt(2)  # the first width, in scales of the data
_FIRST_RESIDUAL = 6  # and at most this many scales of the first residual ...
_LIFT = 1.6  # times the spectral norm of the influence, were its entries independent and one side very long
_FIRST_WORST = 2  # ... or times its root mean square in the worst sample or feature
_WIDTH = 3  # the width that a settled fit may go down to, in scales of its residual
_CHECKED = 1.3  # fall of mu after which the singular values are looked at again
_FEW = 0.75  # of the weight per entry that most samples and features have
_VANISHED = 1e-3  # share of an earlier residual
_TESTED = 1e-2  # of the first mu: the least at which the influence is tested
_STEPS = 1000  # of one fit
_RESTS = 3  # steps at rest that end a fit


class Step(NamedTuple):
    """Factors A, (n, k), and B, (m, k), after a step at mu; the objective, ridge included, before and after it."""

    A: np.ndarray
    B: np.ndarray
    mu: float
    before: float
    after: float


class Ending(Enum):
    """Where a descent has come to."""

    EXACT = auto()  # nothing is left but outliers
    NOISE = auto()  # the residual of the inliers is noise
    REST = auto()  # the last width, and no step that moves much


class Descent:
    """One fit at one pace."""

    def __init__(self, task: Task, pace: Pace, A: np.ndarray, B: np.ndarray) -> None:
        self._task, self._cost, self._pace = task, task.cost, pace
        self._strength = self._usual = pace.ridge * float(np.sqrt(A.shape[1]))
        self._scale = ResidualScale(task.cost.X, task.cost.observed, A.shape[1], task.settings.rng)
        self._data_scale = self._scale.of_data()
        self._least = task.tolerance * self._data_scale
        self._end = (task.last or self._least) ** 2
        self._entries = int(np.count_nonzero(task.cost.observed))
        self._counts = np.concatenate([task.cost.observed.sum(axis=axis) for axis in (1, 0)]).clip(1)
        self._problem = FactorProblem(task.cost, np.concatenate(balanced(A, B)), 0.0)
        self._search = ConjugateGradients(self._problem, task.settings.rule, probing=False)
        self._residual = self._scale.of_residual(A, B)
        self._checked = np.inf if task.bound else 0.0
        self._floor = NoiseFloor()
        self._waited = self._rests = 0
        self._value = self._pending = np.inf
        self.ending: Ending | None = None  # also of a fit that was cut short
        self.mu = np.inf  # so far, that of ``log``

    def take_over(self, mu: float, ending: Ending) -> None:
        """Have come to `ending` at `mu` already."""
        self.mu, self.ending = mu, ending

    def run(self) -> Iterator[Step]:
        """Yield each step down to the last width, the noise, or nothing left but outliers."""
        if self._data_scale == 0:
            self.ending = Ending.EXACT
            return
        self._problem.evaluate(self._problem.point)
        first = self._task.first or min(_FIRST * self._data_scale, self._first_residual())
        self._set(max(first**2, self._end))
        if self._task.bound:
            self._lift()
        for _ in islice(self._task.budget, _STEPS):
            step = self._step()
            if step is not None:
                yield step
                yield from self._after(step)
            elif self.mu > self._end:
                self._set(self._pace.unsettled * self.mu)
            else:
                self.ending = Ending.REST
            if self.ending is not None:
                yield from self._mend()
                return

    def _mend(self) -> Iterator[Step]:
        """Regress samples and features that were left behind; yield a step if it lowers the objective."""
        if self.ending is Ending.NOISE:  # it went back to an earlier point
            self._problem.evaluate(self._problem.point)
            self._set(self.mu)
        few = self._stragglers()
        if not len(few):
            return
        log, first = Surrogate("log", self.mu), (_FIRST * self._data_scale) ** 2
        point = mended(self._cost, self._problem.point, few, log, first, self._problem.ridge)
        before, after = self._value, self._problem.evaluate(point)
        if after < before:
            self._problem.point, self._value = point, after
            yield self._seen(before, after)

    def _stragglers(self) -> np.ndarray:
        """Return the rows of the point with far less weight per entry than most: they fit some outliers.  O(m n)."""
        lost = self._cost.X - self._cost.low_rank
        lost *= self._cost.influence
        lost = np.concatenate([part @ np.ones(part.shape[1], part.dtype) for part in (lost, lost.T)])
        weight = 1 - lost / (self.mu * self._counts)
        return np.flatnonzero(weight < _FEW * np.median(weight))

    def _after(self, step: Step) -> Iterator[Step]:
        """Look whether `step` was the last one, and set the mu of the next; yield what a lower rank takes to try."""
        if self._task.last is None:
            self._look_for_noise()
        if self.ending is None and self._settled:
            yield from self._try_fewer()
        if self.ending is None:
            self._lower(step)

    def _lift(self) -> None:
        """Raise the ridge above what the outliers of one sample or feature could pull, until the fit has settled."""
        E = self._cost.influence
        pull = _LIFT * float(np.linalg.norm(E)) / np.sqrt(min(E.shape))
        self._strength = max(self._usual, pull * self._data_scale / self.mu)
        self._set(self.mu)

    def _look_for_noise(self) -> None:
        """End where the residual has vanished, or at the mu below which it no longer falls."""
        if self._residual <= self._least:
            self.ending = Ending.EXACT
        elif self._floor.reached(self.mu, self._residual, self._problem.point, self._settled):
            self._problem.point, self.mu, self.ending = self._floor.point, self._floor.mu, Ending.NOISE

    def _try_fewer(self) -> Iterator[Step]:
        """Yield the steps of a fit with fewer directions where some are empty; keep it if it explains the data."""
        fewer = self._fewer()
        if fewer is None:
            return
        yield from fewer.run()
        if fewer.explains(self._residual):
            self._adopt(fewer)
        else:
            self._problem.evaluate(self._problem.point)
            self._set(self.mu)
        yield self._seen(self._value, self._value)  # if nothing is left of the budget it is the result

    def _lower(self, step: Step) -> None:
        """Lower mu, or end where it cannot fall and the last steps hardly gained."""
        self._waited += 1
        if self._strength > self._usual and self._settled:
            self._strength = self._usual
            self._set(self.mu)
            return
        mu = self._next()
        if mu < self.mu:
            self._set(mu)
            self._waited = self._rests = 0
            return
        self._rests = self._rests + 1 if self._at_rest(step) else 0
        if self._rests == _RESTS:
            inliers_only = self._task.last is not None and is_within(self._residual, self.mu)
            self.ending = Ending.EXACT if inliers_only else Ending.REST

    def explains(self, residual: float) -> bool:
        """Tell whether nothing of low rank is left: no residual, seen from the scale that it had, or but noise."""
        return (self._residual < _VANISHED * residual or self.ending is Ending.NOISE) and self._is_noise()

    def _is_noise(self) -> bool:
        """Tell whether the influence has no singular value that stands out of those of independent entries.

        Not that at a mu far below the first one, where the few outliers of about that size make up nearly all of it.
        """
        last = self.mu
        self._problem.evaluate(self._problem.point)
        self._set(max(last, _TESTED * (self._task.first or 0) ** 2))
        self.mu = last
        return is_noise(self._cost.influence, self._task.settings.rng)

    def finish(self, surrogate: Surrogate, repeated: bool) -> Iterator[Step]:
        """Yield the steps that are left at the last width with the surrogate of the result; its own mu does not matter.

        A fit is `repeated` where others came after it.
        """
        if np.isinf(self.mu):  # nothing but zeros
            self._cost.surrogate = surrogate
            value = self._problem.evaluate(self._problem.point)
            yield self._seen(value, value)
            return
        if surrogate.name == "log" and not repeated and self.ending is not Ending.NOISE:
            return
        self._cost.surrogate = surrogate.at_scale(np.sqrt(self.mu))
        self._problem.ridge = self._strength * self.mu / self._data_scale
        if self.ending is Ending.NOISE:
            self._problem.ridge *= NORMAL_RIDGE / self._pace.ridge
        self._value = self._problem.evaluate(self._problem.point)
        yield self._seen(self._value, self._value)
        self._search = ConjugateGradients(self._problem, self._task.settings.rule, probing=False)
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
        return self.ending is Ending.EXACT or self._cost_at(mu) < other._cost_at(mu)

    def _fewer(self) -> Descent | None:
        """Return a fit from here on without the directions that the ridge has left empty, if there is a clear gap.

        While mu is large a true direction shows well above the outliers, and one that has nothing to hold is empty;
        later on it fills with outliers. But it may also be a true one that is weak: the fit without must prove itself.
        """
        if self._checked <= _CHECKED * self.mu or self._problem.point.shape[1] == 1:
            return None
        self._checked = self.mu
        A, values, B = factor_svd(self._problem.A, self._problem.B)
        noise = noise_norm(self._cost.influence)
        rank = gap(values, noise, self._problem.ridge)
        if rank is not None or values[-1] > CLEAR * noise:
            self._checked = 0.0
        if rank is None:
            return None
        task = replace(self._task, first=float(np.sqrt(self.mu)), bound=False)
        return Descent(task, self._pace, A[:, :rank] * values[:rank], B[:, :rank])

    def _adopt(self, other: Descent) -> None:
        """Take over a fit with fewer directions, filled up with empty ones."""
        point = np.zeros_like(self._problem.point)
        point[:, : other._problem.point.shape[1]] = other._problem.point
        self._problem.point = point
        self._scale, self._strength, self.ending = other._scale, other._strength, other.ending or Ending.REST
        self._usual = self._strength
        self._problem.evaluate(point)
        self._set(other.mu)

    def _first_residual(self) -> float:
        """Return a width that holds the residual of the inliers, before the first step.  O(m n).

        Few outliers spoil the start of their own samples and features, and of no others: the worst ones count, too, by
        their root mean square. The residual takes the place of the influence.
        """
        r = np.subtract(self._cost.X, self._cost.low_rank, out=self._cost.influence)
        np.multiply(r, self._cost.observed, out=r)
        squares = np.concatenate([np.einsum(to, r, r, dtype=np.float64) for to in ("ij,ij->i", "ij,ij->j")])
        return max(_FIRST_RESIDUAL * self._residual, _FIRST_WORST * float(np.sqrt(np.max(squares / self._counts))))

    @property
    def _settled(self) -> bool:
        return self._pending <= self._pace.rest * self.mu

    def _at_rest(self, step: Step) -> bool:
        return step.before - step.after < self._pace.idle * self.mu * self._entries

    def _cost_at(self, mu: float) -> float:
        self._cost.surrogate = Surrogate("log", mu)
        return self._cost.evaluate(self._problem.B, self._problem.A.T)

    def _set(self, mu: float) -> None:
        """Change mu and with it the ridge, at the point evaluated last."""
        self.mu = mu
        self._cost.surrogate = Surrogate("log", mu)
        self._problem.ridge = self._strength * mu / self._data_scale
        self._value = self._problem.evaluate_again()

    def _next(self) -> float:
        """Return the mu of the next step."""
        mu = self.mu
        if self._settled:
            mu = max(min((_WIDTH * self._residual) ** 2, self._pace.unsettled * mu), self._pace.settled * mu)
        elif self._waited >= self._pace.hold:
            mu = self._pace.unsettled * mu
        return max(mu, self._end)

    def _step(self) -> Step | None:
        before = self._value
        after = self._search.step(before)
        self._pending = float(np.max(self._search.decrements() / self._counts))
        if after is None:
            self._value = self._problem.evaluate(self._problem.point)  # the trial evaluated last was refused
            return None
        self._value = after
        return self._seen(before, after)

    def _seen(self, before: float, after: float) -> Step:
        self._residual = self._scale.of_residual(self._problem.A, self._problem.B, self.mu)
        return Step(self._problem.A, self._problem.B, self._cost.surrogate.mu, before, after)
