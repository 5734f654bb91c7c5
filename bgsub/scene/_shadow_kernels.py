"""Shadows and light in the foreground: pixels that are their background times one factor, or the reverse."""

import numpy as np

from bgsub.numerics.jit import kernel, part
from bgsub.scene._frame_kernels import CHUNK, LIGHT, is_filled, sum_windows
from bgsub.scene._segment_kernels import add_flags
from bgsub.tracking._kernels import any_set

_NONE, _NEAR, _FAR = np.uint8(0), np.uint8(1), np.uint8(2)  # not shaded, shaded, perhaps; see `shade`
_ZERO, _HALF, _ONE = np.float32(0), np.float32(0.5), np.float32(1)
_TINY = np.float32(1e-4)  # of full scale squared, against division by a black background
_BLACKEST_SHADOW, DARKEST, FAINTEST = np.float32(0.1), np.float32(0.35), np.float32(0.97)  # factors of shadows
_MOST_LIT = np.float32(0.8)  # largest share of a lit pixel that its background is, in colour; of weak light
_ERROR = np.float32(0.02)  # largest joint distance of a shadow from the factor times the background, of full scale
_SEEN_ERROR = np.float32(0.035)  # largest such distance for a factor of which shadows have been seen, and ...
_SEEN_NOISE = np.float32(3)  # ... so many squared noise scales are added to its square: 4 times the mean error of noise
_SEEN = 0.45  # share of shadow among the pixels of a factor from which on shadows of this factor have been seen
_TEXTURE, _GREY_TEXTURE = np.float32(0.04), np.float32(0.02)  # largest RMS error of 3x3 brightnesses of a shadow
_WEAK = np.float32(0.25)  # largest change of weak shadows without an error; the largest error is the threshold
_SIDE = 11  # pixels, side of the square in which the weights are summed up, see `decide`
_ALIKE_WEIGHT, _WEIGHT = np.int8(12), np.int8(4)  # of grey pixels that show their uneven background; of others
_MARGIN = np.float32(0.8)  # hysteresis: sum of weights per foreground pixel beyond the middle that changes a pixel
_WEAKEST = 9  # step of the factors from 0.85 to 1.25, which are not learned: drifting light has them
FACTORS = 20  # steps of 0.1, of the factor up to `_WEAKEST`, then of one over the factor, for light
_NEUTRAL, _ALL_SHADOW, _ALL_OBJECT = 0.2, 0.5, 0.1  # share of shadow of a factor with weight 0, largest, smallest
_EDGE = np.float32(0.001)  # variance of the background in 3x3 pixels (full scale squared), beyond which it counts less
_PRIOR = 3e-6  # weight of the usual share of shadow of a factor against what was learned, as `factors[1]`
UNEVEN = np.float32(0.015)  # least standard deviation of an uneven background in 3x3 pixels, share of full scale
_SQUARED_CORRELATION = np.float32(0.81)  # least one of frame and background in 3x3 pixels of a shadow
VOTE_MEMORY, MOST_VOTES = 0.5, 0.01  # frames of foreground that are remembered; largest weight of one frame


@kernel
def find_shadows(  # type: ignore[no-untyped-def]
    x, l, limits, tint, learns, factors, new, weights, mask, filled, dark, weight, shaded, columns, sums
):
    """Find shadows and light in the foreground, see `classify` and `decide`, and learn their factors.

    `factors` (2, 20), changed if `learns`, for each step of the factor g: covariance of frame and background, and what
    it would be if all pixels were shadow (g times the variance of the background), in frames. `new` (3, 20), the same
    of this frame and the number of pixels, and `weights` (2, 20) int8 are work. `dark` is `LIGHT` at lit pixels.
    """
    weigh_factors(factors, limits.is_coloured, weights)
    new[:] = 0.0
    if classify(x, l, limits, tint, weights, new, mask, filled, dark, weight, shaded) > 0:
        decide(mask, weight, dark, shaded, _ZERO if limits.is_coloured else _MARGIN, columns, sums)
        mark_light(x.reshape(-1), l.reshape(-1), limits, shaded, dark.reshape(-1))
    for first, last in ((0, _WEAKEST + 1), (_WEAKEST + 1, FACTORS)):
        count = new[2, first:last].sum()
        share = min(count / mask.size, MOST_VOTES)
        for k in range(first, last if learns and count > 0 else first):
            for i in range(2):
                factors[i, k] += share * (new[i, k] / count - factors[i, k] / VOTE_MEMORY)


