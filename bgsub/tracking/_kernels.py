"""The Numba passes of the tracker, blocked for the cache.

Arrays are component-major: a stack of vectors has shape (rows, m), so that inner loops run over contiguous float32
entries and vectorise. Kernels check nothing and allocate nothing that grows with the frame. `kind`, `mu` and `p`
(float32) select the surrogate. The dense twins are in ``tests/reference*.py``.
"""

import numpy as np

from bgsub.numerics.jit import kernel, part
from bgsub.numerics.surrogates import LOG, LP, arctan, log_value, log_weight, lp_value, lp_weight

BLOCK = 2048  # entries of a row that a pass reads at once: 8 KiB, so that some rows stay in the first-level cache
RIDGE = 1e-9  # of the trace of normal equations, against rounding
UNSEEN = 1e-5  # ridge of a fit of y, as share of the energy of U: a direction hardly observed keeps its coefficient
_ZERO = np.float32(0)
_HALF = np.float32(0.5)
_ONE = np.float32(1)
_TINY = np.float32(1e-12)
_NEARLY_ZERO = np.float32(1e-6)


@part
def influence_and_value_at(r, kind, mu, p):  # type: ignore[no-untyped-def]
    """Return ``psi(r)`` and ``h(r)`` of one residual."""
    if len(kind) == LP:  # known at compile time
        return r * lp_weight(r, mu, p), lp_value(r, mu, p)
    if len(kind) == LOG:
        return r * log_weight(r, mu, p), log_value(r, mu, p)
    t = r / mu  # once for both
    z = mu * arctan(t)
    return z / (_ONE + t * t), _HALF * z * z


@part
def influence_and_value(r, e, kind, mu, p):  # type: ignore[no-untyped-def]
    """Write ``psi(r)`` into `e`, not `r` itself; return the sum of ``h(r)``; both (n,)."""
    total = _ZERO
    for i in range(r.size):
        e[i], value = influence_and_value_at(r[i], kind, mu, p)
        total += value
    return total


@part
def divide(omega, r):  # type: ignore[no-untyped-def]
    """Turn influences ``psi(r)`` into weights ``psi(r) / r``, 1 at r = 0; both (n,)."""
    for i in range(r.size):
        omega[i] = _ONE if abs(r[i]) < _TINY else omega[i] / r[i]


@kernel
def weigh(x, low_rank, kind, mu, p, omega, weighted):  # type: ignore[no-untyped-def]
    """Write ``omega(r)`` and ``omega(r) r`` of ``r = x - low_rank``; all (n, m), float32."""
    for j in range(len(x)):
        for i in range(x.shape[1]):
            r = x[j, i] - low_rank[j, i]
            if len(kind) == LP:  # known at compile time
                w = lp_weight(r, mu, p)
            elif len(kind) == LOG:
                w = log_weight(r, mu, p)
            else:
                z = max(abs(r) / mu, _NEARLY_ZERO)
                w = arctan(z) / (z * (_ONE + z * z))
            omega[j, i], weighted[j, i] = w, w * r


@part
def add_scaled(target, factor, row):  # type: ignore[no-untyped-def]
    """Add ``factor * row`` to `target`; both (n,)."""
    for i in range(target.size):
        target[i] += factor * row[i]


@part
def any_set(flags):  # type: ignore[no-untyped-def]
    """Return whether any of the bytes, (n,) uint8, is not zero; without an early exit it vectorises."""
    largest = np.uint8(0)
    for i in range(flags.size):
        largest = max(largest, flags[i])
    return largest != 0


@part
def dot(u, v):  # type: ignore[no-untyped-def]
    """Return the inner product of two blocks, (n,), accumulated in float32 over the block."""
    total = _ZERO
    for i in range(u.size):
        total += u[i] * v[i]
    return total


@part
def combine(stack, begin, c, out):  # type: ignore[no-untyped-def]
    """Write ``sum_j c_j stack_j[begin : begin + n]`` into `out`, (n,), four of the first ``len(c)`` rows at a time."""
    end = begin + out.size
    first = c.size % 4
    for i in range(out.size):
        out[i] = _ZERO
    for j in range(first):
        add_scaled(out, c[j], stack[j, begin:end])
    for j in range(first, c.size, 4):
        u, v = stack[j, begin:end], stack[j + 1, begin:end]
        s, t = stack[j + 2, begin:end], stack[j + 3, begin:end]
        for i in range(out.size):
            out[i] += c[j] * u[i] + c[j + 1] * v[i] + c[j + 2] * s[i] + c[j + 3] * t[i]


@part
def difference(x, l, a, r):  # type: ignore[no-untyped-def]
    """Write ``a (x - l)`` into `r`, all (n,); if `a` is empty, all entries are observed."""
    if a.size > 0:
        for i in range(r.size):
            r[i] = a[i] * (x[i] - l[i])
    else:
        for i in range(r.size):
            r[i] = x[i] - l[i]


