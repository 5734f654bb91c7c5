"""One graduated fit of robust PCA: mu falls from a large value to the noise, or until only outliers are left."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum, auto
from itertools import islice
from typing import NamedTuple

import numpy as np

from bgsub.numerics.surrogates import Surrogate
from bgsub.robust_pca.conjugate_gradient import ConjugateGradients
from bgsub.robust_pca.cost import FactorProblem, RobustCost
from bgsub.robust_pca.irls import refit_rows
from bgsub.robust_pca.noise import CLEAR, NORMAL_RIDGE, NoiseFloor, ResidualScale, gap, is_noise, is_within, noise_norm
from bgsub.robust_pca.parameters import ContinuationSchedule, Settings
from bgsub.robust_pca.svd import balanced, factor_svd

_FIRST = np.sqrt(2)  # the first width, in scales of the data
_FIRST_RESIDUAL = 6  # and at most this many scales of the first residual ...
_LIFT = 1.6  # times the spectral norm of the influence, were its entries independent and one side very long
_FIRST_WORST = 2  # ... or times its root mean square in the worst sample or feature
_WIDTH = 3  # the least width after a settled step, in scales of its residual
_CHECKED = 1.3  # fall of mu between two looks at the singular values
_FEW = 0.75  # of the median weight per entry; rows below it are refitted
_VANISHED = 1e-3  # share of an earlier residual
_TESTED = 1e-2  # of the first mu: the least at which the influence is tested
_STEPS = 1000  # of one fit
_RESTS = 3  # idle steps in a row that end a fit


@dataclass(frozen=True)
class Task:
    """The data, the cost and the limits of a fit."""

    settings: Settings
    cost: RobustCost  # data and mask; its surrogate is the one of the result
    unit: float  # the scale of the data
    schedules: tuple[ContinuationSchedule, ...]  # of the fits
    first: float | None  # first and last width (`Surrogate.scale`); None takes them from the data
    last: float | None
    tolerance: float  # the fit ends if the scale of the residual is below this share of that of the data
    budget: Iterator[int]  # one item for each step that all fits together may take
    bound: bool = True  # whether the rank may be below the given one


class Step(NamedTuple):
    """Factors A, (n, k), and B, (m, k), after a step at mu; the objective, ridge included, before and after it."""

    A: np.ndarray
    B: np.ndarray
    mu: float
    before: float
    after: float


class Ending(Enum):
    """Why a descent ended."""

    EXACT = auto()  # only outliers are left
    NOISE = auto()  # the residual of the inliers is noise
    REST = auto()  # at the last width, no step gains much


class Descent:
    """One fit with one schedule."""

    def __init__(self, task: Task, schedule: ContinuationSchedule, A: np.ndarray, B: np.ndarray) -> None:
        self._task, self._cost, self._schedule = task, task.cost, schedule
        self._strength = self._usual = schedule.ridge * float(np.sqrt(A.shape[1]))
        self._scale = ResidualScale(task.cost.X, task.cost.observed, A.shape[1], task.settings.rng)
        self._data_scale = self._scale.of_data()
        self._least = task.tolerance * self._data_scale
        self._end = (task.last or self._least) ** 2
        self._entries = int(np.count_nonzero(task.cost.observed))
        self._counts = np.concatenate([task.cost.observed.sum(axis=axis) for axis in (1, 0)]).clip(1)
        self._problem = FactorProblem(task.cost, np.concatenate(balanced(A, B)), 0.0)
        self._search = ConjugateGradients(self._problem, probing=False)
        self._residual = self._scale.of_residual(A, B)
        self._checked = np.inf if task.bound else 0.0
        self._floor = NoiseFloor()
        self._waited = self._rests = 0
        self._value = self._pending = np.inf
        self.ending: Ending | None = None  # None too for a fit that the budget cut short
        self.mu: float = np.inf  # of ``log``

    def run(self) -> Iterator[Step]:
        """Yield each step until the fit ends."""
        if self._data_scale == 0:
            self.ending = Ending.EXACT
            return
        self._problem.evaluate(self._problem.point)
        first = self._task.first or min(_FIRST * self._data_scale, self._first_residual())
        self._set(max(first**2, self._end))
        if self._task.bound:
            # the ridge exceeds the pull of the outliers of one sample or feature, until the fit has settled
            E = self._cost.influence
            pull = _LIFT * float(np.linalg.norm(E)) / np.sqrt(min(E.shape))
            self._strength = max(self._usual, pull * self._data_scale / self.mu)
            self._set(self.mu)
        for _ in islice(self._task.budget, _STEPS):
            step = self._step()
            if step is not None:
                yield step
                yield from self._after(step)
            elif self.mu > self._end:
                self._set(self._schedule.unsettled * self.mu)
            else:
                self.ending = Ending.REST
            if self.ending is not None:
                yield from self._refit()
                return

    def explains(self, residual: float) -> bool:
        """Return whether the fit left no low rank: noise only, or a vanishing share of an earlier `residual`."""
        return (self._residual < _VANISHED * residual or self.ending is Ending.NOISE) and self._is_noise()

    def finish(self, surrogate: Surrogate, repeated: bool) -> Iterator[Step]:
        """Yield the remaining steps at the last width with the surrogate of the result; its own mu is not used."""
        if np.isinf(self.mu):  # only zeros
            self._cost.surrogate = surrogate
            value = self._problem.evaluate(self._problem.point)
            yield self._result(value, value)
            return
        if surrogate.name == "log" and not repeated and self.ending is not Ending.NOISE:
            return
        self._cost.surrogate = surrogate.at_scale(np.sqrt(self.mu))
        self._problem.ridge = self._strength * self.mu / self._data_scale
        if self.ending is Ending.NOISE:
            self._problem.ridge *= NORMAL_RIDGE / self._schedule.ridge
        self._value = self._problem.evaluate(self._problem.point)
        yield self._result(self._value, self._value)
        self._search = ConjugateGradients(self._problem, probing=False)
        for _ in self._task.budget:
            step = self._step()
            if step is None:
                return
            yield step
            if self._is_idle(step):
                return

    def beats(self, other: "Descent") -> bool:
        """Return whether the cost is lower than that of another fit, at the larger mu of both, without the ridge."""
        mu = max(self.mu, other.mu)
        return self.ending is Ending.EXACT or self._cost_at(mu) < other._cost_at(mu)

    def _step(self) -> Step | None:
        before = self._value
        after = self._search.step(before)
        # row by row twice the decrease that a quadratic model of curvature one predicts
        self._pending = float(np.max(np.einsum("ij,ij->i", *self._search.gradients) / self._counts))
        if after is None:
            self._value = self._problem.evaluate(self._problem.point)  # the last evaluation was a refused trial
            return None
        self._value = after
        return self._result(before, after)

    def _result(self, before: float, after: float) -> Step:
        self._residual = self._scale.of_residual(self._problem.A, self._problem.B, self.mu)
        return Step(self._problem.A, self._problem.B, self._cost.surrogate.mu, before, after)

    def _after(self, step: Step) -> Iterator[Step]:
        """Decide whether the fit has ended, and set the next mu; yield the steps of a trial with a lower rank."""
        if self._task.last is None:
            self._look_for_noise()
        if self.ending is None and self._settled:
            yield from self._try_fewer()
        if self.ending is None:
            self._lower(step)

    def _look_for_noise(self) -> None:
        """End the fit if the residual has vanished, or at the mu below which it no longer falls."""
        if self._residual <= self._least:
            self.ending = Ending.EXACT
        elif self._floor.reached(self.mu, self._residual, self._problem.point, self._settled):
            self._problem.point, self.mu, self.ending = self._floor.point, self._floor.mu, Ending.NOISE

    def _lower(self, step: Step) -> None:
        """Lower mu, or end the fit if mu cannot fall and the last steps were idle."""
        self._waited += 1
        if self._strength > self._usual and self._settled:
            self._strength = self._usual
            self._set(self.mu)
            return
        mu = self.mu
        if self._settled:
            mu = max(min((_WIDTH * self._residual) ** 2, self._schedule.unsettled * mu), self._schedule.settled * mu)
        elif self._waited >= self._schedule.hold:
            mu = self._schedule.unsettled * mu
        mu = max(mu, self._end)
        if mu < self.mu:
            self._set(mu)
            self._waited = self._rests = 0
            return
        self._rests = self._rests + 1 if self._is_idle(step) else 0
        if self._rests == _RESTS:
            inliers_only = self._task.last is not None and is_within(self._residual, self.mu)
            self.ending = Ending.EXACT if inliers_only else Ending.REST

    def _set(self, mu: float) -> None:
        """Change mu and the ridge, at the last evaluated point."""
        self.mu = mu
        self._cost.surrogate = Surrogate("log", mu)
        self._problem.ridge = self._strength * mu / self._data_scale
        self._value = self._problem.evaluate_again()

    @property
    def _settled(self) -> bool:
        return self._pending <= self._schedule.rest * self.mu

    def _is_idle(self, step: Step) -> bool:
        return step.before - step.after < self._schedule.idle * self.mu * self._entries

    def _cost_at(self, mu: float) -> float:
        self._cost.surrogate = Surrogate("log", mu)
        return self._cost.evaluate(self._problem.B, self._problem.A.T)

    def _first_residual(self) -> float:
        """Return a first width above the inliers' residual in every sample and feature; overwrites the influence."""
        r = np.subtract(self._cost.X, self._cost.low_rank, out=self._cost.influence)
        np.multiply(r, self._cost.observed, out=r)
        squares = np.concatenate([np.einsum(to, r, r, dtype=np.float64) for to in ("ij,ij->i", "ij,ij->j")])
        return max(_FIRST_RESIDUAL * self._residual, _FIRST_WORST * float(np.sqrt(np.max(squares / self._counts))))

    def _refit(self) -> Iterator[Step]:
        """Refit samples and features that fit some outliers; yield a step if that lowers the objective.  O(m n)."""
        if self.ending is Ending.NOISE:  # the point is an earlier one
            self._problem.evaluate(self._problem.point)
            self._set(self.mu)
        lost = self._cost.X - self._cost.low_rank
        lost *= self._cost.influence
        lost = np.concatenate([part @ np.ones(part.shape[1], part.dtype) for part in (lost, lost.T)])
        weight = 1 - lost / (self.mu * self._counts)
        few = np.flatnonzero(weight < _FEW * np.median(weight))
        if not len(few):
            return
        log, first = Surrogate("log", self.mu), (_FIRST * self._data_scale) ** 2
        point = refit_rows(self._cost, self._problem.point, few, log, first, self._problem.ridge)
        before, after = self._value, self._problem.evaluate(point)
        if after < before:
            self._problem.point, self._value = point, after
            yield self._result(before, after)

    def _try_fewer(self) -> Iterator[Step]:
        """Yield the steps of a fit without the empty directions, if any; keep it if it explains the data."""
        fewer = self._fewer()
        if fewer is None:
            return
        yield from fewer.run()
        if fewer.explains(self._residual):
            self._adopt(fewer)
        else:
            self._problem.evaluate(self._problem.point)
            self._set(self.mu)
        yield self._result(self._value, self._value)  # the result if the budget is used up

    def _fewer(self) -> "Descent | None":
        """Return a fit without the directions that the ridge left empty, if there is a clear gap."""
        # an empty direction may also be a weak true one, so the smaller fit has to explain the data
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
        return Descent(task, self._schedule, A[:, :rank] * values[:rank], B[:, :rank])

    def _adopt(self, other: "Descent") -> None:
        """Adopt a fit with fewer directions, padded with empty ones."""
        point = np.zeros_like(self._problem.point)
        point[:, : other._problem.point.shape[1]] = other._problem.point
        self._problem.point = point
        self._scale, self._strength, self.ending = other._scale, other._strength, other.ending or Ending.REST
        self._usual = self._strength
        self._problem.evaluate(point)
        self._set(other.mu)

    def _is_noise(self) -> bool:
        """Return whether no singular value of the influence exceeds those of independent entries."""
        # tested at a mu not far below the first one, where more than a few outliers of about that size contribute
        last = self.mu
        self._problem.evaluate(self._problem.point)
        self._set(max(last, _TESTED * (self._task.first or 0) ** 2))
        self.mu = last
        return is_noise(self._cost.influence, self._task.settings.rng)