@part
def mark_light(x, l, limits, filled, dark):  # type: ignore[no-untyped-def]
    """Write `LIGHT` where `dark`, (n,) uint8, is set and `x` is brighter than `l`, (n c,), in `filled` chunks."""
    for q in range(filled.size):
        for p in range(q * CHUNK, min((q + 1) * CHUNK, dark.size) if filled[q] != 0 else 0):
            if dark[p] != 0:
                shown = brightness(l, np.uint64(p), len(limits.lanes), limits.black)
                is_light = shown < most_lit(limits) * brightness(x, np.uint64(p), len(limits.lanes), limits.black)
                dark[p] = LIGHT if is_light else dark[p]


@part
def most_lit(limits):  # type: ignore[no-untyped-def]
    """Return the largest part of a lit pixel that its background is; colours show weaker light."""
    return _MOST_LIT if limits.is_coloured else FAINTEST


@part
def weigh_factors(factors, is_coloured, weights):  # type: ignore[no-untyped-def]
    """Write the `weights` of pixels that are a factor times their background, without texture of their own.

    An object does not vary as its background: ``factors[0] / factors[1]`` is the share of shadow of a factor. Until
    this is known, only colours show shadows, no very dark ones, and no light. The second row is 1 where some were seen.
    """
    for k in range(FACTORS):
        usual = 0.0 if k < 10 * DARKEST or k > _WEAKEST else _ALL_SHADOW if is_coloured else _NEUTRAL
        share = (factors[0, k] + usual * _PRIOR) / (factors[1, k] + _PRIOR) - _NEUTRAL
        certain = share / (_ALL_SHADOW - _NEUTRAL if share > 0 else _NEUTRAL - _ALL_OBJECT)
        weights[0, k] = np.int8(np.rint(_WEIGHT * min(max(certain, -1.0), 1.0)))
        weights[1, k] = factors[0, k] > _SEEN * (factors[1, k] + _PRIOR)
    weights[0, _WEAKEST], weights[1, _WEAKEST] = _WEIGHT if is_coloured else 0, 0


