"""Kernels of the standing objects."""

from __future__ import annotations

import numpy as np

from bgsub.numerics.jit import kernel, part
from bgsub.scene._pixel_kernels import CHUNK
from bgsub.tracking._kernels import any_set

_ZERO = np.float32(0)
_FOLLOWS = np.float32(0.1)  # of the way to a new colour, per frame


@kernel
def update_ages(begin, end, lanes, x, mask, tolerance, older, half, anchor, age):  # type: ignore[no-untyped-def]
    """Count for how many ticks each foreground pixel has shown the same colour; return the largest age of the band.

    `x`, `anchor` (n, c), which follows slowly; `mask`, `age` (n,): `older` is added to the age, which is 0 off the
    foreground and at most 65535.
    """
    limit = tolerance * tolerance
    channels, colours, kept = len(lanes), x.reshape(-1), anchor.reshape(-1)
    oldest = 0
    for a in range(begin, end, CHUNK):
        b = min(a + CHUNK, end)
        if not any_set(mask[a:b]):
            if any_older(age[a:b]):  # write only changes: this is most of the image
                age[a:b] = 0
            continue
        for pixel in range(a, b):
            i = np.uint64(pixel)  # unsigned indices need no test for negative ones
            if mask[i] != 255:
                age[i] = 0
                continue
            total, first = _ZERO, i * np.uint64(channels)
            for c in range(channels):
                s = np.float32(colours[first + np.uint64(c)]) - np.float32(kept[first + np.uint64(c)])
                total += s * s
            if age[i] > 0 and total < limit:
                age[i] = min(age[i] + older, 65535)
                for c in range(channels):
                    k = first + np.uint64(c)
                    old = np.float32(kept[k])
                    kept[k] = old + _FOLLOWS * (np.float32(colours[k]) - old) + half
            else:
                age[i] = 1
                for c in range(channels):
                    kept[first + np.uint64(c)] = colours[first + np.uint64(c)]
            oldest = max(oldest, age[i])
    return oldest


@kernel
def confirm(mask, most, support):  # type: ignore[no-untyped-def]
    """Add 1 to `support`, at most up to `most`, where the mask is 0; all uint8, (n,)."""
    for i in range(mask.size):
        support[i] += np.uint8(1 if (mask[i] == 0) & (support[i] < most) else 0)


@part
def any_older(age):  # type: ignore[no-untyped-def]
    """Return whether any age, (n,), is not 0; no early exit, so that it vectorises."""
    largest = age[0]
    for i in range(age.size):
        largest = max(largest, age[i])
    return largest > 0
