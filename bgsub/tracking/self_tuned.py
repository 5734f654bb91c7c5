"""A subspace that tunes itself: the scale of each entry, the forgetting factor, the momentum and the rank."""

import numpy as np

from bgsub.errors import ParameterError
from bgsub.numerics.state import FINITE, State, array_of, moment_of, numbers_of, part_of
from bgsub.numerics.surrogates import Surrogate
from bgsub.tracking import _self_tuned_kernels
from bgsub.tracking.basis import Basis, gram_of
from bgsub.tracking.tuning import AdaptiveForgetting, ColdStart, RankSearch
from bgsub.tracking.validation import check_size

_FIT = 6, 8, 1e-6  # fit of y: stages of shrinking scales, most iterations at the end, relative change that ends them
_STEP = float(np.exp(0.05))  # factor of a scale per vector, up or down, towards the median of its residual
_CALM = 2.0  # median of residual / scale up to which, and down to its inverse, each scale changes by `_STEP` only
_TOGETHER = 0.2  # beyond that, all scales are multiplied by the excess to this power
_LEAST_FREEDOM = 0.1  # least share of the degrees of freedom that a fit of y is assumed to leave
_ROUNDING = 1e-7  # least scale, relative to the RMS of the vectors
_FIRST_FITS = 3  # fits of the first vector that find its scale
_GRAM_EVERY = 100  # vectors after which `_gram` is computed from the rows again, as updates accumulate rounding
_DRIFTED = 1e-3  # largest rounding error of `_gram` in a saved state


