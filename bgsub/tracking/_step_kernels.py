"""The usual Grassmann step in small matrices, compiled; `bgsub.tracking.step` is the general one.

In the usual case the gradient factor is empty, the metric is scaled and the full step is accepted: the direction has
rank one, and every factor has a closed form.
"""

from __future__ import annotations

import numpy as np

from bgsub.numerics.jit import allocating_kernel, part
from bgsub.tracking._kernels import solve_spd, trace, transform_rows


@part
def full_step(products, C, y, w, cost, in_span, floor, armijo, T, out):  # type: ignore[no-untyped-def]
    """Try the full step along ``H = -G C^-1`` for a rank-one gradient; return whether it is taken.

    With ``inside = U'e``, ``rho q = U inside - e``, ``kappa = -w rho C^-1 y``, U becomes ``(U + q kappa') L^-T`` for
    ``I + kappa kappa' = L L'``. `products` (k + 1,): of e with U and itself; `in_span`: share of e that is rounding;
    `floor`: ridge of C; `T` (k, k + 1): rows of the new U' from U' and e; `out` (2,): objective before, its bound
    after.
    """
    k = y.size
    z, moment = np.empty(k), np.empty((k, k))
    for i in range(k):
        for j in range(k):
            moment[i, j] = (1 - w) * C[i, j] + w * y[i] * y[j]
    if not solve_moment(moment, y, floor, z) or not try_full_step(products, C, y, z, w, cost, in_span, armijo, T, out):
        return False
    for i in range(k):
        for j in range(k):
            C[i, j] = moment[i, j]
    return True


@part
def solve_moment(moment, y, floor, z):  # type: ignore[no-untyped-def]
    """Write ``(moment + floor tr(moment) I)^-1 y`` into `z`, (k,); return whether the moment is not zero."""
    k = y.size
    raised, size = np.empty((k, k)), trace(moment)
    for i in range(k):
        z[i] = y[i]
        for j in range(k):
            raised[i, j] = moment[i, j]
    solve_spd(raised, z, floor * size)
    return size > 0


@part
def try_full_step(products, C, y, z, w, cost, in_span, armijo, T, out):  # type: ignore[no-untyped-def]
    """Take the step of `full_step`, but leave C as it is; z is ``moment^-1 y``."""
    k = y.size
    out[0] = out[1] = w * cost
    if products[k] == 0:  # no gradient, as in frames without a visited block
        write_identity(T)
        return True
    rest = products[k]
    for i in range(k):
        rest -= products[i] * products[i]
    if not rest > in_span * products[k]:
        return False
    rho = np.sqrt(rest)
    turned = np.empty(k)
    factor_and_turn(z, -w * rho, rho, products, y, T, turned)
    past, slope = 0.0, 0.0
    for i in range(k):
        slope -= w * w * rest * y[i] * z[i]
        for j in range(k):
            past += 0.5 * (1 - w) * w * w * rest * z[i] * C[i, j] * z[j]
    change, inner, square = 0.0, 0.0, 0.0  # of the low-rank part, with coordinates turned' T - (y, 0) in [U e]
    last = 0.0
    for j in range(k + 1):
        d = 0.0 if j == k else -y[j]
        for i in range(k):
            d += turned[i] * T[i, j]
        change += products[j] * d
        if j < k:
            square += d * d
            inner += d * products[j]
        else:
            last = d
    square += 2 * last * inner + last * last * products[k]
    out[1] = w * (cost - change + square / 2) + past
    if not out[1] <= out[0] + armijo * slope:
        return False
    for i in range(k):
        y[i] = turned[i]
    return True


@part
def write_identity(T):  # type: ignore[no-untyped-def]
    """Write the step that changes nothing into `T`, (k, k + 1)."""
    for i in range(T.shape[0]):
        for j in range(T.shape[1]):
            T[i, j] = 1.0 if i == j else 0.0


@part
def factor_and_turn(z, factor, rho, products, y, T, turned):  # type: ignore[no-untyped-def]
    """Write the step for ``kappa = factor z`` into `T`, (k, k + 1), and the coefficients after it into `turned`."""
    # with I + kappa kappa' = L L': turned = L^-1 y, last column h = -L^-1 kappa / rho, others L^-1 - h inside'
    k = y.size
    L, inverse = np.empty((k, k)), np.zeros((k, k))
    for i in range(k):
        for j in range(i + 1):
            s = factor * z[i] * factor * z[j] + (1.0 if i == j else 0.0)
            for n in range(j):
                s -= L[i, n] * L[j, n]
            L[i, j] = np.sqrt(s) if i == j else s / L[j, j]
        for j in range(i + 1):
            s = 1.0 if i == j else 0.0
            for n in range(j, i):
                s -= L[i, n] * inverse[n, j]
            inverse[i, j] = s / L[i, i]
    for i in range(k):
        turned[i], h = 0.0, 0.0
        for j in range(i + 1):
            turned[i] += inverse[i, j] * y[j]
            h -= inverse[i, j] * factor * z[j] / rho
        for j in range(k):
            T[i, j] = inverse[i, j] - h * products[j]
        T[i, k] = h


@allocating_kernel
def deferred_step(products, C, y, w, cost, in_span, floor, armijo, T, out, N, g, stack, e, weights, work):  # type: ignore[no-untyped-def]
    """Try `full_step`, defer it by `compose` and step the subset; return the result of `compose`, -1 if not taken.

    `stack` (k + 1, s): the basis on the subset; `e`, `weights` (s,): influence there, and its weights.
    """
    if not full_step(products, C, y, w, cost, in_span, floor, armijo, T, out):
        return -1.0
    row = stack[len(stack) - 1]
    for i in range(row.size):
        row[i] = weights[i] * e[i]
    transform_rows(stack, T.astype(np.float32), work)
    return compose(N, T, g)


@part
def compose(N, T, g):  # type: ignore[no-untyped-def]
    """Add a step (M', h), (k, k + 1): ``N <- N M``, ``g = N^-T h``; return the largest entry of N and its inverse."""
    k = N.shape[0]
    product, inverse = np.zeros((k, k)), np.empty((k, k))
    for i in range(k):
        for j in range(k):
            for n in range(k):
                product[i, j] += N[i, n] * T[j, n]
    largest = 0.0
    for i in range(k):
        for j in range(k):
            N[i, j] = product[i, j]
    invert(product, inverse)
    for i in range(k):
        g[i] = 0.0
        for j in range(k):
            g[i] += inverse[j, i] * T[j, k]
            largest = max(largest, abs(N[i, j]), abs(inverse[i, j]))
    return largest


@part
def invert(A, inverse):  # type: ignore[no-untyped-def]
    """Write ``A^-1`` into `inverse`, both (k, k) float64, by Gauss-Jordan elimination; A is overwritten.  O(k^3)."""
    k = A.shape[0]
    for i in range(k):
        for j in range(k):
            inverse[i, j] = 1.0 if i == j else 0.0
    for c in range(k):
        best = c
        for i in range(c + 1, k):
            best = i if abs(A[i, c]) > abs(A[best, c]) else best
        for j in range(k):
            A[c, j], A[best, j] = A[best, j], A[c, j]
            inverse[c, j], inverse[best, j] = inverse[best, j], inverse[c, j]
        pivot = A[c, c]
        for j in range(k):
            A[c, j] /= pivot
            inverse[c, j] /= pivot
        for i in range(k):
            share = 0.0 if i == c else A[i, c]
            for j in range(k):
                A[i, j] -= share * A[c, j]
                inverse[i, j] -= share * inverse[c, j]
