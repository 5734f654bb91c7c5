"""SpaRCS: greedy recovery of a low-rank and a sparse matrix with known rank and cardinality.

References
----------
A. E. Waters, A. C. Sankaranarayanan, R. G. Baraniuk, "SpaRCS: Recovering low-rank and sparse matrices from
compressive measurements", Advances in Neural Information Processing Systems 24 (NIPS), 2011.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from bgsub.errors import ParameterError

from ._decomposition import Callback, Decomposition, checked_matrix, checked_rank

Triplets = tuple[np.ndarray, np.ndarray, np.ndarray]
_WINDOW = 10  # iterations over which stagnation is judged


def sparcs(
    X: np.ndarray,
    rank: int,
    cardinality: int,
    *,
    observed: np.ndarray | None = None,
    selection: int = 2,
    tolerance: float = 5e-4,
    max_iterations: int | None = None,
    stagnation: float = 2e-3,
    callback: Callback | None = None,
) -> Decomposition:
    """Split `X` by a greedy update of the atoms of L (as ADMiRA) and of the support of S (as CoSaMP).

    The measurement operator is the identity, or the choice of the observed entries.

    Parameters
    ----------
    X : ndarray, (m, n), float64
        Data, columns are samples. What stands in entries that are not observed is not read.
    rank : int
        Rank of L, at least 1.
    cardinality : int
        Number of outliers among the observed entries.
    observed : ndarray, (m, n), bool, optional
        Which entries are observed; all of them if None.
    selection : int
        What is chosen from the residual in each iteration, in multiples of `rank` and `cardinality`: 2 as in CoSaMP
        and ADMiRA, of which the method is made, 1 as in the released code (``selectAtom``). The default of 2 is our
        choice: with it more matrices are recovered, and in fewer iterations.
    tolerance : float
        Stop when the residual is below this share of the norm of the data (default of the released code: 5e-4).
    max_iterations : int, optional
        Default of the released code: ``7 (rank + 1)``. Its demo uses 20.
    stagnation : float
        Stop when ten iterations together lower the residual by no more than this share; ``-inf`` is off. This rule is
        ours, not the authors': it only ends hopeless runs early, and in 120 planted problems none came out worse for
        it. (The released code has such a setting for single iterations, ``tol_early``, which is off.)
    callback : callable, optional
        Called with L after each iteration; True stops.

    Returns
    -------
    Decomposition
        L of at most `rank`, S with at most `cardinality` entries that are not 0, iterations.

    Raises
    ------
    ParameterError
        If X (where observed), the rank or the cardinality is none that can be worked with.

    Notes
    -----
    As in the released code (sparcs.m, A. Waters and A. Sankaranarayanan, 2011), the steps for S already use the new
    L. Its least squares over a span of rank-one matrices, solved there by conjugate gradients to 1e-6, has a closed
    form for complete data. The eigenvectors of the smaller Gram matrix stand for PROPACK's partial SVD: for the flat
    spectra of the residuals of 400 x 400 matrices they take half the time.
    """
    data = checked_matrix(_masked(X, observed))
    rank = checked_rank(rank, data)
    if not 0 <= cardinality <= data.size:
        raise ParameterError(f"cardinality must be from 0 to m n = {data.size}, got {cardinality!r}")
    limit = 7 * (rank + 1) if max_iterations is None else max_iterations
    L, S, residual = np.zeros_like(data), np.zeros_like(data), data
    atoms: tuple[np.ndarray, np.ndarray] = (np.empty((data.shape[0], 0)), np.empty((data.shape[1], 0)))
    norm = np.linalg.norm(data)
    errors = [1.0]
    while errors[-1] > tolerance and len(errors) <= limit and norm > 0:
        U, _, V = _truncate(residual, selection * rank)
        left, right = np.hstack([atoms[0], U]), np.hstack([atoms[1], V])
        weights = _least_squares(data - S, left, right, observed)
        U, singular, V = _truncate_product(left * weights, right, rank)
        atoms, L = (U, V), (U * singular) @ V.T
        S = _sparse_step(_masked(data - L, observed), S, cardinality, selection)
        residual = _masked(data - L - S, observed)
        errors.append(float(np.linalg.norm(residual) / norm))
        if (callback is not None and callback(L)) or _stagnates(errors, stagnation):
            break
    return Decomposition(L, S, len(errors) - 1)


def _stagnates(errors: list[float], share: float) -> bool:
    """Return whether the best of the last residuals is hardly below the best of all before."""
    return len(errors) > _WINDOW and min(errors[-_WINDOW:]) >= (1 - share) * min(errors[:-_WINDOW])


def _masked(matrix: np.ndarray, observed: np.ndarray | None) -> np.ndarray:
    return matrix if observed is None else np.where(observed, matrix, 0.0)


def _truncate(matrix: np.ndarray, rank: int) -> Triplets:
    """Return the first `rank` singular triplets (U, s, V), from the smaller Gram matrix; U or V is orthonormal.

    ``(U * s) @ V.T`` is the projection of `matrix` on that one, so that small singular values lose nothing there.
    """
    if matrix.shape[0] > matrix.shape[1]:
        V, singular, U = _truncate(matrix.T, rank)
        return U, singular, V
    U = np.linalg.eigh(matrix @ matrix.T)[1][:, : -rank - 1 : -1]
    V = matrix.T @ U
    singular = np.linalg.norm(V, axis=0)
    return U, singular, V / np.where(singular > 0, singular, 1.0)


def _truncate_product(left: np.ndarray, right: np.ndarray, rank: int) -> Triplets:
    """Return the first `rank` singular triplets of ``left @ right.T`` without forming it where that is cheaper."""
    if 2 * left.shape[1] > min(left.shape[0], right.shape[0]):
        return _truncate(left @ right.T, rank)
    (Q, R), (P, T) = np.linalg.qr(left), np.linalg.qr(right)
    U, singular, V = _truncate(R @ T.T, rank)
    return Q @ U, singular, P @ V


def _least_squares(target: np.ndarray, left: np.ndarray, right: np.ndarray, observed: np.ndarray | None) -> np.ndarray:
    """Return the weights of the rank-one matrices ``left[:, i] right[:, i]'`` that fit `target` best, (k,)."""
    inner = _inner(target if observed is None else _masked(target, observed), left, right)
    gram = (left.T @ left) * (right.T @ right)
    if observed is None:
        return _solve(gram, inner)
    return _conjugate_gradients(lambda w: _inner(_masked((left * w) @ right.T, observed), left, right), inner)


