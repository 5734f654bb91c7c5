"""The passes and small matrices of `SelfTunedSubspace`.

The stack has rows ``[U V e]``: basis, velocity and influence, (2 k + 1, >= m). A vector is compared with the predicted
subspace ``P [U V]``, P (k, 2 k). `kind`, `mu`, `p` select the surrogate of residuals in units of their scale. The
dense twin is in ``tests/reference_self_tuned.py``.
"""

from __future__ import annotations

import numpy as np

from bgsub.numerics.jit import allocating_kernel, part
from bgsub.tracking._kernels import (
    BLOCK,
    add_scaled,
    combine,
    difference,
    dot,
    influence_and_value_at,
    normal_equations,
    solve_spd,
    trace,
)
from bgsub.tracking._step_kernels import solve_moment, try_full_step, write_identity

_ZERO = np.float32(0)
_ONE = np.float32(1)
_TINY = np.float32(1e-12)
_LEAST_WEIGHT = np.float32(0.1)  # ratio of the usual scale to that of an entry: y may need the wrong entries
_LEAST_ENERGY = 1e-32  # of an influence, below which float32 has lost its digits
_RIDGE = 1e-6  # of the trace, above the rounding of float32 sums: with few large weights y would diverge
_LONGEST = 1e3  # step, as the tangent of its angle, that leaves the basis orthonormal to ten digits


@allocating_kernel
def predicted_rows(stack, index, P, rows, work):  # type: ignore[no-untyped-def]
    """Write the columns `index`, (n,), of ``P [U V]`` into `rows`, (k, n); `P` (k, 2 k), `work` (n,).  O(n k^2)."""
    k, both = P.shape
    for i in range(k):
        rows[i, :] = _ZERO
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
def write_weights(r, scale, omega, kind, mu, p):  # type: ignore[no-untyped-def]
    """Write ``s psi(r / s) / r`` into `omega`, 1 at r = 0."""
    influence_and_value(r, scale, omega, kind, mu, p)
    for i in range(r.size):
        omega[i] = _ONE if abs(r[i]) < _TINY else omega[i] / r[i]


@part
def reweight(rows, x, a, scale, usual, widening, kind, mu, p, y, work, y32, gram, right):  # type: ignore[no-untyped-def]
    """Improve `y` by one weighted least squares; return the squared relative change of y."""
    # weights are those of r / (widening * scale), times (usual / scale)^2 for scales above the usual one
    low_rank, r, omega, z = work[0], work[1], work[2], work[3]
    for i in range(y.size):
        y32[i] = y[i]
    combine(rows, 0, y32, low_rank)
    difference(x, low_rank, a, r)
    factor = np.float32(widening)
    for i in range(r.size):
        z[i] = factor * scale[i]
    write_weights(r, z, omega, kind, mu, p)
    for i in range(r.size):
        omega[i] *= min(max(usual / scale[i], _LEAST_WEIGHT), _ONE) ** 2
    normal_equations(rows, r, omega, a, gram, right)
    solve_spd(gram, right, _RIDGE * trace(gram))
    change, size = 0.0, 0.0
    for i in range(y.size):
        y[i] += right[i]
        change += right[i] * right[i]
        size += y[i] * y[i]
    return change / max(size, 1e-300)


@part
def least_squares(rows, x, a, y, work, gram, right):  # type: ignore[no-untyped-def]
    """Write the least squares coefficients into `y`, (k,)."""
    omega = work[2]
    omega[:] = _ONE
    normal_equations(rows, x, omega, a, gram, right)
    solve_spd(gram, right, _RIDGE * trace(gram))
    y[:] = right


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
def own_scale_coefficients(rows, x, a, scale, kind, mu, p, limits, y, e, work, small):  # type: ignore[no-untyped-def]
    """Find ``argmin_y sum_i t_i^2 h(r_i / s_i)`` by reweighted least squares; return mean weight, median ``|r|/s``.

    `rows` (k, n): the basis; `x`, `a`, `scale` (n,); `y` (k,) float64; `e` (n,): the influence; `work` (4, n), r in row
    1, the weights in row 2.
    """
    # t_i is the lesser of s_i and the median scale, but at least s_i / 10: noisy entries weigh less in y
    # the scales are widened until half of the residuals are inliers, then narrowed: outliers cannot hold y in a local
    # minimum
    y32, gram, right = small
    low_rank, r, omega, z = work[0], work[1], work[2], work[3]
    stages, iterations, tolerance = limits
    usual = np.float32(np.median(scale))
    least_squares(rows, x, a, y, work, gram, right)
    for i in range(y.size):
        y32[i] = y[i]
    combine(rows, 0, y32, low_rank)
    difference(x, low_rank, a, r)
    first = max(2.0 * median_ratio(r, a, scale, z), 1.0)
    for stage in range(stages if first > 1.0 else 0):
        widening = first ** (1.0 - (stage + 1.0) / stages)
        reweight(rows, x, a, scale, usual, widening, kind, mu, p, y, work, y32, gram, right)
    for _ in range(iterations):
        if reweight(rows, x, a, scale, usual, 1.0, kind, mu, p, y, work, y32, gram, right) <= tolerance * tolerance:
            break
    for i in range(y.size):
        y32[i] = y[i]
    combine(rows, 0, y32, low_rank)
    difference(x, low_rank, a, r)
    ratio = median_ratio(r, a, scale, z)
    write_weights(r, scale, omega, kind, mu, p)
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

    `stack` (> 2 k, >= m): ``[U V]``, row 2 k receives the influence; `c` (2 k,); `scale` (m,), updated after its use;
    `follow`: factor of a residual, factors of a scale below and above it, common factor, least scale; `products` (2 k +
    1,).
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


