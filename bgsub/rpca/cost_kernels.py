"""Compiled sums of robust PCA: the cost of a residual matrix and its influence in one pass."""

from __future__ import annotations

import numpy as np

from bgsub._jit import kernel, part
from bgsub.surrogates import ATAN, LOG, LP, atan_pair, log_influence, log_value, lp_pair

_GROUP = 8  # factors whose logarithm is taken at once
_BLOCK = 2048


@part
def _lp_block(x, a, mu, p, l, e):  # type: ignore[no-untyped-def]
    """At p = 1/2 by square roots, which vectorise as a general power does not."""
    cost = np.float64(0)
    zero = x.dtype.type(0)
    half = x.dtype.type(0.5)
    if p == half:
        for i in range(x.size):
            r = x[i] - l[i] if a.size == 0 or a[i] else zero
            s = (mu + r * r) / mu
            value, e[i] = lp_pair(r, mu, p, s, np.sqrt(np.sqrt(s)))
            cost += value
    else:
        for i in range(x.size):
            r = x[i] - l[i] if a.size == 0 or a[i] else zero
            s = (mu + r * r) / mu
            value, e[i] = lp_pair(r, mu, p, s, s ** (half * p))
            cost += value
    return cost


@part
def _atan_block(x, a, mu, l, e):  # type: ignore[no-untyped-def]
    cost = np.float64(0)
    zero = x.dtype.type(0)
    for i in range(x.size):
        r = x[i] - l[i] if a.size == 0 or a[i] else zero
        value, e[i] = atan_pair(r, mu)
        cost += value
    return cost


@part
def _log_block(x, a, mu, p, l, e, factors):  # type: ignore[no-untyped-def]
    """One logarithm of a product for eight entries: it is the only function here that does not vectorise."""
    zero = x.dtype.type(0)
    lanes = x.size // _GROUP
    inverse = np.float64(1) / np.float64(mu)
    total = np.float64(0)
    for i in range(lanes):
        factors[i] = np.float64(1)
    for g in range(_GROUP):
        first = g * lanes
        for i in range(lanes):
            j = first + i
            r = x[j] - l[j] if a.size == 0 or a[j] else zero
            factors[i] *= 1 + np.float64(r) * np.float64(r) * inverse
            e[j] = log_influence(r, mu, p)
    for i in range(lanes):
        total += np.log(factors[i])
    total *= np.float64(0.5) * np.float64(mu)
    for j in range(lanes * _GROUP, x.size):
        r = x[j] - l[j] if a.size == 0 or a[j] else zero
        total += log_value(r, mu, p)
        e[j] = log_influence(r, mu, p)
    return total


@kernel
def cost_and_influence(x, a, code, mu, p, l, e):  # type: ignore[no-untyped-def]
    """Return ``sum h(a (x - l))`` in float64 and write the influence ``a psi(x - l)`` to `e`.

    Parameters
    ----------
    x, l : ndarray, (s,), float32 or float64
        Data and low-rank part.
    a : ndarray, (s,) or (0,), bool
        Observed entries; empty when all are.
    code : int
        Surrogate.
    mu, p : float of the type of `x`
        Smoothing and exponent.
    e : ndarray, (s,)
        Written; may be `l`.

    Notes
    -----
    ``log`` multiplies eight values of ``1 + r^2/mu`` before it takes the logarithm, which overflows to an infinite
    cost where ``r^2/mu`` is above 1e38: a step to be refused.
    """
    cost = np.float64(0)
    factors = np.empty(_BLOCK // _GROUP, np.float64)
    for first in range(0, x.size, _BLOCK):
        last = min(first + _BLOCK, x.size)
        block = slice(first, last)
        mask = a[block] if a.size else a
        if code == LP:
            cost += _lp_block(x[block], mask, mu, p, l[block], e[block])
        elif code == LOG:
            cost += _log_block(x[block], mask, mu, p, l[block], e[block], factors)
        elif code == ATAN:
            cost += _atan_block(x[block], mask, mu, l[block], e[block])
    return cost
