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
_NEARLY_LIT = np.float32(0.85)  # factor from which the tint is lost in noise
_BLACKEST = np.float32(0.1)  # channel of a background that shows a tint, as share of full scale
_UNEVEN, _ALIKE = np.float32(0.015), np.float32(0.81)  # least deviation in 3x3 pixels, squared correlation of a shadow
_BIN, _NO_VOTES = 0.1, 0.01  # of tints; weight of no votes, in frames
_CERTAIN, _RISING = 0.015, 20.0  # squared share times rate of its votes from which a tint is taken; size per unit above
_VOTES, _MOST_VOTES = 0.5, 0.01  # frames of foreground that are remembered; largest weight of one frame
_NEVER = 0.5  # relative lit share below which a side is never lit
STEPS = ((0, 1), (1, 1), (1, 0), (1, -1), (0, -1), (-1, -1), (-1, 0), (-1, 1))  # sides: right, clockwise


@kernel
def find_shadows(x, l, limits, tint, mask, filled, dark, other, shaded, columns, counts):  # type: ignore[no-untyped-def]
    """Find the shadows in the foreground, `dark`, see `classify` and `follow_majority`."""
    if classify(x, l, limits, tint, mask, filled, dark, other, shaded) > 0:
        follow_majority(mask, other, dark, shaded, columns, counts)


@kernel
def learn_shadows(x, l, limits, mask, filled, learns, outline, seen, votes, new, tint):  # type: ignore[no-untyped-def]
    """Learn side and tint of the shadows from some rows; return the side from which they come, or -1.  O(c q).

    `outline` (8, 2) float64: lit and total outline of each side, in frame sides, changed if `learns`; `seen`, alike, is
    overwritten. `votes` (2, bins, bins), changed if `learns`: of foreground that varies as its background, and of all,
    in frames; rows and columns are the first and the last channel of the tint minus the second one, `_BIN` apart;
    `new`, alike, is overwritten. `tint` (c,) float32, see `shade`, is replaced.
    """
    h, w, channels = x.shape[0], x.shape[1], len(limits.lanes)
    colours, others, flat = x.reshape(-1), l.reshape(-1), mask.reshape(-1)
    levels = limits.black, _BLACKEST / limits.scale, 9 * (3 * _UNEVEN / limits.scale) ** 2
    foreground, count = 0, 0
    seen[:], new[:] = 0.0, 0.0
    for i in range(_EVERY, h - 1 if learns else 0, _EVERY):
        if not is_filled(filled, i * w, (i + 1) * w):
            continue
        for a in range(i * w + 1, (i + 1) * w - 1, CHUNK):
            b = min(a + CHUNK, (i + 1) * w - 1)
            if not any_set(flat[a:b]):
                continue
            for p in range(a, b):
                if flat[p] == 0:
                    continue
                foreground += 1
                if channels == 3:
                    count += vote(colours, others, flat, np.uint64(p), np.uint64(w), np.uint64(3), levels, new)
                if i < h - _DEPTH and i * w + _DEPTH <= p < (i + 1) * w - _DEPTH:
                    see_outline(colours, others, flat, p, w, channels, limits.black, seen)
    if learns:
        learn_outline(seen, _EVERY / np.sqrt(mask.size), outline)
    if count > 0 and _EVERY * foreground <= _LARGE * mask.size:
        learn_votes(new, count, min(_EVERY * count / mask.size, _MOST_VOTES), votes)
    find_tint(votes, tint)
    return never_lit(outline)


