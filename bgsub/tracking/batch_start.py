"""Batch start of the subspace for tall matrices: few frames, very many pixels.

The row space of the frames is found by robust PCA on a random subset of the pixels; given the coefficients, every
pixel's row of U is a small robust problem of its own (`bgsub.tracking.row_fit`). The cost is
O(m n k^2) with one pass over the frames, on all cores.
"""

from __future__ import annotations

import numpy as np

from bgsub.numerics.surrogates import Surrogate
from bgsub.numerics.threads import cores, one_blas_thread
from bgsub.robust_pca.estimator import RobustPCA
from bgsub.tracking.row_fit import fit_rows

_ALTERNATIONS_STILL = 20
_ALTERNATIONS = 10  # ten more move the low-rank part by 0.03 grey levels at most (root mean square)
_REWEIGHTINGS = 6
_NEGLIGIBLE = 1e-5  # singular values of the coefficients, relative to the first
_MOST = 0.7  # share of the entries that a still picture must explain to be believed
_VALIDATED = 8  # of so many entries one serves to find out whether directions are earned
_EARNED = 0.8  # most of the cost that they may leave
_BLACK = 1e-9  # of full scale, below which float32 cannot square what varies
_COLUMNS = 8192  # of a block of the tall products
_FULL_SCALE = 4.0  # of data whose range nobody tells, in units of the median of its entries
_START_FLATTENS_AT = 0.06  # of that full scale
_FIRST_SCALE = 0.5  # of full scale: the smoothing begins where hardly any residual is an outlier


