"""Kernels shared by the passes over frames, residuals and masks."""

from __future__ import annotations

import numpy as np
from numba import types
from numba.extending import overload

from bgsub.numerics.jit import FASTMATH, kernel, part

_ZERO, _ONE = np.float32(0), np.float32(1)
CHUNK = 64  # pixels per test whether any is set


def squared(x, y):  # type: ignore[no-untyped-def]
    """Return ``(x - y)^2`` as float32; compiled for uint8 as int32, which is several times faster."""
    d = np.float32(x) - np.float32(y)
    return d * d


@overload(squared, jit_options={"fastmath": FASTMATH, "error_model": "numpy", "forceinline": True})
def _squared_in_kernels(x, y):  # type: ignore[no-untyped-def]
    wide = np.int32 if x == types.uint8 and y == types.uint8 else np.float32

    def square(x, y):  # type: ignore[no-untyped-def]
        s = wide(x) - wide(y)
        return wide(s * s)

    return square


@part
def distance(x, l, i, j, channels):  # type: ignore[no-untyped-def]
    """Return the squared distance of the colours at the entries `i` of `x` and `j` of `l`; flat, uint64 indices."""
    total = squared(x[i], l[j])
    for c in range(1, channels):
        total += squared(x[i + np.uint64(c)], l[j + np.uint64(c)])
    return total


@part
def places_of(flags, begin, end, places):  # type: ignore[no-untyped-def]
    """Write the places of non-zero `flags` into `places`, without branches; return their number."""
    count = np.uint64(0)
    for place in range(begin, end):
        places[count] = place
        count += np.uint64(1) if flags[np.uint64(place)] != 0 else np.uint64(0)
    return count


@part
def to_unit(pixels, scale, x):  # type: ignore[no-untyped-def]
    """Write ``scale * pixels`` into `x`, (m,), float32; `pixels` (m,) of any real dtype, `scale` float32."""
    for i in range(x.size):
        x[i] = np.float32(pixels[i]) * scale


@part
def to_picture(l, full, top, out):  # type: ignore[no-untyped-def]
    """Write ``full * l`` into `out`, (m,); rounded and clipped to [0, top] if `top` is not 0 (integers)."""
    if top > 0:
        for i in range(out.size):
            out[i] = np.int32(min(max(l[i] * full, _ZERO), top) + np.float32(0.5))
    else:
        for i in range(out.size):
            out[i] = l[i] * full


@part
def residual_of(pixels, scale, l, r):  # type: ignore[no-untyped-def]
    """Write ``scale * pixels - l`` into `r`; all (n,), `l`, `r`, `scale` float32, `pixels` of any real dtype."""
    for i in range(r.size):
        r[i] = np.float32(pixels[i]) * scale - l[i]


@part
def norm_of(r, channels, d):  # type: ignore[no-untyped-def]
    """Write the Euclidean norm over the channels of `r`, (n * channels,), into `d`, (n,); both float32."""
    for i in range(d.size):
        total = _ZERO
        for j in range(channels):
            total += r[channels * i + j] * r[channels * i + j]
        d[i] = np.sqrt(total)


@part
def exceeds_noise(d, sigma, threshold, factor, over):  # type: ignore[no-untyped-def]
    """Write ``d > max(threshold, factor * sigma)`` into `over`, uint8; all (n,). Return the number of ones."""
    count = 0
    for i in range(over.size):
        over[i] = d[i] > max(threshold, factor * sigma[i])
    for i in range(over.size):
        count += np.int64(over[i])
    return count


@kernel
def learn_noise(d, kept, rate, clip, floor, sigma):  # type: ignore[no-untyped-def]
    """Move `sigma` by `rate` towards ``min(d, clip)`` where `kept` is 0; all (n,). `floor` avoids denormal numbers."""
    for i in range(sigma.size):
        a = rate if kept[i] == 0 else _ZERO
        sigma[i] = max(sigma[i] + a * (min(d[i], clip) - sigma[i]), floor)


@kernel
def follow_median(d, limit, up, down, least, scale):  # type: ignore[no-untyped-def]
    """Multiply `scale` by `up` where ``d > limit * scale``, else by `down`, within [least, 1]."""
    for i in range(scale.size):
        step = up if d[i] > limit * scale[i] else down
        scale[i] = min(max(scale[i] * step, least), _ONE)


@part
def sum_windows(columns, side, counts):  # type: ignore[no-untyped-def]
    """Write ``sum(columns[j : j + side])`` into ``counts[j]``; both uint16."""
    n = counts.size
    first = columns[:n]
    for j in range(n):
        counts[j] = first[j]
    for shift in range(1, side):
        part = columns[shift : shift + n]
        for j in range(n):
            counts[j] += part[j]


@kernel
def paint(where, value, image):  # type: ignore[no-untyped-def]
    """Write `value` into `image` where `where` is not zero; both (n,) uint8."""
    for i in range(image.size):
        image[i] = value if where[i] != 0 else image[i]


@kernel
def read_subset(entries, places, pixels, scale, cost_scale, hidden, values, scales, seen):  # type: ignore[no-untyped-def]
    """Read values, cost scales and visibility (0 if hidden) at `entries`, (s,) uint64, of the pixels `places`."""
    for i in range(entries.size):
        values[i] = np.float32(pixels[entries[i]]) * scale
        scales[i] = cost_scale[places[i]]
    if hidden.size > 0:
        for i in range(entries.size):
            seen[i] = _ZERO if hidden[places[i]] != 0 else _ONE
