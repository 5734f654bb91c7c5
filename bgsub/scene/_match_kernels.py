"""Clear candidates that match the background nearby or a sample of the memory; store samples."""

from typing import NamedTuple

import numpy as np

from bgsub.numerics.jit import kernel, part
from bgsub.scene._frame_kernels import CHUNK, distance, is_filled, squared

# In between, candidates (`over`) are 1 without a match, 2 with one where most candidates match, 3 with one elsewhere.
_ZERO, _FULL = np.float32(0), np.float32(255)
_UNIT = np.float32(127)  # sample value of full scale
TILE = 8  # pixels, side of the squares in which candidates are counted: eight flags are a word
_BYTES = np.uint64(0x0101010101010101)  # a word times this has the sum of its bytes in the highest byte
_NEARBY_SHARE = np.float32(0.5)  # limit of the share above which candidates that match a colour nearby are cleared
_CHANCE = np.float32(0.25)  # weight of a match in that share if the pixels beside do not match: it may be chance
_DENSE = TILE * TILE // 5  # least candidates of a tile that belongs to a region
_MOVING = np.float32(0.6)  # share of matching candidates above which a region is moving background
_RARELY = np.uint64(4)  # times that a solid pixel is due per stored sample


class MatchLimits(NamedTuple):
    """Limits of a match."""

    sigma: np.ndarray  # (h, w) float32, noise scale
    scale: np.float32  # factor of frame and background to the unit range
    threshold: np.float32  # largest joint distance of a match nearby; candidates exceed it
    restless: np.float32  # largest joint distance of a match with a sample, and ...
    factor: np.float32  # ... a pixel is restless (moving background) if ``factor * sigma`` exceeds it
    tolerance: np.float32  # factor of the limits of shadows in a dark scene
    is_coloured: bool  # whether the scene has colours
    black: np.float32  # value of black, in the unit of the pixels
    lanes: tuple[int, ...]  # one per channel, see `bgsub.numerics.jit.constant`


class Samples(NamedTuple):
    """Deviations from the background that were seen before, and the share of candidates that match."""

    samples: np.ndarray  # (h * w, c, q) int8, 127 is full scale
    shares: np.ndarray  # (h, w) uint8, running share of matching candidates, 255 for all
    radius: int  # pixels: of the neighbourhood whose background colours match
    rate: np.float32  # weight of a new candidate in its share, 0 if frozen
    least_share: np.float32  # share above which candidates that match a sample are cleared