@part
def learn_votes(new, count, share, votes):  # type: ignore[no-untyped-def]
    """Add the `count` new votes, which are a `share` of a frame, to the remembered ones."""
    for k in range(2):
        for i in range(votes.shape[1]):
            for j in range(votes.shape[1]):
                votes[k, i, j] += share * (new[k, i, j] / count - votes[k, i, j] / _VOTES)


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
def find_tint(votes, tint):  # type: ignore[no-untyped-def]
    """Write the tint of shadows where most votes are, (c,); it is the weaker the more likely these are objects."""
    for c in range(tint.size):
        tint[c] = _ZERO
    if tint.size != 3:
        return
    middle, best, total, row, column = votes.shape[1] // 2, 0.0, _NO_VOTES, 1, 1
    for i in range(1, 2 * middle):
        for j in range(1, 2 * middle):
            alike = 0.0
            for k in range(9):
                alike += votes[0, i + k // 3 - 1, j + k % 3 - 1]
            total += votes[0, i, j]
            if alike > best:
                best, row, column = alike, i, j
    if best == 0:
        return
    seen, first, last = 0.0, 0.0, 0.0
    for i in range(row - 1, row + 2):
        for j in range(column - 1, column + 2):
            seen += votes[1, i, j]
            first += votes[0, i, j] * (i - middle) * _BIN / best
            last += votes[0, i, j] * (j - middle) * _BIN / best
    size = max(abs(2 * first - last), abs(first + last), abs(2 * last - first)) / 3
    certain = (best / total) ** 2 * best / seen
    factor = min(_RISING * max(certain - _CERTAIN, 0.0) / (size + 1e-9), 1.0) / 3
    tint[0], tint[1], tint[2] = factor * (2 * first - last), factor * (-first - last), factor * (2 * last - first)


@part
def vote(x, l, mask, pixel, w, channels, levels, votes):  # type: ignore[no-untyped-def]
    """Add the vote of an inner pixel; return whether it has one: its background is neither black nor even."""
    black, blackest, uneven = levels
    first = pixel * channels
    xl, ll, least = _ZERO, _ZERO, blackest
    for c in range(channels):
        q = np.float32(l[first + c]) - black
        xl += (np.float32(x[first + c]) - black) * q
        ll += q * q
        least = min(least, q)
    if least < blackest or not _COLOURED[0] * ll < xl < _NEARLY_LIT * ll:
        return False
    inside, sx, sl, sxl, sll, sxx = sums_around(x, l, mask, pixel, w, channels, black)
    sxl, sll, sxx = sxl - sx * sl / 9, sll - sl * sl / 9, sxx - sx * sx / 9
    if not inside or sll < uneven:
        return False
    g, middle, bins = xl / ll, ratio(x, l, first + np.uint64(1), black), votes.shape[1]
    unit = np.float32(_BIN) * g * (1 - g)
    row = bins // 2 + np.int64(np.rint((ratio(x, l, first, black) - middle) / unit))
    column = bins // 2 + np.int64(np.rint((ratio(x, l, first + np.uint64(2), black) - middle) / unit))
    if 0 <= row < bins and 0 <= column < bins:
        votes[0, row, column] += (sxl > 0) & (sxl * sxl > _ALIKE * sxx * sll)
        votes[1, row, column] += 1
    return True


@part
def ratio(x, l, i, black):  # type: ignore[no-untyped-def]
    """Return a value of the frame relative to its background."""
    return (np.float32(x[i]) - black) / (np.float32(l[i]) - black)


@part
def sums_around(x, l, mask, pixel, w, channels, black):  # type: ignore[no-untyped-def]
    """Return whether all 3x3 pixels around an inner pixel are foreground, and sums of the brightnesses x, l there.

    The sums are those of x, l, ``x l``, ``l l`` and ``x x``, 0 if not all are foreground.
    """
    one, row = np.uint64(1), pixel - w
    sx, sl, xl, ll, xx = _ZERO, _ZERO, _ZERO, _ZERO, _ZERO
    for _ in range(3):
        if mask[row - one] == 0 or mask[row] == 0 or mask[row + one] == 0:
            return False, sx, sl, xl, ll, xx
        row += w
    k = (pixel - w - one) * channels
    for _ in range(3):
        for column in range(3):
            first = k + np.uint64(column) * channels
            p = q = -np.float32(channels) * black
            for channel in range(channels):
                p += np.float32(x[first + np.uint64(channel)])
                q += np.float32(l[first + np.uint64(channel)])
            sx += p
            sl += q
            xl += p * q
            ll += q * q
            xx += p * p
        k += w * channels
    return True, sx, sl, xl, ll, xx


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
                    pixel, row = np.uint64(p), np.uint64(w)  # unsigned indices need no test for negative ones
                    inside, _, _, xl, ll, xx = sums_around(
                        colours, others, flat, pixel, row, np.uint64(channels), limits.black
                    )
                    ll += tiny
                    flat_other[p] = inside and (xx - limit) * ll > xl * xl
    return count


@part
def shade(x, l, mask, a, n, channels, ranges, dark, other):  # type: ignore[no-untyped-def]
    """Write which of n pixels from `a` on are shaded, and which other foreground; return the number of the former.

    A shaded pixel is a multiple of its background, or of ``1 + (1 - g) tint`` times it where what is left of the light
    has another colour, as that of the sky: up to an error `square`, if the factor g is between `darkest` and
    `faintest`. Weak shadows, reflections and light from objects have colours of their own: the nearer g is to 1, the
    larger the error may be, up to `weak`; the limit is an ellipse with the axes change and error.
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
        pp, pb, bb = _ZERO, _ZERO, tiny
        for c in range(channels):
            p, q = np.float32(x[channels * i + c]) - black, np.float32(l[channels * i + c]) - black
            b = (1 + (1 - g) * tint[c]) * q
            pp += p * p
            pb += p * b
            bb += b * b
        error = max(pp - max(xl * g, pb * pb / bb), _ZERO)  # without tint, with it
        is_dark = (g > darkest) & (g < faintest) & (error < square)
        is_weak = (g < lightest) & (steep * (g - 1) * (g - 1) + error < weak)
        dark[i] = (flags[i] != 0) & (is_dark | is_weak)
        other[i] = (flags[i] != 0) & (not (is_dark | is_weak))
    count = 0
    for i in range(n):
        count += np.int64(dark[i])
    return count


@part
def follow_majority(mask, other, dark, filled, columns, counts):  # type: ignore[no-untyped-def]
    """Change the foreground in `dark` where most in the square around a pixel is otherwise; `filled` holds for all.

    `columns` (2, >= CHUNK + 10) and `counts` (2, >= CHUNK) are uint16.
    """
    h, w = mask.shape
    half, sources = _SIDE // 2, (other, mask)
    for left in range(0, w, CHUNK):
        right = min(left + CHUNK, w)
        first, last = max(left - half, 0), min(right + half, w)
        begin, end = half + first - left, half + last - left
        low, high = 0, -_SIDE  # rows in the sums; none yet
        for i in range(h):
            target, flags = dark[i, left:right], mask[i, left:right]
            if not is_filled(filled, i * w + left, i * w + right) or not any_set(flags):
                continue
            if high < i - half:
                columns[:, : CHUNK + 2 * half] = 0
                low, high = max(i - half, 0), max(i - half, 0) - 1
            least, most = max(i - half, 0), min(i + half, h - 1)
            for k in range(2):
                sums = columns[k, begin:end]
                for row in range(high + 1, most + 1):
                    add_flags(sources[k][row, first:last], 1, sums)
                for row in range(low, least):
                    add_flags(sources[k][row, first:last], -1, sums)
                sum_windows(columns[k, : right - left + 2 * half], _SIDE, counts[k, : right - left])
            low, high = least, most
            o, f = counts[0, : right - left], counts[1, : right - left]
            for j in range(target.size):
                against = o[j] if target[j] != 0 else f[j] - o[j]
                target[j] = flags[j] & ((target[j] != 0) ^ (against > _OUTVOTED * f[j]))


@part
def see_outline(x, l, mask, p, w, channels, black, counts):  # type: ignore[no-untyped-def]
    """Count a foreground pixel `_DEPTH` pixels inside of the background, (8, 2): lit and total ones of each side."""
    # the first pixels are mixed with the background
    pixel = np.uint64(p)
    for side in range(len(STEPS)):
        step = STEPS[side][0] * w + STEPS[side][1]
        if mask[np.uint64(p + _DEPTH * step)] == 0 and mask[np.uint64(p + (_DEPTH - 1) * step)] != 0:
            lit = brightness(x, pixel, channels, black) >= _LIT * brightness(l, pixel, channels, black)
            counts[side, 0] += lit
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
