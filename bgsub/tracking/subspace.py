"""The tracked subspace with fixed mu and w: basis, past gradient, moment of the coefficients, and its steps."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from bgsub.errors import ParameterError
from bgsub.numerics.state import FINITE, LARGEST, State, array_of, moment_of, part_of
from bgsub.numerics.surrogates import Surrogate
from bgsub.parameters import TrackerParameters
from bgsub.tracking import _kernels, _step_kernels
from bgsub.tracking.basis import DRIFTED, Basis, Cost, DeferredStep, Visit
from bgsub.tracking.batch_start import first_mu
from bgsub.tracking.step import carried, cost_bound, make_step, search

USUAL = "scaled", "objective", "model"  # metric, line search and carry for which the step has a closed form
Limit = Callable[[], float]
EVERYTHING = np.empty(0, np.float32)  # all entries are observed
_ORTHONORMALISE_EVERY = 250  # updates
_NEGLIGIBLE = 1e-6  # squared length of the coefficients of a black frame; `retarget` cannot divide by it ...
_FAINT = 0.01  # ... and gives them this RMS instead, as a share of full scale
_DEPENDENT, _NOISE = 1e-2, 1e-3  # singular value of U below which `Basis.factorise` replaces Cholesky; its noise
_SHRUNK = 0.5  # least eigenvalue of ``U'U`` after `retarget`, below which dividing by it amplifies rounding errors
_INEXACT = 1e3  # largest singular value of `_fading`, and inverse of the least one, with which `restore` is exact
_LARGEST_ENERGY = 4.0  # of coefficients, squared, per entry: at most 1 for an image in [0, 1], more in a forged model
_COLD_MEMORIES = 20  # memories 1/w over which a cold start shrinks mu, so that early outliers are forgotten
_STEPS, _TOLERANCE = 15, 1e-4  # most reweightings of a fit of y, and the relative change of y that ends them
_JUMP = 0.1  # change of y, relative to y, ...
_EXPLAINED = 0.7  # ... that must explain this share of the observed values: an object that hides most of the frame ...
_NEAR = 1.3  # ... does not; a value is explained up to a residual of this many limits of the mask
_NO_BACKGROUND = 1e3  # low-rank part before the first fit: far from any image, so that `Fit.change` is large
_APART = 0.05  # largest relative difference of the basis on the subset; some 1e-5 is usual


@dataclass(eq=False, slots=True)
class Fit:
    """A vector on the pixel subset, and its coefficients."""

    values: np.ndarray  # (s,) float32
    a: np.ndarray  # (s,) float32, observed entries, 0 or 1; empty for all
    start: np.ndarray  # (k,) float64, coefficients of the vector before
    y: np.ndarray  # (k,) float64
    low_rank: np.ndarray  # (s,) float32, ``U y``
    change: float  # root mean square change of the low-rank part; large after `PixelSubset.gather`
    influence: np.ndarray  # (s,) float32, ``A psi(A(x - U y))``


class PixelSubset:
    """The basis on a random subset, `index` (s,) int64, on which the coefficients are fitted (paper, algorithm 6)."""

    def __init__(self, index: np.ndarray, k: int) -> None:
        self.index, self._k = index, k
        self.stack = np.zeros((k + 1, index.size), np.float32)  # rows of U', then the influence
        self.work = np.empty(k + 1, np.float32), np.empty(_kernels.BLOCK, np.float32)  # of a step
        self._work = np.empty(index.size, np.float32), np.empty(k, np.float32), np.empty((k, k)), np.empty(k)
        self._low_rank = np.full(index.size, _NO_BACKGROUND, np.float32)

    def gather(self, stack: np.ndarray, deferred: DeferredStep) -> None:
        """Read the basis ``(V + D(e) G) N``, V' and e' the rows of `stack`."""
        self._low_rank[:] = _NO_BACKGROUND
        turns = self.index // deferred.block % len(deferred.G)
        V = stack[: self._k, self.index] + deferred.G.astype(np.float32)[turns].T * stack[self._k, self.index]
        self.stack[: self._k] = deferred.N.T.astype(np.float32) @ V

    def state(self) -> State:
        """Return copies of the basis on the subset, whose rounding is its own, and of the low-rank part."""
        return {"stack": self.stack.copy(), "low_rank": self._low_rank.copy()}

    def set_state(self, state: State) -> None:
        """Restore a state for the gathered basis; ParameterError when it does not fit."""
        stack, k = array_of(state, "stack", self.stack.shape, "float32"), self._k
        if not np.abs(stack[:k] - self.stack[:k]).max() <= _APART * np.abs(self.stack[:k]).max():
            raise ParameterError("the saved subset does not fit the saved basis")
        self.stack[:] = stack
        self._low_rank[:] = array_of(state, "low_rank", self._low_rank.shape, "float32")

    def step(self, T: np.ndarray, fit: Fit, weights: np.ndarray | None) -> None:
        """Apply the step T, (k, k + 1), of the whole basis here; `weights`, (s,) float32, multiply e, None for 1."""
        np.multiply(fit.influence, 1 if weights is None else weights, out=self.stack[self._k])
        self.stack[: self._k] = T.astype(np.float32) @ self.stack

    def fit(self, values: np.ndarray, a: np.ndarray, y: np.ndarray, cost: Cost, limit: Limit | None = None) -> Fit:
        """Fit ``argmin_y h(A(x - U y))`` from the previous y, (k,); `limit` returns the residual limit of the mask."""
        fit = self._fitted(values, a, y, cost, _STEPS)
        change = fit.y - y  # a jump that does not explain most values is undone
        if limit is not None and change @ change > _JUMP**2 * (y @ y):
            near = np.abs(values - fit.low_rank) < _NEAR * limit()
            if (near @ a < _EXPLAINED * a.sum()) if a.size else near.mean() < _EXPLAINED:
                fit = self._fitted(values, a, y, cost, 0)
        self._low_rank = fit.low_rank
        return fit

    def _fitted(self, values: np.ndarray, a: np.ndarray, start: np.ndarray, cost: Cost, steps: int) -> Fit:
        """Return the fit after some steps of reweighted least squares."""
        y, (low_rank, e) = np.empty(self._k), np.empty((2, self.index.size), np.float32)
        known = self.stack[: self._k], values, a, *cost, steps, _TOLERANCE, start, self._low_rank
        moved = _kernels.subset_coefficients(*known, y, low_rank, e, *self._work)
        return Fit(values, a, start, y, low_rank, math.sqrt(moved), e)


class Sweep(NamedTuple):
    """The input of the engine's pass over the model, and what `Subspace.end` needs after it."""

    visit: Visit
    cost: Cost
    fit: Fit
    number: int
    basis: Basis


