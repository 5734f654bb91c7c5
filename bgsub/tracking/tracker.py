"""Robust subspace tracking on the Grassmannian: one vector in, one step of the subspace (paper, algorithms 5 and 6)."""

from __future__ import annotations

from typing import Any

import numpy as np

from bgsub.errors import ParameterError
from bgsub.numerics.surrogates import Surrogate
from bgsub.parameters import TRACKER, check_all
from bgsub.tracking import _kernels, _step_kernels
from bgsub.tracking.basis import Basis, Sweep
from bgsub.tracking.batch_start import batch_start, first_mu
from bgsub.tracking.coefficients import PixelSubset
from bgsub.tracking.deferred import DeferredStep
from bgsub.tracking.step import FLOOR, IN_SPAN, Step, carried, make_step

_FLATTENS_AT = 0.06  # intensity at which the cost flattens when mu is not given
_ARMIJO = 1e-4
_BACKTRACKS = 20
_HYGIENE = 150  # updates between two re-orthonormalisations
_NEGLIGIBLE = 1e-6  # squared length of coefficients that no low-rank part can be changed with
_COLD_MEMORIES = 20  # complete memories 1/w over which a cold start shrinks mu, lest outliers in it be locked in
_EVERYTHING = np.empty(0, np.float32)
_LARGEST = 1e12  # beyond it squares leave the range of float32
_UNKNOWN = -1.0  # scale of the data before the first vector that is not zero


def default_mu(surrogate: str, p: float) -> float:
    """Return the mu with which `surrogate` flattens at an intensity tau of 0.06: mu, ``tau^2`` or ``(1 - p) tau^2``."""
    tau = _FLATTENS_AT
    return {"atan": tau, "log": tau**2, "lp": (1 - p) * tau**2}[surrogate]


