"""The rows of U from the coefficients of the first frames: a small robust regression per pixel, many at a time.

Blocks of pixels fit into the cache with all their frames, which are converted once. Every loop runs over the pixels of
a block with whole arrays and row numbers: a slice would cost as much as the loop. Frames and coefficients are padded
with zeros to groups of four, so that no accumulator is loaded and stored for each single frame.
"""

from __future__ import annotations

import numpy as np

from bgsub.numerics.jit import formula, kernel, part
from bgsub.numerics.surrogates import ATAN, LOG, LP, arctan, log_weight, lp_weight
from bgsub.numerics.threads import in_bands

BLOCK = 256
GROUP = 4
_ZERO = np.float32(0)
_ONE = np.float32(1)
_NEARLY_ZERO = np.float32(1e-6)
_RIDGE = np.float32(1.0 + 1e-5)
_LEAST_PIVOT = np.float32(1e-20)
# A reweighting of a block changes nothing to speak of where all residuals are below this share of its scale.
_REACH = 0.5


def fit_rows(
    X: np.ndarray,
    scale: np.float32,
    Y: np.ndarray,
    mus: np.ndarray,
    kind: tuple[int, ...],
    p: np.float32,
    U: np.ndarray,
    threads: int = 1,
) -> None:
    """Fit each row of U to its pixel's history, given the coefficients: one small robust problem per pixel.

    Least squares, then reweighted least squares with one weighted solve per entry of `mus` (the rows of U separate
    once Y is known). A block of pixels begins with the first mu that any of its residuals comes near: it changes the
    low-rank part by a few tenths of a grey level at most, by hundredths on average, and saves half of the solves.

    Parameters
    ----------
    X : ndarray, (n, m), any real dtype
        Frames; ``scale * X`` is in [0, 1].
    scale : float32
        Reciprocal of the full scale.
    Y : ndarray, (n, k), float32
        Coefficients of the frames.
    mus : ndarray, (iterations,), float32
        Smoothing parameters from large to small; the last is always used.
    kind, p : tuple, float32
        Surrogate.
    U : ndarray, (k, m), float32, output
        The fitted rows.  O(m n k^2 iterations).
    threads : int, default 1
        Most threads to use; the result does not depend on it.
    """
    n, k = Y.shape
    frames, padded = -(-n // GROUP) * GROUP, -(-max(k, 1) // GROUP) * GROUP
    y = np.zeros((padded, frames), np.float32)
    y[:k, :n] = Y.T
    start = np.zeros((k, frames), np.float32)
    start[:, :n] = np.linalg.pinv(Y.astype(np.float64))
    j, q = np.tril_indices(k)
    products = np.ascontiguousarray(y[j] * y[q])
    reach = (_REACH * (mus if len(kind) == ATAN else np.sqrt(mus))).astype(np.float32)
    reach[-1:] = 0

    def fit(begin: int, end: int, _: int) -> None:
        fit_band(X, scale, y, start, products, mus, reach, kind, p, begin, end, U)

    in_bands(fit, X.shape[1], threads, BLOCK)


@kernel
def fit_band(X, scale, y, start, products, mus, reach, kind, p, begin, end, U):  # type: ignore[no-untyped-def]
    """Fit the rows ``begin:end`` of U, `begin` a multiple of `BLOCK`; see `fit_rows`.

    Parameters
    ----------
    X, scale, mus, kind, p, U
        As in `fit_rows`.
    y : ndarray, (k', n'), float32
        Transposed coefficients, padded by zeros to multiples of `GROUP`.
    start : ndarray, (k, n'), float32
        Their pseudo-inverse: ``start x`` is the least-squares fit.
    products : ndarray, (k (k + 1) / 2, n'), float32
        ``y_j y_q``, lower triangle by rows.
    reach : ndarray, (iterations,), float32
        Largest residual below which a block leaves out the entry of `mus`.
    begin, end : int
        The pixels.
    """
    k = start.shape[0]
    width = min(BLOCK, X.shape[1])
    x = np.zeros((y.shape[1], width), np.float32)
    u = np.empty((y.shape[0], width), np.float32)
    gram = np.empty((products.shape[0], width), np.float32)
    right = np.empty((k, width), np.float32)
    rows = np.empty((3 * GROUP, width), np.float32)
    for first in range(begin, end, width):
        load_frames(X, scale, first, min(width, end - first), x)
        u[:, :] = _ZERO
        for f in range(0, x.shape[0], GROUP):
            accumulate_group(start, f, x, f, u)
        largest = largest_residual(x, y, u, rows)
        for step in range(mus.size):
            if largest >= reach[step]:
                reweight(x, y, products, kind, mus[step], p, u, gram, right, rows)
        for j in range(k):
            for i in range(min(width, end - first)):
                U[j, first + i] = u[j, i]


@part
def load_frames(X, scale, first, size, x):  # type: ignore[no-untyped-def]
    """Write `size` scaled entries of each frame from `first` on into the rows of `x`, zeros behind them."""
    for f in range(X.shape[0]):
        for i in range(size):
            x[f, i] = np.float32(X[f, first + i]) * scale
        for i in range(size, x.shape[1]):
            x[f, i] = _ZERO


@part
def reweight(x, y, products, kind, mu, p, u, gram, right, rows):  # type: ignore[no-untyped-def]
    """Do one step of reweighted least squares on the rows of `u`, (k', width), for all pixels of a block.

    Workspaces: `gram`, (k (k + 1) / 2, width), `right`, (k, width), `rows`, (3 GROUP, width).
    """
    gram[:, :] = _ZERO
    right[:, :] = _ZERO
    for f in range(0, x.shape[0], GROUP):
        low_rank_group(y, f, u, rows)
        weigh_group(x, f, kind, mu, p, rows)
        accumulate_group(y, f, rows, GROUP, right)
        accumulate_group(products, f, rows, 2 * GROUP, gram)
    solve_pixels(gram, right, x.shape[1])
    for j in range(right.shape[0]):
        for i in range(x.shape[1]):
            u[j, i] += right[j, i]


@part
def low_rank_group(y, f, u, rows):  # type: ignore[no-untyped-def]
    """Write the low-rank part of the `GROUP` frames from `f` on into the first rows of `rows`."""
    for g in range(GROUP):
        a, b, c, d = y[0, f + g], y[1, f + g], y[2, f + g], y[3, f + g]
        for i in range(rows.shape[1]):
            rows[g, i] = a * u[0, i] + b * u[1, i] + c * u[2, i] + d * u[3, i]
        for j in range(GROUP, u.shape[0], GROUP):
            a, b, c, d = y[j, f + g], y[j + 1, f + g], y[j + 2, f + g], y[j + 3, f + g]
            for i in range(rows.shape[1]):
                rows[g, i] += a * u[j, i] + b * u[j + 1, i] + c * u[j + 2, i] + d * u[j + 3, i]


@formula
def atan_weight(r, mu, p):  # type: ignore[no-untyped-def]
    """Return the weight ``atan(z) / (z (1 + z^2))``, ``z = |r| / mu``; `p` is not used."""
    z = max(abs(r) / mu, _NEARLY_ZERO)
    return arctan(z) / (z * (_ONE + z * z))


@part
def weigh_group(x, f, kind, mu, p, rows):  # type: ignore[no-untyped-def]
    """Write ``omega(r) r`` and ``omega(r)`` of the `GROUP` frames from `f` on behind their low-rank parts in `rows`."""
    for g in range(GROUP):
        if len(kind) == LP:
            for i in range(rows.shape[1]):
                r = x[f + g, i] - rows[g, i]
                omega = lp_weight(r, mu, p)
                rows[GROUP + g, i], rows[2 * GROUP + g, i] = omega * r, omega
        elif len(kind) == LOG:
            for i in range(rows.shape[1]):
                r = x[f + g, i] - rows[g, i]
                omega = log_weight(r, mu, p)
                rows[GROUP + g, i], rows[2 * GROUP + g, i] = omega * r, omega
        else:
            for i in range(rows.shape[1]):
                r = x[f + g, i] - rows[g, i]
                omega = atan_weight(r, mu, p)
                rows[GROUP + g, i], rows[2 * GROUP + g, i] = omega * r, omega


@part
def accumulate_group(c, f, rows, begin, target):  # type: ignore[no-untyped-def]
    """Add ``sum_g c[j, f + g] rows[begin + g]`` over a group to each row j of `target` that has a row of `c`."""
    for j in range(min(c.shape[0], target.shape[0])):
        a, b, d, e = c[j, f], c[j, f + 1], c[j, f + 2], c[j, f + 3]
        for i in range(target.shape[1]):
            target[j, i] += (
                a * rows[begin, i] + b * rows[begin + 1, i] + d * rows[begin + 2, i] + e * rows[begin + 3, i]
            )


@part
def largest_residual(x, y, u, rows):  # type: ignore[no-untyped-def]
    """Return the largest ``|x - U y|`` of a block; `rows` as in `reweight`."""
    largest = _ZERO
    for f in range(0, x.shape[0], GROUP):
        low_rank_group(y, f, u, rows)
        for g in range(GROUP):
            for i in range(x.shape[1]):
                largest = max(largest, abs(x[f + g, i] - rows[g, i]))
    return largest


@part
def factor_pixels(gram, k, size):  # type: ignore[no-untyped-def]
    """Replace the lower triangles of `size` pixels, (k (k + 1) / 2, >= size), by their Cholesky factors, in place."""
    for j in range(k):
        diagonal = gram[j * (j + 1) // 2 + j]
        for i in range(size):
            diagonal[i] = diagonal[i] * _RIDGE + _LEAST_PIVOT
    for j in range(k):
        for q in range(j + 1):
            entry = gram[j * (j + 1) // 2 + q]
            for s in range(q):
                left, other = gram[j * (j + 1) // 2 + s], gram[q * (q + 1) // 2 + s]
                for i in range(size):
                    entry[i] -= left[i] * other[i]
            pivot = gram[q * (q + 1) // 2 + q]
            for i in range(size):
                entry[i] = np.sqrt(max(entry[i], _LEAST_PIVOT)) if q == j else entry[i] / pivot[i]


@part
def solve_pixels(gram, right, size):  # type: ignore[no-untyped-def]
    """Solve the normal equations of `size` pixels at once by Cholesky, in place; the solutions lie in `right`."""
    k = right.shape[0]
    factor_pixels(gram, k, size)
    for j in range(k):
        target, pivot = right[j], gram[j * (j + 1) // 2 + j]
        for s in range(j):
            factor, known = gram[j * (j + 1) // 2 + s], right[s]
            for i in range(size):
                target[i] -= factor[i] * known[i]
        for i in range(size):
            target[i] /= pivot[i]
    for j in range(k - 1, -1, -1):
        target, pivot = right[j], gram[j * (j + 1) // 2 + j]
        for s in range(j + 1, k):
            factor, known = gram[s * (s + 1) // 2 + j], right[s]
            for i in range(size):
                target[i] -= factor[i] * known[i]
        for i in range(size):
            target[i] /= pivot[i]
