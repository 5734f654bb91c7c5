"""The Numba passes of the tracker and the segmenter, blocked for the cache.

Arrays are component-major: a stack of vectors has shape (rows, m), so that every inner loop runs over contiguous
float32 entries and vectorises. Kernels validate nothing and allocate nothing that grows with the frame. `kind`,
`mu` and `p` select the surrogate (`bgsub.surrogates`); `mu` and `p` are float32. The dense twins of all kernels are
in ``tests/reference.py``.
"""

from __future__ import annotations

import numpy as np

from bgsub._jit import kernel
from bgsub.surrogates import (
    LOG,
    LP,
    atan_influence,
    atan_value,
    log_influence,
    log_value,
    lp_influence,
    lp_value,
)

BLOCK = 2048
_ZERO = np.float32(0)
_TINY = np.float32(1e-12)
_RIDGE = np.float32(1.0 + 1e-5)
_LEAST_PIVOT = np.float32(1e-20)
_EVERYTHING = np.empty(0, np.float32)


@kernel
def influence_of(r, e, kind, mu, p):  # type: ignore[no-untyped-def]
    """Write ``psi(r)`` into `e`, which must not be `r`; both (n,)."""
    if kind == LP:
        for i in range(r.size):
            e[i] = lp_influence(r[i], mu, p)
    elif kind == LOG:
        for i in range(r.size):
            e[i] = log_influence(r[i], mu, p)
    else:
        for i in range(r.size):
            e[i] = atan_influence(r[i], mu, p)


@kernel
def weight_of(r, omega, kind, mu, p):  # type: ignore[no-untyped-def]
    """Write ``omega(r) = psi(r) / r`` into `omega`, 1 where r vanishes; both (n,)."""
    influence_of(r, omega, kind, mu, p)
    for i in range(r.size):
        small = abs(r[i]) < _TINY
        omega[i] = np.float32(1) if small else omega[i] / r[i]


@kernel
def value_of(r, kind, mu, p):  # type: ignore[no-untyped-def]
    """Return the sum of ``h(r)`` over a block of at most a few thousand entries."""
    total = _ZERO
    if kind == LP:
        for i in range(r.size):
            total += lp_value(r[i], mu, p)
    elif kind == LOG:
        for i in range(r.size):
            total += log_value(r[i], mu, p)
    else:
        for i in range(r.size):
            total += atan_value(r[i], mu, p)
    return total


@kernel
def add_scaled(target, factor, row):  # type: ignore[no-untyped-def]
    """Add ``factor * row`` to `target`; both (n,)."""
    for i in range(target.size):
        target[i] += factor * row[i]


@kernel
def dot(u, v):  # type: ignore[no-untyped-def]
    """Return the inner product of two blocks, (n,), accumulated in float32 over the block."""
    total = _ZERO
    for i in range(u.size):
        total += u[i] * v[i]
    return total


@kernel
def combine(stack, begin, c, out):  # type: ignore[no-untyped-def]
    """Write ``sum_j c_j stack_j[begin : begin + n]`` into `out`, (n,), over the first ``len(c)`` rows of `stack`.

    Four rows at a time: fewer passes over `out`, still few enough registers.
    """
    end = begin + out.size
    first = c.size % 4
    if first == 0:
        for i in range(out.size):
            out[i] = _ZERO
    elif first == 1:
        u = stack[0, begin:end]
        for i in range(out.size):
            out[i] = c[0] * u[i]
    elif first == 2:
        u, v = stack[0, begin:end], stack[1, begin:end]
        for i in range(out.size):
            out[i] = c[0] * u[i] + c[1] * v[i]
    else:
        u, v, s = stack[0, begin:end], stack[1, begin:end], stack[2, begin:end]
        for i in range(out.size):
            out[i] = c[0] * u[i] + c[1] * v[i] + c[2] * s[i]
    for j in range(first, c.size, 4):
        u, v = stack[j, begin:end], stack[j + 1, begin:end]
        s, t = stack[j + 2, begin:end], stack[j + 3, begin:end]
        for i in range(out.size):
            out[i] += c[j] * u[i] + c[j + 1] * v[i] + c[j + 2] * s[i] + c[j + 3] * t[i]


@kernel
def difference(x, l, a, r):  # type: ignore[no-untyped-def]
    """Write ``a (x - l)`` into `r`, all (n,); an empty `a` observes everything."""
    if a.size > 0:
        for i in range(r.size):
            r[i] = a[i] * (x[i] - l[i])
    else:
        for i in range(r.size):
            r[i] = x[i] - l[i]