def _solve(gram: np.ndarray, inner: np.ndarray) -> np.ndarray:
    """Solve the normal equations; atoms that depend on each other get the smallest weights."""
    try:
        return cho_solve(cho_factor(gram, lower=True, check_finite=False), inner, check_finite=False)
    except np.linalg.LinAlgError:
        return np.linalg.lstsq(gram, inner, rcond=1e-12)[0]


def _inner(matrix: np.ndarray, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    return np.einsum("ik,ik->k", left, matrix @ right)


def _conjugate_gradients(
    apply: Callable[[np.ndarray], np.ndarray], b: np.ndarray, tolerance: float = 1e-6, limit: int = 100
) -> np.ndarray:
    """Solve ``apply(x) = b``; tolerance and limit are those of the released code."""
    x, residual = np.zeros_like(b), b.copy()
    direction, power = residual.copy(), residual @ residual
    goal = tolerance**2 * power
    for _ in range(limit):
        if power <= goal:
            break
        product = apply(direction)
        step = power / (direction @ product)
        x += step * direction
        residual -= step * product
        previous, power = power, residual @ residual
        direction = residual + power / previous * direction
    return x


def _sparse_step(remainder: np.ndarray, S: np.ndarray, cardinality: int, selection: int) -> np.ndarray:
    """Return the new S: `remainder` (data - L) at the best places among the old support and the largest residuals."""
    support = S != 0
    support.ravel()[_largest(remainder - S, selection * cardinality)] = True
    candidates = np.where(support, remainder, 0.0)
    places = _largest(candidates, cardinality)
    kept = np.zeros_like(candidates)
    kept.ravel()[places] = candidates.ravel()[places]
    return kept


def _largest(matrix: np.ndarray, count: int) -> np.ndarray:
    """Return the flat places of the `count` entries of the largest absolute value."""
    magnitudes = np.abs(matrix).ravel()
    if count >= magnitudes.size:
        return np.arange(magnitudes.size)
    order = np.argpartition(magnitudes, magnitudes.size - max(count, 1))
    return order[magnitudes.size - count :]
