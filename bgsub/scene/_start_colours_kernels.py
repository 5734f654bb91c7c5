"""Kernels of the start colours: how long each pixel has shown which colour."""

import numpy as np

from bgsub.numerics.jit import kernel, part
from bgsub.scene._frame_kernels import CHUNK, distance
from bgsub.tracking._kernels import any_set

_ZERO, _ONE = np.float32(0), np.float32(1)
_FOLLOWS = np.float32(0.1)  # weight of the newest frame in a colour, a running mean


@kernel
def count_colours(begin, end, lanes, x, limits, colours, counts, last, fresh):  # type: ignore[no-untyped-def]
    """Count the colours of the pixels `begin` to `end`; return in how many the first colour has changed.  O(q c n).

    `x` (n, c); `limits` (n,): largest joint distance of equal colours; `colours` (q, n, c), the commonest first;
    `counts` (q, n): how often a frame repeated the colour of the frame before; `last` (n,): index of the colour in that
    frame; `fresh` (n,): 1 where another colour has become the first.
    """
    channels, most = len(lanes), colours.shape[0]
    pixels, kept, seen = x.reshape(-1), colours.reshape(-1), counts.reshape(-1)
    n, one, found = np.uint64(limits.size), np.uint64(1), 0
    for a in range(begin, end, CHUNK):
        b = min(a + CHUNK, end)
        x, first = pixels[a * channels : b * channels], kept[a * channels : b * channels]
        if all_show_first(x, first, channels, limits[a:b], seen[a:b], last[a:b]):
            for m in range(x.size):
                first[m] += _FOLLOWS * (np.float32(x[m]) - first[m])
            for pixel in range(a, b):
                seen[pixel] += np.uint16(1)
            fresh[a:b] = 0
            continue
        for pixel in range(a, b):
            i = np.uint64(pixel)  # unsigned indices need no test for negative ones
            entry = i * np.uint64(channels)
            k, least = np.uint64(0), one if seen[i] > 0 else np.uint64(0)
            known, limit = False, limits[i] * limits[i]
            for _ in range(most):
                place = k * n + i
                known = seen[place] > 0 and distance(pixels, kept, entry, place * np.uint64(channels), channels) < limit
                if known:
                    break
                if k > 0 and seen[place] < seen[least * n + i]:
                    least = k
                k += one
            k = k if known else least
            place = k * n + i
            share = _FOLLOWS if known else _ONE
            for c in range(channels):
                m, colour = place * np.uint64(channels) + np.uint64(c), np.float32(pixels[entry + np.uint64(c)])
                kept[m] += share * (colour - kept[m])
            again = np.uint16(1 if known and last[i] == k else 0)
            seen[place] = seen[place] + again if known else 1
            fresh[i] = 1 if seen[place] > seen[i] else 0
            last[i] = 0 if fresh[i] > 0 else k
            if fresh[i] > 0:
                seen[i], seen[place] = seen[place], seen[i]
                for c in range(channels):
                    m, m_first = place * np.uint64(channels) + np.uint64(c), entry + np.uint64(c)
                    kept[m_first], kept[m] = kept[m], kept[m_first]
                found += 1
    return found


@part
def all_show_first(x, colours, channels, limits, seen, last):  # type: ignore[no-untyped-def]
    """Return whether all pixels show their commonest colour, as in the previous frame; no early exit, vectorises."""
    outside = _ZERO
    for i in range(limits.size):
        total = _ZERO
        for c in range(channels):
            s = np.float32(x[i * channels + c]) - colours[i * channels + c]
            total += s * s
        outside = max(outside, _ZERO if total < limits[i] * limits[i] else _ONE)
    if outside > 0 or any_set(last):
        return False
    fewest = seen[0]
    for i in range(seen.size):
        fewest = min(fewest, seen[i])
    return fewest > 0