class SelfTunedSubspace:
    """A subspace that follows a stream of vectors and learns the stream's scales, speed and rank."""

    # median angle to the true subspace over three seeds, beside `Subspace` with the best of three fixed settings:
    # without noise 1e-7 and 3e-4, turning by 0.001 per vector 3e-4 and 3e-2, after a change 0.002 and 0.8

    def __init__(
        self,
        basis: Basis,
        surrogate: Surrogate,
        index: np.ndarray,
        coefficients: np.ndarray,
        forgetting: float | None = None,
        has_own_scales: bool = True,
        search: RankSearch | None = None,
    ) -> None:
        k, n = basis.k, index.size
        self.basis, self._surrogate, self._index, self._search = basis, surrogate, index, search
        self._has_own_scales = has_own_scales
        moments = np.asarray(coefficients, np.float64)
        self._C = moments.T @ moments / len(moments) if len(moments) else np.zeros((k, k))
        self._y = moments[-1].copy() if len(moments) else np.zeros(k)
        self.scale = np.zeros(basis.m, np.float32)
        self.forgetting = AdaptiveForgetting(k, n, forgetting)
        self.step_length, self.objective, self.updates = 0.0, (0.0, 0.0), 0
        self._cold = ColdStart()
        self._gram = np.zeros((2 * k, 2 * k))  # inner products of the rows [U V]
        self._gram[:k, :k] = np.eye(k)
        self._rows, self._work = np.empty((k, n), np.float32), np.empty((4, n), np.float32)
        self._e = np.empty(n, np.float32)
        self._small = np.empty(k, np.float32), np.empty((k, k)), np.empty(k)
        self._newest: tuple[np.ndarray, np.ndarray] | None = None  # vector on the subset, until y is fitted to it again

    @property
    def y(self) -> np.ndarray:
        """Coefficients of the newest vector in the newest basis, (k,), float64."""
        if self._newest is not None:
            self._y, _, _ = self._fit(self._unpredicted(), *self._newest)
            self._newest = None
        return self._y

    def learn(self, x: np.ndarray, a: np.ndarray) -> None:
        """Learn from a vector, (m,) float32, if k entries are observed; `a`, 0 or 1, (m,) or empty for all."""
        self.updates += 1
        seen = int(np.count_nonzero(a)) if a.size else x.size
        if seen < self.basis.k or not (self.scale[0] or self._find_scale(x, a, seen)):
            return
        self._step(x, a)
        if self.updates % _GRAM_EVERY == 0:
            self._gram = gram_of(self.basis.stack[: 2 * self.basis.k, : self.basis.m])

    def _step(self, x: np.ndarray, a: np.ndarray) -> None:
        """Predict the subspace, fit y, pass over the vector; update basis, scales, forgetting and rank search."""
        bound = self._cold.bound(x, float(a.mean()) if a.size else 1.0)
        if bound is not None:  # the momentum stays at 0 while most scales are at the bound
            np.minimum(self.scale, np.float32(bound), out=self.scale)
            if not self._cold.is_free(float(np.median(self.scale[self._index])) / bound):
                self.forgetting.momentum = 0.0
        k, s = self.basis.k, self._surrogate
        P, Q, T = np.empty((k, 2 * k)), np.empty((k, 2 * k)), np.empty((2 * k, 2 * k + 1))
        _self_tuned_kernels.predict(self._gram, self.forgetting.momentum, self._C, P, Q)
        values, seen = x[self._index], a[self._index] if a.size else a
        y, share, ratio = self._fit(P.astype(np.float32), values, seen)
        c = P.T @ y
        follow, growth = self._scale_steps(share, ratio, c)
        products, objective, z = np.empty(2 * k + 1), np.empty(2), np.empty(k)
        arguments = s.code, np.float32(s.mu), np.float32(s.p)
        cost = _self_tuned_kernels.self_tuned_sweep(
            self.basis.stack, k, c.astype(np.float32), x, a, self.scale, follow, *arguments, products, self.basis.work
        )
        movement = Q.T @ y
        length = np.sqrt(max(products[2 * k] * (movement @ self._gram @ movement), 0.0))
        agreement = float(movement @ products[: 2 * k] / length) if length > 0 else 0.0
        inside, at = P @ products[: 2 * k], y.copy()
        weights = self.forgetting.w, share
        known, rates = (self._gram, P, Q, products, self._C, y, weights, cost), self.forgetting.velocity_rates
        taken = _self_tuned_kernels.self_tuned_step(*known, *rates, T, objective, z)
        self.basis.transform(T)
        self.step_length, self.objective = float(taken), (float(objective[0]), float(objective[1]))
        self.forgetting.adapt((self._rows, self._e, self._work[2]), (at, z, inside), agreement, growth, taken)
        self._y, self._newest = y, (values, seen)
        if self._search is not None:
            self._search.observe(self.basis, at, share)

    def _fit(self, P: np.ndarray, values: np.ndarray, a: np.ndarray) -> tuple[np.ndarray, float, float]:
        """Return y, fitted on the subset in the basis ``P [U V]``, the mean weight and the median of ``|r| / s``."""
        s, y, scale = self._surrogate, np.empty(self.basis.k), self.scale[self._index]
        _self_tuned_kernels.predicted_rows(self.basis.stack, self._index, P, self._rows, self._work[0])
        share, ratio = _self_tuned_kernels.own_scale_coefficients(
            self._rows, values, a, scale, np.median(scale), s.code, np.float32(s.mu), np.float32(s.p), _FIT,
            y, self._e, self._work, self._small,
        )  # fmt: skip
        return y, float(share), float(ratio)

    def _scale_steps(self, share: float, ratio: float, c: np.ndarray) -> tuple[tuple[np.float32, ...], float]:
        """Return `follow` of `self_tuned_sweep` for this vector, and the factor >= 1 by which all scales grow."""
        if not self._has_own_scales:
            return tuple(np.float32(v) for v in (1, 1, 1, 1 / _STEP, 1)), 1.0
        k, w = self.basis.k, self.forgetting.w
        inflation = 1 / np.sqrt(max(1 - k / max(share * self._index.size, 1.0), _LEAST_FREEDOM))
        beyond = max(ratio * inflation / _CALM, 1.0) * min(max(ratio * inflation, 1e-3) * _CALM, 1.0)
        common = beyond**_TOGETHER
        size = (1 - w) * np.trace(self._C) + w * max(c @ self._gram @ c, 0.0)
        floor = _ROUNDING * np.sqrt(size / self.basis.m) + 1e-30
        if common < 1:  # above the floor, so that the scales of a few wrong entries can still grow
            common = min(max(common, floor / float(np.median(self.scale[self._index]))), 1.0)
        return tuple(np.float32(v) for v in (inflation, _STEP, 1 / _STEP, common, floor)), max(common, 1.0)

    def _find_scale(self, x: np.ndarray, a: np.ndarray, seen: int) -> bool:
        """Set all scales to that of the first vector's residual; return whether the vector is not zero."""
        size = float(np.sqrt(np.sum(x.astype(np.float64) ** 2) / seen))
        if size == 0.0:
            return False
        if not self._has_own_scales:
            self.scale[:] = max(2 * size / self._surrogate.scale, 1.0)
            return True
        check_size(size)
        self._cold.size = 0.0 if self._C.any() or self._search is not None else size
        self.scale[:] = size
        for _ in range(_FIRST_FITS):
            _, _, ratio = self._fit(self._unpredicted(), x[self._index], a[self._index] if a.size else a)
            self.scale *= np.float32(max(ratio, _ROUNDING))
        self.scale[:] = max(self.scale[0], _ROUNDING * size)
        return True

    def _unpredicted(self) -> np.ndarray:
        """Return the coordinates of U itself in the rows ``[U V]``, (k, 2 k): no prediction by the velocity V."""
        return np.eye(self.basis.k, 2 * self.basis.k, dtype=np.float32)

    # -- rank ----------------------------------------------------------------------------------------------------

    def of_better_rank(self) -> "SelfTunedSubspace":
        """Return a subspace with one direction more or less if the rank search decides so, else self."""
        search = self._search
        change = 0 if search is None else search.change
        if search is None or not change:
            return self
        k, m = self.basis.k, self.basis.m
        turn = np.eye(k + 1, k) if change > 0 else search.weakest()[:-1]
        rows, velocity = turn @ self.basis.stack[:k, :m], turn @ self.basis.stack[k : 2 * k, :m]
        C = turn @ self._C @ turn.T
        if change > 0:
            rows[k], C[k, k] = search.spare, search.strength
        basis, none = Basis.of(rows), np.zeros((0, len(turn)))
        basis.stack[len(turn) : 2 * len(turn), :m] = velocity
        other = SelfTunedSubspace(
            basis, self._surrogate, self._index, none, None, self._has_own_scales, RankSearch(basis, search.most)
        )
        other._gram = gram_of(basis.stack[: 2 * len(turn), :m])
        other._C, other._y, other.scale = C, turn @ self.y, self.scale
        other.forgetting = self.forgetting.turned(turn)
        other._cold = self._cold
        other.step_length, other.objective, other.updates = self.step_length, self.objective, self.updates
        return other

    # -- files ---------------------------------------------------------------------------------------------------

    def state(self) -> State:
        """Return a copy of everything that the next vector depends on."""
        search = {} if self._search is None else {"search": self._search.state()}
        return {
            "basis": self.basis.state(2 * self.basis.k + 1),
            "scale": self.scale.copy(),
            "C": self._C.copy(),
            "gram": self._gram.copy(),
            "coefficients": self.y.copy(),
            "objective": np.array(self.objective, np.float64),
            "counters": np.array([self.updates, self.step_length], np.float64),
            "pace": self.forgetting.state(),
            "cold": np.array([self._cold.size, self._cold.seen]),
            **search,
        }

    def set_state(self, state: State) -> None:
        """Set all but the basis, which the constructor got; ParameterError when it does not fit."""
        k = self.basis.k
        self.scale = array_of(state, "scale", (self.basis.m,), "float32")
        if not ((self.scale > 0).all() or not self.scale.any()):
            raise ParameterError("scale must hold positive numbers, or zeros before the first vector")
        self._C, self._gram = moment_of(state, "C", k), moment_of(state, "gram", 2 * k)
        self.basis.carry_out()
        if np.abs(self._gram - gram_of(self.basis.stack[: 2 * k, : self.basis.m])).max() > _DRIFTED:
            raise ParameterError("gram must be the Gram matrix of the saved basis")
        self._y, self._newest = array_of(state, "coefficients", (k,), "float64"), None
        before, after = array_of(state, "objective", (2,), "float64", -FINITE, FINITE).tolist()  # may be negative
        self.objective = before, after
        updates, self.step_length = numbers_of(state, "counters", 2)
        self.updates = int(updates)
        self.forgetting.set_state(part_of(state, "pace"))
        self._cold = ColdStart(*numbers_of(state, "cold", 2))
        if self._search is not None:
            self._search.set_state(part_of(state, "search"))