@kernel
def residual_sweep(stack, k, y, x, a, kind, mu, p, low_rank, products, work):  # type: ignore[no-untyped-def]
    """Compute background, influence and inner products of one vector in one pass; return the cost.  O(m (k + r)).

    `stack` (n_rows, m): U', Q', and the last row receives ``e = A psi(A(x - U y))``; `a` (m,) or (0,): observed
    entries; `low_rank` (m,); `products` (n_rows,) float64: of e with every row.
    """
    # `work` (BLOCK,) receives the residual: in place, loops do not vectorise
    last = stack.shape[0] - 1
    products[:] = 0.0
    cost = 0.0
    for begin in range(0, x.size, BLOCK):
        end = min(begin + BLOCK, x.size)
        background, e = low_rank[begin:end], stack[last, begin:end]
        combine(stack, begin, y, background)
        r = work[: end - begin]
        difference(x[begin:end], background, a[begin:end], r)
        cost += influence_and_value(r, e, kind, mu, p)
        for j in range(last + 1):
            products[j] += dot(stack[j, begin:end], e)
    return cost


@kernel
def trial_cost(stack, c, x, a, kind, mu, p, work):  # type: ignore[no-untyped-def]
    """Return ``h(A(x - sum_j c_j stack_j))``, the cost at a trial step; `work` (>= 2, BLOCK).  O(m n_rows)."""
    cost = 0.0
    for begin in range(0, x.size, BLOCK):
        end = min(begin + BLOCK, x.size)
        low_rank, r = work[0, : end - begin], work[1, : end - begin]
        combine(stack, begin, c, low_rank)
        difference(x[begin:end], low_rank, a[begin:end], r)
        cost += influence_and_value(r, low_rank, kind, mu, p)
    return cost


@kernel
def scale_rows(stack, G, block, factors, gram):  # type: ignore[no-untyped-def]
    """Multiply the entries of V by `factors`, (m,), after their pending terms ``e g'``; `gram` (k, k) float64: ``V'V``.

    `G` (period, k) float32: the terms of the blocks of `block` entries; e becomes 0.
    """
    k = gram.shape[0]
    e = stack[k]
    gram[:] = 0.0
    for first in range(0, factors.size, block):
        last, g = min(first + block, factors.size), G[first // block % len(G)]
        pending, factor = e[first:last], factors[first:last]
        for j in range(k):
            row = stack[j, first:last]
            for i in range(row.size):
                row[i] = (row[i] + g[j] * pending[i]) * factor[i]
            for i in range(j + 1):
                gram[i, j] += dot(stack[i, first:last], row)
                gram[j, i] = gram[i, j]
        e[first:last] = _ZERO


@part
def step_rows(stack, a, b, work):  # type: ignore[no-untyped-def]
    """Add ``b a'`` times all rows of `stack`, (k + 1, n), to the first k; `a` (k + 1,) float32; `work` (BLOCK,)."""
    for begin in range(0, stack.shape[1], BLOCK):
        end = min(begin + BLOCK, stack.shape[1])
        total = work[: end - begin]
        combine(stack, begin, a, total)
        for j in range(b.size):
            add_scaled(stack[j, begin:end], np.float32(b[j]), total)


@part
def normal_equations(rows, r, omega, a, gram, right):  # type: ignore[no-untyped-def]
    """Write ``U' W U`` into `gram`, (k, k), and ``U' W r`` into `right`, (k,); W, ``omega a``, overwrites `omega`."""
    k = rows.shape[0]
    if a.size > 0:
        for i in range(r.size):
            omega[i] *= a[i]
    right[:] = 0.0
    gram[:] = 0.0
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


@part
def weighted_dot(u, v, omega):  # type: ignore[no-untyped-def]
    """Return ``sum_i omega_i u_i v_i`` over a block, (n,)."""
    total = _ZERO
    for i in range(u.size):
        total += omega[i] * u[i] * v[i]
    return total


@part
def solve_spd(gram, right, ridge):  # type: ignore[no-untyped-def]
    """Solve ``(gram + ridge I) d = right`` in place by Cholesky; `right` receives d.  O(k^3)."""
    k = right.size
    ridge = max(ridge, 1e-30)
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
def subset_coefficients(rows, x, a, kind, mu, p, steps, tolerance, start, before, y, low_rank, e, r, y32, gram, right):  # type: ignore[no-untyped-def]
    """Find ``y = argmin_y h(A(x - U y))`` on a pixel subset from `start`, (k,) float64.  O(steps n k^2).

    `rows` (k, n): the basis there; `x`, `a`, `before` (n,), `a` may be empty. Outputs: `y`, `low_rank` (n,), influence
    `e` (n,). Return the mean squared change of the low-rank part from `before`.
    """
    remaining, ridge, omega = steps, 0.0, e
    for i in range(y.size):
        y[i] = start[i]
        ridge += UNSEEN * dot(rows[i], rows[i])
    while True:
        for i in range(y.size):
            y32[i] = y[i]
        combine(rows, 0, y32, low_rank)
        difference(x, low_rank, a, r)
        influence_and_value(r, omega, kind, mu, p)
        divide(omega, r)
        if remaining == 0:
            break
        normal_equations(rows, r, omega, a, gram, right)
        solve_spd(gram, right, ridge)
        change, size = 0.0, 0.0
        for i in range(y.size):
            y[i] += right[i]
            change += right[i] * right[i]
            size += y[i] * y[i]
        remaining = 0 if change <= tolerance * tolerance * size else remaining - 1
    moved = _ZERO
    for i in range(r.size):
        e[i] = omega[i] * r[i]
        moved += (low_rank[i] - before[i]) ** 2
    return moved / max(r.size, 1)