@kernel
def find_matching(begin, end, x, l, limits, memory, over, filled, places, far):  # type: ignore[no-untyped-def]
    """Write 2 or 3 at the matching candidates among the pixels `begin` to `end` of `over`, (h, w): 2 where most match.

    A candidate matches a background colour within the radius or, at a restless pixel, a sample of its deviation. If the
    four pixels beside it do not match at the same shift, the match may be chance: it counts less in the share of
    matching candidates, and in a scene without colours it is no match. `places` (CHUNK,) uint64 and `far` (CHUNK * c,)
    uint8 are work. O((radius^2 + q) c candidates).
    """
    h, w, channels = l.shape[0], l.shape[1], len(limits.lanes)
    colours, others, remembered = x.reshape(-1), l.reshape(-1), memory.samples.reshape(-1)
    shares, flags, sigma = memory.shares.reshape(-1), over.reshape(-1), limits.sigma.reshape(-1)
    largest, least = limits.threshold / limits.scale, 1 if limits.is_coloured else 2
    limit = largest * largest
    reach = np.int32(limits.restless * limits.restless * _UNIT * _UNIT)
    unit = limits.scale * _UNIT
    for q in range(begin // CHUNK, (end - 1) // CHUNK + 1):
        if filled[q] == 0:
            continue
        a, b = q * CHUNK, min((q + 1) * CHUNK, end)
        is_inner = memory.radius == 1 and a > w and a + CHUNK + w < flags.size
        if is_inner:
            find_far(colours, others, a, w, channels, x.dtype.type(largest), far)
        for n in range(places_of(flags, a, b, places)):
            pixel, match = places[n], 0  # unsigned indices need no test for negative ones
            if not is_inner or is_near(far, (pixel - np.uint64(a)) * np.uint64(channels), channels):
                i, j = np.int64(pixel) // w, np.int64(pixel) % w
                if memory.radius == 1 and 2 <= i < h - 2 and 2 <= j < w - 2:
                    match = match_around(colours, others, pixel, np.uint64(w), channels, limit)
                elif is_around(x, l, i, j, memory.radius, channels, limit):
                    match = 2
            found = match >= least
            least_share, rate = _NEARBY_SHARE if found else memory.least_share, memory.rate
            if found and match == 1:
                rate *= _CHANCE
            if not found and limits.factor * sigma[pixel] > limits.restless:
                found = matches_sample(
                    colours, others, pixel, channels, unit, remembered, memory.samples.shape[2], reach
                )
            share = np.float32(shares[pixel])
            share += rate * ((_FULL if found else _ZERO) - share)
            shares[pixel] = share + np.float32(0.5)
            flags[pixel] = (2 if share > least_share * _FULL else 3) if found else 1


@part
def places_of(flags, begin, end, places):  # type: ignore[no-untyped-def]
    """Write the places of non-zero `flags` into `places`, without branches; return their number."""
    count = np.uint64(0)
    for place in range(begin, end):
        places[count] = place
        count += np.uint64(1) if flags[np.uint64(place)] != 0 else np.uint64(0)
    return count


@part
def find_far(x, l, a, w, channels, limit, far):  # type: ignore[no-untyped-def]
    """Set `far` where values of the chunk from pixel `a` on lie more than `limit` outside the range of `l` in 3x3."""
    # most candidates match none of the nine pixels; this excludes them without branches
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
    """Return whether no channel of a pixel is `far`."""
    flags = far[first]
    for c in range(1, channels):
        flags |= far[first + np.uint64(c)]
    return flags == 0


@kernel
def clear_matching(x, l, limits, over, filled, reach, share, counts, regions, keep):  # type: ignore[no-untyped-def]
    """Clear the matching candidates (2) in `over`, (h, w), and more in regions of which most match.

    A 2 stays where 1 and 3 are the majority of the candidates around and fill a `share`, in a square of `reach` tiles
    to each side. Regions are connected tiles with many candidates; if most of one match, 2 and 3 are cleared, and 1
    where the background has its colour in such a square. Work: `counts` (3, rows + 1, columns + 1), `regions` (3,
    tiles), `keep` (w,).
    """
    h, w = over.shape
    largest, radius = limits.threshold / limits.scale, reach * TILE
    rows, columns = counts.shape[1] - 1, counts.shape[2] - 1
    sum_tiles(over, filled, counts)
    join_tiles(counts, regions)
    for r in range(rows):
        if is_empty(counts, r):
            continue
        top, bottom, has_moving = max(r - reach, 0), min(r + reach + 1, rows), False
        for t in range(columns):
            left, right = max(t - reach, 0), min(t + reach + 1, columns)
            one = window(counts[0], top, bottom, left, right)
            area = (min(bottom * TILE, h) - top * TILE) * (min(right * TILE, w) - left * TILE)
            most = max(window(counts[1], top, bottom, left, right), share * area)
            bits, i = 3 if one >= most else 1, root_of(regions[0], r * columns + t)
            if regions[2, i] > _MOVING * regions[1, i]:
                bits, has_moving = 4, True
            keep[t * TILE : min((t + 1) * TILE, w)] = bits
        for i in range(r * TILE, min((r + 1) * TILE, h)):
            flags = over[i]
            if not is_filled(filled, i * w, (i + 1) * w):
                continue
            for j in range(w):
                flags[j] = (flags[j] | (flags[j] == 1) << 2) & keep[j]
            for j in range(w if has_moving else 0):
                if flags[j] == 4 and is_around(x, l, i, j, radius, len(limits.lanes), largest * largest):
                    flags[j] = 0


@part
def sum_tiles(over, filled, counts):  # type: ignore[no-untyped-def]
    """Write tables of sums (see `window`) into `counts`: how many of `over` are 1 or 3, are 2, are 3."""
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
    """Join the tiles with many candidates to `regions`, (3, tiles): parents, candidates and matches of the roots."""
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
    """Return the root of a run or tile in the forest of regions (union-find), and shorten the path to it."""
    while parents[run] != run:
        parents[run] = parents[parents[run]]
        run = parents[run]
    return run


@part
def window(sums, top, bottom, left, right):  # type: ignore[no-untyped-def]
    """Return the sum of a window by a table of sums, (rows + 1, columns + 1)."""
    return sums[bottom, right] - sums[top, right] - sums[bottom, left] + sums[top, left]


@part
def match_around(colours, others, pixel, w, channels, limit):  # type: ignore[no-untyped-def]
    """Return 2 if a pixel and those beside it match `others` at one of 9 shifts, 1 if only the pixel does, else 0."""
    here, step, match = np.uint64(channels) * pixel, np.uint64(channels), 0
    for row in range(3):
        there = step * (pixel + w * np.uint64(row) - w - np.uint64(1))
        for _ in range(3):
            first = squared(colours[here], others[there])  # most differ in one channel already
            if first < limit and distance(colours, others, here, there, channels) < limit:
                if matches_beside(colours, others, here, there, channels, step * w, limit):
                    return 2
                match = 1
            there += step
    return match


@part
def matches_beside(colours, others, here, there, channels, line, limit):  # type: ignore[no-untyped-def]
    """Return whether the four pixels beside two pixels are nearer than `limit` to each other."""
    step = np.uint64(channels)
    return (
        distance(colours, others, here - step, there - step, channels) < limit
        and distance(colours, others, here + step, there + step, channels) < limit
        and distance(colours, others, here - line, there - line, channels) < limit
        and distance(colours, others, here + line, there + line, channels) < limit
    )


@part
def is_around(x, l, i, j, radius, channels, limit):  # type: ignore[no-untyped-def]
    """Return whether a pixel of `l` within `radius` is nearer than `limit`, squared, to ``x[i, j]``; both (h, w, c).

    O(radius^2 c); from a radius of 16 on, not all pixels are compared.
    """
    h, w = l.shape[0], l.shape[1]
    step = max(radius // 8, 1)
    for row in range(max(i - radius, 0), min(i + radius + 1, h), step):
        for column in range(max(j - radius, 0), min(j + radius + 1, w), step):
            total = _ZERO
            for c in range(channels):
                s = np.float32(x[i, j, c]) - np.float32(l[row, column, c])
                total += s * s
            if total < limit:
                return True
    return False


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
def remember(frame, every, x, l, limits, solid, age, samples, used):  # type: ignore[no-untyped-def]
    """Write the deviation of restless pixels into one of their samples, every second time also to a neighbour.

    Each chunk of pixels does so in a random one of `every` frames. `used` (h * w,) uint8: 1 where there are samples.
    """
    # of a solid pixel a quarter of the samples is stored, and none if its age exceeds 1: an object stands there
    h, w, channels = x.shape[0], x.shape[1], len(limits.lanes)
    count = np.uint64(samples.shape[2])
    unit, sigma = limits.scale * _UNIT, limits.sigma.reshape(-1)
    turn, slot = np.uint64(frame // every), np.uint64(frame % every)
    for a in range(0, sigma.size, CHUNK):
        b = min(a + CHUNK, sigma.size)
        if random_bits(turn, np.uint64(a)) % np.uint64(every) != slot:
            continue
        largest = _ZERO
        for p in range(a, b):
            largest = max(largest, sigma[p])
        if limits.factor * largest <= limits.restless:
            continue
        for p in range(a, b):
            if limits.factor * sigma[p] <= limits.restless:
                continue
            i, j = p // w, p % w
            bits = random_bits(np.uint64(frame), np.uint64(p))
            if solid[i, j] != 0 and (age[i, j] > 1 or bits % _RARELY != 0):
                continue
            place = np.int64((bits >> np.uint64(8)) % count)
            for c in range(channels):
                samples[p, c, place] = deviation(x[i, j, c], l[i, j, c], unit)
            used[p] = 1
            if (bits >> np.uint64(4)) % np.uint64(2) == 0:
                continue
            k = np.int64((bits >> np.uint64(16)) % np.uint64(9))
            u, v = min(max(i + k // 3 - 1, 0), h - 1), min(max(j + k % 3 - 1, 0), w - 1)
            place = np.int64((bits >> np.uint64(24)) % count)
            for c in range(channels):
                samples[u * w + v, c, place] = deviation(x[i, j, c], l[u, v, c], unit)
            used[u * w + v] = 1


@part
def random_bits(frame, pixel):  # type: ignore[no-untyped-def]
    """Return 64 pseudo-random bits from two uint64 numbers (SplitMix64, G. Steele et al., 2014)."""
    z = frame * np.uint64(0x9E3779B97F4A7C15) + pixel * np.uint64(0xD1B54A32D192ED03)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
