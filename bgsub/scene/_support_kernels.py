"""The Numba passes over the colours that every pixel has shown, and for how long."""

from __future__ import annotations

import numpy as np

from bgsub.numerics.jit import kernel, part
from bgsub.scene._pixel_kernels import CHUNK, any_set

_ZERO = np.float32(0)
_FOLLOWS = np.float32(0.1)  # of the way to a new colour, per frame


@kernel
def count_colours(begin, end, x, over, first, limit, more, most, clearly, colours, counts, last, due):  # type: ignore[no-untyped-def]
    """Count the colours that some pixels of a frame show.

    Parameters
    ----------
    begin, end : int
        The band of pixels.
    x : ndarray, (n, c), any real dtype
        Frame.
    over : ndarray, (n,), uint8
        The pixels, where it is not 0.
    first : int
        First of the colours to compare with: 0, or 1 where the background, whose colour is the first, is known
        elsewhere and `over` is where the frame differs from it.
    limit : float32
        Squared joint distance, in the frame's unit, up to which a colour is the same.
    more, most : int
        Frames that this one stands for; largest count. Where the background has it, no other colour is counted.
    clearly : int
        How many times as long as the background a colour must have been seen to take its place.
    colours : ndarray, (q, n, c), float32
        Colours of each pixel, changed in place; they follow what is seen.
    counts : ndarray, (q, n), uint16
        For how many frames each was seen, after a frame that showed it as well; 0 where there is none.
    last : ndarray, (n,), uint8
        Which of them the frame before showed.
    due : ndarray, (n,), uint8, output
        The colour that the frame shows where it was seen for clearly longer than the first one, else 0.

    Returns
    -------
    int
        Number of pixels that are due.  O(n + q c candidates).
    """
    pixels, kept, seen = x.reshape(-1), colours.reshape(-1), counts.reshape(-1)
    n, channels, one, found = np.uint64(x.shape[0]), np.uint64(x.shape[1]), np.uint64(1), 0
    slots, start = colours.shape[0] - first, np.uint64(first)
    for a in range(begin, end, CHUNK):
        b = min(a + CHUNK, end)
        due[a:b] = 0
        if not any_set(over[a:b]):
            last[a:b] = 0
            continue
        for pixel in range(a, b):
            i = np.uint64(pixel)  # indices without a sign need no test for a negative one
            if over[i] == 0:
                last[i] = 0
            if over[i] == 0 or (first > 0 and seen[i] >= most):
                continue
            entry = i * channels
            k, least = start, one if seen[i] > 0 else np.uint64(0)
            known = False
            for _ in range(slots):
                place = k * n + i
                known = seen[place] > 0 and distance(pixels, entry, kept, place * channels, channels) < limit
                if known:
                    break
                if k > 0 and seen[place] < seen[least * n + i]:
                    least = k
                k += one
            k = k if known else least  # of colours that are not shown, the one that was seen least gives way
            place = k * n + i
            if known and last[i] == k:
                seen[place] = min(np.int64(seen[place]) + more, most)
            share = _FOLLOWS if known else np.float32(1)
            for c in range(x.shape[1]):
                m, colour = place * channels + np.uint64(c), np.float32(pixels[entry + np.uint64(c)])
                kept[m] += share * (colour - kept[m])
            seen[place] = seen[place] if known else 1
            last[i] = k
            if seen[place] > clearly * np.int64(seen[i]):
                due[i] = k
                found += 1
    return found


@kernel
def confirm(begin, end, mask, over, more, most, support):  # type: ignore[no-untyped-def]
    """Add `more` to the uint16 counts `support`, at most up to `most`, where both `mask` and `over` are 0; all (n,)."""
    added, none, full = np.uint16(more), np.uint16(0), np.uint16(most)
    for i in range(begin, end):
        support[i] = min(support[i] + (added if mask[i] | over[i] == 0 else none), full)


@kernel
def put_first(begin, end, which, colours, counts, last):  # type: ignore[no-untyped-def]
    """Exchange the colour `which`, (n,) uint8, of every pixel for its first one; the others as in `count_colours`."""
    for i in range(begin, end):
        if which[i] != 0:
            k = which[i]
            counts[0, i], counts[k, i] = counts[k, i], counts[0, i]
            for c in range(colours.shape[2]):
                colours[0, i, c], colours[k, i, c] = colours[k, i, c], colours[0, i, c]
            last[i] = 0


@part
def distance(x, a, colours, b, channels):  # type: ignore[no-untyped-def]
    """Return the squared joint distance of the entries from a on of `x` and those from b on of `colours`."""
    if channels == 3:
        one, two = np.uint64(1), np.uint64(2)
        r = np.float32(x[a]) - colours[b]
        s = np.float32(x[a + one]) - colours[b + one]
        t = np.float32(x[a + two]) - colours[b + two]
        return r * r + s * s + t * t
    total = _ZERO
    for c in range(np.int64(channels)):
        s = np.float32(x[a + np.uint64(c)]) - colours[b + np.uint64(c)]
        total += s * s
    return total


@kernel
def fill_in(begin, end, background, limit, frames):  # type: ignore[no-untyped-def]
    """Put the background in the place of what differs from it in some frames.

    Parameters
    ----------
    begin, end : int
        The band of pixels.
    background : ndarray, (n, c), float32
        In the unit of the frames.
    limit : ndarray, (n,), float32
        Squared joint distance up to which a pixel shows the background.
    frames : ndarray, (q, n, c), any real dtype
        Changed in place.  O(q n c).
    """
    channels = np.uint64(background.shape[1])
    colours = background.reshape(-1)
    for f in range(frames.shape[0]):
        x = frames[f].reshape(-1)
        for pixel in range(begin, end):
            i = np.uint64(pixel)
            if distance(x, i * channels, colours, i * channels, channels) > limit[i]:
                for c in range(pixel * frames.shape[2], (pixel + 1) * frames.shape[2]):
                    x[c] = colours[c]
