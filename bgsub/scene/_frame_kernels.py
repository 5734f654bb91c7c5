"""Kernels of every frame: the pass over the model, candidates, the learning of pixels, and standing objects.

A visited block of the basis is read once and written once. Every inner loop runs over contiguous entries of separate
slices, float32 loops apart from byte loops, so that all of them vectorise. Where a loop over a chunk has a constant
length, its code is several times faster. Kernels on masks only visit the chunks that are `filled`.
"""

from typing import NamedTuple

import numpy as np
from numba import types
from numba.extending import overload

from bgsub.numerics.jit import FASTMATH, kernel, part
from bgsub.tracking._kernels import any_set, combine, dot, influence_and_value

_ZERO = np.float32(0)
_FOLLOWS = np.float32(0.1)  # share of the newest frame in the colour of a standing pixel
_RETURN, _MOST_RETURNS = np.uint8(10), np.uint8(160)  # added to `returns` by a return; largest value (`update_ages`)
RECURRING = 80  # `returns` from which a pixel is moving background, as fans: eight returns of its colour
CHUNK = 64  # pixels per test whether any is set; `filled` (chunks,) uint8 is 0 where a chunk of an image is empty
LIGHT = np.uint8(2)  # label of light among the shadows of a frame
LATE = 32768  # ages count frames up to here, then ticks of several frames, so that they fit into uint16


class Images(NamedTuple):
    """A frame and the maps of its comparison, flattened for the kernels: n pixels, m = n c values."""

    pixels: np.ndarray  # (m,), uint8 or float32, ``scale * pixels`` is in [0, 1]
    picture: np.ndarray  # (m,), type of the pixels, background
    sigma: np.ndarray  # (n,) float32, noise scale
    over: np.ndarray  # (n,) uint8, candidates
    strong: np.ndarray  # (n,) uint8, residuals above the threshold
    filled: np.ndarray  # (chunks,) uint8, 0 where both are 0 in a chunk of `CHUNK` pixels


class CompareParams(NamedTuple):
    """Units of a frame and limits of a candidate."""

    scale: np.float32  # factor to the unit range
    lanes: tuple[int, ...]  # one per channel, see `bgsub.numerics.jit.constant`
    full: np.float32  # full scale of the pixels, ``1 / scale``
    top: np.float32  # largest value of an integer type, 0 for floating point
    threshold: np.float32  # a pixel is a candidate if its joint residual exceeds ``hypot(threshold, factor * sigma)``
    factor: np.float32


class LearnParams(NamedTuple):
    """Rate and limits of the noise scale, a running mean of the residual of a pixel."""

    rate: np.float32  # weight of the newest residual
    clip: np.float32  # larger residuals count as this
    floor: np.float32  # least noise scale, avoids denormal numbers


def squared(x, y):  # type: ignore[no-untyped-def]
    """Return ``(x - y)^2`` as float32; compiled for uint8 as int32, which is several times faster."""
    d = np.float32(x) - np.float32(y)
    return d * d


@overload(squared, jit_options={"fastmath": FASTMATH, "error_model": "numpy", "forceinline": True})
def _squared_in_kernels(x, y):  # type: ignore[no-untyped-def]
    wide = np.int32 if x == types.uint8 and y == types.uint8 else np.float32

    def square(x, y):  # type: ignore[no-untyped-def]
        s = wide(x) - wide(y)
        return wide(s * s)

    return square


@part
def distance(x, l, i, j, channels):  # type: ignore[no-untyped-def]
    """Return the squared distance of the colours at the entries `i` of `x` and `j` of `l`; flat, uint64 indices."""
    total = squared(x[i], l[j])
    for c in range(1, channels):
        total += squared(x[i + np.uint64(c)], l[j + np.uint64(c)])
    return total


