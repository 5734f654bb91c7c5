"""Batch start of the subspace for tall matrices: few frames, very many pixels.

Robust PCA on a random subset of the pixels finds the row space of the frames. Given the coefficients, the row of U of
each pixel is a small robust regression. O(m n k^2) with one pass over the frames, on all cores.
"""

from collections.abc import Generator
from typing import Any, TypeVar

import numpy as np

from bgsub.numerics.surrogates import Surrogate
from bgsub.numerics.threads import cores, in_bands, one_blas_thread
from bgsub.robust_pca.estimator import RobustPCA
from bgsub.tracking import _kernels

BLOCK = 1024  # entries (columns of X) whose rows of U are fitted together
_ALTERNATIONS_STILL = 20  # of the robust PCA of the subset from the first mu on
_ALTERNATIONS = 10  # of later fits: ten more move the low-rank part by 0.03 grey levels at most (root mean square)
_REWEIGHTINGS = 6
_NEGLIGIBLE = 1e-5  # singular values of the coefficients, relative to the first
_MOSTLY_STILL = 0.7  # share of the entries that the fit of rank 1 must explain for its outliers to be shrunk
SUBSET_WORK = 3_000_000  # work of a fit to the subset, in entries of the batch that take as long
_VALIDATED = 8  # the cross-validation uses one of so many entries
_COST_LEFT = 0.8  # of the cost of a fit of rank 1 to the other half: the largest share that all directions may leave
_BLACK = 1e-9  # of full scale, below which float32 cannot square the values
_COLUMNS = 8192  # of a block of the tall products
_FULL_SCALE = 4.0  # of data of unknown range, in units of the median of its entries
_START_FLATTENS_AT = 0.06  # of that full scale
_FIRST_SCALE = 0.5  # of full scale: the smoothing begins where hardly any residual is an outlier
_RIDGE = np.float32(1.0 + 1e-5)
_LEAST_PIVOT = np.float32(1e-20)
_SMALL = 0.5  # of the scale of a mu: while all residuals are smaller, weights are nearly 1, and this mu is skipped
_PART = 64 * BLOCK  # pixels between two pauses of `batch_start_in_parts`

T = TypeVar("T")
Parts = Generator[int, None, T]  # yields the work done, in entries of the batch, and returns the result


