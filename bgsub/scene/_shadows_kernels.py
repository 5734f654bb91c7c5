"""Kernels that separate shadows from objects, over foreground pixels only."""

from __future__ import annotations

import numpy as np

from bgsub.numerics.jit import kernel, part
from bgsub.scene._pixel_kernels import CHUNK, sum_windows
from bgsub.tracking._kernels import any_set

_ZERO = np.float32(0)
_TINY = np.float32(1e-4)


@kernel
def count_coloured(pixels, step, least):  # type: ignore[no-untyped-def]
    """Return how many of every `step`-th of the `pixels`, (n, c), have channels that differ by more than `least`."""
    count = 0
    for i in range(0, len(pixels), step):
        one, two, three = np.float32(pixels[i, 0]), np.float32(pixels[i, 1]), np.float32(pixels[i, 2])
        count += max(one, two, three) - min(one, two, three) > least
    return count


@kernel
def classify(begin, end, lanes, x, l, scale, mask, darkest, faintest, colour, texture, dark, other, box):  # type: ignore[no-untyped-def]
    """Classify the foreground of the rows `begin` to `end` as darkened background or not.  O(h w + c foreground).

    `x`, `l` (h, w, c); `mask`, `dark`, `other` (h, w) uint8; `box` (4,), widened to the darkened pixels. A pixel of
    other texture is in `other`, even if it is darkened.
    """
    h, w = mask.shape
    channels = len(lanes)
    colours, others = x.reshape(-1), l.reshape(-1)
    flat, flat_dark, flat_other = mask.reshape(-1), dark.reshape(-1), other.reshape(-1)
    tiny, square = _TINY / (scale * scale), colour * colour / (scale * scale)
    limit = texture * texture * 9 * channels * channels / (scale * scale)
    flat_dark[begin * w : end * w] = 0
    flat_other[begin * w : end * w] = 0
    for i in range(begin, end):
        if not any_set(flat[i * w : (i + 1) * w]):
            continue
        for a in range(i * w, (i + 1) * w, CHUNK):
            b = min(a + CHUNK, (i + 1) * w)
            if not any_set(flat[a:b]):
                continue
            for p in range(a, b):
                pixel = np.uint64(p)  # unsigned indices need no test for negative ones
                if flat[pixel] == 0:
                    continue
                if not is_darkened(colours, others, pixel, channels, tiny, darkest, faintest, square):
                    flat_other[pixel] = 1
                    continue
                j = p - i * w
                flat_dark[pixel] = 1
                box[0], box[1] = min(box[0], i), max(box[1], i + 1)
                box[2], box[3] = min(box[2], j), max(box[3], j + 1)
                if 0 < i < h - 1 and 0 < j < w - 1:
                    differs = has_other_texture(colours, others, flat, pixel, np.uint64(w), channels, tiny, limit)
                    flat_other[pixel] = differs


@part
def is_darkened(x, l, pixel, channels, tiny, darkest, faintest, square):  # type: ignore[no-untyped-def]
    """Return whether a pixel is g times its background, `darkest` < g < `faintest`, up to an error `square`."""
    xl, ll, xx = _ZERO, tiny, _ZERO
    first = pixel * np.uint64(channels)
    for c in range(channels):
        p, q = np.float32(x[first + np.uint64(c)]), np.float32(l[first + np.uint64(c)])
        xl += p * q
        ll += q * q
        xx += p * p
    return (xl > darkest * ll) & (xl < faintest * ll) & ((xx - square) * ll < xl * xl)


@part
def has_other_texture(x, l, mask, pixel, w, channels, tiny, limit):  # type: ignore[no-untyped-def]
    """Return whether the 3x3 foreground around an inner pixel is not the background times one factor."""
    one, c = np.uint64(1), np.uint64(channels)
    row = pixel - w
    for _ in range(3):
        if mask[row - one] == 0 or mask[row] == 0 or mask[row + one] == 0:
            return False
        row += w
    xl, ll, xx = _ZERO, tiny, _ZERO
    k = (pixel - w - one) * c
    for _ in range(3):
        for column in range(3):
            first = k + np.uint64(column) * c
            p, q = _ZERO, _ZERO
            for channel in range(channels):
                p += np.float32(x[first + np.uint64(channel)])
                q += np.float32(l[first + np.uint64(channel)])
            xl += p * q
            ll += q * q
            xx += p * p
        k += w * c
    return (xx - limit) * ll > xl * xl


