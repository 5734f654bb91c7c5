"""Compiled sums of robust PCA: the cost of a residual matrix and its influence in one pass."""

import numpy as np

from bgsub.numerics.jit import allocating_kernel, part
from bgsub.numerics.surrogates import ATAN, LOG, atan_pair, log_weight, lp_pair

_GROUP = 8  # entries that share a logarithm
_SMALL = 0.01  # excess over one up to which the sum would lose more than two digits
_BLOCK = 2048  # entries per block, so that the passes of `log` stay in the fastest cache


@part
def _block(x, a, code, mu, p, l, e):  # type: ignore[no-untyped-def]
    """Use square roots at p = 1/2; they vectorise, a general power does not."""
    cost = np.float64(0)
    zero = x.dtype.type(0)
    half = x.dtype.type(0.5)
    for i in range(x.size):
        r = x[i] - l[i] if a.size == 0 or a[i] else zero
        if len(code) == ATAN:
            value, e[i] = atan_pair(r, mu)
        else:
            s = (mu + r * r) / mu
            value, e[i] = lp_pair(r, mu, p, s, np.sqrt(np.sqrt(s)) if p == half else s ** (half * p))
        cost += value
    return cost


@part
def _log_block(x, a, mu, p, l, e, excess):  # type: ignore[no-untyped-def]
    """Take one logarithm, which does not vectorise, for the product of ``1 + q`` of eight entries."""
    # the product minus one preserves the digits of small q = r^2 / mu
    zero = x.dtype.type(0)
    one = np.float64(1)
    lanes = x.size // _GROUP
    inverse = one / np.float64(mu)
    total = np.float64(0)
    for i in range(lanes):
        excess[i] = np.float64(0)
    for g in range(_GROUP):
        first = g * lanes
        for i in range(lanes):
            j = first + i
            r = x[j] - l[j] if a.size == 0 or a[j] else zero
            q = np.float64(r) * np.float64(r) * inverse
            excess[i] = excess[i] * (one + q) + q
            e[j] = r * log_weight(r, mu, p)
    for i in range(lanes):
        f = excess[i]
        total += np.log(one + f) if f > _SMALL else np.log1p(f)  # log1p is slower
    begin = lanes * _GROUP
    if not total < np.inf:  # a product beyond 1e308
        begin, total = 0, np.float64(0)
    for j in range(begin, x.size):
        r = x[j] - l[j] if a.size == 0 or a[j] else zero
        total += np.log1p(np.float64(r) * np.float64(r) * inverse)
        e[j] = r * log_weight(r, mu, p)
    return np.float64(0.5) * np.float64(mu) * total


@allocating_kernel
def cost_and_influence(x, a, code, mu, p, l, e):  # type: ignore[no-untyped-def]
    """Return ``sum h(a (x - l))`` in float64; write the influence ``a psi(x - l)`` to `e`, (s,); `a` can be empty."""
    cost = np.float64(0)
    excess = np.empty(_BLOCK // _GROUP, np.float64)
    for first in range(0, x.size, _BLOCK):
        last = min(first + _BLOCK, x.size)
        block = slice(first, last)
        mask = a[block] if a.size else a
        if len(code) == LOG:
            cost += _log_block(x[block], mask, mu, p, l[block], e[block], excess)
        else:
            cost += _block(x[block], mask, code, mu, p, l[block], e[block])
    return cost