def batch_start(
    X: np.ndarray, scale: float, rank: int, surrogate: Surrogate, index: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Fit a subspace to the first frames X, (n, m); return orthonormal rows U, (k, m), and Y, (n, k): ``X ~ Y U``."""
    # The products are small: several BLAS threads gain nothing, and on busy cores wait for each other for seconds.
    with one_blas_thread():
        U = np.empty((rank, X.shape[1]), np.float32)
        return U, result_of(batch_start_in_parts(X, scale, surrogate, index, U))


def batch_start_in_parts(
    X: Any, scale: float, surrogate: Surrogate, index: np.ndarray, U: np.ndarray
) -> Parts[np.ndarray]:
    """Do `batch_start` with pauses: write U, (k, m), and return Y; X needs `shape` and ``X[:, columns]`` only."""
    n, m = X.shape
    Y = subset_coefficients(sample_of(X, index, scale), len(U), surrogate)
    yield SUBSET_WORK
    mus = np.geomspace(first_mu(surrogate), surrogate.mu, _REWEIGHTINGS).astype(np.float32)
    rows = U[: Y.shape[1]]
    for begin in range(0, m, _PART):
        end = min(begin + _PART, m)
        fit_rows(X, np.float32(scale), Y.astype(np.float32), surrogate, mus, rows, cores(), begin, end)
        yield n * (end - begin)
    return (yield from orthonormalise(U, Y))


def result_of(parts: Parts[T]) -> T:
    """Return the result of parts, done without a pause."""
    while True:
        try:
            next(parts)
        except StopIteration as end:
            return end.value


def scaled_start(
    X: np.ndarray, scale: float, rank: int, surrogate: Surrogate, index: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Fit a subspace to vectors of any range; return U and Y of `batch_start`, and each entry's scale, (m,) float32."""
    sample = np.abs(X[:, index].astype(np.float32))
    full = scale * _FULL_SCALE * float(np.median(sample)) or scale * float(sample.max()) or 1.0
    cost = Surrogate.flattening_at(_START_FLATTENS_AT, surrogate.name, surrogate.p)
    U, Y = batch_start(X, scale / full, rank, cost, index)
    Y, n, m = Y * full, *X.shape
    s = np.empty(m, np.float32)
    for first in range(0, m, _COLUMNS):
        block = np.s_[:, first : first + _COLUMNS]
        s[block[1]] = np.median(np.abs(X[block] * np.float32(scale) - Y.astype(np.float32) @ U[block]), axis=0)
    s /= np.float32(np.sqrt(max(1 - rank / n, 1 / n)))
    return U, Y, np.maximum(s, np.float32(1e-6 * full))


def fit_rows(
    X: Any,
    scale: np.float32,
    Y: np.ndarray,
    surrogate: Surrogate,
    mus: np.ndarray,
    U: np.ndarray,
    threads: int = 1,
    first_pixel: int = 0,
    last_pixel: int | None = None,
) -> None:
    """Write the row of U of some pixels, fitted to its history given the coefficients, into `U`, (k, m) float32."""
    # a block skips the first `mus`, which are far above all its residuals: this halves the solves and changes the
    # low-rank part by hundredths of a grey level; with one BLAS thread the result does not depend on `threads`
    start = np.linalg.pinv(Y.astype(np.float64)).astype(np.float32)
    j, q = np.tril_indices(Y.shape[1])
    y = np.ascontiguousarray(Y.T)
    products = y[j] * y[q]
    smallest = np.array([_SMALL * surrogate.at_mu(mu).scale for mu in mus[:-1].tolist()] + [0.0])

    def fit(begin: int, end: int, _: int) -> None:
        for first in range(first_pixel + begin, first_pixel + end, BLOCK):
            x = np.multiply(X[:, first : min(first + BLOCK, first_pixel + end)], scale, dtype=np.float32)
            low_rank, omega, weighted = np.empty((3, *x.shape), np.float32)
            u = start @ x
            largest = float(np.abs(np.subtract(x, Y @ u, out=omega)).max())
            for mu in mus[smallest <= largest]:
                np.matmul(Y, u, out=low_rank)
                _kernels.weigh(x, low_rank, surrogate.code, mu, np.float32(surrogate.p), omega, weighted)
                u += _solved(products @ omega, y @ weighted)
            U[:, first : first + x.shape[1]] = u

    in_bands(fit, (U.shape[1] if last_pixel is None else last_pixel) - first_pixel, threads, BLOCK)


def _solved(gram: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Solve ``G d = right`` by Cholesky, column by column: lower triangles G, (k (k + 1) / 2, m), `right` (k, m)."""
    k = len(right)
    L = [[gram[j * (j + 1) // 2 + q] for q in range(j + 1)] for j in range(k)]
    for j in range(k):
        L[j][j] *= _RIDGE
        L[j][j] += _LEAST_PIVOT
        for q in range(j + 1):
            for s in range(q):
                L[j][q] -= L[j][s] * L[q][s]
            if q < j:
                L[j][q] /= L[q][q]
        np.sqrt(np.maximum(L[j][j], _LEAST_PIVOT, out=L[j][j]), out=L[j][j])
    for j in range(k):
        for s in range(j):
            right[j] -= L[j][s] * right[s]
        right[j] /= L[j][j]
    for j in range(k - 1, -1, -1):
        for s in range(j + 1, k):
            right[j] -= L[s][j] * right[s]
        right[j] /= L[j][j]
    return right


def sample_of(X: Any, index: np.ndarray, scale: float) -> np.ndarray:
    """Return some entries of the frames, (n, s) float32 in [0, 1]; values near black become 0."""
    return _blackened(X[:, index].astype(np.float32) * np.float32(scale))


def _blackened(sample: np.ndarray) -> np.ndarray:
    sample[np.abs(sample) < _BLACK] = 0
    return sample


def subset_coefficients(sample: np.ndarray, rank: int, surrogate: Surrogate) -> np.ndarray:
    """Return an orthogonal basis, (n, q <= k), of the row space of the background in the samples, (n, s) float32."""
    # an SVD would take large objects for directions: first a robust fit of rank 1, then deviations from it are shrunk
    if not np.ptp(sample, axis=0).any():  # exactly still: line searches would find only rounding
        return np.ones((len(sample), int(sample.any())))
    rank = min(rank, *sample.shape)
    still = fit(sample, 1, surrogate, first_mu(surrogate), _ALTERNATIONS_STILL).low_rank_
    deviation = sample - still
    if np.mean(np.abs(deviation) < 2 * surrogate.scale) > _MOSTLY_STILL:
        inliers = _blackened(still + surrogate.influence(deviation).astype(np.float32))
        model = fit(inliers, rank, surrogate, surrogate.mu, _ALTERNATIONS)
    else:
        model = fit(sample, rank, surrogate, first_mu(surrogate), _ALTERNATIONS_STILL)
    P, s, _ = np.linalg.svd(model.coefficients_.astype(np.float64), full_matrices=False)
    return P[:, s > _NEGLIGIBLE * max(s[0], np.finfo(float).tiny)] * np.sqrt(sample.shape[0])


def fit(data: np.ndarray, k: int, surrogate: Surrogate, mu: float, alternations: int) -> RobustPCA:
    """Return robust PCA of frames, (n, s), as the paper prints it, with a smoothing that falls from `mu`."""
    cost: dict[str, Any] = {"surrogate": surrogate.name, "p": surrogate.p, "mu_start": mu, "mu_end": surrogate.mu}
    return RobustPCA(k, quality="paper", iterations=alternations, **cost).fit(data)


def passes_cross_validation(X: np.ndarray, scale: float, rank: int, surrogate: Surrogate, index: np.ndarray) -> bool:
    """Return whether directions beside the first explain frames of the half in which they were not fitted."""
    # a swaying tree moves alike in both halves of the time, but an object that passes is explained in one of them only
    sample = sample_of(X, index[::_VALIDATED], scale)
    half = len(sample) // 2
    if rank == 1 or min(half, sample.shape[1]) < 2 * rank:
        return rank > 1
    for found, other in ((sample[:half], sample[half:]), (sample[half:], sample[:half])):
        fits = (fit(found, k, surrogate, first_mu(surrogate), _ALTERNATIONS) for k in (1, rank))
        still, moving = (model._cross_validation_cost(other) for model in fits)
        if moving >= _COST_LEFT * still:
            return False
    return True


def first_mu(surrogate: Surrogate, scale: float = 0.0) -> float:
    """Return the mu from which a continuation down to `surrogate.mu` begins, in the surrogate's unit."""
    return surrogate.widened(max(_FIRST_SCALE, scale)).mu


def orthonormalise(V: np.ndarray, Y: np.ndarray) -> Parts[np.ndarray]:
    """Replace the first q rows U of V, (k, m), by k orthonormal ones; return Z with ``Z V = Y U``; Y is (n, q)."""
    # the new rows are sorted by the energy of their coefficients; random rows take the place of directions that the
    # frames do not have, as in a still or an all-black start
    (rank, m), U = V.shape, V[: Y.shape[1]]
    values, vectors = np.linalg.eigh(gram_in_double(U))
    yield m
    keep = values > 1e-10 * max(values.max(initial=0), 1e-9)
    whiten = vectors[:, keep] / np.sqrt(values[keep])
    Z = Y @ vectors[:, keep] * np.sqrt(values[keep])
    rotation = np.linalg.svd(Z, full_matrices=True)[2]
    Z = Z @ rotation.T
    known = Z.shape[1]
    transform_in_double(rotation @ whiten.T, U, V[:known])
    yield m
    # orthonormalise again: whitening by the Gram matrix loses half of the digits
    if known < rank:
        V[known:] = np.random.default_rng(0).standard_normal((rank - known, m), np.float32)
        V[known:] /= np.float32(np.sqrt(m))
        Z = np.hstack([Z, np.zeros((Z.shape[0], rank - known))])
        Z = cholesky_qr(V, Z)  # far from orthonormal: the first pass rounds more than the second
    Z = cholesky_qr(V, Z)
    yield 2 * m
    return Z


def cholesky_qr(V: np.ndarray, Z: np.ndarray) -> np.ndarray:
    """Orthonormalise the rows of V, (k, m), in place; return the (n, k) matrix that keeps ``Z V``."""
    L = np.linalg.cholesky(gram_in_double(V))
    transform_in_double(np.linalg.inv(L), V, V)
    return Z @ L


def gram_in_double(U: np.ndarray) -> np.ndarray:
    """Return ``U U'``, (k, k) float64, of float32 rows: in float32 noise would look like a direction."""
    gram = np.zeros((len(U), len(U)))
    for begin in range(0, U.shape[1], _COLUMNS):
        block = U[:, begin : begin + _COLUMNS].astype(np.float64)
        gram += block @ block.T
    return gram


def transform_in_double(T: np.ndarray, U: np.ndarray, out: np.ndarray) -> None:
    """Write ``T U`` into `out`, which may be U, by blocks of columns and in float64."""
    for begin in range(0, U.shape[1], _COLUMNS):
        out[:, begin : begin + _COLUMNS] = T @ U[:, begin : begin + _COLUMNS].astype(np.float64)