@part
def is_filled(filled, begin, end):  # type: ignore[no-untyped-def]
    """Return whether any chunk of the pixels `begin` to `end` is filled: `filled`, (chunks,) uint8, is not 0."""
    return any_set(filled[begin // CHUNK : (end - 1) // CHUNK + 1])


@part
def to_picture(l, full, top, out):  # type: ignore[no-untyped-def]
    """Write ``full * l`` into `out`, (m,); rounded and clipped to [0, top] if `top` is not 0 (integers)."""
    if top > 0:
        for i in range(out.size):
            out[i] = np.int32(min(max(l[i] * full, _ZERO), top) + np.float32(0.5))
    else:
        for i in range(out.size):
            out[i] = l[i] * full


@part
def sum_windows(columns, side, counts):  # type: ignore[no-untyped-def]
    """Write ``sum(columns[j : j + side])`` into ``counts[j]``; both of one type, uint16 or int16."""
    n = counts.size
    first = columns[:n]
    for j in range(n):
        counts[j] = first[j]
    for shift in range(1, side):
        part = columns[shift : shift + n]
        for j in range(n):
            counts[j] += part[j]


@part
def advance(stack, begin, g, e, c, l):  # type: ignore[no-untyped-def]
    """Add ``e g'`` to k rows of `stack` from `begin` on and write ``l = V c``, three rows at a time."""
    end = begin + e.size
    first = g.size % 3
    if first == 0:
        l[:] = _ZERO
    elif first == 1:
        u = stack[0, begin:end]
        for i in range(e.size):
            u[i] += g[0] * e[i]
            l[i] = c[0] * u[i]
    else:
        u, v = stack[0, begin:end], stack[1, begin:end]
        for i in range(e.size):
            a, b = u[i] + g[0] * e[i], v[i] + g[1] * e[i]
            u[i], v[i] = a, b
            l[i] = c[0] * a + c[1] * b
    for j in range(first, g.size, 3):
        u, v, s = stack[j, begin:end], stack[j + 1, begin:end], stack[j + 2, begin:end]
        for i in range(e.size):
            a, b, t = u[i] + g[j] * e[i], v[i] + g[j + 1] * e[i], s[i] + g[j + 2] * e[i]
            u[i], v[i], s[i] = a, b, t
            l[i] += c[j] * a + c[j + 1] * b + c[j + 2] * t


@part
def hide(hidden, channels, r):  # type: ignore[no-untyped-def]
    """Set the entries `r`, (n * channels,), of the pixels with non-zero `hidden`, (n,) uint16, to zero."""
    for first in range(0, hidden.size, CHUNK):
        last = min(first + CHUNK, hidden.size)
        if not any_set(hidden[first:last]):
            continue
        for i in range(first, last):
            if hidden[i] != 0:
                for c in range(channels):
                    r[i * channels + c] = _ZERO


def byte_difference(x, y):  # type: ignore[no-untyped-def]
    """Return ``|x - y|`` in the type of both; compiled for uint8 without wider numbers."""
    return abs(np.float32(x) - np.float32(y))


@overload(byte_difference, jit_options={"fastmath": FASTMATH, "error_model": "numpy", "forceinline": True})
def _difference_in_kernels(x, y):  # type: ignore[no-untyped-def]
    own = np.uint8 if x == types.uint8 and y == types.uint8 else np.float32

    def difference(x, y):  # type: ignore[no-untyped-def]
        return own(max(x, y) - min(x, y))

    return difference


@part
def compare_block(begin, end, images, params, calm):  # type: ignore[no-untyped-def]
    """Write which of the pixels are candidates (`over`) and strong residuals; return the number of candidates.

    Chunks in which no channel differs by more than `calm`, in the type of the pixels, have neither; see `calm_limit`.
    """
    count = 0
    for q in range(begin // CHUNK, (end - 1) // CHUNK + 1):
        a, b = max(q * CHUNK, begin), min(q * CHUNK + CHUNK, end)
        count += compare_chunk(a, b - a, images, params, calm)
    return count


@part
def compare_chunk(a, n, images, params, calm):  # type: ignore[no-untyped-def]
    """Do as `compare_block` for n pixels from `a` on, which lie in one chunk."""
    channels, q = len(params.lanes), a // CHUNK
    x, l = images.pixels[a * channels :], images.picture[a * channels :]
    over, strong, sigma = images.over[a:], images.strong[a:], images.sigma[a:]
    most = x.dtype.type(0)
    for i in range(n * channels):
        most = max(most, byte_difference(x[i], l[i]))
    if most <= calm:
        if images.filled[q] != 0:
            for i in range(n):
                over[i] = 0
                strong[i] = 0
            images.filled[q] = n < CHUNK  # the rest of the chunk belongs to another block
        return 0
    images.filled[q] = 1
    square = params.scale * params.scale
    least, factor = params.threshold * params.threshold / square, params.factor * params.factor / square
    count = 0
    for i in range(n):
        total = squared(x[channels * i], l[channels * i])
        for c in range(1, channels):
            total += squared(x[channels * i + c], l[channels * i + c])
        distance = np.float32(total)
        strong[i] = distance > least
        over[i] = distance > least + factor * sigma[i] * sigma[i]
    for i in range(n):
        count += np.int64(over[i])
    return count


@part
def calm_limit(params, pixels):  # type: ignore[no-untyped-def]
    """Return the largest difference of a channel, in the type of the pixels, that no strong residual has."""
    return pixels.dtype.type(params.threshold / params.scale / np.sqrt(np.float32(len(params.lanes))))


@kernel
def compare(begin, end, l, images, params):  # type: ignore[no-untyped-def]
    """Compare with `l`, (m,), which becomes the picture, or if empty with that; return the number of candidates."""
    channels = len(params.lanes)
    first, last = begin * channels, end * channels
    if l.size > 0:
        to_picture(l[first:last], params.full, params.top, images.picture[first:last])
    return compare_block(begin, end, images, params, calm_limit(params, images.pixels))


@kernel
def sweep(begin, end, visit, cost, images, hidden, everywhere, params, work, products):  # type: ignore[no-untyped-def]
    """Step the visited blocks of the basis and compare the pixels `begin` to `end` of a frame.  O(m k / period + m).

    `hidden` (n,) uint16: not 0 where a pixel is not observed, empty if all are; `everywhere`: compute the background
    of the other blocks, too. `work` (2, channels * pixels of a block) float32. `products` (blocks, k + 3) float64:
    inner products of e with the rows of V and with itself, the cost, the number of candidates.
    """
    # one row of products per block: their sums do not depend on the number of bands
    stack, c, channels = visit.stack, visit.c, len(params.lanes)
    k, pixels_per_block = c.size, work.shape[1] // channels
    calm = calm_limit(params, images.pixels)
    for a in range(begin, end, pixels_per_block):
        b = min(a + pixels_per_block, end)
        sums = products[a // pixels_per_block]
        sums[:] = 0.0
        first, last = a * channels, b * channels
        l, r = work[0, : last - first], work[1, : last - first]
        e = stack[k, first:last]
        is_visited = a // pixels_per_block % visit.period == visit.turn
        if is_visited:
            advance(stack, first, visit.G[visit.turn], e, c, l)
        elif everywhere:
            combine(stack, first, c, l)
        if is_visited or everywhere:
            to_picture(l, params.full, params.top, images.picture[first:last])
        sums[k + 2] = compare_block(a, b, images, params, calm)
        if not is_visited:
            continue
        x = images.pixels[first:last]
        for i in range(r.size):
            r[i] = np.float32(x[i]) * params.scale - l[i]
        if hidden.size > 0:
            hide(hidden[a:b], channels, r)
        sums[k + 1] = visit.period * influence_and_value(r, e, cost.kind, cost.mu, cost.p)
        sums[k] = multiply(e, np.float32(visit.period))
        project(stack, first, e, sums[:k])


@kernel
def learn_pixels(begin, end, block, period, turn, images, params, skip, learn, work):  # type: ignore[no-untyped-def]
    """Learn the noise scale in the blocks of number `turn`, except where `skip`, (n,) uint8, is 1.  O(m / period).

    `work` (>= block,) float32.
    """
    channels = len(params.lanes)
    for a in range(begin, end, block):
        if a // block % period != turn:
            continue
        b = min(a + block, end)
        x, l = images.pixels[a * channels : b * channels], images.picture[a * channels : b * channels]
        sigma, flags = images.sigma[a:b], skip[a:b]
        for i in range(sigma.size):  # the joint residual; two loops vectorise
            total = squared(x[channels * i], l[channels * i])
            for c in range(1, channels):
                total += squared(x[channels * i + c], l[channels * i + c])
            work[i] = params.scale * np.sqrt(np.float32(total))
        for i in range(sigma.size):
            rate = learn.rate if flags[i] == 0 else _ZERO
            sigma[i] = max(sigma[i] + rate * (min(work[i], learn.clip) - sigma[i]), learn.floor)


@part
def project(stack, begin, e, products):  # type: ignore[no-untyped-def]
    """Write the inner products of `e`, (n,), with rows of `stack` from `begin` on, three rows at a time."""
    end, first = begin + e.size, products.size % 3
    for j in range(first):
        products[j] = dot(stack[j, begin:end], e)
    for j in range(first, products.size, 3):
        u, v, s = stack[j, begin:end], stack[j + 1, begin:end], stack[j + 2, begin:end]
        a, b, t = _ZERO, _ZERO, _ZERO
        for i in range(e.size):
            a += u[i] * e[i]
            b += v[i] * e[i]
            t += s[i] * e[i]
        products[j], products[j + 1], products[j + 2] = a, b, t


@part
def multiply(e, factor):  # type: ignore[no-untyped-def]
    """Multiply `e`, (n,) float32, by a factor; return its inner product with itself."""
    total = _ZERO
    for i in range(e.size):
        e[i] *= factor
        total += e[i] * e[i]
    return total


@kernel
def update_ages(  # type: ignore[no-untyped-def]
    begin, end, lanes, x, mask, filled, strong, lit, tolerance, frames, ticks, half, anchor, age, aged, returns, states
):
    """Count the frames of one colour of each foreground or `lit` pixel; return the largest age of the band.

    `x` (h, w, c): frame; `anchor` (n, c): that colour, a running mean; the others (h, w). `age`, 0 elsewhere,
    grows by `frames`, from `LATE` on by `ticks`. `returns` uint8 grows by `_RETURN` when a pixel becomes `strong` in
    the colour of its anchor, and is odd from then until it is not strong and shows another colour. Colours are equal
    within `tolerance`; `half`: .5 rounds integers; `aged` (chunks,): 0 where a chunk has no age; `states`: work.
    """
    flags, colours, anchors, ages = mask.reshape(-1), x.reshape(-1), anchor.reshape(-1), age.reshape(-1)
    pixels = colours, flags, lit.reshape(-1), anchors, ages, states
    seen, often = strong.reshape(-1), returns.reshape(-1)
    oldest, steps, limit = 0, (np.int32(frames), np.int32(ticks)), tolerance * tolerance
    for q in range(begin // CHUNK, (end - 1) // CHUNK + 1):
        a, n = q * CHUNK, min(CHUNK, end - q * CHUNK)
        count_returns(a, n, len(lanes), limit, colours, anchors, seen[a:], often[a:], states)
        if filled[q] == 0:
            if aged[q] != 0:
                ages[a : a + n] = 0
                aged[q] = 0
            continue
        aged[q] = 1
        oldest = max(oldest, grow_chunk(a, n, lanes, limit, steps, half, pixels))
    return oldest


@part
def count_returns(a, n, channels, limit, x, anchor, strong, returns, states):  # type: ignore[no-untyped-def]
    """Update `returns` of n pixels from `a` on, see `update_ages`."""
    odd, any_new = np.uint8(1), np.uint8(0)
    for i in range(n):
        states[i] = (strong[i] ^ returns[i]) & odd  # 1: strong now and not before, or the reverse
        any_new |= states[i]
    for i in range(n if any_new else 0):
        if states[i] != 0:
            k = np.uint64(channels * (a + i))
            is_near = distance(x, anchor, k, k, channels) < limit
            if strong[i] != 0:
                returns[i] = min(returns[i] + (_RETURN if is_near else 0), _MOST_RETURNS) | odd
            elif not is_near:  # in the same colour, noise around the threshold made the residual weak
                returns[i] &= ~odd


@part
def grow_chunk(a, n, lanes, limit, steps, half, pixels):  # type: ignore[no-untyped-def]
    """Do as `update_ages` for n pixels from `a` on, which lie in one chunk."""
    # loops without branches that write one array each vectorise
    x, mask, lit, anchor, age, states = pixels
    channels, own = len(lanes), anchor.dtype.type
    colours, anchors, flags, lights, ages = x[a * channels :], anchor[a * channels :], mask[a:], lit[a:], age[a:]
    for i in range(n):
        total = _ZERO
        for c in range(channels):
            s = np.float32(colours[channels * i + c]) - np.float32(anchors[channels * i + c])
            total += s * s
        counts = (flags[i] == 255) | (lights[i] == LIGHT)
        states[i] = counts * (1 + (total < limit) * (ages[i] > 0))  # 1: new colour, 2: same, 0: no age
    for i in range(n):
        for c in range(channels):
            k = channels * i + c
            old = np.float32(anchors[k])
            moved = own(old + _FOLLOWS * (np.float32(colours[k]) - old) + half)
            anchors[k] = moved if states[i] == 2 else (colours[k] if states[i] == 1 else anchors[k])
    oldest = age.dtype.type(0)
    for i in range(n):
        grown = age.dtype.type(min(np.int32(ages[i]) + (steps[0] if ages[i] < LATE else steps[1]), np.int32(65535)))
        ages[i] = grown if states[i] == 2 else age.dtype.type(states[i])
        oldest = max(oldest, ages[i])
    return np.int64(oldest)


@kernel
def contrasts(x, picture, index):  # type: ignore[no-untyped-def]
    """Return the standard deviations of the brightness of `x`, (h w c,), and a picture, (h, w, c), at some pixels."""
    channels = picture.shape[2]
    return contrast(x, index, channels), contrast(picture.reshape(-1), index, channels)


@part
def contrast(pixels, index, channels):  # type: ignore[no-untyped-def]
    """Return the standard deviation of the brightness, the mean of the channels, at some pixels; `pixels` (h w c,)."""
    total, squares = 0.0, 0.0
    for k in range(index.size):
        brightness = 0.0
        for c in range(channels):
            brightness += float(pixels[index[k] * channels + c])
        total += brightness
        squares += brightness * brightness
    mean = total / index.size
    return np.sqrt(max(squares / index.size - mean * mean, 0.0)) / channels


@kernel
def drift_sums(x, l, sites, mask, near, share, limit, most, gram, right, spread, colours):  # type: ignore[no-untyped-def]
    """Sum up normal equations ``gram g = right`` of gains ``1 + g`` that turn `l` into `x`; return a mean weight.

    `x`, `l` (h w c,): frame, background; `sites` (n,): pixels, each between the nodes `near` (n, 4) of the gain with
    hat functions `share` (n, 4). Sites with `mask` (h w,) 255 or a value above `most` have no weight, those that differ
    by more than `limit` little. `spread` (nodes,): variances of `right` if the sites are independent. `colours` (c, 3):
    energy, right side and its variance for one gain per channel.
    """
    gram[:] = 0.0
    right[:] = 0.0
    spread[:] = 0.0
    colours[:] = 0.0
    channels, count, total = len(colours), 0, 0.0
    for s in range(sites.size):
        first = sites[s] * channels
        squares, energy, product, highest = _ZERO, _ZERO, _ZERO, _ZERO
        for c in range(channels):
            value, base = np.float32(x[first + c]), np.float32(l[first + c])
            change = value - base
            squares += change * change
            energy += base * base
            product += base * change
            highest = max(highest, value, base)
        if mask[sites[s]] == 255 or highest > most:
            continue
        weight = 1 / (1 + squares / (limit * limit)) ** 2
        count, total = count + 1, total + weight
        for c in range(channels):
            base = np.float32(l[first + c])
            own = weight * base * (np.float32(x[first + c]) - base)
            colours[c, 0] += weight * base * base
            colours[c, 1] += own
            colours[c, 2] += own * own
        for i in range(4):
            own = weight * share[s, i]
            right[near[s, i]] += own * product
            spread[near[s, i]] += own * product * own * product
            for j in range(4):
                gram[near[s, i], near[s, j]] += own * share[s, j] * energy
    return total / max(count, 1)