@kernel
def residual_sweep(stack, k, y, x, a, kind, mu, p, low_rank, products, work):  # type: ignore[no-untyped-def]
    """Make background, influence and inner products of one vector in one pass over the model.

    Parameters
    ----------
    stack : ndarray, (n_rows, m), float32
        Rows 0..k-1 hold U', the rows after them Q', the last row receives the influence ``e = A psi(A(x - U y))``.
    k : int
        Rank.
    y : ndarray, (k,), float32
        Coefficients.
    x : ndarray, (m,), float32
        The vector.
    a : ndarray, (m,) or (0,), float32
        Observed entries (1) and missing ones (0); empty when all are observed.
    kind, mu, p : int, float32, float32
        Surrogate.
    low_rank : ndarray, (m,), float32, output
        ``l = U y``.
    products : ndarray, (n_rows,), float64, output
        Inner products of e with every row, the last one with itself.
    work : ndarray, (BLOCK,), float32
        Workspace for the residual: in place, the loops over it would not vectorise.

    Returns
    -------
    float
        ``h(A(x - U y))``.  O(m (k + r)).
    """
    last = stack.shape[0] - 1
    products[:] = 0.0
    cost = 0.0
    for begin in range(0, x.size, BLOCK):
        end = min(begin + BLOCK, x.size)
        background, e = low_rank[begin:end], stack[last, begin:end]
        combine(stack, begin, y, background)
        r = work[: end - begin]
        difference(x[begin:end], background, a[begin:end], r)
        cost += value_of(r, kind, mu, p)
        influence_of(r, e, kind, mu, p)
        for j in range(last + 1):
            products[j] += dot(stack[j, begin:end], e)
    return cost


@kernel
def trial_cost(stack, c, x, a, kind, mu, p, work):  # type: ignore[no-untyped-def]
    """Return ``h(A(x - sum_j c_j stack_j))``: the newest sample at a trial step length.

    `stack` (n_rows, m), `c` (n_rows,), `x` (m,) float32, `a` (m,) or (0,), `work` (2, BLOCK) float32.  O(m n_rows).
    """
    cost = 0.0
    for begin in range(0, x.size, BLOCK):
        end = min(begin + BLOCK, x.size)
        low_rank, r = work[0, : end - begin], work[1, : end - begin]
        combine(stack, begin, c, low_rank)
        difference(x[begin:end], low_rank, a[begin:end], r)
        cost += value_of(r, kind, mu, p)
    return cost


@kernel
def transform_rows(stack, T, work):  # type: ignore[no-untyped-def]
    """Replace the leading rows of `stack` by linear combinations of all its rows, in place, in one pass.

    ``stack[i] <- sum_j T[i, j] stack[j]`` for the rows i of `T`, (n_new, n_rows) float32; `work` has shape
    (>= n_new, BLOCK).  O(m n_rows n_new).
    """
    n_new = T.shape[0]
    m = stack.shape[1]
    for begin in range(0, m, BLOCK):
        end = min(begin + BLOCK, m)
        for i in range(n_new):
            combine(stack, begin, T[i], work[i, : end - begin])
        for i in range(n_new):
            stack[i, begin:end] = work[i, : end - begin]


@kernel
def normal_equations(rows, r, omega, a, gram, right):  # type: ignore[no-untyped-def]
    """Accumulate ``gram = U' W U`` and ``right = U' W r`` on a pixel subset, W the weights times the observed ones.

    `rows` (k, n), `r` (n,), `omega` (n,) float32 (overwritten by W); outputs `gram` (k, k), `right` (k,) float64.
    """
    k = rows.shape[0]
    if a.size > 0:
        for i in range(r.size):
            omega[i] *= a[i]
    for i in range(k):
        right[i] = 0.0
        for j in range(k):
            gram[i, j] = 0.0
    for begin in range(0, r.size, BLOCK):
        end = min(begin + BLOCK, r.size)
        for i in range(k):
            u = rows[i, begin:end]
            right[i] += weighted_dot(u, r[begin:end], omega[begin:end])
            for j in range(i + 1):
                gram[i, j] += weighted_dot(u, rows[j, begin:end], omega[begin:end])
    for i in range(k):
        for j in range(i):
            gram[j, i] = gram[i, j]


@kernel
def weighted_dot(u, v, omega):  # type: ignore[no-untyped-def]
    """Return ``sum_i omega_i u_i v_i`` over a block, (n,)."""
    total = _ZERO
    for i in range(u.size):
        total += omega[i] * u[i] * v[i]
    return total


@kernel
def solve_spd(gram, right):  # type: ignore[no-untyped-def]
    """Solve ``(gram + ridge) d = right`` in place by Cholesky; the solution lies in `right`.  O(k^3)."""
    k = right.size
    trace = 0.0
    for i in range(k):
        trace += gram[i, i]
    ridge = 1e-9 * trace + 1e-30
    for i in range(k):
        for j in range(i + 1):
            s = gram[i, j]
            if i == j:
                s += ridge
            for n in range(j):
                s -= gram[i, n] * gram[j, n]
            gram[i, j] = np.sqrt(max(s, ridge)) if i == j else s / gram[j, j]
    for i in range(k):
        for n in range(i):
            right[i] -= gram[i, n] * right[n]
        right[i] /= gram[i, i]
    for i in range(k - 1, -1, -1):
        for n in range(i + 1, k):
            right[i] -= gram[n, i] * right[n]
        right[i] /= gram[i, i]


