"""Shadows in the foreground: background times one factor, and cast shadows from their side inwards.

The work is in proportion to what is filled: `filled` (chunks,) uint8 is 0 where a chunk of `CHUNK` pixels is empty.
Where a loop over a chunk has a constant length, its code is several times faster.
"""

from __future__ import annotations

import numpy as np

from bgsub.numerics.jit import kernel, part
from bgsub.scene._frame_kernels import CHUNK, is_filled, sum_windows
from bgsub.scene._segment_kernels import add_flags
from bgsub.tracking._kernels import any_set

_ZERO = np.float32(0)
_TINY = np.float32(1e-4)
# Smallest and largest factor; joint distance from the background times the factor, RMS error of the texture, if bright.
_COLOURED = np.float32(0.35), np.float32(0.97), np.float32(0.02), np.float32(0.04)
_GREY = np.float32(0.5), np.float32(0.97), np.float32(0.02), np.float32(0.01)
_WEAK = np.float32(0.25)  # largest change of weak shadows without an error; the largest error is the threshold
_SIDE = 11  # pixels, side of the vote
_OUTVOTED = np.float32(0.6)  # share of object nearby above which a shaded pixel is object, and the reverse
_RISE, _FALL = np.float32(0.003), np.float32(0.05)  # tolerance of the factor on the way in: noise and penumbra
_BLACK = np.float32(0.01)  # share of full scale added to a background that may be black
_EVERY = 4  # rows per row of the outline
_DEPTH = 4  # depth of the outline in pixels
_LIT = np.float32(0.6)  # factor of lit outline
_MEMORY, _MOST = 1500.0, 0.9  # largest outline kept, in frame sides; largest share forgotten in one frame
_LARGE = 0.15  # share of foreground above which what is dark in it may be no shadow
_NEARLY_LIT = np.float32(0.93)  # factor from which the tint is lost in noise
_LEAST = np.float32(1e-9)  # squared brightness of a background, against division by zero
_NO_TINT = 0.0005  # weight of no tint, as of denominators
_EXPLAINED = 0.25  # share of the error of shadows that a tint must explain to count in full
_TINT_MEMORY, _TINT_MOST = 0.5, 0.01  # frames of shadow that are remembered; largest weight of one frame
_NEVER = 0.5  # relative lit share below which a side is never lit
STEPS = ((0, 1), (1, 1), (1, 0), (1, -1), (0, -1), (-1, -1), (-1, 0), (-1, 1))  # sides: right, clockwise


@kernel
def find_shadows(x, l, limits, mask, filled, learns, outline, seen, tints, tint, dark, other, shaded, columns, counts):  # type: ignore[no-untyped-def]
    """Find the shadows in the foreground, `dark`, see `classify`; return the side from which shadows come, or -1.

    `outline` (8, 2) float64: lit and total outline of each side, in frame sides, changed if `learns`; `seen` like it.
    `tints` (c + 1, 2) float64: sums of `learn_tint`, changed if `learns`; `tint` (c,) float32: see `shade`, replaced.
    """
    if learns:
        see_outline(limits.lanes, x, l, limits.black, mask, filled, seen)
        learn_outline(seen, _EVERY / np.sqrt(mask.size), outline)
    find_tint(tints, tint)
    if classify(x, l, limits, tint, mask, filled, dark, other, shaded) > 0:
        follow_majority(mask, other, dark, shaded, columns, counts)
        if learns and len(limits.lanes) > 1:
            learn_tint(x, l, limits, mask, filled, dark, tints, seen)
    return never_lit(outline)


@part
def learn_outline(seen, unit, outline):  # type: ignore[no-untyped-def]
    """Add the outline of a frame, (8, 2) in units of `unit` frame sides, to the running one."""
    total = 0.0
    for side in range(len(seen)):
        total += seen[side, 1]
    keep = 1 - min(unit * total / _MEMORY, _MOST)
    for side in range(len(seen)):
        for i in range(2):
            outline[side, i] = keep * outline[side, i] + unit * seen[side, i]