@allocating_kernel
def predict(gram, momentum, C, P, Q):  # type: ignore[no-untyped-def]
    """Write the predicted U and its velocity as coordinates P and Q, (k, 2 k), in the rows ``[U V]``.  O(k^3)."""
    # P = L^-1 [I momentum] with the Cholesky factor L that makes P [U V] orthonormal; C becomes L' C L
    k = C.shape[0]
    moved = np.zeros((k, 2 * k))
    velocity = np.zeros((k, 2 * k))
    for i in range(k):
        moved[i, i] = 1.0
        moved[i, k + i] = momentum
        velocity[i, k + i] = 1.0
    L = np.linalg.cholesky(moved @ gram @ moved.T)
    inverse = np.linalg.solve(L, np.eye(k))
    P[:] = inverse @ moved
    Q[:] = inverse @ velocity
    Q -= (Q @ gram @ P.T) @ P
    C[:] = L.T @ C @ L


@allocating_kernel
def self_tuned_step(gram, P, Q, products, C, y, weights, cost, keep, gain, limits, T, objective, z):  # type: ignore[no-untyped-def]
    """Take the full step from the predicted subspace, update the velocity; return whether the objective fell.

    `gram` (2 k, 2 k): products of the rows ``[U V]``, then of the new ones; `products` (2 k + 1,); `weights`: w and the
    mean weight of the entries; `keep`, `gain`: factors of the old velocity and of the step; `limits`: in_span, floor,
    armijo of `full_step`; `T` (2 k, 2 k + 1): new rows from the old ones and e; `z` (k,): ``M^-1 y``.
    """
    # a refused step leaves the predicted U and the velocity
    k = y.size
    w, share = weights
    inner = np.append(P @ products[: 2 * k], products[2 * k])
    moment = (1 - w) * C + w * np.outer(y, y)
    solve_moment(moment, y, limits[1], z)
    outside = max(inner[k] - np.dot(inner[:k], inner[:k]), 0.0)
    z *= min(_LONGEST / max(w * np.sqrt(outside * np.dot(z, z)), 1e-300), 1.0)
    small = np.zeros((k, k + 1))
    seen = y.copy()
    objective[:] = w * cost
    taken = inner[k] > _LEAST_ENERGY and try_full_step(inner, C, y, z, w, cost, limits[0], limits[2], small, objective)
    C[:] = (1 - w) * C + (w * share) * np.outer(seen, seen)
    inverse = np.eye(k)
    if taken:
        inverse = small[:, :k] + np.outer(small[:, k], inner[:k])
    else:
        objective[1] = objective[0]
        write_identity(small)
    T[:k, : 2 * k] = np.ascontiguousarray(small[:, :k]) @ P
    T[:k, 2 * k] = small[:, k]
    T[k:, : 2 * k] = keep * (inverse @ Q) + gain * ((small[:, :k] - inverse) @ P)
    T[k:, 2 * k] = gain * small[:, k]
    whole = np.empty((2 * k + 1, 2 * k + 1))
    whole[: 2 * k, : 2 * k] = gram
    whole[2 * k, : 2 * k] = products[: 2 * k]
    whole[:, 2 * k] = products
    gram[:] = T @ whole @ T.T
    return taken


@allocating_kernel
def sense(Z, rows, e, omega, y, z, inside, w):  # type: ignore[no-untyped-def]
    """Return ``e' Z'y / e'e``, the gain of a larger w, and update ``Z = dU / d(log w)`` on the subset.  O(n k).

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
