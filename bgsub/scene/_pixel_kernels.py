"""The Numba passes between frames, residual images and masks."""

from __future__ import annotations

import numpy as np
from numba import types
from numba.extending import overload

from bgsub.numerics.jit import FASTMATH, kernel, part

_ZERO, _ONE = np.float32(0), np.float32(1)
CHUNK = 64  # pixels that are looked at together to find out whether any is set


def squared(x, y):  # type: ignore[no-untyped-def]
    """Return ``(x - y)^2`` as float32; in compiled kernels as int32 for uint8, which is several times faster."""
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
    """Return the squared distance of the colours at the entries `i` of `x` and `j` of `l` on, flat; i, j uint64."""
    total = squared(x[i], l[j])
    for c in range(1, channels):
        total += squared(x[i + np.uint64(c)], l[j + np.uint64(c)])
    return total


@part
def places_of(flags, begin, end, places):  # type: ignore[no-untyped-def]
    """Write the places from `begin` to `end` where `flags`, (n,), is not 0 into `places`; return their number.

    Loops over the list have no branch that depends on a pixel, which is wrongly predicted as often as not.
    """
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
    """Write ``full * l`` into `out`, (m,): rounded and clipped to [0, top] for integers, as it is where `top` is 0."""
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
    """Write 1 into `over`, uint8, where ``d > max(threshold, factor * sigma)`` and 0 elsewhere; all (n,).

    Returns their number.
    """
    count = 0
    for i in range(over.size):
        over[i] = d[i] > max(threshold, factor * sigma[i])
    for i in range(over.size):
        count += np.int64(over[i])
    return count


@kernel
def learn_noise(d, kept, rate, clip, floor, sigma):  # type: ignore[no-untyped-def]
    """Move `sigma` by `rate` towards the residual `d`, clipped at `clip`, but where `kept` is not 0.

    `d`, `sigma` (n,) float32, `kept` (n,) uint8, the others float32. `floor` keeps sigma out of the denormals.
    """
    for i in range(sigma.size):
        a = rate if kept[i] == 0 else _ZERO
        sigma[i] = max(sigma[i] + a * (min(d[i], clip) - sigma[i]), floor)


@kernel
def follow_median(d, limit, up, down, least, scale):  # type: ignore[no-untyped-def]
    """Multiply `scale` by `up` where ``d > limit * scale`` and by `down` elsewhere, within [least, 1].

    ``limit * scale`` follows the median of `d`; both (n,) float32, as are the numbers.
    """
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
def look_at(entries, places, pixels, scale, cost_scale, hidden, values, scales, seen):  # type: ignore[no-untyped-def]
    """Read a frame and what is known of its pixels at some entries.

    Parameters
    ----------
    entries, places : ndarray, (s,), uint64
        Entries of the frame, and their pixels.
    pixels : ndarray, (m,), any real dtype
        The frame; ``scale * pixels`` is in [0, 1].
    cost_scale, hidden : ndarray, (n,) float32, (n,) or (0,) uint16
        Of every pixel.
    values, scales, seen : ndarray, (s,), float32, output
        Intensity and scale; 0 where the pixel is hidden and 1 elsewhere, but left alone where `hidden` is empty.
    """
    for i in range(entries.size):
        values[i] = np.float32(pixels[entries[i]]) * scale
        scales[i] = cost_scale[places[i]]
    if hidden.size > 0:
        for i in range(entries.size):
            seen[i] = _ZERO if hidden[places[i]] != 0 else _ONE