@kernel
def clear_outvoted(box, mask, other, dark, side, share, columns, counts):  # type: ignore[no-untyped-def]
    """Clear `dark` in the `box` where more than `share` of the foreground in the square around a pixel is object."""
    h, w = mask.shape
    half = side // 2
    begin, end, left, right = box[0], box[1], box[2], box[3]
    first, last = max(left - half, 0), min(right + half, w)
    columns[:] = 0
    offset = half + first - left  # of the first column in the padded stretch
    objects = columns[0, offset : offset + last - first]
    foreground = columns[1, offset : offset + last - first]
    for row in range(begin - half, end + half):
        if 0 <= row < h:
            add_line(other[row, first:last], objects)
            add_line(mask[row, first:last], foreground)
        gone = row - side
        if gone >= max(begin - half, 0):
            take_line(other[gone, first:last], objects)
            take_line(mask[gone, first:last], foreground)
        i = row - half
        if i < begin:
            continue
        for a in range(0, right - left, CHUNK):
            b = min(a + CHUNK, right - left)
            target = dark[i, left + a : left + b]
            if not any_set(target):
                continue
            o, f = counts[0, a:b], counts[1, a:b]
            sum_windows(columns[0, a : b + side - 1], side, o)
            sum_windows(columns[1, a : b + side - 1], side, f)
            for j in range(b - a):
                target[j] = target[j] if o[j] <= share * f[j] else 0


@part
def add_line(flags, counts):  # type: ignore[no-untyped-def]
    """Add 1 to `counts`, (n,) uint16, where `flags`, (n,) uint8, is not zero."""
    for j in range(counts.size):
        counts[j] += np.uint16(1) if flags[j] != 0 else np.uint16(0)


@part
def take_line(flags, counts):  # type: ignore[no-untyped-def]
    """Subtract 1 from `counts`, (n,) uint16, where `flags`, (n,) uint8, is not zero."""
    for j in range(counts.size):
        counts[j] -= np.uint16(1) if flags[j] != 0 else np.uint16(0)


@kernel
def see_outline(begin, end, x, l, mask, every, depth, steps, least, counts):  # type: ignore[no-untyped-def]
    """Add the outline pixels of each side, `steps` (s, 2), to `counts`, (s, 2) int64: lit ones and all."""
    # the brightness is read `depth` pixels inside of the background, as the first pixels are mixed
    h, w, channels = x.shape
    colours, others, flat = x.reshape(-1), l.reshape(-1), mask.reshape(-1)
    for i in range(max(begin, depth), min(end, h - depth)):
        if i % every != 0 or not any_set(flat[i * w : (i + 1) * w]):
            continue
        for a in range(i * w + depth, (i + 1) * w - depth, CHUNK):
            b = min(a + CHUNK, (i + 1) * w - depth)
            if not any_set(flat[a:b]):
                continue
            for p in range(a, b):
                pixel = np.uint64(p)
                if flat[pixel] == 0:
                    continue
                for side in range(steps.shape[0]):
                    step = steps[side, 0] * w + steps[side, 1]
                    if flat[np.uint64(p + depth * step)] == 0 and flat[np.uint64(p + (depth - 1) * step)] != 0:
                        is_lit = brightness(colours, pixel, channels) >= least * brightness(others, pixel, channels)
                        counts[side, 0] += is_lit
                        counts[side, 1] += 1


@part
def brightness(image, pixel, channels):  # type: ignore[no-untyped-def]
    """Return the sum of the channels of a pixel, uint64, of `image`, (n * c,), float32."""
    total, first = _ZERO, pixel * np.uint64(channels)
    for c in range(channels):
        total += np.float32(image[first + np.uint64(c)])
    return total


@kernel
def walk_in(dy, dx, x, l, mask, unit, umbra, faintest, rise, fall, cast, darkest):  # type: ignore[no-untyped-def]
    """Find cast shadows from their side inwards: a shadow gets darker up to its umbra, an object is lighter again."""
    # a pixel continues the shadow of its neighbour if it exceeds the darkest one on the way by at most `rise`; if
    # lighter than `umbra`, it must be darker by more than `fall`
    h, w, channels = x.shape
    colours, others = x.reshape(-1), l.reshape(-1)
    for row in range(h):
        i = h - 1 - row if dy > 0 else row
        cast[i] = 0
        if not 0 <= i + dy < h or not any_set(mask[i]):
            continue
        for column in range(w):
            j = w - 1 - column if dx > 0 else column
            if mask[i, j] == 0 or not 0 <= j + dx < w:
                continue
            begins = mask[i + dy, j + dx] == 0
            if not begins and cast[i + dy, j + dx] == 0:
                continue
            level = level_across(colours, others, i, j, h, w, channels, dx, -dy, unit)
            if begins:
                cast[i, j] = level < faintest
                darkest[i, j] = level
            else:
                before = darkest[i + dy, j + dx]
                cast[i, j] = level <= before + rise if level <= umbra else level < before - fall
                darkest[i, j] = min(level, before)


@part
def level_across(x, l, i, j, h, w, channels, dy, dx, unit):  # type: ignore[no-untyped-def]
    """Return the brightness relative to the background, summed over a pixel and its neighbours at +-(`dy`, `dx`)."""
    p, q = _ZERO, unit
    for k in range(-1, 2):
        y, z = i + k * dy, j + k * dx
        if 0 <= y < h and 0 <= z < w:
            pixel = np.uint64(y * w + z)
            p += brightness(x, pixel, channels)
            q += brightness(l, pixel, channels)
    return p / q