@part
def sums_around(x, l, mask, pixel, w, channels, black):  # type: ignore[no-untyped-def]
    """Return whether all 3x3 pixels around a pixel inside the frame are foreground, and sums over them.

    The sums are those of the brightnesses x, l, ``x l``, ``l l`` and ``x x``, 0 if not all are foreground.
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
def classify(x, l, limits, tint, weights, new, mask, filled, dark, weight, shaded):  # type: ignore[no-untyped-def]
    """Give the foreground weights for shadow or object; return the number of pixels that may be shadow.  O(c q).

    `x`, `l` (h, w, c); `mask`, `dark` (h, w) uint8; `weight` (h, w) int8, positive for shadow. The factor of a pixel
    gives its weight (`weights` (2, 20) int8, see `weigh_factors`); a negative one below `DARKEST` excludes shadow. In
    grey, an uneven background that shows gives the largest weight; restless pixels have weight 0. `shaded`: filled
    chunks of `dark` and `weight`. `new` (3, 20): see `find_shadows`.
    """
    h, w, channels, scale = x.shape[0], x.shape[1], len(limits.lanes), limits.scale
    colour, texture = limits.tolerance * _ERROR, limits.tolerance * (_TEXTURE if limits.is_coloured else _GREY_TEXTURE)
    lightest, error = 1 + _WEAK if limits.is_coloured else FAINTEST, limits.threshold / scale
    colours, others = x.reshape(-1), l.reshape(-1)
    flat, flat_dark, flat_weight = mask.reshape(-1), dark.reshape(-1), weight.reshape(-1)
    tiny, square = _TINY / (scale * scale), colour * colour / (scale * scale)
    limit = texture * texture * 9 * channels * channels / (scale * scale)
    uneven, unit = 9 * (channels * UNEVEN / scale) ** 2, scale * scale / np.float32(9 * channels * channels)
    weak = lightest, error * error, error * error / (_WEAK * _WEAK)
    wide = square * max(_SEEN_ERROR / _ERROR * limits.tolerance, _ONE) ** 2
    ranges = limits.black, tiny, square, wide, *weak, tint, most_lit(limits)
    noise = limits.sigma.reshape(-1), _SEEN_NOISE / (scale * scale)
    levels, count = (tiny, limit, uneven, unit), 0
    for q in range(filled.size):
        a, n = q * CHUNK, min(CHUNK, flat.size - q * CHUNK)
        if shaded[q] != 0:
            flat_dark[a : a + n] = 0
            flat_weight[a : a + n] = 0
        shaded[q] = filled[q]
        if filled[q] == 0:
            continue
        found = shade(colours, others, flat, a, n, channels, ranges, noise, flat_dark, flat_weight)
        for p in range(a, a + n if found > 0 else a):
            if flat_dark[p] == 0:
                continue
            is_far = flat_dark[p] == _FAR
            is_dark, flat_weight[p] = weigh(colours, others, flat, p, (h, w), limits, levels, is_far, weights, new)
            flat_dark[p] = is_dark
            count += is_dark
    return count


@part
def weigh(x, l, mask, p, size, limits, levels, is_far, weights, new):  # type: ignore[no-untyped-def]
    """Return whether the pixel p may be shadow, and its weight; see `classify`."""
    tiny, limit, uneven, unit = levels
    channels, row, column = len(limits.lanes), p // size[1], p % size[1]
    pixel, w = np.uint64(p), np.uint64(size[1])  # unsigned indices need no test for negative ones
    sx, sl = brightness(x, pixel, channels, limits.black), brightness(l, pixel, channels, limits.black)
    k = factor_of(sx, sl, most_lit(limits))
    is_far &= weights[1, k] == 0
    may_be = (((sx >= DARKEST * sl) & (k <= _WEAKEST)) | (weights[0, k] >= 0)) & (not is_far)
    even = weights[0, k] if may_be else -_WEIGHT
    if is_far or limits.factor * limits.sigma[row, column] > limits.restless:
        return may_be, np.int8(0) if may_be else -_WEIGHT
    if not (0 < row < size[0] - 1 and 0 < column < size[1] - 1):
        return may_be, even
    sums = sums_around(x, l, mask, pixel, w, np.uint64(channels), limits.black)
    inside, _, _, xl, ll, xx = sums
    if not inside:  # outline of the foreground: an object would mostly have an edge here
        return may_be, _WEIGHT if even >= 0 else even
    even = weights[0, add_likeness(sums, unit, new, most_lit(limits))]
    if not may_be:
        return False, -_WEIGHT
    if not limits.is_coloured and is_alike(sums, uneven):
        return True, _ALIKE_WEIGHT
    if k > _WEAKEST:  # the background is then the darker one
        xx, ll = ll, xx
    return True, -_WEIGHT if (xx - limit) * (ll + tiny) > xl * xl else even


@part
def factor_of(sx, sl, most):  # type: ignore[no-untyped-def]
    """Return which of the `FACTORS` steps a brightness sx is relative to that of the background."""
    if sx <= 0 or sl <= 0:
        return 0
    if sx <= sl:
        return min(np.int64(10 * sx / sl + _HALF), _WEAKEST)
    return _WEAKEST + 1 + np.int64(10 * sl / sx) if sl < most * sx else _WEAKEST


@part
def add_likeness(sums, unit, new, most):  # type: ignore[no-untyped-def]
    """Add covariance and variance of 3x3 brightnesses to those of their factor, `new`; return the factor's step."""
    _, sx, sl, xl, ll, _ = sums
    k = factor_of(sx, sl, most)
    uneven = max(unit * (ll - sl * sl / 9), _ZERO)
    part_of_edge = min(_ONE, _EDGE / max(uneven, _TINY * _TINY))
    new[0, k] += part_of_edge * unit * (xl - sx * sl / 9)
    new[1, k] += part_of_edge * uneven * sx / max(sl, _TINY)
    new[2, k] += 1
    return k


@part
def is_alike(sums, uneven):  # type: ignore[no-untyped-def]
    """Return whether 3x3 brightnesses vary alike, given `sums_around` them; `uneven` is the least variation of l."""
    _, sx, sl, xl, ll, xx = sums
    xl, ll, xx = xl - sx * sl / 9, ll - sl * sl / 9, xx - sx * sx / 9
    return (ll >= uneven) & (xl > 0) & (xl * xl > _SQUARED_CORRELATION * xx * ll)


