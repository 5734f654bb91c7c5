"""Robust subspace tracking on the Grassmannian: one vector in, one step of the subspace (paper, algorithms 5 and 6)."""

from dataclasses import replace
from typing import Any

import numpy as np

from bgsub.errors import ParameterError
from bgsub.numerics.state import State, array_of, part_of
from bgsub.numerics.surrogates import Surrogate
from bgsub.parameters import Auto, GradientCarry, LineSearch, Metric, SurrogateName, TrackerParameters
from bgsub.tracking.basis import Basis
from bgsub.tracking.batch_start import batch_start, scaled_start
from bgsub.tracking.self_tuned import SelfTunedSubspace
from bgsub.tracking.subspace import USUAL, Subspace
from bgsub.tracking.tuning import RankSearch
from bgsub.tracking.validation import checked_batch, checked_vector

_FLATTENS_AT = 4.0  # residual, in units of its own scale, at which the cost flattens when mu is not given
_LITERAL_MU, _LITERAL_FORGETTING = 0.06, 0.05  # defaults of the paper's variants, which do not tune themselves
_NOT_TUNED = "does not tune itself (mu and forgetting given, or another metric, line search or carry)"
_SCALE_PENDING = -1.0  # `Subspace.cold_scale` until a vector that is not zero sets it


