"""From candidates to a mask: matching candidates, majority, shadows and small regions.

The work is in proportion to what is filled: `filled` (chunks,) uint8 is 0 where a chunk of `CHUNK` pixels is empty.
Where a loop over a chunk has a constant length, its code is several times faster.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bgsub.numerics.jit import kernel, part
from bgsub.scene._frame_kernels import CHUNK, clear, distance, is_filled, places_of, squared, sum_windows
from bgsub.tracking._kernels import any_set

_ZERO, _FULL = np.float32(0), np.float32(255)
_TINY = np.float32(1e-4)
_UNIT = np.float32(127)  # sample value of full scale
TILE = 8  # pixels, side of the squares in which candidates are counted: eight flags are a word
_BYTES = np.uint64(0x0101010101010101)  # a word times this has the sum of its bytes in the highest byte
_BELIEF = np.float32(0.5)  # share above which candidates that match a colour nearby are cleared
_DENSE = TILE * TILE // 5  # candidates of a tile that belongs to a region
_MOVING = np.float32(0.6)  # share of matching candidates above which a region is moving background
_SOLID = 0.3  # share of a region below which a hole in it is filled
_FILLED, _SHADED = 2, 4  # flags of such a hole, and of a region with shadow
_RARELY = np.uint64(4)  # visits of a solid pixel per stored sample

# Smallest and largest factor; joint distance from the background times the factor; RMS error of the texture.
_COLOURED = np.float32(0.35), np.float32(0.97), np.float32(0.02), np.float32(0.04)
_GREY = np.float32(0.5), np.float32(0.97), np.float32(0.02), np.float32(0.01)
_WEAK = np.float32(0.83), np.float32(1.15), np.float32(0.5)  # smallest, largest factor; error, in thresholds
_SQUARE = 4  # pixels, side of a solid square
_SIDE = 11  # pixels, side of the vote
_OBJECT = np.float32(0.6)  # share of object nearby above which a dark pixel is object
_SPREAD = np.float32(0.03)  # largest difference of the channels of a grey pixel, after video coding
_STRAY, _SAMPLED = 0.01, 1000  # coloured share of a grey image; sampled pixels
_RISE, _FALL = np.float32(0.003), np.float32(0.05)  # tolerance of the factor on the way in: noise and penumbra
_BLACK = np.float32(0.01)  # share of full scale added to a background that may be black
_EVERY = 4  # rows per row of the outline
_DEPTH = 4  # depth of the outline in pixels
_LIT = np.float32(0.6)  # factor of lit outline
_MEMORY, _MOST = 1500.0, 0.9  # largest outline kept, in frame sides; largest share forgotten in one frame
_NEVER = 0.65  # relative lit share below which a side is never lit
STEPS = ((0, 1), (1, 1), (1, 0), (1, -1), (0, -1), (-1, -1), (-1, 0), (-1, 1))  # sides: right, clockwise


class MatchLimits(NamedTuple):
    """Limits of a match."""

    sigma: np.ndarray  # (h, w) float32, noise scale
    scale: np.float32  # factor of frame and background to the unit range
    threshold: np.float32  # largest joint distance of a match
    factor: np.float32  # a pixel is restless if ``factor * sigma`` exceeds the threshold
    lanes: tuple[int, ...]  # see `bgsub.scene.frame_format.lanes_of`


class Samples(NamedTuple):
    """Deviations from the background that were seen before, and the share of candidates that match."""

    samples: np.ndarray  # (h * w, c, q) int8, 127 is full scale
    shares: np.ndarray  # (h, w) uint8, running share of matching candidates, 255 for all
    radius: int  # of the neighbourhood whose colours match; 0: nothing matches
    rate: np.float32  # weight of a new candidate in its share
    belief: np.float32  # share above which candidates that match a sample are cleared


# -- candidates that match -------------------------------------------------------------------------------------------


@kernel
def find_matching(begin, end, x, l, limits, memory, over, filled, places, far):  # type: ignore[no-untyped-def]
    """Write 2 or 3 at matching candidates among the pixels `begin` to `end` of `over`, (h, w): 2 if most there match.

    A candidate matches a background colour within the radius or, at a restless pixel, a sample of its deviation.
    O((radius^2 + q) c candidates). `places` (CHUNK,) uint64 and `far` (CHUNK * c,) uint8 are work.
    """
    h, w, channels = l.shape[0], l.shape[1], len(limits.lanes)
    colours, others, remembered = x.reshape(-1), l.reshape(-1), memory.samples.reshape(-1)
    shares, flags, sigma = memory.shares.reshape(-1), over.reshape(-1), limits.sigma.reshape(-1)
    largest = limits.threshold / limits.scale
    limit = largest * largest
    reach = np.int32(limits.threshold * limits.threshold * _UNIT * _UNIT)
    unit = limits.scale * _UNIT
    for q in range(begin // CHUNK, (end - 1) // CHUNK + 1):
        if filled[q] == 0:
            continue
        a, b = q * CHUNK, min((q + 1) * CHUNK, end)
        is_inner = memory.radius == 1 and a > w and a + CHUNK + w < flags.size
        if is_inner:
            find_far(colours, others, a, w, channels, x.dtype.type(largest), far)
        for n in range(places_of(flags, a, b, places)):
            pixel, found = places[n], False  # unsigned indices need no test for negative ones
            if not is_inner or is_near(far, (pixel - np.uint64(a)) * np.uint64(channels), channels):
                i, j = np.int64(pixel) // w, np.int64(pixel) % w
                if memory.radius == 1 and 0 < i < h - 1 and 0 < j < w - 1:
                    found = matches_around(colours, others, pixel, np.uint64(w), channels, limit)
                else:
                    found = nearest_nearby(x, l, i, j, memory.radius, channels) < limit
            belief = _BELIEF if found else memory.belief
            if not found and limits.factor * sigma[pixel] > limits.threshold:
                found = matches_sample(
                    colours, others, pixel, channels, unit, remembered, memory.samples.shape[2], reach
                )
            share = np.float32(shares[pixel])
            share += memory.rate * ((_FULL if found else _ZERO) - share)
            shares[pixel] = share + np.float32(0.5)
            flags[pixel] = (2 if share > belief * _FULL else 3) if found else 1


@part
def find_far(x, l, a, w, channels, limit, far):  # type: ignore[no-untyped-def]
    """Write which values of the chunk from pixel `a` on differ by more than `limit` from the range of `l` around."""
    # most candidates match none of the nine pixels, which this finds without branches
    own = x.dtype.type
    x, here = x[a * channels :], l[(a - 1) * channels :]
    above, below = l[(a - w - 1) * channels :], l[(a + w - 1) * channels :]
    for j in range(CHUNK * channels):
        m, r = j + channels, j + 2 * channels
        least = min(above[j], above[m], above[r], here[j], here[m], here[r], below[j], below[m], below[r])
        most = max(above[j], above[m], above[r], here[j], here[m], here[r], below[j], below[m], below[r])
        far[j] = max(own(max(x[j], most) - most), own(least - min(x[j], least))) > limit


@part
def is_near(far, first, channels):  # type: ignore[no-untyped-def]
    """Return whether no value of a pixel is far."""
    flags = far[first]
    for c in range(1, channels):
        flags |= far[first + np.uint64(c)]
    return flags == 0


@kernel
def clear_matching(over, filled, reach, share, counts, regions, keep):  # type: ignore[no-untyped-def]
    """Clear matching candidates in `over`, (h, w), see `find_matching`, and regions of which most candidates match.

    A 2 is kept where most candidates around are 1 or 3 and fill a `share`, in a square of `reach` tiles to each side.
    Regions are connected tiles with many candidates. `counts` (3, rows + 1, columns + 1), `regions` (3, rows * columns)
    int32 and `keep` (w,) uint8 are work.
    """
    h, w = over.shape
    rows, columns = counts.shape[1] - 1, counts.shape[2] - 1
    sum_tiles(over, filled, counts)
    join_tiles(counts, regions)
    for r in range(rows):
        if is_empty(counts, r):
            continue
        top, bottom = max(r - reach, 0), min(r + reach + 1, rows)
        for t in range(columns):
            left, right = max(t - reach, 0), min(t + reach + 1, columns)
            one = window(counts[0], top, bottom, left, right)
            area = (min(bottom * TILE, h) - top * TILE) * (min(right * TILE, w) - left * TILE)
            most = max(window(counts[1], top, bottom, left, right), share * area)
            bits, i = 3 if one >= most else 1, root_of(regions[0], r * columns + t)
            keep[t * TILE : min((t + 1) * TILE, w)] = 0 if regions[2, i] > _MOVING * regions[1, i] else bits
        for i in range(r * TILE, min((r + 1) * TILE, h)):
            flags = over[i]
            if is_filled(filled, i * w, (i + 1) * w):
                for j in range(w):
                    flags[j] &= keep[j]


@part
def sum_tiles(over, filled, counts):  # type: ignore[no-untyped-def]
    """Write how many of `over` are 1 or 3, how many 2, and 3, in all tiles above and to the left into `counts`."""
    h, w = over.shape
    for i in range(h):
        r = i // TILE + 1
        if i % TILE == 0:
            counts[:, r] = 0
        if not is_filled(filled, i * w, (i + 1) * w):
            continue
        words = over[i, : w // TILE * TILE].view(np.uint64)  # one per tile
        for t in range(words.size):
            word = words[t]
            if word != 0:
                one, two = word & _BYTES, word >> np.uint64(1) & _BYTES
                counts[0, r, t + 1] += np.int32(one * _BYTES >> np.uint64(56))
                counts[1, r, t + 1] += np.int32((two & ~one) * _BYTES >> np.uint64(56))
                counts[2, r, t + 1] += np.int32((two & one) * _BYTES >> np.uint64(56))
        for j in range(w // TILE * TILE, w):
            counts[0, r, w // TILE + 1] += over[i, j] & 1
            counts[1, r, w // TILE + 1] += over[i, j] == 2
            counts[2, r, w // TILE + 1] += over[i, j] == 3
    for r in range(1, counts.shape[1]):
        for t in range(1, counts.shape[2]):
            for n in range(3):
                counts[n, r, t] += counts[n, r - 1, t] + counts[n, r, t - 1] - counts[n, r - 1, t - 1]


@part
def is_empty(counts, r):  # type: ignore[no-untyped-def]
    """Return whether a row of tiles has no candidates."""
    w = counts.shape[2] - 1
    return counts[0, r + 1, w] == counts[0, r, w] and counts[1, r + 1, w] == counts[1, r, w]


@part
def join_tiles(counts, regions):  # type: ignore[no-untyped-def]
    """Join the tiles with many candidates to regions; write parents, and the candidates and matches of their roots."""
    # `regions` (3, tiles); tiles with few candidates have none
    rows, columns = counts.shape[1] - 1, counts.shape[2] - 1
    parents, totals, matches = regions[0], regions[1], regions[2]
    for r in range(rows):
        if is_empty(counts, r):
            totals[r * columns : (r + 1) * columns] = 0
            continue
        for t in range(columns):
            i = r * columns + t
            two, three = window(counts[1], r, r + 1, t, t + 1), window(counts[2], r, r + 1, t, t + 1)
            parents[i], totals[i], matches[i] = i, window(counts[0], r, r + 1, t, t + 1) + two, two + three
            if totals[i] < _DENSE:
                totals[i], matches[i] = 0, 0
                continue
            for n in range(4):  # left, and the three above
                row, column = r - (n > 0), t - 1 + max(n - 1, 0)
                if row < 0 or not 0 <= column < columns or totals[row * columns + column] == 0:
                    continue
                a, b = root_of(parents, i), root_of(parents, row * columns + column)
                low, high = min(a, b), max(a, b)
                if low < high:
                    parents[high] = low
                    totals[low] += totals[high]
                    matches[low] += matches[high]


@part
def root_of(parents, run):  # type: ignore[no-untyped-def]
    """Return the root of a run or tile in the forest of regions, and shorten the way to it."""
    while parents[run] != run:
        parents[run] = parents[parents[run]]
        run = parents[run]
    return run


@part
def window(sums, top, bottom, left, right):  # type: ignore[no-untyped-def]
    """Return the sum of a window by a table of sums, (rows + 1, columns + 1)."""
    return sums[bottom, right] - sums[top, right] - sums[bottom, left] + sums[top, left]


@part
def matches_around(colours, others, pixel, w, channels, limit):  # type: ignore[no-untyped-def]
    """Return whether an inner pixel is nearer than `limit` to one of the 8 pixels around it in `others`."""
    here, step = np.uint64(channels) * pixel, np.uint64(channels)
    for row in range(3):
        there = step * (pixel + w * np.uint64(row) - w - np.uint64(1))
        for _ in range(3):
            first = squared(colours[here], others[there])  # most differ in one channel already
            if first < limit and distance(colours, others, here, there, channels) < limit:
                return True
            there += step
    return False


@part
def nearest_nearby(x, l, i, j, radius, channels):  # type: ignore[no-untyped-def]
    """Return the least squared distance of ``x[i, j]`` from the pixels of `l` within `radius`; both (h, w, c)."""
    h, w = l.shape[0], l.shape[1]
    nearest = np.float32(np.inf)
    for row in range(max(i - radius, 0), min(i + radius + 1, h)):
        for column in range(max(j - radius, 0), min(j + radius + 1, w)):
            total = _ZERO
            for c in range(channels):
                s = np.float32(x[i, j, c]) - np.float32(l[row, column, c])
                total += s * s
            nearest = min(nearest, total)
    return nearest


@part
def matches_sample(x, l, pixel, channels, unit, samples, count, reach):  # type: ignore[no-untyped-def]
    """Return whether ``unit * (x - l)`` at a pixel is nearer than `reach` to one of its `count` samples."""
    nearest = reach
    first = pixel * np.uint64(channels)
    for q in range(count):
        total = np.int32(0)
        for c in range(channels):
            k = first + np.uint64(c)
            s = deviation(x[k], l[k], unit) - np.int32(samples[k * np.uint64(count) + np.uint64(q)])
            total += s * s
        nearest = min(nearest, total)
    return nearest < reach


@part
def deviation(x, l, unit):  # type: ignore[no-untyped-def]
    """Return ``unit * (x - l)``, rounded and clipped to the range of a sample."""
    d = min(max((np.float32(x) - np.float32(l)) * unit, -_UNIT), _UNIT)
    return np.int32(np.rint(d))


@kernel
def remember(frame, every, x, l, limits, solid, age, samples):  # type: ignore[no-untyped-def]
    """Write the deviation of restless pixels into one of their samples, every second time also to a neighbour.

    Each chunk of pixels does so in a random one of `every` frames.
    """
    # at solid pixels only every fourth visit counts, and none where the age exceeds 1: an object stands there
    h, w, channels = x.shape[0], x.shape[1], len(limits.lanes)
    count = np.uint64(samples.shape[2])
    unit, sigma = limits.scale * _UNIT, limits.sigma.reshape(-1)
    turn, slot = np.uint64(frame // every), np.uint64(frame % every)
    for a in range(0, sigma.size, CHUNK):
        b = min(a + CHUNK, sigma.size)
        if scrambled(turn, np.uint64(a)) % np.uint64(every) != slot:
            continue
        if not any_above(sigma[a:b], limits.factor, limits.threshold):
            continue
        for p in range(a, b):
            if limits.factor * sigma[p] <= limits.threshold:
                continue
            i, j = p // w, p % w
            bits = scrambled(np.uint64(frame), np.uint64(p))
            if solid[i, j] != 0 and (age[i, j] > 1 or bits % _RARELY != 0):
                continue
            place = np.int64((bits >> np.uint64(8)) % count)
            for c in range(channels):
                samples[p, c, place] = deviation(x[i, j, c], l[i, j, c], unit)
            if (bits >> np.uint64(4)) % np.uint64(2) == 0:
                continue
            k = np.int64((bits >> np.uint64(16)) % np.uint64(9))
            u, v = min(max(i + k // 3 - 1, 0), h - 1), min(max(j + k % 3 - 1, 0), w - 1)
            place = np.int64((bits >> np.uint64(24)) % count)
            for c in range(channels):
                samples[u * w + v, c, place] = deviation(x[i, j, c], l[u, v, c], unit)


@part
def any_above(values, factor, limit):  # type: ignore[no-untyped-def]
    """Return whether any of the values, (n,) float32, times the factor exceeds the limit."""
    largest = _ZERO
    for i in range(values.size):
        largest = max(largest, factor * values[i])
    return largest > limit


@part
def scrambled(frame, pixel):  # type: ignore[no-untyped-def]
    """Return 64 pseudo-random bits from two uint64 numbers (SplitMix64, G. Steele et al., 2014)."""
    z = frame * np.uint64(0x9E3779B97F4A7C15) + pixel * np.uint64(0xD1B54A32D192ED03)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


# -- noise -----------------------------------------------------------------------------------------------------------


@kernel
def find_solid(strong, filled, work, solid):  # type: ignore[no-untyped-def]
    """Write the squares of 4 x 4 strong residuals, grown by two pixels, into `solid`; all (h, w) uint8 of 0 and 1."""
    # noise rarely fills such squares, and the edges of objects are not noise; `work` (2, w + 10) uint8
    h, w = strong.shape
    solid[:] = 0
    if w < _SQUARE:
        return
    n = w - _SQUARE + 1
    squares, spread = work[0, :w], work[1, : w + 10]  # with a margin of 5 on both sides
    rows = 0  # successive ones that are not empty
    for i in range(h):
        rows = rows + 1 if is_filled(filled, i * w, (i + 1) * w) else 0
        if rows < _SQUARE:
            continue
        a, b, c, d = strong[i - 3], strong[i - 2], strong[i - 1], strong[i]
        for j in range(w):
            squares[j] = a[j] & b[j] & c[j] & d[j]
        spread[:] = 0
        total = np.uint8(0)
        for j in range(n):
            spread[j + 5] = squares[j] & squares[j + 1] & squares[j + 2] & squares[j + 3]
        for j in range(n):
            total |= spread[j + 5]
        if total == 0:
            continue
        for j in range(w):
            near = spread[j] | spread[j + 1] | spread[j + 2] | spread[j + 3]
            squares[j] = near | spread[j + 4] | spread[j + 5] | spread[j + 6] | spread[j + 7]
        for row in range(max(i - 5, 0), min(i + 3, h)):
            target = solid[row]
            for j in range(w):
                target[j] |= squares[j]


# -- majority in a square --------------------------------------------------------------------------------------------


@kernel
def majority(flags, filled, side, columns, counts, out, out_filled):  # type: ignore[no-untyped-def]
    """Write 255 into `out` where most of the square around a pixel is set in `flags`, else 0; all (h, w) uint8.

    The border is repeated. `columns` (>= w + side,) and `counts` (>= w,) are uint16. `out_filled`, of `out`, is
    replaced.
    """
    h, w = flags.shape
    half, limit = side // 2, np.uint16(side * side // 2)
    clear(out.reshape(-1), out_filled)
    sums = columns[half : half + w]
    sums[:] = 0
    rows = 0  # of the window that are not empty
    for row in range(-half, half):
        rows += add_row(flags, filled, min(max(row, 0), h - 1), 1, sums)
    for i in range(h):
        rows += add_row(flags, filled, min(i + half, h - 1), 1, sums)
        if rows > 0:
            columns[:half] = sums[0]
            columns[half + w : 2 * half + w] = sums[w - 1]
            sum_windows(columns[: 2 * half + w], side, counts[:w])
            for j in range(w):
                out[i, j] = 255 if counts[j] > limit else 0
            out_filled[i * w // CHUNK : ((i + 1) * w - 1) // CHUNK + 1] = 1
        rows -= add_row(flags, filled, min(max(i - half, 0), h - 1), -1, sums)
    find_filled(out.reshape(-1), out_filled)


@part
def find_filled(flags, filled):  # type: ignore[no-untyped-def]
    """Set `filled` to 0 for the whole chunks of `flags`, (n,) uint8, that are empty."""
    size = CHUNK // 8
    words = flags[: flags.size // CHUNK * CHUNK].view(np.uint64)
    for q in range(words.size // size):
        if filled[q] != 0:
            word = words[size * q]
            for i in range(1, size):
                word |= words[size * q + i]
            filled[q] = 1 if word != 0 else 0


@part
def add_row(flags, filled, i, sign, sums):  # type: ignore[no-untyped-def]
    """Add `sign` to `sums`, (w,) uint16, where row i of `flags`, (h, w) uint8, is set; return whether it is filled."""
    if not is_filled(filled, i * sums.size, (i + 1) * sums.size):
        return 0
    add_flags(flags[i], sign, sums)
    return 1


@part
def add_flags(flags, sign, sums):  # type: ignore[no-untyped-def]
    """Add `sign` to `sums`, (n,) uint16, where `flags`, (n,) uint8, is set."""
    one, none = np.uint16(1), np.uint16(0)
    if sign > 0:
        for j in range(sums.size):
            sums[j] += one if flags[j] != 0 else none
    else:
        for j in range(sums.size):
            sums[j] -= one if flags[j] != 0 else none


# -- shadows ---------------------------------------------------------------------------------------------------------


@part
def has_colour(image, scale):  # type: ignore[no-untyped-def]
    """Return whether more than a few of some thousand pixels of an image, (h, w, c), are not grey."""
    h, w, channels = image.shape
    if channels < 3:
        return False
    step, least, count = max(h * w // _SAMPLED, 1), _SPREAD / scale, 0
    for i in range(0, h * w, step):
        pixel = image[i // w, i % w]
        one, two, three = np.float32(pixel[0]), np.float32(pixel[1]), np.float32(pixel[2])
        count += max(one, two, three) - min(one, two, three) > least
    return count > _STRAY * ((h * w - 1) // step + 1)


@part
def classify(x, l, limits, mask, filled, dark, other, shaded):  # type: ignore[no-untyped-def]
    """Classify the foreground as shaded background or not; return the number of shaded pixels.  O(c q).

    `x`, `l` (h, w, c); `mask`, `dark`, `other` (h, w) uint8. A pixel of other texture is in `other`, even if it is
    shaded. `shaded`, of `dark` and `other`, is replaced.
    """
    h, w, channels, scale = x.shape[0], x.shape[1], len(limits.lanes), limits.scale
    is_coloured = has_colour(l, scale)
    darkest, faintest, colour, texture = _COLOURED if is_coloured else _GREY
    lightest, error = _WEAK[1] if is_coloured else faintest, _WEAK[2] * limits.threshold / scale
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
        ranges = tiny, darkest, faintest, square, lightest, error * error
        if n == CHUNK:  # a constant number of pixels: faster code
            found = shade(colours, others, flat, a, CHUNK, channels, ranges, flat_dark, flat_other)
        else:
            found = shade(colours, others, flat, a, n, channels, ranges, flat_dark, flat_other)
        count += found
        if found > 0:
            for p in range(a, a + n):
                if flat_dark[p] != 0 and 0 < p // w < h - 1 and 0 < p % w < w - 1:
                    pixel = np.uint64(p)  # unsigned indices need no test for negative ones
                    differs = has_other_texture(colours, others, flat, pixel, np.uint64(w), channels, tiny, limit)
                    flat_other[p] = differs
    return count


@part
def shade(x, l, mask, a, n, channels, ranges, dark, other):  # type: ignore[no-untyped-def]
    """Write which of n pixels from `a` on are shaded, and which other foreground; return the number of the former.

    A shaded pixel is g times its background, `darkest` < g < `faintest`, up to an error `square`. Weak shadows,
    reflections and light from objects have colours of their own: where g is near 1 the error may be larger, `weak`.
    """
    tiny, darkest, faintest, square, lightest, weak = ranges
    x, l = x[a * channels :], l[a * channels :]
    flags, dark, other = mask[a:], dark[a:], other[a:]
    for i in range(n):
        xl, ll, xx = _ZERO, tiny, _ZERO
        for c in range(channels):
            p, q = np.float32(x[channels * i + c]), np.float32(l[channels * i + c])
            xl += p * q
            ll += q * q
            xx += p * p
        is_dark = (xl > darkest * ll) & (xl < faintest * ll) & ((xx - square) * ll < xl * xl)
        is_weak = (xl > _WEAK[0] * ll) & (xl < lightest * ll) & ((xx - weak) * ll < xl * xl)
        dark[i] = (flags[i] != 0) & (is_dark | is_weak)
        other[i] = (flags[i] != 0) & (not (is_dark | is_weak))
    count = 0
    for i in range(n):
        count += np.int64(dark[i])
    return count


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


@part
def clear_outvoted(mask, other, dark, filled, columns, counts):  # type: ignore[no-untyped-def]
    """Clear `dark` where most of the foreground in the square around a pixel is object; `filled` holds for all three.

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
            target = dark[i, left:right]
            if not is_filled(filled, i * w + left, i * w + right) or not any_set(target):
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
                target[j] = target[j] if o[j] <= _OBJECT * f[j] else 0