@part
def shade(x, l, mask, a, n, channels, ranges, noise, dark, weight):  # type: ignore[no-untyped-def]
    """Write which of n pixels from `a` on are shaded, and first weights; return the number of shaded pixels.

    A shaded pixel is a multiple g of its background, or of ``1 + (1 - g) tint`` times it if the light that is left has
    another colour, as that of the sky: up to an error `square`, if g may be the factor of a shadow. `dark` is 2 if the
    error is larger, up to `wide` and what `noise` adds, so that only factors with known shadows count. Weak shadows,
    reflections and light from objects have colours of their own: the nearer g is to 1, the larger the error may be, up
    to `weak`; the limit is an ellipse with the axes change and error. A lit pixel is the reverse: its background is a
    multiple of the pixel.
    """
    black, tiny, square, wide, lightest, weak, steep, tint, most = ranges
    x, l = x[a * channels :], l[a * channels :]
    flags, dark, weight, sigma, share = mask[a:], dark[a:], weight[a:], noise[0][a:], noise[1]
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
        part_of_x = xl / (pp + tiny)
        lit_error, largest = max(ll - xl * part_of_x, _ZERO), wide + share * sigma[i] * sigma[i]
        is_dark = (g > _BLACKEST_SHADOW) & (g < FAINTEST) & (error < largest)
        is_lit = (part_of_x > _BLACKEST_SHADOW) & (part_of_x < most) & (lit_error < largest)
        is_weak = (g < lightest) & (steep * (g - 1) * (g - 1) + error < weak)
        is_near = is_weak | (is_dark & (error < square)) | (is_lit & (lit_error < square))
        dark[i] = (_NEAR if is_near else _FAR if is_dark | is_lit else _NONE) if flags[i] != 0 else _NONE
        weight[i] = (_WEIGHT if dark[i] != 0 else -_WEIGHT) if flags[i] != 0 else np.int8(0)
    count = 0
    for i in range(n):
        count += np.int64(dark[i] != 0)
    return count


@part
def decide(mask, weight, dark, filled, middle, columns, sums):  # type: ignore[no-untyped-def]
    """Change the foreground in `dark` where the sum of weights in the square around it is clearly against it.

    `filled`: chunks of all images. `middle`: sum per foreground pixel at which shadow and object are equally likely.
    `columns` (2, >= CHUNK + 10) and `sums` (2, >= CHUNK) int16 are work.
    """
    h, w = mask.shape
    half = _SIDE // 2
    for left in range(0, w, CHUNK):
        right = min(left + CHUNK, w)
        first, last = max(left - half, 0), min(right + half, w)
        begin, end = half + first - left, half + last - left
        low, high = 0, -_SIDE  # first and last row in the sums; none yet
        for i in range(h):
            target, flags = dark[i, left:right], mask[i, left:right]
            if not is_filled(filled, i * w + left, i * w + right) or not any_set(flags):
                continue
            if high < i - half:
                columns[:, : CHUNK + 2 * half] = 0
                low, high = max(i - half, 0), max(i - half, 0) - 1
            least, most = max(i - half, 0), min(i + half, h - 1)
            for row in range(high + 1, most + 1):
                add_weights(weight[row, first:last], 1, columns[0, begin:end])
                add_flags(mask[row, first:last], 1, columns[1, begin:end])
            for row in range(low, least):
                add_weights(weight[row, first:last], -1, columns[0, begin:end])
                add_flags(mask[row, first:last], -1, columns[1, begin:end])
            for k in range(2):
                sum_windows(columns[k, : right - left + 2 * half], _SIDE, sums[k, : right - left])
            low, high = least, most
            for j in range(target.size):
                limit = (middle - _MARGIN if target[j] != 0 else middle + _MARGIN) * sums[1, j]
                target[j] = (flags[j] != 0) & (sums[0, j] > limit)


@part
def add_weights(weights, sign, sums):  # type: ignore[no-untyped-def]
    """Add `sign` times `weights`, (n,) int8, to `sums`, (n,) int16."""
    for j in range(sums.size):
        sums[j] += np.int16(sign) * np.int16(weights[j])


@part
def brightness(image, pixel, channels, black):  # type: ignore[no-untyped-def]
    """Return the sum of the channels of a pixel, uint64, of `image`, (n * c,), above `black` each, float32."""
    total, first = -np.float32(channels) * black, pixel * np.uint64(channels)
    for c in range(channels):
        total += np.float32(image[first + np.uint64(c)])
    return total