@part
def never_lit(outline):  # type: ignore[no-untyped-def]
    """Return the side whose outline is rarely lit, given the lit and total outline of each; -1 if there is none."""
    side, lit, total = 0, 0.0, 0.0
    for i in range(len(outline)):
        side = i if outline[i, 0] * outline[side, 1] < outline[side, 0] * outline[i, 1] else side
        lit += outline[i, 0]
        total += outline[i, 1]
    return side if outline[side, 0] * total < _NEVER * lit * outline[side, 1] else -1


@part
def find_tint(tints, tint):  # type: ignore[no-untyped-def]
    """Write the tint of shadows; it is the weaker the less of their error it explains, as that of objects would."""
    explained, error = 0.0, tints[tint.size, 0] + 1e-12
    for c in range(tint.size):
        tint[c] = tints[c, 0] / (tints[c, 1] + _NO_TINT)
        explained += tint[c] * tints[c, 0]
    for c in range(tint.size):
        tint[c] *= min(explained / (_EXPLAINED * error), 1.0)


@part
def learn_tint(x, l, limits, mask, filled, dark, tints, new):  # type: ignore[no-untyped-def]
    """Learn the `tint` of `shade` from the shadows of a frame without large foreground, by least squares.  O(c q).

    `tints` (c + 1, 2): numerators and denominators, then the squared error, in frames; `new` (> c, 2) is overwritten.
    """
    h, w, channels, black = x.shape[0], x.shape[1], len(limits.lanes), limits.black
    colours, others, flat, shadow = x.reshape(-1), l.reshape(-1), mask.reshape(-1), dark.reshape(-1)
    new[:] = 0.0
    tiny, foreground, count = _LEAST / (limits.scale * limits.scale), 0, 0
    for i in range(0, h, _EVERY):
        if not is_filled(filled, i * w, (i + 1) * w):
            continue
        for a in range(i * w, (i + 1) * w, CHUNK):
            b = min(a + CHUNK, (i + 1) * w)
            if not any_set(flat[a:b]):
                continue
            for p in range(a, b):
                foreground += flat[p] != 0
                if shadow[p] == 0:
                    continue
                first = np.uint64(p) * np.uint64(channels)
                xl, ll = _ZERO, tiny
                for c in range(channels):
                    q = np.float32(others[first + np.uint64(c)]) - black
                    xl += (np.float32(colours[first + np.uint64(c)]) - black) * q
                    ll += q * q
                g = xl / ll
                if not _COLOURED[0] < g < _NEARLY_LIT:
                    continue
                count += 1
                for c in range(channels):
                    even = g * (np.float32(others[first + np.uint64(c)]) - black)
                    tinted, d = (1 - g) * even, np.float32(colours[first + np.uint64(c)]) - black - even
                    new[c, 0] += tinted * d / ll
                    new[c, 1] += tinted * tinted / ll
                    new[channels, 0] += d * d / ll
    if count == 0 or _EVERY * foreground > _LARGE * mask.size:
        return
    share = min(_EVERY * count / mask.size, _TINT_MOST)
    for c in range(channels + 1):
        for j in range(2):
            tints[c, j] += share * (new[c, j] / count - tints[c, j] / _TINT_MEMORY)


@part
def classify(x, l, limits, tint, mask, filled, dark, other, shaded):  # type: ignore[no-untyped-def]
    """Classify the foreground as shaded background or not; return the number of shaded pixels.  O(c q).

    `x`, `l` (h, w, c); `mask`, `dark`, `other` (h, w) uint8. A pixel of other texture is in `other`, even if it is
    shaded. `shaded`, of `dark` and `other`, is replaced.
    """
    h, w, channels, scale = x.shape[0], x.shape[1], len(limits.lanes), limits.scale
    darkest, faintest, colour, texture = _COLOURED if limits.is_coloured else _GREY
    colour *= limits.exposure
    texture *= limits.exposure
    lightest, error = 1 + _WEAK if limits.is_coloured else faintest, limits.threshold / scale
    colours, others = x.reshape(-1), l.reshape(-1)
    flat, flat_dark, flat_other = mask.reshape(-1), dark.reshape(-1), other.reshape(-1)
    tiny, square = _TINY / (scale * scale), colour * colour / (scale * scale)
    limit = texture * texture * 9 * channels * channels / (scale * scale)
    count = 0
    for q in range(filled.size):
        a, n = q * CHUNK, min(CHUNK, flat.size - q * CHUNK)
        if shaded[q] != 0:
            flat_dark[a : a + n] = 0
            flat_other[a : a + n] = 0
        shaded[q] = filled[q]
        if filled[q] == 0:
            continue
        weak = lightest, error * error, error * error / (_WEAK * _WEAK)
        ranges = limits.black, tiny, darkest, faintest, square, *weak, tint
        if n == CHUNK:  # a constant number of pixels: faster code
            found = shade(colours, others, flat, a, CHUNK, channels, ranges, flat_dark, flat_other)
        else:
            found = shade(colours, others, flat, a, n, channels, ranges, flat_dark, flat_other)
        count += found
        if found > 0:
            for p in range(a, a + n):
                if flat_dark[p] != 0 and 0 < p // w < h - 1 and 0 < p % w < w - 1:
                    pixel = np.uint64(p)  # unsigned indices need no test for negative ones
                    levels = limits.black, tiny, limit
                    flat_other[p] = has_other_texture(colours, others, flat, pixel, np.uint64(w), channels, levels)
    return count


