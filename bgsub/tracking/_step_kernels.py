"""The usual Grassmann step in small matrices, compiled; `bgsub.tracking.step` is the general one.

In the usual case the gradient factor is empty, the metric is scaled and the full step is accepted. Its direction has
rank one, ``H = q kappa'`` with ``|q| = 1`` and ``U'q = 0``; then the polar factor ``(U + H)(I + H'H)^(-1/2)``, a basis
of the retraction's subspace (paper, section 4.2), is ``U + [U e] a b'``.
"""

import numpy as np

from bgsub.numerics.jit import kernel, part
from bgsub.tracking._kernels import solve_spd, step_rows

IN_SPAN = 1e-6  # share of the energy of e: if less lies outside the span of U, it is rounding
FLOOR = 1e-6  # of the trace of the moment, added to its eigenvalues
ARMIJO = 1e-4  # share of the slope by which a step must lower the objective


@part
def full_step(products, C, y, w, cost, a, b, out, work, fading):  # type: ignore[no-untyped-def]
    """Take the full step along ``H = -G C^-1`` of a rank-one gradient, update C and y; False if it is refused.

    `products` (k + 1,): of e with U and itself; `a` (k + 1,), `b` (k,): the step; `out` (2,): objective before, its
    bound after; `work` (k + 1, k); `fading` (2, k, k) follows as in `Subspace._fade`.
    """
    k = y.size
    z = work[k]
    for i in range(k):
        z[i] = y[i]
        for j in range(k):
            work[i, j] = (1 - w) * C[i, j] + w * y[i] * y[j]
    size = np.trace(work[:k])
    solve_spd(work[:k], z, FLOOR * size)
    shrink = try_full_step(products, C, y, z, w, cost, a, b, out) if size > 0 else -1.0
    if shrink < 0:
        return False
    for i in range(k):
        for j in range(k):
            C[i, j] = (1 - w) * C[i, j] + w * y[i] * y[j]
    for i in range(k):
        y[i] -= shrink * z[i]
    for n in range(2):  # M = I + b a', and M + a_e b p'
        for j in range(k):
            along = 0.0
            for i in range(k):
                along += (a[i] + n * a[k] * products[i]) * fading[n, i, j]
            for i in range(k):
                fading[n, i, j] += b[i] * along
    return True


@part
def try_full_step(products, C, y, z, w, cost, a, b, out):  # type: ignore[no-untyped-def]
    """Find the step of `full_step` for ``z = C_new^-1 y``; return f, -1 if refused: y becomes ``y - f z``."""
    k = y.size
    out[0] = out[1] = w * cost
    rest, square, along, bend = products[k], 0.0, 0.0, 0.0
    for i in range(k):
        rest -= products[i] * products[i]
        square += z[i] * z[i]
        along += z[i] * y[i]
        for j in range(k):
            bend += z[i] * C[i, j] * z[j]
    if products[k] != 0 and not rest > IN_SPAN * products[k]:
        return -1.0
    # q = (U inside - e) / sqrt(rest), kappa = -w sqrt(rest) z; without a gradient, as where no block is visited, e = 0
    rest = max(rest, 0.0)
    stretch = np.sqrt(1 + w * w * rest * square)
    lean = w * rest / (stretch * (stretch + 1))
    shrink = w * lean * along
    turn = w * (shrink * square - along)  # b'y after the step
    a[k] = -1 / stretch if products[k] != 0 else 0.0
    change, size, inner = products[k] * turn * a[k], 0.0, 0.0  # product and square of the change of the low-rank part
    for i in range(k):
        a[i], b[i] = products[i] / stretch + lean * z[i], -w * z[i]
        d = turn * a[i] - shrink * z[i]
        change += products[i] * d
        size += d * d
        inner += products[i] * d
    size += turn * a[k] * (2 * inner + turn * a[k] * products[k])
    out[1] = w * (cost - change + size / 2) + 0.5 * (1 - w) * w * w * rest * bend
    return shrink if out[1] <= out[0] - ARMIJO * w * w * rest * along else -1.0


@kernel
def deferred_step(  # type: ignore[no-untyped-def]
    products, C, y, w, cost, a, b, out, work, fading, N, inverse, g, stack, e, weights, a32, line
):
    """Try `full_step`, defer it by `compose` and step the subset; return the result of `compose`, -1 if not taken.

    `stack` (k + 1, s): the basis on the subset; `e`, `weights` (s,): influence there, and its weights; `a32` (k + 1,)
    and `line` (BLOCK,), float32, are workspaces.
    """
    if not full_step(products, C, y, w, cost, a, b, out, work, fading):
        return -1.0
    row = stack[len(stack) - 1]
    for i in range(row.size):
        row[i] = weights[i] * e[i]
    for i in range(a.size):
        a32[i] = a[i]
    step_rows(stack, a32, b, line)
    return compose(N, inverse, a, b, g)


@part
def compose(N, inverse, a, b, g):  # type: ignore[no-untyped-def]
    """Add a step: ``N <- N M``, ``g = a_e N^-T b``; ``M = I + a b'``; return the largest entry of N and its inverse."""
    k = N.shape[0]
    size, largest = 1.0, 0.0  # size: the determinant of M
    for i in range(k):
        size += a[i] * b[i]
    for i in range(k):
        along = 0.0
        for n in range(k):
            along += N[i, n] * a[n]
        for j in range(k):
            N[i, j] += along * b[j]
            largest = max(largest, abs(N[i, j]))
    for j in range(k):
        along = 0.0
        for i in range(k):
            along += inverse[i, j] * b[i]
        along /= size
        g[j] = a[k] * along
        for i in range(k):
            inverse[i, j] -= a[i] * along
            largest = max(largest, abs(inverse[i, j]))
    return largest
