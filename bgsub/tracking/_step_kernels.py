"""One Grassmann step in small matrices, compiled: what `bgsub.tracking.step` does, for the usual case and in one call.

The usual case is an empty gradient factor, the scaled metric, and a full step that is accepted: the new gradient has
rank one, so has the direction, and every factor has a closed form.
"""

from __future__ import annotations

import numpy as np

from bgsub.numerics.jit import kernel, part


@kernel
def full_step(products, C, y, w, cost, in_span, floor, armijo, T, out):  # type: ignore[no-untyped-def]
    """Try the full step along ``H = -G C^-1`` for the rank-one gradient of the newest vector.

    With ``inside = U'e``, ``rho q = U inside - e`` and ``kappa = -w rho C^-1 y``, the retraction of ``U + q kappa'``
    is ``(U + q kappa') L^-T`` for ``I + kappa kappa' = L L'``. It is accepted when the bound of the objective that
    assumes curvature one of the cost falls enough.

    Parameters
    ----------
    products : ndarray, (k + 1,), float64
        Inner products of e with the columns of U and with itself.
    C : ndarray, (k, k), float64
        Moment of the coefficients so far; of this vector as well after an accepted step.
    y : ndarray, (k,), float64
        Coefficients; those in the new basis after an accepted step.
    w, cost : float
        Forgetting factor and cost of the newest vector.
    in_span, floor, armijo : float
        Share of the energy of e below which what is outside the span is rounding; least eigenvalue of C as a share
        of its trace; decrease to ask for, as a share of the slope.
    T : ndarray, (k, k + 1), float64, output
        The step: row i of the new U' is ``sum_j T[i, j] U'_j + T[i, k] e``.
    out : ndarray, (2,), float64, output
        The objective before and the bound of it after the step.

    Returns
    -------
    bool
        Whether the step was accepted; only then anything but `out` and `T` has changed.  O(k^3).
    """
    z = np.empty(y.size)
    moment = (1 - w) * C + w * np.outer(y, y)
    if not least_kept(moment, y, floor, z) or not try_full_step(products, C, y, z, w, cost, in_span, armijo, T, out):
        return False
    C[:] = moment
    return True


@part
def least_kept(moment, y, floor, z):  # type: ignore[no-untyped-def]
    """Write ``moment^-1 y`` into `z`, (k,), no eigenvalue below `floor` of the trace; return whether there is one."""
    k = y.size
    z[:] = 0.0
    values, vectors = np.linalg.eigh(moment)
    if not values[k - 1] > 0:
        return False
    least = floor * np.sum(values)
    for j in range(k):
        z += vectors[:, j] * (np.dot(vectors[:, j], y) / max(values[j], least))
    return True


@part
def try_full_step(products, C, y, z, w, cost, in_span, armijo, T, out):  # type: ignore[no-untyped-def]
    """Do what `full_step` says but for C, which stays; z is ``moment^-1 y``."""
    k = y.size
    inside, energy = products[:k], products[k]
    out[:] = w * cost
    rest = energy - np.dot(inside, inside)
    if not rest > in_span * energy:
        return False
    rho = np.sqrt(rest)
    kappa = -w * rho * z
    L = np.linalg.cholesky(np.eye(k) + np.outer(kappa, kappa))
    inverse = np.linalg.solve(L, np.eye(k))  # its transpose is L^-T
    turned = inverse @ y
    h = -(inverse @ kappa) / rho
    T[:, :k] = inverse - np.outer(h, inside)
    T[:, k] = h
    d = np.dot(turned, T)  # the low-rank part after the step in [U e], then its change
    d[:k] -= y
    square = np.dot(d[:k], d[:k]) + 2 * d[k] * np.dot(d[:k], inside) + d[k] * d[k] * energy
    past = (1 - w) * 0.5 * np.dot(kappa, C @ kappa)
    slope = w * rho * np.dot(y, kappa)
    out[1] = w * (cost - np.dot(products, d) + square / 2) + past
    if not out[1] <= out[0] + armijo * slope:
        return False
    y[:] = turned
    return True


@kernel
def compose(N, T, g):  # type: ignore[no-untyped-def]
    """Take a step over into the deferred form, see `bgsub.tracking.deferred`: ``N <- N M`` and ``g = N^-T h``.

    `N` (k, k), changed in place; `T` (k, k + 1), which holds M' and h; `g` (k,), output.  Returns the largest entry
    of N or its inverse by magnitude.  O(k^3).
    """
    k = N.shape[0]
    N[:] = N @ np.ascontiguousarray(T[:, :k].T)
    inverse = np.linalg.inv(N)
    g[:] = np.ascontiguousarray(inverse.T) @ np.ascontiguousarray(T[:, k])
    return max(np.max(np.abs(N)), np.max(np.abs(inverse)))