@part
def shade(x, l, mask, a, n, channels, ranges, dark, other):  # type: ignore[no-untyped-def]
    """Write which of n pixels from `a` on are shaded, and which other foreground; return the number of the former.

    A shaded pixel is ``g (1 + (1 - g) tint)`` times its background, `darkest` < g < `faintest`, up to an error
    `square`: what is left of the light has another colour, as that of the sky. Weak shadows, reflections and light from
    objects have colours of their own: the nearer g is to 1, the larger the error may be, up to `weak`; the limit is an
    ellipse with the axes change and error.
    """
    black, tiny, darkest, faintest, square, lightest, weak, steep, tint = ranges
    x, l = x[a * channels :], l[a * channels :]
    flags, dark, other = mask[a:], dark[a:], other[a:]
    for i in range(n):
        xl, ll = _ZERO, tiny
        for c in range(channels):
            p, q = np.float32(x[channels * i + c]) - black, np.float32(l[channels * i + c]) - black
            xl += p * q
            ll += q * q
        g = xl / ll
        error = g * g * tiny
        for c in range(channels):
            p, q = np.float32(x[channels * i + c]) - black, np.float32(l[channels * i + c]) - black
            d = p - g * (1 + (1 - g) * tint[c]) * q
            error += d * d
        is_dark = (g > darkest) & (g < faintest) & (error < square)
        is_weak = (g < lightest) & (steep * (g - 1) * (g - 1) + error < weak)
        dark[i] = (flags[i] != 0) & (is_dark | is_weak)
        other[i] = (flags[i] != 0) & (not (is_dark | is_weak))
    count = 0
    for i in range(n):
        count += np.int64(dark[i])
    return count


@part
def has_other_texture(x, l, mask, pixel, w, channels, levels):  # type: ignore[no-untyped-def]
    """Return whether the 3x3 foreground around an inner pixel is not the background times one factor."""
    black, tiny, limit = levels
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
            p = q = -np.float32(channels) * black
            for channel in range(channels):
                p += np.float32(x[first + np.uint64(channel)])
                q += np.float32(l[first + np.uint64(channel)])
            xl += p * q
            ll += q * q
            xx += p * p
        k += w * c
    return (xx - limit) * ll > xl * xl


@part
def follow_majority(mask, other, dark, filled, columns, counts):  # type: ignore[no-untyped-def]
    """Change the foreground in `dark` where most in the square around a pixel is otherwise; `filled` holds for all.

    `columns` (2, >= CHUNK + 10) and `counts` (2, >= CHUNK) are uint16.
    """
    h, w = mask.shape
    half = _SIDE // 2
    for left in range(0, w, CHUNK):
        right = min(left + CHUNK, w)
        first, last = max(left - half, 0), min(right + half, w)
        objects = columns[0, half + first - left : half + last - left]
        foreground = columns[1, half + first - left : half + last - left]
        low, high = 0, -_SIDE  # rows in the sums; none yet
        for i in range(h):
            target, flags = dark[i, left:right], mask[i, left:right]
            if not is_filled(filled, i * w + left, i * w + right) or not any_set(flags):
                continue
            if high < i - half:
                columns[:, : CHUNK + 2 * half] = 0
                low, high = max(i - half, 0), max(i - half, 0) - 1
            while high < min(i + half, h - 1):
                high += 1
                add_flags(other[high, first:last], 1, objects)
                add_flags(mask[high, first:last], 1, foreground)
            while low < i - half:
                add_flags(other[low, first:last], -1, objects)
                add_flags(mask[low, first:last], -1, foreground)
                low += 1
            o, f = counts[0, : right - left], counts[1, : right - left]
            sum_windows(columns[0, : right - left + 2 * half], _SIDE, o)
            sum_windows(columns[1, : right - left + 2 * half], _SIDE, f)
            for j in range(target.size):
                against = o[j] if target[j] != 0 else f[j] - o[j]
                target[j] = flags[j] & ((target[j] != 0) ^ (against > _OUTVOTED * f[j]))


