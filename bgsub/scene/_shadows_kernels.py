"""The Numba passes that tell shadows from objects, over foreground pixels only."""

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
    """Tell which foreground pixels are darkened background and which are something else.

    Parameters
    ----------
    begin, end : int
        The band of rows.
    lanes : tuple of c int
        See `FrameFormat`.
    x, l : ndarray, (h, w, c), any real dtype
        Frame and background; `scale` times them is in [0, 1].
    scale : float32
        Factor to the unit range.
    mask : ndarray, (h, w), uint8
        Foreground where it is not zero.
    darkest, faintest, colour, texture : float32
        Limits of `is_darkened` and `has_other_texture`.
    dark, other : ndarray, (h, w), uint8, output
        1 where a pixel is darkened; 1 where it is not, or where the texture around it is not the background's.
    box : ndarray, (4,), int64, output
        Rows and columns of the darkened pixels: first and one after the last of either; widened, not set anew.
        O(h w + c foreground).
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
                pixel = np.uint64(p)  # indices without a sign need no test for a negative one
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
    """Return whether a pixel is its background times one factor; `x`, `l` (n * c,), `pixel` uint64.

    The factor ``g = <x, l> / |l|^2`` must lie in (`darkest`, `faintest`), ``|x - g l|^2`` below `square`; `tiny` is
    added to ``|l|^2``.
    """
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
    """Return whether the brightness in the 3x3 pixels around is not the background's times one factor.

    Up to a sum of squares of `limit`; only where all nine are foreground, elsewhere false. Flat arrays; `pixel` and
    the width `w` are uint64; not for pixels on the border. `tiny` as in `is_darkened`.
    """
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
def outvoted(box, mask, other, dark, side, share, columns, counts):  # type: ignore[no-untyped-def]
    """Clear `dark` where the foreground of the square around a pixel is object by more than `share`.

    Parameters
    ----------
    box : ndarray, (4,), int64
        Rows and columns of `dark` to look at: first and one after the last of either.
    mask, other, dark : ndarray, (h, w), uint8
        Foreground (non-zero), objects and shadow candidates (1); `dark` is changed in place.
    side : int
        Side of the square, odd; beyond the border there is nothing.
    share : float32
        Of the foreground.
    columns, counts : ndarray, (2, w + side - 1), (2, w), uint16
        Workspaces.  O(rows columns side).
    """
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
    """Count the outline of the foreground by its side, and how much of it is lit.

    Parameters
    ----------
    begin, end : int
        The band of rows.
    x, l : ndarray, (h, w, c), any real dtype
        Frame and background.
    mask : ndarray, (h, w), uint8
        Foreground where it is not zero.
    every : int
        Looked at are the rows that are multiples of it.
    depth : int
        Pixels from the background on, at which the outline is looked at; the first ones are mixtures of both.
    steps : ndarray, (s, 2), int64
        Rows and columns to the next pixel on each side.
    least : float32
        Brightness over that of the background, from which on a pixel is lit.
    counts : ndarray, (s, 2), int64
        Pixels, lit ones and all; added to.  O((h w + s foreground) / every).
    """
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
    """Find cast shadows from their side inwards: a shadow gets darker up to its umbra, an object is lighter again.

    A pixel is cast shadow when its neighbour on the side is background and it is darker than `faintest`, or when
    that neighbour is cast shadow and the pixel is not lighter than the darkest one on the way to it. Lighter than
    `umbra`, in the penumbra, it must be darker by more than `fall`.

    Parameters
    ----------
    dy, dx : int
        Rows and columns to the next pixel on the side.
    x, l : ndarray, (h, w, c), any real dtype
        Frame and background.
    mask : ndarray, (h, w), uint8
        Foreground where it is not zero.
    unit : float32
        Added to the brightness of the background, see `level_across`.
    umbra, faintest, rise, fall : float32
        Brightnesses over that of the background; `rise` is what the darkest one may be exceeded by.
    cast : ndarray, (h, w), uint8, output
        1 where a cast shadow is.
    darkest : ndarray, (h, w), float32, workspace
        The darkest brightness on the way.  O(h w + c foreground).
    """
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
    """Return the brightness over that of the background, of a pixel and its neighbours at (`dy`, `dx`) and opposite.

    Flat arrays, (h * w * c,); `unit` is added to the brightness of the background, which may be black.
    """
    p, q = _ZERO, unit
    for k in range(-1, 2):
        y, z = i + k * dy, j + k * dx
        if 0 <= y < h and 0 <= z < w:
            pixel = np.uint64(y * w + z)
            p += brightness(x, pixel, channels)
            q += brightness(l, pixel, channels)
    return p / q
