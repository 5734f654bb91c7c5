"""How a scene casts its shadows: their side and tint, learned from the foreground; very dark ones from that side."""

import numpy as np

from bgsub.numerics.jit import kernel, part
from bgsub.scene._frame_kernels import CHUNK, is_filled
from bgsub.scene._shadow_kernels import (
    DARKEST,
    FAINTEST,
    MOST_VOTES,
    UNEVEN,
    VOTE_MEMORY,
    brightness,
    is_alike,
    sums_around,
)
from bgsub.tracking._kernels import any_set

_ZERO = np.float32(0)
_RISE, _FALL = np.float32(0.003), np.float32(0.05)  # of the factor in `walk_in`: most by noise, least in penumbra
_BLACK_OFFSET = np.float32(0.01)  # added to a background that may be black, as share of full scale
_ROW_STEP = 4  # every fourth row is used to learn outline and tint
_DEPTH = 4  # pixels inside of the border of an object at which its outline is measured
_LIT = np.float32(0.6)  # least factor of a lit pixel of the outline
_OUTLINE_MEMORY, _MOST_FORGOTTEN = 1500.0, 0.9  # outline remembered, in frame sides; most forgotten in a frame, share
_RARELY_LIT = 0.5  # lit share of a side, relative to that of all, below which it is the unlit side
STEPS = ((0, 1), (1, 1), (1, 0), (1, -1), (0, -1), (-1, -1), (-1, 0), (-1, 1))  # sides: right, clockwise
_LARGE = 0.15  # share of foreground above which nothing votes for the tint: dark foreground may be no shadow
_NEARLY_LIT = np.float32(0.85)  # factor from which the tint is lost in noise
_LEAST_CHANNEL = np.float32(0.1)  # least value of all channels of a background that shows a tint, share of full scale
_BIN, _NO_VOTES = 0.1, 0.01  # step of the tints in `votes`; votes for no tint, in frames
_LEAST_CERTAINTY, _TINT_SLOPE = 0.015, 20.0  # see `find_tint`: from which a tint is taken, and its size per unit above


@kernel
def learn_shadows(x, l, limits, mask, filled, learns, outline, new_outline, votes, new_votes, tint):  # type: ignore[no-untyped-def]
    """Learn side and tint of the shadows from some rows; return the unlit side (index of `STEPS`), or -1.  O(c q).

    `outline` (8, 2) float64, changed if `learns`: lit and total outline of each side, in frame sides. `votes` (2, bins,
    bins), changed if `learns`: of foreground that varies as its background, and of all, in frames; rows and columns are
    the first and the last channel of the tint minus the second one, in steps of `_BIN`. `new_outline`, `new_votes`: the
    same of this frame, work. `tint` (c,) float32, see `shade`, is replaced.
    """
    h, w, channels = x.shape[0], x.shape[1], len(limits.lanes)
    colours, others, flat = x.reshape(-1), l.reshape(-1), mask.reshape(-1)
    levels = limits.black, _LEAST_CHANNEL / limits.scale, 9 * (3 * UNEVEN / limits.scale) ** 2
    foreground, count = 0, 0
    new_outline[:], new_votes[:] = 0.0, 0.0
    for i in range(_ROW_STEP, h - 1 if learns else 0, _ROW_STEP):
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
                    count += vote(colours, others, flat, np.uint64(p), np.uint64(w), np.uint64(3), levels, new_votes)
                if i < h - _DEPTH and i * w + _DEPTH <= p < (i + 1) * w - _DEPTH:
                    count_outline(colours, others, flat, p, w, channels, limits.black, new_outline)
    if learns:
        learn_outline(new_outline, _ROW_STEP / np.sqrt(mask.size), outline)
    if count > 0 and _ROW_STEP * foreground <= _LARGE * mask.size:
        learn_votes(new_votes, count, min(_ROW_STEP * count / mask.size, MOST_VOTES), votes)
    find_tint(votes, tint)
    return never_lit(outline)


@part
def count_outline(x, l, mask, p, w, channels, black, counts):  # type: ignore[no-untyped-def]
    """Count a foreground pixel for each side with background `_DEPTH` pixels away: lit and total, `counts` (8, 2)."""
    # pixels nearer to the border are mixed with the background
    pixel = np.uint64(p)
    for side in range(len(STEPS)):
        step = STEPS[side][0] * w + STEPS[side][1]
        if mask[np.uint64(p + _DEPTH * step)] == 0 and mask[np.uint64(p + (_DEPTH - 1) * step)] != 0:
            lit = brightness(x, pixel, channels, black) >= _LIT * brightness(l, pixel, channels, black)
            counts[side, 0] += lit
            counts[side, 1] += 1