@part
def see_outline(lanes, x, l, mask, filled, counts):  # type: ignore[no-untyped-def]
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
                        is_lit = brightness(colours, pixel, channels) >= _LIT * brightness(others, pixel, channels)
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
def walk_in(lanes, dy, dx, x, l, scale, mask, cast, darkest):  # type: ignore[no-untyped-def]
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
            level = level_across(colours, others, i, j, h, w, channels, dx, -dy, unit)
            if begins:
                cast[i, j] = level < faintest
                darkest[i, j] = level
            else:
                before = darkest[i + dy, j + dx]
                cast[i, j] = level <= before + _RISE if level <= umbra else level < before - _FALL
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


# -- small regions ---------------------------------------------------------------------------------------------------


@part
def remove_small_regions(mask, dark, filled, area, runs, rows, steps):  # type: ignore[no-untyped-def]
    """Erase regions smaller than `area` pixels, 8-connected and with their holes, and fill small holes; 0 and 255.

    A hole is small if its area is below `area` or, without shadow in it (`dark`), below a share of the region around
    it. Runs of equal pixels are joined to regions. `runs` (4, h w + 1) int32: first column, parent, pixels of the
    region and flags (at its root; 1 if it touches the border); `rows` (h + 1,): first run of each row; `steps` (>= w, a
    multiple of 8) uint8.
    """
    h, w = mask.shape
    begins, parents, sizes, border = runs[0], runs[1], runs[2], runs[3]
    find_regions(mask, dark, filled, runs, rows, steps)
    for i in range(h):  # what is around a region is on the left of its first run
        for run in range(rows[i] + 1, rows[i + 1]):
            if parents[run] == run and mask[i, begins[run]] == 0 and border[run] & 1 == 0:
                share = 0.0 if border[run] & _SHADED else _SOLID * sizes[root_of(parents, run - 1)]
                border[run] = _FILLED if sizes[run] < max(area, share) else 0
    for i in range(h):
        for run in range(rows[i] + 1, rows[i + 1]):
            if parents[run] != run:
                continue
            around = root_of(parents, run - 1)
            if mask[i, begins[run]] == 0:
                sizes[around] += 0 if border[run] & 1 else sizes[run]  # a hole counts to its region
            elif border[around] == _FILLED:
                sizes[run] = area
    for i in range(h):
        for run in range(rows[i], rows[i + 1]):
            root = root_of(parents, run)
            first, last = begins[run], begins[run + 1] if run + 1 < rows[i + 1] else w
            if border[root] == _FILLED if mask[i, first] == 0 else sizes[root] < area:
                mask[i, first:last] = 255 if mask[i, first] == 0 else 0
                filled[(i * w + first) // CHUNK : (i * w + last - 1) // CHUNK + 1] = 1


@part
def find_regions(mask, dark, filled, runs, rows, steps):  # type: ignore[no-untyped-def]
    """Find the regions of foreground and background; arguments as in `remove_small_regions`."""
    h, w = mask.shape
    begins, parents, sizes, border = runs[0], runs[1], runs[2], runs[3]
    steps[0], steps[w:], words = 0, 0, steps.view(np.uint64)
    count = 0
    for i in range(h):
        rows[i] = count
        line = mask[i]
        begins[count] = 0
        count += 1
        if is_filled(filled, i * w, (i + 1) * w):
            for j in range(1, w):
                steps[j] = line[j] != line[j - 1]
            for k in range(words.size):
                if words[k] != 0:
                    for j in range(8 * k, 8 * k + 8):
                        begins[count] = j
                        count += 1 if steps[j] != 0 else 0
        for run in range(rows[i], count):
            last = begins[run + 1] if run + 1 < count else w
            parents[run], sizes[run] = run, last - begins[run]
            border[run] = i == 0 or i == h - 1 or run == rows[i] or run == count - 1
            if line[begins[run]] == 0 and any_set(dark[i, begins[run] : last]):
                border[run] |= _SHADED
        if i > 0:
            join_rows(mask[i - 1], line, i, count, runs, rows)
    rows[h] = count


@part
def join_rows(above, line, i, count, runs, rows):  # type: ignore[no-untyped-def]
    """Join the runs of row i to those of equal pixels above, foreground diagonally as well."""
    begins, parents, sizes, border = runs[0], runs[1], runs[2], runs[3]
    w = line.size
    upper = rows[i - 1]
    for run in range(rows[i], count):
        first, last = begins[run], begins[run + 1] if run + 1 < count else w
        reach = 1 if line[first] != 0 else 0
        while upper + 1 < rows[i] and begins[upper + 1] + reach <= first:
            upper += 1
        other = upper
        while other < rows[i] and begins[other] < last + reach:
            if above[begins[other]] == line[first]:
                a, b = root_of(parents, other), root_of(parents, run)
                if a != b:
                    low, high = min(a, b), max(a, b)
                    parents[high] = low
                    sizes[low] += sizes[high]
                    border[low] |= border[high]
            other += 1
        upper = max(other - 2, rows[i - 1])


# -- all of it -------------------------------------------------------------------------------------------------------


@kernel
def find_shadows(x, l, limits, mask, filled, learns, outline, seen, dark, other, shaded, columns, counts):  # type: ignore[no-untyped-def]
    """Find the shadows in the foreground, `dark`, see `classify`; return the side from which shadows come, or -1.

    `outline` (8, 2) float64: lit and total outline of each side, in frame sides, changed if `learns`; `seen` like it.
    """
    if learns:
        see_outline(limits.lanes, x, l, mask, filled, seen)
        learn_outline(seen, _EVERY / np.sqrt(mask.size), outline)
    if classify(x, l, limits, mask, filled, dark, other, shaded) > 0:
        clear_outvoted(mask, other, dark, shaded, columns, counts)
    return never_lit(outline)


@kernel
def finish(mask, filled, dark, label, area, runs, rows, steps):  # type: ignore[no-untyped-def]
    """Clear the shadows `dark` in a mask, (h, w) of 0 and 255, remove small regions, and write the label of shadows."""
    if label >= 0:
        paint(dark.reshape(-1), 0, mask.reshape(-1), filled)
    if area > 0:
        remove_small_regions(mask, dark, filled, area, runs, rows, steps)
    if label > 0:
        paint(dark.reshape(-1), label, mask.reshape(-1), filled)


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
def paint(where, value, image, filled):  # type: ignore[no-untyped-def]
    """Write `value` into the filled chunks of `image` where `where` is not zero; both (n,) uint8."""
    whole = image.size // CHUNK
    for q in range(whole):
        if filled[q] != 0:
            flags, pixels = where[q * CHUNK :], image[q * CHUNK :]
            for i in range(CHUNK):
                pixels[i] = value if flags[i] != 0 else pixels[i]
    for i in range(whole * CHUNK, image.size):
        image[i] = value if where[i] != 0 else image[i]