@kernel
def subset_coefficients(rows, x, a, kind, mu, p, iterations, tolerance, y, work, y32, gram, right):  # type: ignore[no-untyped-def]
    """Refine `y` towards ``argmin_y h(A(x - U y))`` on a pixel subset by reweighted least squares.

    Parameters
    ----------
    rows : ndarray, (k, n), float32
        The basis on the subset.
    x, a : ndarray, (n,), float32
        The vector and the observed entries on the subset; `a` may be empty.
    iterations, tolerance : int, float
        Limits; stops when the change of y is below `tolerance` relative to y.
    y : ndarray, (k,), float64
        Start and result.
    work, y32, gram, right
        Workspaces: (3, n), (k,) float32, (k, k), (k,) float64.

    Returns
    -------
    float
        Mean of h over the subset at the result.  O(iterations n k^2).
    """
    low_rank, r, omega = work[0], work[1], work[2]
    for _ in range(iterations):
        for i in range(y.size):
            y32[i] = y[i]
        combine(rows, 0, y32, low_rank)
        difference(x, low_rank, a, r)
        weight_of(r, omega, kind, mu, p)
        normal_equations(rows, r, omega, a, gram, right)
        solve_spd(gram, right)
        change, size = 0.0, 0.0
        for i in range(y.size):
            y[i] += right[i]
            change += right[i] * right[i]
            size += y[i] * y[i]
        if change <= tolerance * tolerance * size:
            break
    for i in range(y.size):
        y32[i] = y[i]
    combine(rows, 0, y32, low_rank)
    difference(x, low_rank, a, r)
    cost = 0.0
    for begin in range(0, r.size, BLOCK):
        cost += value_of(r[begin : begin + BLOCK], kind, mu, p)
    return cost / max(r.size, 1)


@kernel
def gather(stack, index, rows):  # type: ignore[no-untyped-def]
    """Copy the columns `index`, (n,), of the leading rows of `stack` into `rows`, (k, n)."""
    for j in range(rows.shape[0]):
        for i in range(index.size):
            rows[j, i] = stack[j, index[i]]


@kernel
def fit_rows(X, scale, Y, mus, kind, p, U):  # type: ignore[no-untyped-def]
    """Fit each row of U to its pixel's history, given the coefficients: one small robust problem per pixel.

    Reweighted least squares with one weighted solve per entry of `mus`, vectorised over blocks of pixels (the rows of
    U separate once Y is known, DESIGN of the batch start for tall matrices).

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


@kernel
def to_unit(pixels, scale, x):  # type: ignore[no-untyped-def]
    """Write ``scale * pixels`` into `x`, (m,), float32; `pixels` (m,) of any real dtype, `scale` float32."""
    for i in range(x.size):
        x[i] = np.float32(pixels[i]) * scale


@kernel
def to_integers(l, top, out):  # type: ignore[no-untyped-def]
    """Write ``top * l``, rounded and clipped to [0, top], into `out`, (m,) uint8 or uint16; `top` float32."""
    for i in range(out.size):
        out[i] = np.int32(min(max(l[i] * top, _ZERO), top) + np.float32(0.5))


@kernel
def joint_residual(x, l, channels, d):  # type: ignore[no-untyped-def]
    """Write the Euclidean norm over the channels of ``x - l``, (n * channels,), into `d`, (n,); all float32."""
    if channels == 1:
        for i in range(d.size):
            d[i] = abs(x[i] - l[i])
    elif channels == 3:
        for i in range(d.size):
            b, g, r = x[3 * i] - l[3 * i], x[3 * i + 1] - l[3 * i + 1], x[3 * i + 2] - l[3 * i + 2]
            d[i] = np.sqrt(b * b + g * g + r * r)
    else:
        for i in range(d.size):
            total = _ZERO
            for j in range(channels):
                s = x[channels * i + j] - l[channels * i + j]
                total += s * s
            d[i] = np.sqrt(total)


@kernel
def exceeds_noise(d, sigma, threshold, factor, over):  # type: ignore[no-untyped-def]
    """Write 1 into `over`, uint8, where ``d > max(threshold, factor * sigma)`` and 0 elsewhere; all (n,)."""
    for i in range(over.size):
        over[i] = d[i] > max(threshold, factor * sigma[i])


@kernel
def learn_noise(d, mask, rate, foreground_rate, clip, floor, sigma):  # type: ignore[no-untyped-def]
    """Move `sigma` towards the clipped residual, at `rate` where `mask` is 0 and at `foreground_rate` elsewhere.

    `d`, `sigma` (n,) float32, `mask` (n,) uint8, the other ones float32. `floor` keeps sigma out of the denormals.
    """
    for i in range(sigma.size):
        a = rate if mask[i] == 0 else foreground_rate
        sigma[i] = max(sigma[i] + a * (min(d[i], clip) - sigma[i]), floor)