@part
def see_outline(lanes, x, l, black, mask, filled, counts):  # type: ignore[no-untyped-def]
    """Write the outline pixels of each side, `STEPS`, into `counts`, (8, 2) float64: lit ones and all."""
    # the brightness is read `_DEPTH` pixels inside of the background, as the first pixels are mixed
    h, w, channels = x.shape[0], x.shape[1], len(lanes)
    colours, others, flat = x.reshape(-1), l.reshape(-1), mask.reshape(-1)
    counts[:] = 0.0
    for i in range(-(-_DEPTH // _EVERY) * _EVERY, h - _DEPTH, _EVERY):
        if not is_filled(filled, i * w, (i + 1) * w):
            continue
        for a in range(i * w + _DEPTH, (i + 1) * w - _DEPTH, CHUNK):
            b = min(a + CHUNK, (i + 1) * w - _DEPTH)
            if not any_set(flat[a:b]):
                continue
            for p in range(a, b):
                pixel = np.uint64(p)
                if flat[pixel] == 0:
                    continue
                for side in range(len(STEPS)):
                    step = STEPS[side][0] * w + STEPS[side][1]
                    if flat[np.uint64(p + _DEPTH * step)] == 0 and flat[np.uint64(p + (_DEPTH - 1) * step)] != 0:
                        usual = brightness(others, pixel, channels, black)
                        counts[side, 0] += brightness(colours, pixel, channels, black) >= _LIT * usual
                        counts[side, 1] += 1


@part
def brightness(image, pixel, channels, black):  # type: ignore[no-untyped-def]
    """Return the sum of the channels of a pixel, uint64, of `image`, (n * c,), above `black` each, float32."""
    total, first = -np.float32(channels) * black, pixel * np.uint64(channels)
    for c in range(channels):
        total += np.float32(image[first + np.uint64(c)])
    return total


@kernel
def walk_in(lanes, dy, dx, x, l, scale, black, mask, cast, darkest):  # type: ignore[no-untyped-def]
    """Find cast shadows from their side inwards: a shadow gets darker up to its umbra, an object is lighter again."""
    # a pixel continues the shadow of its neighbour if it exceeds the darkest one on the way by at most `_RISE`; if
    # lighter than the umbra, it must be darker by more than `_FALL`
    h, w, channels = x.shape[0], x.shape[1], len(lanes)
    colours, others = x.reshape(-1), l.reshape(-1)
    umbra, faintest, unit = _COLOURED[0], _COLOURED[1], _BLACK / scale
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
            level = level_across(colours, others, i, j, h, w, channels, dx, -dy, black, unit)
            if begins:
                cast[i, j] = level < faintest
                darkest[i, j] = level
            else:
                before = darkest[i + dy, j + dx]
                cast[i, j] = level <= before + _RISE if level <= umbra else level < before - _FALL
                darkest[i, j] = min(level, before)


@part
def level_across(x, l, i, j, h, w, channels, dy, dx, black, unit):  # type: ignore[no-untyped-def]
    """Return the brightness relative to the background, summed over a pixel and its neighbours at +-(`dy`, `dx`)."""
    p, q = _ZERO, unit
    for k in range(-1, 2):
        y, z = i + k * dy, j + k * dx
        if 0 <= y < h and 0 <= z < w:
            pixel = np.uint64(y * w + z)
            p += brightness(x, pixel, channels, black)
            q += brightness(l, pixel, channels, black)
    return p / q