class SubspaceTracker:
    """Track the dominant subspace of a stream of vectors in the presence of outliers.

    Minimises ``F(P) = (1 - w) F_old(P) + w h(x - A(P l))`` by one Grassmann step per vector. The past is kept as
    a thin factor ``Q R`` of its gradient and the moment C of its coefficients.

    Parameters
    ----------
    rank : int, default 3
        Dimension k of the subspace.
    surrogate : {"atan", "log", "lp"}, default "atan"
        Cost h of the residual.
    mu : float > 0, optional
        Smoothing parameter in the surrogate's unit; by default the cost flattens at an intensity of 0.06.
    p : float in (0, 1), default 0.5
        Exponent of ``lp``.
    forgetting : float in (0, 1), default 0.05
        Weight w of the newest vector.
    metric : {"scaled", "canonical"}, default "scaled"
        Step along ``-G C^-1`` or along ``-G / lambda_max(C)``.
    line_search : {"objective", "sample"}, default "objective"
        Backtracking on the whole objective, the past in its second-order model, or on the newest sample alone,
        which is the literal reading of algorithm 6 and lets one vector overwrite the past.
    gradient_carry : {"model", "unchanged"}, default "model"
        Carry the gradient factor to the new point by the second-order model, or transport it unchanged.
    subset : int, default 4000
        Number of randomly chosen entries from which the coefficients are estimated.
    random_state : int, default 0
        Seed of the subset and of a cold start.

    Attributes
    ----------
    components_ : ndarray, (k, m), float32
        Orthonormal rows, the transposed basis U.
    coefficients_ : ndarray, (k,), float64
        Coefficients y of the newest vector.
    low_rank_ : ndarray, (m,), float32
        ``l = U y``.
    step_length_ : float
        The last accepted step length t; 0 when no step lowered the objective.
    objective_ : tuple of float
        The last objective before and after the step, ``phi(0)`` and ``phi(t)``.
    n_samples_seen_ : int
        Number of updates.

    Notes
    -----
    Paper, section 5, algorithms 5 and 6; the gradient is updated by a rank-one QR update, so that a vector costs
    O(m (k + r)) for the residual and O(m (k + r)^2) for the step, r <= k the rank of the gradient factor, which is 0
    after an accepted full step in the scaled metric. With surrogates of curvature one the full step decreases a
    majorant of the objective and is nearly always accepted at once.

    Examples
    --------
    >>> import numpy as np
    >>> from bgsub import SubspaceTracker
    >>> tracker = SubspaceTracker(rank=2)
    >>> for x in np.random.default_rng(0).random((5, 100)):
    ...     tracker = tracker.partial_fit(x)
    >>> tracker.components_.shape
    (2, 100)
    """

    def __init__(
        self,
        rank: int = 3,
        surrogate: str = "atan",
        mu: float | None = None,
        p: float = 0.5,
        forgetting: float = 0.05,
        metric: str = "scaled",
        line_search: str = "objective",
        gradient_carry: str = "model",
        subset: int = 4000,
        random_state: int = 0,
    ) -> None:
        given = {name: value for name, value in locals().items() if name in TRACKER}
        self._parameters = check_all(TRACKER, given)
        self.rank: int = self._parameters["rank"]
        self.forgetting: float = self._parameters["forgetting"]
        self.metric: str = self._parameters["metric"]
        self.line_search: str = self._parameters["line_search"]
        self.gradient_carry: str = self._parameters["gradient_carry"]
        self.mu: float = default_mu(surrogate, self._parameters["p"]) if mu is None else self._parameters["mu"]
        self.surrogate_ = Surrogate(surrogate, self.mu, self._parameters["p"])
        self.n_samples_seen_ = 0
        self._basis: Basis | None = None
        self._x: np.ndarray | None = None
        self._ready = False

    def set_forgetting(self, forgetting: float) -> None:
        """Change the weight of the newest vector from the next one on."""
        self.forgetting = self._parameters["forgetting"] = TRACKER["forgetting"].check("forgetting", forgetting)

    def get_params(self) -> dict[str, Any]:
        """Return the constructor's parameters by name."""
        return dict(self._parameters)

    # -- state ---------------------------------------------------------------------------------------------------

    @property
    def components_(self) -> np.ndarray:
        """Orthonormal rows, (k, m), float32; a view of the model."""
        basis = self._model()
        basis.carry_out()
        return basis.stack[: basis.k, : basis.m]

    @property
    def low_rank_(self) -> np.ndarray:
        """Low-rank part ``l = U y`` of the newest vector, (m,), float32."""
        return self._model().low_rank(self.coefficients_)

    def _model(self) -> Basis:
        if self._basis is None:
            raise ParameterError("this SubspaceTracker has no model yet: call fit or partial_fit first")
        return self._basis

    def initialise(self, components: np.ndarray, coefficients: np.ndarray) -> SubspaceTracker:
        """Start from a known subspace.

        Parameters
        ----------
        components : ndarray, (k, m)
            Orthonormal rows.
        coefficients : ndarray, (n, k)
            Coefficients of past samples; their mean moment is C, the last row is the first y. May have no rows.

        Returns
        -------
        SubspaceTracker
            The tracker itself.
        """
        k, m = self.rank, components.shape[1]
        if components.shape[0] != k or coefficients.shape[1:] != (k,):
            raise ParameterError(
                f"components and coefficients must have shapes ({k}, m) and (n, {k}), "
                f"got {components.shape} and {coefficients.shape}"
            )
        if m < k:
            raise ParameterError(f"rank must be at most the length {m} of the vectors, got {k}")
        self._basis = Basis(components)
        self._R = np.zeros((0, k))
        n = coefficients.shape[0]
        moments = np.asarray(coefficients, np.float64)
        self._C = moments.T @ moments / n if n else np.zeros((k, k))
        self.coefficients_ = np.array(coefficients[-1] if n else np.zeros(k), np.float64)
        self.step_length_, self.objective_, self.n_samples_seen_ = 0.0, (0.0, 0.0), 0
        self._cold_scale, self._warmth = 0.0, 0.0
        self._allocate(m)
        return self

    def state(self) -> dict[str, np.ndarray]:
        """Return everything that the next vector depends on, as arrays by name."""
        basis = self._model()
        basis.carry_out()
        basis.deferred = DeferredStep(self.rank)
        self._subset.gather(basis.stack, basis.deferred)
        return {
            "rows": self._active()[:-1, : basis.m].copy(),
            "R": self._R,
            "C": self._C,
            "coefficients": self.coefficients_,
            "counters": np.array([self.n_samples_seen_, self.step_length_, self._cold_scale, self._warmth]),
        }

    def set_state(self, state: dict[str, np.ndarray]) -> SubspaceTracker:
        """Take over what `state` returned."""
        rows, k = state["rows"], self.rank
        r = len(rows) - k
        shapes = {name: np.shape(state[name]) for name in ("R", "C", "coefficients", "counters")}
        if not 0 <= r <= k or shapes != {"R": (r, k), "C": (k, k), "coefficients": (k,), "counters": (4,)}:
            raise ParameterError(f"the saved arrays do not fit a tracker of rank {k}: {len(rows)} rows, {shapes}")
        self.initialise(rows[: self.rank], np.zeros((0, self.rank)))
        basis = self._model()
        basis.stack[: rows.shape[0], : basis.m] = rows
        self._subset.gather(basis.stack, basis.deferred)
        self._R, self._C, self.coefficients_ = state["R"], state["C"], state["coefficients"]
        seen, self.step_length_, self._cold_scale, self._warmth = (float(number) for number in state["counters"])
        self.n_samples_seen_ = int(seen)
        return self

    def _allocate(self, m: int) -> None:
        k = self.rank
        self._subset = PixelSubset(self.subset_of(m), k, self.surrogate_)
        self._low_rank = np.empty(0, np.float32)
        self._subset_weights: np.ndarray | None = None
        self._values, self._subset_observed = np.empty(0, np.float32), _EVERYTHING
        self._ready = False
        basis = self._model()
        self._subset.gather(basis.stack, basis.deferred)

    def subset_of(self, m: int) -> np.ndarray:
        """Return the fixed random subset of the entries 0..m-1 that the coefficients are estimated from, sorted."""
        size = min(m, self._parameters["subset"])
        rng = np.random.default_rng(self._parameters["random_state"])
        return np.sort(rng.choice(m, size, replace=False)).astype(np.int64)

    def fit(self, X: np.ndarray, scale: float = 1.0) -> SubspaceTracker:
        """Start from a batch of vectors by robust PCA.

        Parameters
        ----------
        X : ndarray, (n, m), any real dtype
            One vector per row, n >= rank.
        scale : float, default 1
            ``scale * X`` is what the model sees; for images the reciprocal of the full scale.

        Returns
        -------
        SubspaceTracker
            The tracker itself.
        """
        X = np.asarray(X)
        if X.dtype.kind not in "buif" or not _largest(X) * scale <= _LARGEST:  # a NaN is not <= either
            raise ParameterError(
                f"the batch must hold real numbers, none beyond {_LARGEST:g}, got {X.dtype} with others"
            )
        if X.ndim != 2 or min(X.shape) < self.rank:
            raise ParameterError(
                f"the batch must have shape (n, m) with n and m at least the rank {self.rank}, got {X.shape}"
            )
        components, coefficients = batch_start(X, scale, self.rank, self.surrogate_, self.subset_of(X.shape[1]))
        return self.initialise(components, coefficients)

    # -- one vector ----------------------------------------------------------------------------------------------

    def partial_fit(self, x: np.ndarray, observed: np.ndarray | None = None) -> SubspaceTracker:
        """Take one vector into account.

        Parameters
        ----------
        x : ndarray, (m,)
            The vector; entries that are not observed are ignored.
        observed : ndarray of bool, (m,), optional
            The paper's A: which entries are observed.

        Returns
        -------
        SubspaceTracker
            The tracker itself.
        """
        values, a = self._checked(x, observed)
        if self._basis is None:
            rng = np.random.default_rng(self._parameters["random_state"])
            m = values.size
            if m < self.rank:
                raise ParameterError(f"rank must be at most the length {m} of the vectors, got {self.rank}")
            start = np.linalg.qr(rng.standard_normal((m, self.rank)))[0]
            self.initialise(start.T, np.zeros((0, self.rank)))
            self._cold_scale = _UNKNOWN
        if self._cold_scale == _UNKNOWN and np.any(values):
            count = float(a.sum()) if a.size else float(values.size)
            self._cold_scale = 2 * float(np.sqrt(np.sum(values.astype(np.float64) ** 2) / count))
        self.separate(values, a)
        self.update()
        self._fit_coefficients(self._values, self._subset_observed)
        return self

    def _checked(self, x: np.ndarray, observed: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        """Return `x` as float32 and the observed entries as 0/1 float32; missing entries of x become 0."""
        values = np.asarray(x)
        expected = (self._basis.m,) if self._basis is not None else (values.size,)
        if values.ndim != 1 or values.shape != expected or values.size == 0:
            raise ParameterError(f"x must be a vector of shape {expected}, got shape {values.shape}")
        with np.errstate(over="ignore"):
            values = values.astype(np.float32)
        if observed is None:
            a = _EVERYTHING
        else:
            seen = np.asarray(observed)
            if seen.shape != expected or seen.dtype != np.bool_:
                raise ParameterError(
                    f"observed must be a boolean mask of shape {expected}, got {seen.dtype} {seen.shape}"
                )
            a = seen.astype(np.float32)
            values = np.where(seen, values, np.float32(0))
        if not np.abs(values).max() <= _LARGEST:
            raise ParameterError(f"x must be finite where it is observed and within {_LARGEST:g}, got NaN or more")
        return values, a

    def separate(self, x: np.ndarray, a: np.ndarray = _EVERYTHING) -> np.ndarray:
        """Split a vector by the subspace as it stands, with coefficients of its own; `update` then learns from it.

        Parameters
        ----------
        x : ndarray, (m,), float32
            The vector; kept by reference until `update`.
        a : ndarray, (m,) or (0,), float32
            Observed entries, 0 or 1; empty observes all.

        Returns
        -------
        ndarray, (m,), float32
            The low-rank part ``l = U y``, a buffer that the next call overwrites.
        """
        basis = self._model()
        basis.carry_out()
        self._fit_coefficients(x[self._subset.index], a[self._subset.index] if a.size else a)
        if not self._low_rank.size:
            self._low_rank = np.empty(basis.m, np.float32)
        self._x, self._a, self._subset_weights = x, a, None
        self._used = self._active()
        self._products = np.empty(self.rank + self._R.shape[0] + 1)
        self._cost = _kernels.residual_sweep(
            self._used,
            self.rank,
            self.coefficients_.astype(np.float32),
            x,
            a,
            *self._surrogate_arguments(),
            self._low_rank,
            self._products,
            basis.work[0],
        )
        self._ready, basis.newest = True, -1
        return self._low_rank

    def begin_sweep(self, values: np.ndarray, a: np.ndarray, period: int, block: int) -> Sweep | None:
        """Fit the coefficients of a vector of which a kernel will make everything else in its one pass.

        Parameters
        ----------
        values, a : ndarray, (s,), float32
            The vector on the subset of `subset_of` and what is observed of it; `a` may be empty.
        period, block : int
            Of every `period` blocks of so many entries, the pass visits one.

        Returns
        -------
        Sweep or None
            What the kernel needs. None when a gradient is pending in more than one direction: only `separate` does
            then.
        """
        if self._R.shape[0]:
            return None
        self._fit_coefficients(values, a)
        return self._model().begin_sweep(self.coefficients_, period, block)

    def change(self) -> float:
        """Return the root mean square change of the low-rank part since the vector before, on the subset."""
        return self._subset.change()

    def end_sweep(self, products: np.ndarray, cost: float, weights: np.ndarray) -> None:
        """Take over what the pass found: `update` then learns from it.

        Parameters
        ----------
        products : ndarray, (k + 1,), float64
            Inner products of the new e with the rows of V' and with itself.
        cost : float
            ``h(A(x - U y))``.
        weights : ndarray, (s,), float32
            Weights of the entries of the subset in e and in the cost.
        """
        self._subset_weights = weights
        self._products = self._model().end_sweep(products)
        self._cost, self._x, self._a, self._ready = cost, None, _EVERYTHING, True

    def _active(self) -> np.ndarray:
        """The rows in use: U', Q' and the row for the influence e."""
        return self._model().stack[: self.rank + self._R.shape[0] + 1]

    def _surrogate_arguments(self) -> tuple[int, np.float32, np.float32]:
        s = self.surrogate_
        return s.code, np.float32(self._current_mu()), np.float32(s.p)

    def _current_mu(self) -> float:
        """The smoothing parameter: after a cold start it shrinks from the scale of the data to its final value."""
        share = self._warmth / _COLD_MEMORIES
        if self._cold_scale == 0.0 or share >= 1:
            return self.mu
        first = first_mu(self.surrogate_, self._cold_scale)
        return float(first * (self.mu / first) ** share)

    def _fit_coefficients(self, values: np.ndarray, a: np.ndarray) -> None:
        """Step 1: y from the previous y on the pixel subset."""
        self._values, self._subset_observed = values, a
        self.coefficients_ = self._subset.fit(values, a, self.coefficients_, self._current_mu(), self._cold_scale)

    def update(self, forgetting: float | None = None) -> None:
        """Learn from the vector of the last `separate` or sweep: steps 2 to 6 of the tracking algorithm.

        Parameters
        ----------
        forgetting : float, optional
            Weight w of this vector instead of the tracker's own.
        """
        if self._basis is None or not self._ready:
            raise ParameterError("update must follow a call of separate, one for one")
        w = self.forgetting if forgetting is None else forgetting
        if not self._full_step(w):
            self._searched_step(w)
        self._ready, self._x = False, None
        self.n_samples_seen_ += 1
        self._warmth += w * (float(self._a.mean()) if self._a.size else 1.0)
        if self.n_samples_seen_ % _HYGIENE == 0:
            self.orthonormalise()

    def _full_step(self, w: float) -> bool:
        """Take the full step of the usual case if it can be accepted at once; return whether it was."""
        usual = self.metric == "scaled" and self.line_search == "objective" and self.gradient_carry == "model"
        if not usual or len(self._R):
            return False
        k = self.rank
        y, T, objective = self.coefficients_.copy(), np.empty((k, k + 1)), np.empty(2)
        limits = IN_SPAN, FLOOR, _ARMIJO
        if not _step_kernels.full_step(self._products, self._C, y, w, self._cost, *limits, T, objective):
            return False
        self._step_subset(T)
        self._model().step(T)
        self.coefficients_ = y
        self.step_length_, self.objective_ = 1.0, (float(objective[0]), float(objective[1]))
        return True

    def _searched_step(self, w: float) -> None:
        """Take a step of the length that the line search finds."""
        k, y, basis = self.rank, self.coefficients_, self._model()
        step = make_step(self._products, self._R, self._C, y, w, self.metric)
        t, theta = self._search(step, w)
        self._C = (1 - w) * self._C + w * np.outer(y, y)
        R = carried(step.R, t, self._C, self.metric, self.gradient_carry)
        R_old, self._R = self._R, R if np.any(R) else R[:0]
        T = (step.basis @ theta).T[: k + self._R.shape[0]]
        if len(R_old):
            basis.transform(T)
            self._subset.gather(basis.stack, basis.deferred)
        else:
            self._step_subset(T[:k])
            (basis.step_with_gradient if len(self._R) else basis.step)(T)
        self.coefficients_ = theta[:k, :k].T @ y

    def _step_subset(self, T: np.ndarray) -> None:
        """Take the step T, (k, k + 1), on the pixel subset."""
        mu = self._current_mu()
        self._subset.step(T, self._values, self._subset_observed, self.coefficients_, mu, self._subset_weights)

    def retarget(self, target: np.ndarray, where: np.ndarray | None = None, start: int = 0) -> None:
        """Make `target` the low-rank part of the newest vector, which counts as not yet learned.

        The smallest change of the basis that does it, ``(target - U y) y' / |y|^2``, and an orthonormal basis of the
        result. What is known of the past is kept in its coefficients; a pending gradient, which belongs to the old
        subspace, is dropped.

        Parameters
        ----------
        target : ndarray, (n,), float32
            The new low-rank part of the n entries from `start` on.
        where : ndarray of uint8, (n,), optional
            Entries to change (non-zero); by default all.
        start : int, default 0
            First entry.
        """
        y = self.coefficients_
        if float(y @ y) <= _NEGLIGIBLE:
            return
        chosen = np.empty(0, np.uint8) if where is None else where
        self._R = self._R[:0]
        self._rotate(self._model().retarget(target, chosen, start, y))
        self._ready, self._x = False, None

    def _search(self, step: Step, w: float) -> tuple[float, np.ndarray]:
        """Step 5: backtracking; returns the accepted t (0 when none) and the rotation there.

        The whole objective is tried at t = 1 first, the newest sample alone at twice the last accepted length.
        """
        whole = self.line_search == "objective"
        weight = w if whole else 1.0
        before = weight * self._cost
        t = 1.0 if whole else 2.0 * (self.step_length_ or 1.0)
        for _ in range(_BACKTRACKS if step.slope < 0 else 0):
            theta = step.rotation(t)
            allowed = before + (_ARMIJO * t * step.slope if whole else 0.0)
            past = (1 - w) * step.past(t) if whole else 0.0
            coordinates = step.low_rank(theta, self.coefficients_)
            after = past + weight * self._bound(coordinates)
            if after > allowed and self._x is not None:
                after = past + weight * self._trial(coordinates)
            if after <= allowed:
                self.step_length_, self.objective_ = t, (before, after)
                return t, theta
            t /= 2
        self.step_length_, self.objective_ = 0.0, (before, before)
        return 0.0, np.eye(self.rank + step.K.shape[0])

    def _bound(self, c: np.ndarray) -> float:
        """Return an upper bound of the newest sample's cost when its low-rank part is ``l + d``, from `c` alone.

        Curvature one everywhere: ``h(r - d) <= h(r) - <psi(r), d> + |d|^2 / 2``. `c` holds the coordinates of
        ``l + d`` in ``[U Q e]``, whose Gram matrix is known: no pass over the frame.
        """
        k = self.rank
        d = c.copy()
        d[:k] -= self.coefficients_
        along = float(self._products @ d)
        square = float(d[:-1] @ d[:-1]) + float(d[-1]) * (2 * float(self._products[:-1] @ d[:-1]))
        square += float(d[-1]) ** 2 * float(self._products[-1])
        return self._cost - along + square / 2

    def _trial(self, c: np.ndarray) -> float:
        """Return the newest sample's cost when its low-rank part is the combination `c` of the stack's rows."""
        return _kernels.trial_cost(
            self._used, c.astype(np.float32), self._x, self._a, *self._surrogate_arguments(), self._model().work
        )

    def orthonormalise(self) -> None:
        """Remove the rounding drift of [U Q] by the Cholesky factor of its Gram matrix."""
        k, r, basis = self.rank, self._R.shape[0], self._model()
        if not r:
            self._rotate(basis.gram())
            return
        rows = basis.stack[: k + r]
        L = np.linalg.cholesky((rows @ rows.T).astype(np.float64))
        basis.transform(np.linalg.inv(L))
        self._change_coordinates(L[:k, :k])
        self._R = L[k:, k:].T @ self._R
        self._subset.gather(basis.stack, basis.deferred)

    def _rotate(self, gram: np.ndarray) -> None:
        """Make the basis with the Gram matrix `gram`, (k, k), orthonormal."""
        L, basis = np.linalg.cholesky(gram), self._model()
        basis.deferred.rotate(L)
        self._change_coordinates(L)
        self._subset.gather(basis.stack, basis.deferred)

    def _change_coordinates(self, L: np.ndarray) -> None:
        """Express coefficients and moment in the basis ``U L^-T``; L (k, k)."""
        self.coefficients_ = L.T @ self.coefficients_
        self._C = L.T @ self._C @ L


def _largest(X: np.ndarray) -> float:
    """Return the largest magnitude in a batch, (n, m), NaN when it holds one; for integers that of their type."""
    if X.dtype.kind in "bui":
        return 1.0 if X.dtype.kind == "b" else float(np.iinfo(X.dtype).max)
    return max((float(np.abs(x).max(initial=0)) for x in X), default=0.0, key=lambda v: (np.isnan(v), v))
