"""The passes and small matrices of `SelfTunedSubspace`.

The stack has rows ``[U V e]``: basis, velocity and influence, (2 k + 1, >= m). A vector is compared with the predicted
subspace ``P [U V]``, P (k, 2 k). `kind`, `mu`, `p` select the surrogate of residuals in units of their scale. The
dense twin is in ``tests/reference_self_tuned.py``.
"""

import numpy as np

from bgsub.numerics.jit import allocating_kernel, part
from bgsub.tracking._kernels import (
    BLOCK,
    add_scaled,
    combine,
    difference,
    divide,
    dot,
    influence_and_value_at,
    normal_equations,
    solve_spd,
)
from bgsub.tracking._step_kernels import FLOOR, try_full_step

_ZERO = np.float32(0)
_ONE = np.float32(1)
_LEAST_WEIGHT = np.float32(0.1)  # least ratio of the median scale to a noisy entry's: y may depend on such entries
_LEAST_ENERGY = 1e-32  # squared length of an influence of which float32 has lost the digits: no step is taken
_LONGEST = 1e3  # step, as the tangent of its angle, that leaves the basis orthonormal to ten digits
_RIDGE = 1e-6  # of the trace, above the rounding of float32 sums: with few large weights y would diverge


@allocating_kernel
def predicted_rows(stack, index, P, rows, work):  # type: ignore[no-untyped-def]
    """Write the columns `index`, (n,), of ``P [U V]`` into `rows`, (k, n); `P` (k, 2 k), `work` (n,).  O(n k^2)."""
    k, both = P.shape
    rows[:] = _ZERO
    for j in range(both):
        for q in range(index.size):
            work[q] = stack[j, index[q]]
        for i in range(k):
            if P[i, j] != _ZERO:
                add_scaled(rows[i], P[i, j], work)


@part
def influence_and_value(r, scale, e, kind, mu, p):  # type: ignore[no-untyped-def]
    """Write ``s psi(r / s)`` into `e`, not `r` itself; return the sum of ``s^2 h(r / s)``; s is `scale`, all (n,)."""
    total = _ZERO
    for i in range(r.size):
        s = scale[i]
        influence, value = influence_and_value_at(r[i] / s, kind, mu, p)
        e[i] = s * influence
        total += s * s * value
    return total


@part
def median_ratio(r, a, scale, ratio):  # type: ignore[no-untyped-def]
    """Return the median of ``|r| / scale`` over the observed entries, 0 without any; `ratio` (n,) is a workspace."""
    count = 0
    for i in range(r.size):
        if a.size == 0 or a[i] > _ZERO:
            ratio[count] = abs(r[i]) / scale[i]
            count += 1
    return np.median(ratio[:count]) if count > 0 else 0.0


@allocating_kernel
def own_scale_coefficients(rows, x, a, scale, usual, kind, mu, p, limits, y, e, work, small):  # type: ignore[no-untyped-def]
    """Find ``argmin_y sum_i t_i^2 h(r_i / s_i)`` by reweighted least squares; return mean weight, median ``|r|/s``.

    `rows` (k, n): the basis; `x`, `a`, `scale` (n,), their median `usual`; `limits`: stages, iterations, tolerance; `y`
    (k,) float64; `e` (n,): the influence; `work` (4, n), r in row 1, the weights in row 2.
    """
    # t_i is the lesser of s_i and the median scale, but at least s_i / 10: noisy entries weigh less in y
    # after a fit with equal weights, the scales are widened until half of the residuals are inliers, then narrowed:
    # y leaves local minima that outliers make
    y32, gram, right = small
    low_rank, r, omega, z = work[0], work[1], work[2], work[3]
    stages, iterations, tolerance = limits
    first, ratio, fits = 1.0, 0.0, 0
    y[:] = 0.0
    omega[:] = _ONE
    while True:
        for i in range(y.size):
            y32[i] = y[i]
        combine(rows, 0, y32, low_rank)
        difference(x, low_rank, a, r)
        is_last = fits > stages + iterations
        if fits == 1 or is_last:
            ratio = median_ratio(r, a, scale, z)
        if fits == 1:
            first = 2.0 * ratio
            fits = 1 if first > 1.0 else 1 + stages
        if fits > 0:
            widening = np.float32(first ** (1.0 - fits / stages) if fits <= stages else 1.0)
            for i in range(r.size):
                z[i] = widening * scale[i]
            influence_and_value(r, z, omega, kind, mu, p)
            divide(omega, r)
        if is_last:
            break
        if fits > 0:
            for i in range(r.size):
                omega[i] *= min(max(usual / scale[i], _LEAST_WEIGHT), _ONE) ** 2
        normal_equations(rows, r, omega, a, gram, right)
        solve_spd(gram, right, _RIDGE * np.trace(gram))
        change, size = 0.0, 0.0
        for i in range(y.size):
            y[i] += right[i]
            change += right[i] * right[i]
            size += y[i] * y[i]
        is_close = fits > stages and change <= tolerance * tolerance * max(size, 1e-300)
        fits = 1 + stages + iterations if is_close else fits + 1
    share = 0.0
    for i in range(r.size):
        if a.size > 0:
            omega[i] *= a[i]
        e[i] = omega[i] * r[i]
        share += omega[i]
    return share / r.size, ratio