def batch_start(
    X: np.ndarray, scale: float, rank: int, surrogate: Surrogate, index: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Fit a subspace to the first frames.

    Parameters
    ----------
    X : ndarray, (n, m), any real dtype
        Frames as rows; ``scale * X`` is in [0, 1].
    scale : float
        Reciprocal of the full scale.
    rank : int
        Dimension k, at most ``min(n, m)``.
    surrogate : Surrogate
        Cost and final smoothing.
    index : ndarray, (s,), int64
        Pixel subset for the robust PCA.

    Returns
    -------
    U : ndarray, (k, m), float32
        Orthonormal rows.
    Y : ndarray, (n, k), float64
        Coefficients: ``scale * X ~ Y U``.
    """
    # Small products: threads of the BLAS gain nothing, and beside busy cores they wait for each other for seconds.
    with one_blas_thread():
        Y = subset_coefficients(sample_of(X, index, scale), rank, surrogate)
        mus = np.geomspace(first_mu(surrogate), surrogate.mu, _REWEIGHTINGS).astype(np.float32)
        U = np.empty((Y.shape[1], X.shape[1]), np.float32)
        fit_rows(X, np.float32(scale), Y.astype(np.float32), surrogate, mus, U, cores())
        return orthonormalise(U, Y, rank)


def scaled_start(
    X: np.ndarray, scale: float, rank: int, surrogate: Surrogate, index: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Fit a subspace to the first vectors of any range, and the scale of each entry's residual.

    Parameters
    ----------
    X, scale, rank, index
        As for `batch_start`.
    surrogate : Surrogate
        Cost; its smoothing is not used, for it is in units of scales that are not known yet.

    Returns
    -------
    U : ndarray, (k, m), float32
        Orthonormal rows.
    Y : ndarray, (n, k), float64
        Coefficients: ``scale * X ~ Y U``.
    s : ndarray, (m,), float32
        Median of ``|scale * X - Y U|`` over the vectors, by the share of the degrees of freedom that Y leaves.
    """
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


def sample_of(X: np.ndarray, index: np.ndarray, scale: float) -> np.ndarray:
    """Return some entries of the frames, (n, s), float32, scaled to [0, 1]; black where they are all but black."""
    sample = X[:, index].astype(np.float32) * np.float32(scale)
    sample[np.abs(sample) < _BLACK] = 0
    return sample


def subset_coefficients(sample: np.ndarray, rank: int, surrogate: Surrogate) -> np.ndarray:
    """Return an orthogonal basis of the row space of the background in a few thousand pixels.

    Robust PCA, but not of frames as they are: its truncated SVD would take large objects for directions, and the
    non-convex cost would keep them. A first fit of rank 1 is a still picture under changing light, which no object
    can bend far. Where it explains most of the pixels, deviations from it are taken back by the influence function,
    so that the background's own changes remain and the objects vanish.

    Parameters
    ----------
    sample : ndarray, (n, s), float32
        Frames, scaled to [0, 1].
    rank : int
        Dimension k.
    surrogate : Surrogate
        Cost and final smoothing.

    Returns
    -------
    ndarray, (n, q), q <= k
        Columns of norm ``sqrt(n)``; directions below a hundred-thousandth of the first are left out.
    """

    if not np.ptp(sample, axis=0).any():  # exactly still: every line search would end in the rounding of its cost
        return np.ones((len(sample), int(sample.any())))
    rank = min(rank, *sample.shape)
    still = fit(sample, 1, surrogate, first_mu(surrogate), _ALTERNATIONS_STILL).low_rank_
    deviation = sample - still
    if np.mean(np.abs(deviation) < 2 * surrogate.scale) > _MOST:
        inliers = still + surrogate.influence(deviation).astype(np.float32)
        model = fit(inliers, rank, surrogate, surrogate.mu, _ALTERNATIONS)
    else:
        model = fit(sample, rank, surrogate, first_mu(surrogate), _ALTERNATIONS_STILL)
    P, s, _ = np.linalg.svd(model.coefficients_.astype(np.float64), full_matrices=False)
    return P[:, s > _NEGLIGIBLE * max(s[0], np.finfo(float).tiny)] * np.sqrt(sample.shape[0])


def fit(data: np.ndarray, k: int, surrogate: Surrogate, mu: float, alternations: int) -> RobustPCA:
    """Return robust PCA of frames, (n, s), as the paper prints it, with a smoothing that falls from `mu`."""
    return RobustPCA(
        k,
        quality="paper",
        surrogate=surrogate.name,
        p=surrogate.p,
        mu_start=mu,
        mu_end=surrogate.mu,
        iterations=alternations,
    ).fit(data)


def is_earned(X: np.ndarray, scale: float, rank: int, surrogate: Surrogate, index: np.ndarray) -> bool:
    """Return whether directions beside the first explain frames that they were not found in.

    What a swaying tree or a flickering lamp does in one half of the time, it does in the other; the directions of an
    object that passes, or stands there for a while, explain that and nothing else. Both halves are cross-validated
    against each other: the cost of entries that their frame's coefficients were found without, see
    `RobustPCA._held_back_cost`. At most four fifths of the cost without them must be left, both ways: of an object that
    stands there in one half only, that half tells enough to explain the other, but not the other way round. Where
    there is too little to find that out, they are taken for earned.

    Parameters
    ----------
    X, scale, rank, surrogate, index
        As for `batch_start`; the frames in their order.
    """
    sample = sample_of(X, index[::_VALIDATED], scale)
    half = len(sample) // 2
    if rank == 1 or min(half, sample.shape[1]) < 2 * rank:
        return rank > 1
    with one_blas_thread():
        for found, other in ((sample[:half], sample[half:]), (sample[half:], sample[:half])):
            fits = (fit(found, k, surrogate, first_mu(surrogate), _ALTERNATIONS) for k in (1, rank))
            still, moving = (model._held_back_cost(other) for model in fits)
            if moving >= _EARNED * still:
                return False
    return True


def first_mu(surrogate: Surrogate, scale: float = 0.0) -> float:
    """Return the mu from which a continuation down to `surrogate.mu` begins, in the surrogate's own unit.

    Its scale is half the full scale of an image, or the intensity `scale` if that is larger.
    """
    return surrogate.widened(max(_FIRST_SCALE, scale)).mu


def orthonormalise(U: np.ndarray, Y: np.ndarray, rank: int) -> tuple[np.ndarray, np.ndarray]:
    """Return ``(V, Z)`` with ``Z V = Y U`` and orthonormal rows of V, sorted by the energy of the coefficients.

    Directions that the frames do not have (a still or an all-black start) are filled with arbitrary orthonormal ones.

    Parameters
    ----------
    U : ndarray, (q, m), float32
    Y : ndarray, (n, q), float64
    rank : int
        Number of rows k >= q of the result.

    Returns
    -------
    V : ndarray, (k, m), float32
    Z : ndarray, (n, k), float64
    """
    values, vectors = np.linalg.eigh(gram_in_double(U))
    keep = values > 1e-10 * max(values.max(initial=0), 1e-9)
    whiten = vectors[:, keep] / np.sqrt(values[keep])
    Z = Y @ vectors[:, keep] * np.sqrt(values[keep])
    rotation = np.linalg.svd(Z, full_matrices=True)[2]
    Z = Z @ rotation.T
    known = Z.shape[1]
    V = np.empty((rank, U.shape[1]), np.float32)
    transform_in_double(rotation @ whiten.T, U, V[:known])
    # once more: whitening by the Gram matrix loses half of the digits
    if known < rank:
        V[known:] = np.random.default_rng(0).standard_normal((rank - known, U.shape[1]), np.float32)
        V[known:] /= np.float32(np.sqrt(U.shape[1]))
        Z = np.hstack([Z, np.zeros((Z.shape[0], rank - known))])
        Z = cholesky_qr(V, Z)  # far from orthonormal: the first pass rounds more than the second
    return V, cholesky_qr(V, Z)


def cholesky_qr(V: np.ndarray, Z: np.ndarray) -> np.ndarray:
    """Orthonormalise the rows of V, (k, m), in place; return the (n, k) matrix by which ``Z V`` stays the same."""
    L = np.linalg.cholesky(gram_in_double(V))
    transform_in_double(np.linalg.inv(L), V, V)
    return Z @ L


def gram_in_double(U: np.ndarray) -> np.ndarray:
    """Return ``U U'``, (k, k), float64, of float32 rows.

    In float64, since it squares the condition: float32 would keep noise as a direction. By blocks, lest a copy of the
    rows in twice the size be made.
    """
    gram = np.zeros((len(U), len(U)))
    for begin in range(0, U.shape[1], _COLUMNS):
        block = U[:, begin : begin + _COLUMNS].astype(np.float64)
        gram += block @ block.T
    return gram


def transform_in_double(T: np.ndarray, U: np.ndarray, out: np.ndarray) -> None:
    """Write ``T U`` into `out`, which may be U itself, by blocks of columns and in float64 as `gram_in_double`."""
    for begin in range(0, U.shape[1], _COLUMNS):
        out[:, begin : begin + _COLUMNS] = T @ U[:, begin : begin + _COLUMNS].astype(np.float64)
