"""The Numba passes that tell shadows from objects, over foreground pixels only."""

from __future__ import annotations

import numpy as np

from bgsub._jit import kernel

_ZERO = np.float32(0)
_TINY = np.float32(1e-4)


@kernel
def darkened(x, l, index, darkest, faintest, colour, dark):  # type: ignore[no-untyped-def]
    """Write 1 into `dark` where a foreground pixel is its background times one factor in all channels.

    The factor ``g = <x, l> / |l|^2`` must lie in (`darkest`, `faintest`), ``|x - g l|`` below `colour`.
    `x`, `l` (n, c), thresholds float32, `index` (f,) int64 the foreground pixels, `dark` (n,) uint8.  O(c f).
    """
    for i in index:
        xl, ll, xx = _ZERO, _TINY, _ZERO
        for c in range(x.shape[1]):
            xl += x[i, c] * l[i, c]
            ll += l[i, c] * l[i, c]
            xx += x[i, c] * x[i, c]
        g = xl / ll
        dark[i] = darkest < g < faintest and xx - g * xl < colour * colour


@kernel
def disagrees(x, l, index, mask, dark, texture, other):  # type: ignore[no-untyped-def]
    """Write 1 into `other` where a foreground pixel is no shadow by itself or by the texture around it.

    Inside the foreground, the brightness of the 3x3 neighbours must be that of the background times one factor, up to
    a root mean square of `texture`.  `x`, `l` (h, w, c) float32; `index` (f,) int64 the foreground pixels; `mask`,
    `dark`, `other` (h, w) uint8.  O(c f).
    """
    h, w, channels = x.shape
    limit = texture * texture * 9 * channels * channels
    for pixel in index:
        i, j = pixel // w, pixel % w
        if dark[i, j] == 0:
            other[i, j] = 1
            continue
        if i == 0 or j == 0 or i == h - 1 or j == w - 1:
            continue
        inside = True
        for a in range(i - 1, i + 2):
            inside = inside and mask[a, j - 1] != 0 and mask[a, j] != 0 and mask[a, j + 1] != 0
        if not inside:
            continue
        xl, ll, xx = _ZERO, _TINY, _ZERO
        for a in range(i - 1, i + 2):
            for b in range(j - 1, j + 2):
                p, q = _ZERO, _ZERO
                for c in range(channels):
                    p += x[a, b, c]
                    q += l[a, b, c]
                xl += p * q
                ll += q * q
                xx += p * p
        other[i, j] = xx - xl * xl / ll > limit