@part
def follow_median(r, a, follow, scale):  # type: ignore[no-untyped-def]
    """Move the scales by one logarithmic step towards the median of ``|r|``; `follow` as in `self_tuned_sweep`."""
    inflation, up, down, common, floor = follow
    for i in range(r.size):
        step = up if inflation * abs(r[i]) > scale[i] else down
        if a.size > 0:
            step = step if a[i] > _ZERO else _ONE
        scale[i] = max(scale[i] * step * common, floor)


@allocating_kernel
def self_tuned_sweep(stack, k, c, x, a, scale, follow, kind, mu, p, products, work):  # type: ignore[no-untyped-def]
    """Compute influence, cost, products of one vector and update the scales in one pass; return the cost.  O(m k).

    `stack` (> 2 k, >= m): ``[U V]``, row 2 k receives the influence; `scale` (m,), updated after its use; `follow`:
    factor of a residual, factors of a scale below and above it, common factor, least scale; `products` (2 k + 1,).
    """
    products[:] = 0.0
    cost = 0.0
    for begin in range(0, x.size, BLOCK):
        end = min(begin + BLOCK, x.size)
        low_rank, r = work[0, : end - begin], work[1, : end - begin]
        e, s = stack[2 * k, begin:end], scale[begin:end]
        combine(stack, begin, c, low_rank)
        difference(x[begin:end], low_rank, a[begin:end], r)
        cost += influence_and_value(r, s, e, kind, mu, p)
        follow_median(r, a[begin:end], follow, s)
        for j in range(2 * k + 1):
            products[j] += dot(stack[j, begin:end], e)
    return cost


@part
def add_product(A, B, out):  # type: ignore[no-untyped-def]
    """Add ``A B`` to `out`; any matrices."""
    for i in range(out.shape[0]):
        for n in range(A.shape[1]):
            for j in range(out.shape[1]):
                out[i, j] += A[i, n] * B[n, j]


@allocating_kernel
def predict(gram, momentum, C, P, Q):  # type: ignore[no-untyped-def]
    """Write the predicted U and its velocity as coordinates P and Q, (k, 2 k), in the rows ``[U V]``.  O(k^3)."""
    # P = L^-1 [I momentum] with the Cholesky factor L that makes P [U V] orthonormal; C becomes L' C L
    k = C.shape[0]
    L, across, within = np.zeros((k, k)), np.zeros((k, 2 * k)), np.zeros((k, k))
    P[:], Q[:] = 0.0, 0.0
    for i in range(k):
        for j in range(i + 1):
            s = gram[i, j] + momentum * (gram[i, k + j] + gram[k + i, j] + momentum * gram[k + i, k + j])
            for n in range(j):
                s -= L[i, n] * L[j, n]
            L[i, j] = np.sqrt(s) if i == j else s / L[j, j]
        for j in range(i + 1):
            s = 1.0 if i == j else 0.0
            for n in range(j, i):
                s -= L[i, n] * P[n, j]
            P[i, j] = Q[i, k + j] = s / L[i, i]
            P[i, k + j] = momentum * P[i, j]
    add_product(Q, gram, across)
    add_product(across, P.T, within)
    np.negative(within, within)
    add_product(within, P, Q)
    within[:] = 0.0
    add_product(L.T, C, within)
    C[:] = 0.0
    add_product(within, L, C)


