"""Robust subspace tracking on the Grassmannian: one vector in, one step of the subspace (paper, algorithms 5 and 6)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from bgsub.errors import ParameterError
from bgsub.numerics.state import State, part_of
from bgsub.numerics.surrogates import Surrogate
from bgsub.parameters import GradientCarry, LineSearch, Metric, SurrogateName, TrackerParameters
from bgsub.tracking.basis import Basis
from bgsub.tracking.batch_start import batch_start
from bgsub.tracking.subspace import EVERYTHING, Subspace

_MOVED = "separate", "update", "retarget", "orthonormalise"
_FLATTENS_AT = 0.06  # intensity at which the cost flattens when mu is not given
_LARGEST = 1e12  # beyond it squares leave the range of float32
_UNKNOWN = -1.0  # scale of the data before the first vector that is not zero


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
        surrogate: SurrogateName = "atan",
        mu: float | None = None,
        p: float = 0.5,
        forgetting: float = 0.05,
        metric: Metric = "scaled",
        line_search: LineSearch = "objective",
        gradient_carry: GradientCarry = "model",
        subset: int = 4000,
        random_state: int = 0,
    ) -> None:
        given = {name: value for name, value in locals().items() if name != "self"}
        self._parameters = TrackerParameters(**given)
        p = self._parameters.p
        default = Surrogate.flattening_at(_FLATTENS_AT, surrogate, p)
        self.surrogate_ = default if mu is None else replace(default, mu=float(mu))
        self.mu = self.surrogate_.mu
        self._subspace: Subspace | None = None

    def set_forgetting(self, forgetting: float) -> None:
        """Change the weight of the newest vector from the next one on."""
        self._parameters = replace(self._parameters, forgetting=forgetting)

    @property
    def rank(self) -> int:
        """Dimension k of the subspace."""
        return self._parameters.rank

    @property
    def forgetting(self) -> float:
        """Weight w of the newest vector."""
        return self._parameters.forgetting

    if not TYPE_CHECKING:  # a checker shall find wrong names itself

        def __getattr__(self, name: str) -> NoReturn:
            """Say where the steps of one vector are now."""
            where = f"; it is subspace_.{name} now" if name in _MOVED else ""
            raise AttributeError(f"SubspaceTracker has no attribute {name!r}{where}")

    def get_params(self) -> dict[str, Any]:
        """Return the constructor's parameters by name."""
        return self._parameters.as_dict()

    # -- model ---------------------------------------------------------------------------------------------------

    @property
    def subspace_(self) -> Subspace:
        """The model itself; ParameterError while there is none."""
        if self._subspace is None:
            raise ParameterError("this SubspaceTracker has no model yet: call fit or partial_fit first")
        return self._subspace

    @property
    def components_(self) -> np.ndarray:
        """Orthonormal rows, (k, m), float32; a view of the model."""
        basis = self.subspace_.basis
        basis.carry_out()
        return basis.stack[: basis.k, : basis.m]

    @property
    def coefficients_(self) -> np.ndarray:
        """Coefficients y of the newest vector, (k,), float64."""
        return self.subspace_.y

    @property
    def low_rank_(self) -> np.ndarray:
        """Low-rank part ``l = U y`` of the newest vector, (m,), float32."""
        return self.subspace_.basis.low_rank(self.coefficients_)

    @property
    def step_length_(self) -> float:
        """The last accepted step length t."""
        return self.subspace_.step_length

    @property
    def objective_(self) -> tuple[float, float]:
        """The last objective before and after the step."""
        return self.subspace_.objective

    @property
    def n_samples_seen_(self) -> int:
        """Number of updates."""
        return 0 if self._subspace is None else self._subspace.updates

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
        basis = Basis(components)
        self._subspace = Subspace(self._parameters, self.surrogate_, self.subset_of(m), basis, coefficients)
        return self

    def state(self) -> State:
        """Return everything that the next vector depends on, copied; see `bgsub.numerics.state`."""
        return self.subspace_.state()

    def set_state(self, state: State, size: int | None = None) -> SubspaceTracker:
        """Go on bit for bit where the tracker stood whose `state` it was.

        Parameters
        ----------
        state : dict
            See `bgsub.numerics.state`.
        size : int, optional
            Entries m that the vectors have; by default as many as those of the state.

        Raises
        ------
        ParameterError
            When it does not fit.
        """
        arrays = part_of(state, "basis")
        basis = Basis.from_state(arrays, self.rank, size)
        if not Basis.from_state(arrays, self.rank, size).is_orthonormal():  # another one: the question changes it
            raise ParameterError("the saved basis is not orthonormal")
        none = np.zeros((0, self.rank))
        subspace = Subspace(self._parameters, self.surrogate_, self.subset_of(basis.m), basis, none)
        subspace.set_state(state)
        self._subspace = subspace
        return self

    def subset_of(self, m: int) -> np.ndarray:
        """Return the fixed random subset of the entries 0..m-1 that the coefficients are estimated from, sorted."""
        size = min(m, self._parameters.subset)
        rng = np.random.default_rng(self._parameters.random_state)
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
        if self._subspace is None:
            rng = np.random.default_rng(self._parameters.random_state)
            m = values.size
            if m < self.rank:
                raise ParameterError(f"rank must be at most the length {m} of the vectors, got {self.rank}")
            start = np.linalg.qr(rng.standard_normal((m, self.rank)))[0]
            self.initialise(start.T, np.zeros((0, self.rank)))
            self.subspace_.cold_scale = _UNKNOWN
        subspace = self.subspace_
        if subspace.cold_scale == _UNKNOWN and np.any(values):
            count = float(a.sum()) if a.size else float(values.size)
            subspace.cold_scale = 2 * float(np.sqrt(np.sum(values.astype(np.float64) ** 2) / count))
        seen = subspace.separate(values, a)
        subspace.update(seen, self.forgetting)
        subspace.fit(seen.fit.values, seen.fit.a)
        return self

    def _checked(self, x: np.ndarray, observed: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        """Return `x` as float32 and the observed entries as 0/1 float32; missing entries of x become 0."""
        values = np.asarray(x)
        expected = (values.size,) if self._subspace is None else (self._subspace.basis.m,)
        if values.ndim != 1 or values.shape != expected or values.size == 0:
            raise ParameterError(f"x must be a vector of shape {expected}, got shape {values.shape}")
        with np.errstate(over="ignore"):
            values = values.astype(np.float32)
        if observed is None:
            a = EVERYTHING
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


def _largest(X: np.ndarray) -> float:
    """Return the largest magnitude in a batch, (n, m), NaN when it holds one; for integers that of their type."""
    if X.dtype.kind in "bui":
        return 1.0 if X.dtype.kind == "b" else float(np.iinfo(X.dtype).max)
    return max((float(np.abs(x).max(initial=0)) for x in X), default=0.0, key=lambda v: (np.isnan(v), v))