@dataclass(eq=False, slots=True)
class SubspaceUpdate:
    """The input of `Subspace.update`: results of a pass over the model for one vector; each serves once."""

    fit: Fit
    products: np.ndarray  # (k + r + 1,), of the influence e with ``[U Q e]``
    cost: float  # ``h(A(x - U y))``
    number: int  # of the pass
    weights: np.ndarray | None = None
    vector: tuple[np.ndarray, np.ndarray] | None = None  # x and a


class Subspace:
    """A subspace that follows a stream of vectors, one step per vector, with fixed smoothing and weight."""

    def __init__(
        self, parameters: TrackerParameters, surrogate: Surrogate, index: np.ndarray, basis: Basis, Y: np.ndarray
    ) -> None:
        k, n = basis.k, len(Y)
        self.parameters, self._surrogate, self.basis = parameters, surrogate, basis
        moments = np.asarray(Y, np.float64)
        self._R = np.zeros((0, k))
        self._C = moments.T @ moments / n if n else np.zeros((k, k))
        self.y = moments[-1].copy() if n else np.zeros(k)
        self.step_length, self.objective, self.updates = 0.0, (0.0, 0.0), 0
        self.cold_scale, self._warmth = 0.0, 0.0  # size of the data, 0 unless the start was cold; sum of w since then
        self._passes, self._small = 0, np.empty((k + 1, k))  # number of the newest pass: older ones are void; work
        self._final_cost = Cost(surrogate.code, np.float32(surrogate.mu), np.float32(surrogate.p))
        self._low_rank = EVERYTHING
        self._fading = np.stack([np.eye(k)] * 2)  # products P and Q of M and `turn` of `_fade` since `restore`
        self._subset = PixelSubset(index, k)
        self._subset.gather(basis.stack, basis.deferred)

    # -- one vector ----------------------------------------------------------------------------------------------

    def fit(self, values: np.ndarray, a: np.ndarray) -> Fit:
        """Fit the coefficients to a vector on the subset; arguments as in `begin`."""
        fit = self._subset.fit(values, a, self.y, self._cost())
        self.y = fit.y
        return fit

    def separate(self, x: np.ndarray, a: np.ndarray = EVERYTHING) -> SubspaceUpdate:
        """Fit a vector, (m,) float32, and separate it from the subspace, by plain passes; return input of `update`."""
        basis = self.basis
        basis.carry_out()
        index = self._subset.index
        fit = self.fit(x[index], a[index] if a.size else a)
        if not self._low_rank.size:
            self._low_rank = np.empty(basis.m, np.float32)
        rows = self._active()
        products = np.empty(len(rows))
        y = fit.y.astype(np.float32)
        outputs = self._low_rank, products, basis.work[0]
        cost = _kernels.residual_sweep(rows, self.basis.k, y, x, a, *self._cost(), *outputs)
        basis.newest = -1
        self._passes += 1
        return SubspaceUpdate(fit, products, cost, self._passes, vector=(x, a))

    def begin(self, values: np.ndarray, a: np.ndarray, period: int, block: int, limit: Limit | None = None) -> Sweep:
        """Fit a vector on the subset, (s,) float32; return the input of the engine's one pass over the model."""
        # drops a past gradient; `values` and `a` must not change before `update`; `limit`: see `PixelSubset.fit`
        self._R = self._R[:0]
        cost = self._cost()
        fit = self._subset.fit(values, a, self.y, cost, limit)
        self.y = fit.y
        self._passes += 1
        return Sweep(self.basis.begin_visit(fit.y, period, block), cost, fit, self._passes, self.basis)

    def end(self, sweep: Sweep, products: np.ndarray, cost: float, weights: np.ndarray) -> SubspaceUpdate:
        """Return the input of `update` after a pass; ParameterError when another pass has begun since."""
        if sweep.number != self._passes:
            raise ParameterError("end needs the sweep of the newest begin")
        return SubspaceUpdate(sweep.fit, self.basis.end_visit(sweep.visit, products), cost, sweep.number, weights)

    def update(self, influence: SubspaceUpdate, w: float) -> None:
        """Learn from the newest vector: steps 2 to 6 of the tracking algorithm; ParameterError for another one."""
        if influence.number != self._passes:
            raise ParameterError("update needs the influence of the newest pass, once")
        if not self._full_step(influence, w):
            self._searched_step(influence, w)
        self._passes += 1
        self.updates += 1
        a = EVERYTHING if influence.vector is None else influence.vector[1]
        self._warmth += w * (float(a.mean()) if a.size else 1.0)
        if self.updates % _ORTHONORMALISE_EVERY == 0:
            self._orthonormalise()

    def _full_step(self, influence: SubspaceUpdate, w: float) -> bool:
        """Take the full step of the usual case if its bound allows it; return whether it was taken."""
        p = self.parameters
        if len(self._R) or (p.metric, p.line_search, p.gradient_carry) != USUAL:
            return False
        k = self.basis.k
        y, a, b, objective = influence.fit.y.copy(), np.empty(k + 1), np.empty(k), np.empty(2)
        step = influence.products, self._C, y, w, influence.cost, a, b, objective, self._small, self._fading
        if self.basis.newest >= 0 and influence.weights is not None:
            deferred, subset = self.basis.deferred, self._subset
            small = deferred.N, deferred.inverse, deferred.G[deferred.turn]
            own = subset.stack, influence.fit.influence, influence.weights, *subset.work
            skew = _step_kernels.deferred_step(*step, *small, *own)
            if skew < 0:
                return False
            self.basis.stepped(skew)
        elif _step_kernels.full_step(*step):
            T = np.eye(k, k + 1) + np.outer(b, a)
            self._subset.step(T, influence.fit, influence.weights)
            self.basis.step(T)
        else:
            return False
        self.y = y
        self.step_length = 1.0 if influence.products[k] else 0.0
        self.objective = float(objective[0]), float(objective[1])
        return True

    def _searched_step(self, influence: SubspaceUpdate, w: float) -> None:
        """Take a step of the length that the line search finds."""
        k, y, basis, vector = self.basis.k, influence.fit.y, self.basis, influence.vector
        step = make_step(influence.products, self._R, self._C, y, w, self.parameters.metric)
        last = None if self.parameters.line_search == "objective" else self.step_length
        costs: list[Callable[[np.ndarray], float]] = [partial(cost_bound, influence.cost, influence.products, y)]
        if vector is not None:
            rows, constants = self._active(), (*vector, *self._cost(), basis.work)
            costs.append(lambda c: _kernels.trial_cost(rows, c.astype(np.float32), *constants))
        t, theta, self.objective = search(step, influence.cost, costs, y, w, last)
        self.step_length = t
        self._C = (1 - w) * self._C + w * np.outer(y, y)
        R = carried(step.R, t, self._C, self.parameters.metric, self.parameters.gradient_carry)
        # the engine's pass (no vector) does not compute products with a past gradient: it is dropped
        R_old, self._R = self._R, R[:0] if vector is None or not np.any(R) else R
        T = (step.basis @ theta).T[: k + len(self._R)]
        if len(R_old):
            basis.transform(T)
            self._subset.gather(basis.stack, basis.deferred)
        else:
            self._subset.step(T[:k], influence.fit, influence.weights)
            basis.step(T)
            self._fade(T[:k, :k], theta[:k, :k].T)
        self.y = theta[:k, :k].T @ y

    def retarget(self, target: np.ndarray, where: np.ndarray | None = None, start: int = 0) -> None:
        """Add ``(target - U y) y' / |y|^2`` to the basis: `target`, (n,) float32, becomes the newest low-rank part."""
        # the coefficients of the past stay
        if float(self.y @ self.y) <= _NEGLIGIBLE:  # all is black: any small coefficients show the target
            self.y = np.eye(self.basis.k)[-1] * _FAINT * math.sqrt(self.basis.m)
        y = self.y
        chosen = np.empty(0, np.uint8) if where is None else where
        least, most = self._rotate(self.basis.retarget(target, chosen, start, y)), _LARGEST_ENERGY * self.basis.m
        if least < _SHRUNK or float(y @ y) > most:  # that Gram matrix is inexact
            self._orthonormalise()
        self._C *= most / max(float(np.trace(self._C)), most)

    def scale(self, factors: np.ndarray) -> None:
        """Multiply the rows of U, and so what it shows, by `factors`, (m,) float32."""
        self._rotate(self.basis.scale(factors))

    def move(self, places: np.ndarray) -> None:
        """Take over the rows of U of other entries, (m,) indices."""
        self._rotate(self.basis.move(places))

    def _fade(self, M: np.ndarray, turn: np.ndarray) -> None:
        """Record a step for `restore`: an unobserved row u of U becomes ``u M'``, coefficients y become ``turn y``."""
        P, Q = self._fading
        P[:], Q[:] = M @ P, turn @ Q

    def restore(self, where: np.ndarray) -> None:
        """Undo the steps since the last call at entries that none of them observed: `where`, (m,) uint8, is not 0."""
        # a step changes unobserved rows as well, since its direction q is not 0 there, and no frame corrects them:
        # such a row u has become u P', and should only follow the change of coordinates to u Q'
        if where.any():
            self._limit_fading()
            P, Q = self._fading
            self._rotate(self.basis.multiply(np.linalg.solve(P.T, Q.T), where))
        self._fading[:] = np.eye(self.basis.k)

    def _limit_fading(self) -> None:
        """Reset P and Q if they are too large or too nearly singular for `restore`; rows then stay as they are."""
        sizes = np.linalg.svd(self._fading, compute_uv=False)
        if not 1 / _INEXACT < sizes.min() <= sizes.max() < _INEXACT:
            self._fading[:] = np.eye(self.basis.k)

    def _active(self) -> np.ndarray:
        """Return the rows in use: U', Q' and the row of the influence e."""
        return self.basis.stack[: self.basis.k + len(self._R) + 1]

    def _cost(self) -> Cost:
        """Return the cost, whose mu shrinks after a cold start from the scale of the data to its final value."""
        share = self._warmth / _COLD_MEMORIES
        if self.cold_scale == 0.0 or share >= 1:
            return self._final_cost
        first = first_mu(self._surrogate, self.cold_scale)
        return self._final_cost._replace(mu=np.float32(first * (self._surrogate.mu / first) ** share))

    def _orthonormalise(self) -> None:
        """Remove the rounding drift of [U Q] by the Cholesky factor of its Gram matrix."""
        k, r, basis = self.basis.k, self._R.shape[0], self.basis
        if not r:
            self._rotate(basis.gram())
            return
        rows = basis.stack[: k + r]
        L = np.linalg.cholesky((rows @ rows.T).astype(np.float64))
        basis.transform(np.linalg.inv(L))
        self._change_coordinates(L[:k, :k])
        self._R = L[k:, k:].T @ self._R
        self._subset.gather(basis.stack, basis.deferred)

    def _rotate(self, gram: np.ndarray) -> float:
        """Make the basis with the Gram matrix `gram`, (k, k), orthonormal; return its least eigenvalue."""
        # a past gradient and a pass without its `update` belong to the old basis
        self._R = self._R[:0]
        self._passes += 1
        basis, least = self.basis, float(np.linalg.eigvalsh(gram)[0])
        if least > _DEPENDENT**2:
            L = np.linalg.cholesky(gram)
            basis.deferred.rotate(L)
        else:
            L = basis.factorise(_NOISE)
        self._change_coordinates(L)
        self._subset.gather(basis.stack, basis.deferred)
        return least

    def _change_coordinates(self, L: np.ndarray) -> None:
        """Express coefficients and moment in the basis ``U L^-T``; L (k, k)."""
        self.y = L.T @ self.y
        self._C = L.T @ self._C @ L
        self._fading = np.linalg.solve(L, self._fading)
        self._limit_fading()

    # -- files ---------------------------------------------------------------------------------------------------

    def state(self) -> State:
        """Return a copy of everything that the next vector depends on."""
        return {
            "basis": self.basis.state(self.basis.k + len(self._R) + 1),
            "subset": self._subset.state(),
            "R": self._R.copy(),
            "C": self._C.copy(),
            "fading": self._fading.copy(),
            "coefficients": self.y.copy(),
            "objective": np.array(self.objective, np.float64),
            "counters": np.array([self.updates, self.step_length, self.cold_scale, self._warmth]),
        }

    def set_state(self, state: State) -> None:
        """Set all but the basis, which the constructor got; ParameterError when it does not fit."""
        k = self.basis.k
        rows = len(array_of(part_of(state, "basis"), "stack", (None, None), "float32")) - (not self.basis.is_settled)
        self._R = array_of(state, "R", (rows - k, k), "float64", -(LARGEST**2), LARGEST**2)
        if len(self._R):  # no step is deferred then
            directions = self._active()[:-1]
            if not np.allclose(directions @ directions.T, np.eye(rows), rtol=0.0, atol=DRIFTED):
                raise ParameterError("the saved gradient is not orthonormal")
        self._C = moment_of(state, "C", k)
        self._fading = array_of(state, "fading", (2, k, k), "float64", -LARGEST, LARGEST)
        self.y = array_of(state, "coefficients", (k,), "float64")
        before, after = array_of(state, "objective", (2,), "float64", -FINITE, FINITE).tolist()  # may be negative
        self.objective = before, after
        counters = array_of(state, "counters", (4,), "float64", -1, LARGEST)  # -1: see `SubspaceTracker.partial_fit`
        updates, self.step_length, self.cold_scale, self._warmth = counters.tolist()
        self.updates = int(updates)
        self._subset.set_state(part_of(state, "subset"))