@part
def scale_down(z, factor):  # type: ignore[no-untyped-def]
    """Shorten z to a length of ``_LONGEST / factor`` at most."""
    length = 0.0
    for i in range(z.size):
        length += z[i] * z[i]
    shorter = min(_LONGEST / max(factor * np.sqrt(length), 1e-300), 1.0)
    for i in range(z.size):
        z[i] *= shorter


@allocating_kernel
def self_tuned_step(gram, P, Q, products, C, y, weights, cost, keep, gain, T, objective, z):  # type: ignore[no-untyped-def]
    """Take the full step from the predicted subspace, update the velocity; return whether the objective fell.

    `gram` (2 k, 2 k): products of the rows ``[U V]``, then of the new ones; `products` (2 k + 1,); `weights`: w and the
    mean weight of the entries; `keep`, `gain`: factors of the old velocity and of the step; `T` (2 k, 2 k + 1): new
    rows from the old ones and e; `z` (k,): ``M^-1 y``.
    """
    # a refused step leaves the predicted U and the velocity
    k, (w, share) = y.size, weights
    inner, moment = np.empty(k + 1), np.empty((k, k))
    inner[k] = outside = products[2 * k]
    for i in range(k):
        inner[i], z[i] = 0.0, y[i]
        for j in range(2 * k):
            inner[i] += P[i, j] * products[j]
        outside -= inner[i] * inner[i]
        for j in range(k):
            moment[i, j] = (1 - w) * C[i, j] + w * y[i] * y[j]
    solve_spd(moment, z, FLOOR * np.trace(moment))
    scale_down(z, w * np.sqrt(max(outside, 0.0)))
    a, b, shrink = np.zeros(k + 1), np.zeros(k), -1.0
    objective[0] = w * cost
    if inner[k] > _LEAST_ENERGY:
        shrink = try_full_step(inner, C, y, z, w, cost, a, b, objective)
    taken = shrink >= 0
    if not taken:
        objective[1] = objective[0]
        a, b, shrink = np.zeros(k + 1), np.zeros(k), 0.0
    for i in range(k):
        for j in range(k):
            C[i, j] = (1 - w) * C[i, j] + w * share * y[i] * y[j]
    # U becomes U + [U e] a b', and a tangent H at it H + H (a + a_e inside) b'
    whole, half = np.empty((2 * k + 1, 2 * k + 1)), np.zeros((2 * k, 2 * k + 1))
    for j in range(2 * k):
        step, carried = 0.0, 0.0
        for i in range(k):
            step += a[i] * P[i, j]
            carried += keep * (a[i] + a[k] * inner[i]) * Q[i, j] - gain * a[k] * inner[i] * P[i, j]
        for i in range(k):
            T[i, j], T[k + i, j] = P[i, j] + b[i] * step, keep * Q[i, j] + b[i] * carried
        for i in range(2 * k):
            whole[i, j], gram[i, j] = gram[i, j], 0.0
        whole[2 * k, j] = whole[j, 2 * k] = products[j]
    whole[2 * k, 2 * k] = products[2 * k]
    for i in range(k):
        T[i, 2 * k] = a[k] * b[i]
        T[k + i, 2 * k] = gain * T[i, 2 * k]
        y[i] -= shrink * z[i]
    add_product(T, whole, half)
    add_product(half, T.T, gram)
    return taken


@allocating_kernel
def update_sensitivity(Z, rows, e, omega, y, z, inside, w):  # type: ignore[no-untyped-def]
    """Return ``e' Z'y / e'e``, the hypergradient, and update ``Z = dU / d(log w)`` on the subset.  O(n k).

    Z (k, n) becomes ``Z - w z (omega Z'y)' + w z p'``, p the part of e outside the span; w is 0 when no step was taken.
    """
    along, energy = 0.0, 0.0
    k = y.size
    for begin in range(0, e.size, BLOCK):
        end = min(begin + BLOCK, e.size)
        moved, p = np.empty(end - begin, np.float32), np.empty(end - begin, np.float32)
        combine(Z, begin, y.astype(np.float32), moved)
        along += dot(moved, e[begin:end])
        energy += dot(e[begin:end], e[begin:end])
        combine(rows, begin, inside.astype(np.float32), p)
        for i in range(end - begin):
            p[i] = e[begin + i] - p[i] - omega[begin + i] * moved[i]
        for j in range(k):
            factor = np.float32(w * z[j])
            for i in range(end - begin):
                Z[j, begin + i] += factor * p[i]
    return along / max(energy, 1e-30)