@part
def learn_outline(seen, unit, outline):  # type: ignore[no-untyped-def]
    """Add the outline of a frame, `seen` (8, 2) in units of `unit` frame sides, to the remembered one."""
    keep = 1 - min(unit * seen[:, 1].sum() / _OUTLINE_MEMORY, _MOST_FORGOTTEN)
    for side in range(len(seen)):
        for i in range(2):
            outline[side, i] = keep * outline[side, i] + unit * seen[side, i]


@part
def never_lit(outline):  # type: ignore[no-untyped-def]
    """Return the side whose outline is rarely lit, given lit and total outline, (8, 2); -1 if there is none."""
    side, lit, total = 0, 0.0, 0.0
    for i in range(len(outline)):
        side = i if outline[i, 0] * outline[side, 1] < outline[side, 0] * outline[i, 1] else side
        lit += outline[i, 0]
        total += outline[i, 1]
    return side if outline[side, 0] * total < _RARELY_LIT * lit * outline[side, 1] else -1


@part
def vote(x, l, mask, pixel, w, channels, levels, votes):  # type: ignore[no-untyped-def]
    """Add the vote of a pixel inside the frame for a tint; return whether it has one: no black or even background."""
    black, blackest, uneven = levels
    first = pixel * channels
    xl, ll, least = _ZERO, _ZERO, blackest
    for c in range(channels):
        q = np.float32(l[first + c]) - black
        xl += (np.float32(x[first + c]) - black) * q
        ll += q * q
        least = min(least, q)
    if least < blackest or not DARKEST * ll < xl < _NEARLY_LIT * ll:
        return False
    sums = sums_around(x, l, mask, pixel, w, channels, black)
    inside, _, sl, _, sll, _ = sums
    if not inside or sll - sl * sl / 9 < uneven:
        return False
    g, bins, row = xl / ll, votes.shape[1], w * channels
    unit, middle = np.float32(_BIN) * g * (1 - g), ratio(x, l, first + np.uint64(1), row, channels, black)
    i = bins // 2 + np.int64(np.rint((ratio(x, l, first, row, channels, black) - middle) / unit))
    j = bins // 2 + np.int64(np.rint((ratio(x, l, first + np.uint64(2), row, channels, black) - middle) / unit))
    if 0 <= i < bins and 0 <= j < bins:
        votes[0, i, j] += is_alike(sums, uneven)
        votes[1, i, j] += 1
    return True


@part
def ratio(x, l, value, row, channels, black):  # type: ignore[no-untyped-def]
    """Return the sum of a channel over 3x3 pixels relative to that of the background; `value`: its middle entry."""
    p = q = np.float32(-9) * black
    k = value - row - channels
    for _ in range(3):
        for _ in range(3):
            p += np.float32(x[k])
            q += np.float32(l[k])
            k += channels
        k += row - np.uint64(3) * channels
    return p / q


@part
def learn_votes(new, count, share, votes):  # type: ignore[no-untyped-def]
    """Add the `count` new votes, which are a `share` of a frame, to the remembered ones."""
    for k in range(2):
        for i in range(votes.shape[1]):
            for j in range(votes.shape[1]):
                votes[k, i, j] += share * (new[k, i, j] / count - votes[k, i, j] / VOTE_MEMORY)


@part
def find_tint(votes, tint):  # type: ignore[no-untyped-def]
    """Write the tint with most votes, (c,), the smaller the less `certain` it is that these are shadows."""
    tint[:] = _ZERO
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
    certain = (best / total) ** 2 * best / seen  # share of all votes, squared; share of the foreground of this tint
    factor = min(_TINT_SLOPE * max(certain - _LEAST_CERTAINTY, 0.0) / (size + 1e-9), 1.0) / 3
    tint[0], tint[1], tint[2] = factor * (2 * first - last), factor * (-first - last), factor * (2 * last - first)


@kernel
def walk_in(lanes, dy, dx, x, l, scale, black, mask, cast, darkest):  # type: ignore[no-untyped-def]
    """Find cast shadows from the unlit side (dy, dx) inwards: they get darker up to the umbra, objects are lighter."""
    # a pixel continues the shadow of its neighbour towards that side if its factor exceeds the least one on the way,
    # `darkest`, by at most `_RISE`; in the penumbra (above `DARKEST`), if it falls by more than `_FALL`
    h, w, channels = x.shape[0], x.shape[1], len(lanes)
    colours, others = x.reshape(-1), l.reshape(-1)
    unit = _BLACK_OFFSET / scale
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
                cast[i, j] = level < FAINTEST
                darkest[i, j] = level
            else:
                before = darkest[i + dy, j + dx]
                cast[i, j] = level <= before + _RISE if level <= DARKEST else level < before - _FALL
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