class SubspaceTracker:
    """Track the dominant subspace of a stream of vectors in the presence of outliers.

    Minimises ``F(P) = (1 - w) F_old(P) + w h(x - A(P l))`` by one Grassmann step per vector. By default the tracker
    adapts the scale of the residuals and the weight w to the stream.

    Parameters
    ----------
    rank : int or "auto", default 3
        Dimension k of the subspace; "auto" adds and drops directions, starting from one in a cold start and from
        `max_rank` after `fit`. "auto" needs `mu` or `forgetting` to be left at its default.
    surrogate : {"atan", "log", "lp"}, default "atan"
        Cost h of the residual r: ``(mu^2/2) atan(r/mu)^2``, ``(mu/2) log(1 + r^2/mu)`` or
        ``(mu/p) (1 + r^2/mu)^(p/2)``, each with curvature one at zero.
    mu : float in [1e-12, 1e12], optional
        Smoothing parameter in the surrogate's unit. By default the cost of every entry has its own scale: it
        flattens at four times the median of that entry's residual.
    p : float in [0.001, 0.999], default 0.5
        Exponent of ``lp``.
    forgetting : float in (0, 1) or "auto", default "auto"
        Weight w of the newest vector; "auto" adapts it and predicts the movement of the subspace.
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
    max_rank : int, default 10
        The largest rank that ``rank="auto"`` may find.

    Raises
    ------
    ParameterError
        For a value outside its range, and for `rank` "auto" with both `mu` and `forgetting`.

    Notes
    -----
    C. Hage and M. Kleinsteuber, arXiv 1210.0805, section 5, algorithms 5 and 6. If `mu` is None or `forgetting` is
    "auto", the tracker tunes itself: ``docs/method.md`` describes its cost, its weight, its rank and the guarantee that
    no step raises the objective of its vector.

    A vector costs O(m k) for the residual and O(m k^2) for the step. With `mu` and `forgetting` given, or another
    metric, line search or carry (defaults 0.06 and 0.05 there), the past is a thin factor ``Q R`` of its gradient,
    updated by a rank-one QR, and C weighs all vectors alike.

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
        rank: int | Auto = 3,
        surrogate: SurrogateName = "atan",
        mu: float | None = None,
        p: float = 0.5,
        forgetting: float | Auto = "auto",
        metric: Metric = "scaled",
        line_search: LineSearch = "objective",
        gradient_carry: GradientCarry = "model",
        subset: int = 4000,
        random_state: int = 0,
        max_rank: int = 10,
    ) -> None:
        given = {name: value for name, value in locals().items() if name != "self"}
        parameters = self._parameters = TrackerParameters(**given)
        usual = (parameters.metric, parameters.line_search, parameters.gradient_carry) == USUAL
        self._is_self_tuned = usual and (parameters.mu is None or parameters.forgetting == "auto")
        if parameters.rank == "auto" and not self._is_self_tuned:
            raise ParameterError(f"rank must be an integer >= 1 where the tracker {_NOT_TUNED}, got 'auto'")
        default = Surrogate.flattening_at(_FLATTENS_AT if usual else _LITERAL_MU, surrogate, parameters.p)
        self.surrogate_ = default if parameters.mu is None else default.at_mu(parameters.mu)
        self._model: Subspace | SelfTunedSubspace | None = None

    def set_forgetting(self, forgetting: float | Auto) -> None:
        """Change the weight of the newest vector from the next one on.

        Parameters
        ----------
        forgetting : float in (0, 1) or "auto"
            A fixed weight; "auto" adapts it again.

        Raises
        ------
        ParameterError
            For a value outside its range, and for "auto" if the tracker does not tune itself.
        """
        if forgetting == "auto" and not self._is_self_tuned:
            raise ParameterError(f"forgetting must be a number in (0, 1) where the tracker {_NOT_TUNED}, got 'auto'")
        self._parameters = replace(self._parameters, forgetting=forgetting)
        if isinstance(self._model, SelfTunedSubspace):
            self._model.forgetting.fix(self._fixed_forgetting)

    @property
    def rank(self) -> int | Auto:
        """The parameter `rank`."""
        return self._parameters.rank

    @property
    def forgetting(self) -> float | Auto:
        """The parameter `forgetting`."""
        return self._parameters.forgetting

    @property
    def _fixed_forgetting(self) -> float | None:
        """The weight w if it does not adapt, else None."""
        given = self._parameters.forgetting
        return given if isinstance(given, float) else None if self._is_self_tuned else _LITERAL_FORGETTING

    def get_params(self) -> dict[str, Any]:
        """Return the constructor's parameters by name."""
        return self._parameters.as_dict()

    # -- model ---------------------------------------------------------------------------------------------------

    @property
    def subspace_(self) -> Subspace:
        """The model, for single steps; ParameterError without one."""
        if not isinstance(self._existing_model, Subspace):
            raise ParameterError("subspace_ needs mu and forgetting to be given as numbers")
        return self._existing_model

    @property
    def _existing_model(self) -> Subspace | SelfTunedSubspace:
        if self._model is None:
            raise ParameterError("this SubspaceTracker has no model yet: call fit or partial_fit first")
        return self._model

    @property
    def components_(self) -> np.ndarray:
        """Orthonormal rows, the transposed basis U, (k, m), float32; a view of the model."""
        basis = self._existing_model.basis
        basis.carry_out()
        return basis.stack[: basis.k, : basis.m]

    @property
    def coefficients_(self) -> np.ndarray:
        """Coefficients y of the newest vector, (k,), float64."""
        return self._existing_model.y

    @property
    def low_rank_(self) -> np.ndarray:
        """Low-rank part ``l = U y`` of the newest vector, (m,), float32."""
        return self._existing_model.basis.low_rank(self.coefficients_)

    @property
    def rank_(self) -> int:
        """Current dimension k of the subspace."""
        return self._existing_model.basis.k

    @property
    def forgetting_(self) -> float:
        """Weight w of the next vector."""
        model = self._existing_model
        if isinstance(model, SelfTunedSubspace):
            return model.forgetting.w
        return self._fixed_forgetting or _LITERAL_FORGETTING

    @property
    def momentum_(self) -> float:
        """Share of the velocity by which the subspace moves before the next vector, in [0, 1]."""
        model = self._existing_model
        return model.forgetting.momentum if isinstance(model, SelfTunedSubspace) else 0.0

    @property
    def scale_(self) -> np.ndarray:
        """Scale s of every entry, (m,), float32: the running median of its residual; only without `mu`."""
        model = self._existing_model
        if not isinstance(model, SelfTunedSubspace) or self._parameters.mu is not None:
            raise ParameterError("scale_ needs mu not to be given")
        return model.scale.copy()

    @property
    def step_length_(self) -> float:
        """The last accepted step length t; 0 when no step lowered the objective."""
        return self._existing_model.step_length

    @property
    def objective_(self) -> tuple[float, float]:
        """The last objective before and after the step, the past relative to before; of a full step an upper bound."""
        return self._existing_model.objective

    @property
    def n_samples_seen_(self) -> int:
        """Number of vectors."""
        return 0 if self._model is None else self._model.updates

    @property
    def is_settled(self) -> bool:
        """Whether no step waits to be carried out; `state` is smaller then."""
        return self._existing_model.basis.is_settled

    def initialise(self, components: np.ndarray, coefficients: np.ndarray) -> "SubspaceTracker":
        """Start from a known subspace; return self.

        Parameters
        ----------
        components : ndarray, (k, m)
            Orthonormal rows.
        coefficients : ndarray, (n, k)
            Coefficients of past samples; their mean moment is C, the last row is the first y. May have no rows.

        Raises
        ------
        ParameterError
            If shapes do not fit, the rows are not orthonormal, or a number is not finite.
        """
        components, moments = np.asarray(components), np.asarray(coefficients)
        k, m = components.shape if components.ndim == 2 else (-1, -1)
        if self.rank not in ("auto", k) or k < 1 or moments.ndim != 2 or moments.shape[1] != k:
            wanted = "k" if self.rank == "auto" else self.rank
            raise ParameterError(
                f"components and coefficients must have shapes ({wanted}, m) and (n, {wanted}), "
                f"got {components.shape} and {moments.shape}"
            )
        if m < k:
            raise ParameterError(f"rank must be at most the length {m} of the vectors, got {k}")
        basis = Basis.of(components)
        if not (basis.is_orthonormal() and np.isfinite(moments).all()):
            raise ParameterError("components must be orthonormal and coefficients finite")
        return self.begin(basis, moments)

    def begin(self, basis: Basis, coefficients: np.ndarray) -> "SubspaceTracker":
        """Do `initialise` with a `Basis` that is known to be orthonormal, as that of the batch start of a video."""
        self._model = self._new_model(basis, coefficients)
        return self

    def _new_model(self, basis: Basis, coefficients: np.ndarray) -> Subspace | SelfTunedSubspace:
        index, given = self.subset_of(basis.m), self._parameters
        if not self._is_self_tuned:
            return Subspace(given, self.surrogate_, index, basis, coefficients)
        search = RankSearch(basis, min(given.max_rank, basis.m)) if given.rank == "auto" else None
        arguments = basis, self.surrogate_, index, coefficients
        return SelfTunedSubspace(*arguments, self._fixed_forgetting, given.mu is None, search)

    def state(self) -> State:
        """Return a copy of everything that the next vector depends on: arrays, and dictionaries of them."""
        return self._existing_model.state()

    def set_state(self, state: State, size: int | None = None) -> "SubspaceTracker":
        """Restore a state; later results are bit for bit those of the tracker that it came from.

        Parameters
        ----------
        state : dict
            From `state`.
        size : int, optional
            Required length m of the vectors; any by default.

        Raises
        ------
        ParameterError
            When the state does not fit.
        """
        arrays = part_of(state, "basis")
        k = self.rank if self.rank != "auto" else array_of(arrays, "N", (2, None, None), "float64").shape[1]
        basis = Basis.from_state(arrays, k, size)
        if not Basis.from_state(arrays, k, size).is_orthonormal():  # of a copy: the check changes it
            raise ParameterError("the saved basis is not orthonormal")
        model = self._new_model(basis, np.zeros((0, k)))
        model.set_state(state)
        self._model = model
        return self

    def subset_of(self, m: int) -> np.ndarray:
        """Return the sorted random subset of the entries 0..m-1 from which the coefficients are estimated."""
        size = min(m, self._parameters.subset)
        rng = np.random.default_rng(self._parameters.random_state)
        return np.sort(rng.choice(m, size, replace=False)).astype(np.int64)

    def fit(self, X: np.ndarray, scale: float = 1.0) -> "SubspaceTracker":
        """Start from a batch of vectors by robust PCA; return self.

        Parameters
        ----------
        X : ndarray, (n, m), any real dtype
            One vector per row, n >= rank.
        scale : float, default 1
            Factor of X; for images the reciprocal of the full scale.

        Raises
        ------
        ParameterError
            If the batch is not a matrix of finite real numbers, or has fewer rows or columns than the rank.
        """
        has_own_scales = self._is_self_tuned and self._parameters.mu is None
        X = checked_batch(X, scale, may_be_small=not has_own_scales)
        k = self._parameters.max_rank if self.rank == "auto" else self.rank
        k = min(k, *X.shape) if self.rank == "auto" and X.ndim == 2 and X.size else k
        if X.ndim != 2 or min(X.shape) < k:
            raise ParameterError(f"the batch must have shape (n, m) with n and m at least the rank {k}, got {X.shape}")
        index = self.subset_of(X.shape[1])
        if has_own_scales:
            components, coefficients, scales = scaled_start(X, scale, k, self.surrogate_, index)
            self.initialise(components, coefficients)
            assert isinstance(self._model, SelfTunedSubspace)
            self._model.scale[:] = scales
            return self
        return self.initialise(*batch_start(X, scale, k, self.surrogate_, index))

    # -- one vector ----------------------------------------------------------------------------------------------

    def partial_fit(self, x: np.ndarray, observed: np.ndarray | None = None) -> "SubspaceTracker":
        """Learn from one vector; return self.

        Parameters
        ----------
        x : ndarray, (m,)
            The vector; missing entries are ignored.
        observed : ndarray of bool, (m,), optional
            The paper's A: which entries are observed. A tracker that tunes itself ignores vectors with fewer than k.

        Raises
        ------
        ParameterError
            If `x` or `observed` has a wrong shape or type, or an observed entry is not finite.
        """
        values, a = checked_vector(x, observed, None if self._model is None else self._model.basis.m)
        if self._model is None:
            self._begin_cold(values.size)
        model = self._existing_model
        if isinstance(model, SelfTunedSubspace):
            model.learn(values, a)
            self._model = model.of_better_rank()
            return self
        if model.cold_scale == _SCALE_PENDING and np.any(values):
            count = float(a.sum()) if a.size else float(values.size)
            model.cold_scale = 2 * float(np.sqrt(np.sum(values.astype(np.float64) ** 2) / count))
        seen = model.separate(values, a)
        model.update(seen, self.forgetting_)
        model.fit(seen.fit.values, seen.fit.a)
        return self

    def _begin_cold(self, m: int) -> None:
        """Start from a random subspace."""
        k = 1 if self.rank == "auto" else self.rank
        if m < k:
            raise ParameterError(f"rank must be at most the length {m} of the vectors, got {k}")
        rng = np.random.default_rng(self._parameters.random_state)
        start = np.linalg.qr(rng.standard_normal((m, k)))[0]
        self.initialise(start.T, np.zeros((0, k)))
        if isinstance(self._model, Subspace):
            self._model.cold_scale = _SCALE_PENDING
