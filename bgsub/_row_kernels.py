"""The rows of U from the coefficients of the first frames: a small robust regression per pixel, many at a time."""

from __future__ import annotations

import numpy as np

from bgsub._jit import kernel
from bgsub._kernels import add_scaled, combine, difference, weight_of

_ZERO = np.float32(0)
_RIDGE = np.float32(1.0 + 1e-5)
_LEAST_PIVOT = np.float32(1e-20)
_EVERYTHING = np.empty(0, np.float32)


@kernel
def fit_rows(X, scale, Y, mus, kind, p, U):  # type: ignore[no-untyped-def]
    """Fit each row of U to its pixel's history, given the coefficients: one small robust problem per pixel.

    Reweighted least squares with one weighted solve per entry of `mus`, vectorised over blocks of pixels (the rows of
    U separate once Y is known).

    Parameters
    ----------
    X : ndarray, (n, m), any real dtype
        Frames; ``scale * X`` is in [0, 1].
    scale : float32
        Reciprocal of the full scale.
    Y : ndarray, (n, k), float32
        Coefficients of the frames.
    mus : ndarray, (iterations,), float32
        Smoothing parameters from large to small; the first solve is unweighted.
    kind, p : int, float32
        Surrogate.
    U : ndarray, (k, m), float32, output
        The fitted rows.  O(m n k^2 iterations).
    """
    n, m = X.shape
    k = Y.shape[1]
    width = 256
    pairs = k * (k + 1) // 2
    gram = np.empty((pairs, width), np.float32)
    right = np.empty((k, width), np.float32)
    x = np.empty((n, width), np.float32)
    low_rank = np.empty(width, np.float32)
    r = np.empty(width, np.float32)
    omega = np.empty(width, np.float32)
    for begin in range(0, m, width):
        size = min(width, m - begin)
        for f in range(n):
            for i in range(size):
                x[f, i] = np.float32(X[f, begin + i]) * scale
        U[:, begin : begin + size] = _ZERO
        for step in range(mus.size + 1):
            gram[:, :] = _ZERO
            right[:, :] = _ZERO
            for f in range(n):
                combine(U, begin, Y[f], low_rank[:size])
                difference(x[f, :size], low_rank[:size], _EVERYTHING, r[:size])
                if step == 0:
                    omega[:] = np.float32(1)
                else:
                    weight_of(r[:size], omega[:size], kind, mus[step - 1], p)
                accumulate_pixels(Y[f], omega[:size], r[:size], gram, right)
            solve_pixels(gram, right, size)
            for j in range(k):
                add_scaled(U[j, begin : begin + size], np.float32(1), right[j, :size])


@kernel
def accumulate_pixels(y, omega, r, gram, right):  # type: ignore[no-untyped-def]
    """Add ``omega y y'`` and ``omega r y`` of one frame to the pixels' normal equations (lower triangle by rows)."""
    for j in range(y.size):
        target = right[j]
        for i in range(r.size):
            target[i] += y[j] * omega[i] * r[i]
        for q in range(j + 1):
            product = y[j] * y[q]
            add_scaled(gram[j * (j + 1) // 2 + q, : r.size], product, omega)


@kernel
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


@kernel
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
