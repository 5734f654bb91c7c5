"""The Numba passes between frames, residual images and masks."""

from __future__ import annotations

import numpy as np

from bgsub.numerics.jit import kernel, part

_ZERO, _ONE = np.float32(0), np.float32(1)
UNLEARNED = 2  # in a mask: known foreground
CHUNK = 64  # pixels that are looked at together to find out whether any is set


@part
def to_unit(pixels, scale, x):  # type: ignore[no-untyped-def]
    """Write ``scale * pixels`` into `x`, (m,), float32; `pixels` (m,) of any real dtype, `scale` float32."""
    for i in range(x.size):
        x[i] = np.float32(pixels[i]) * scale


@part
def to_picture(l, full, top, out):  # type: ignore[no-untyped-def]
    """Write ``full * l`` into `out`, (m,): rounded and clipped to [0, top] for integers, as it is where `top` is 0."""
    if top > 0:
        for i in range(out.size):
            out[i] = np.int32(min(max(l[i] * full, _ZERO), top) + np.float32(0.5))
    else:
        for i in range(out.size):
            out[i] = l[i] * full


@part
def residual_of(pixels, scale, l, r):  # type: ignore[no-untyped-def]
    """Write ``scale * pixels - l`` into `r`; all (n,), `l`, `r`, `scale` float32, `pixels` of any real dtype."""
    for i in range(r.size):
        r[i] = np.float32(pixels[i]) * scale - l[i]


@part
def norm_of(r, channels, d):  # type: ignore[no-untyped-def]
    """Write the Euclidean norm over the channels of `r`, (n * channels,), into `d`, (n,); both float32."""
    if channels == 1:
        for i in range(d.size):
            d[i] = abs(r[i])
    elif channels == 3:
        for i in range(d.size):
            d[i] = np.sqrt(r[3 * i] * r[3 * i] + r[3 * i + 1] * r[3 * i + 1] + r[3 * i + 2] * r[3 * i + 2])
    else:
        for i in range(d.size):
            total = _ZERO
            for j in range(channels):
                total += r[channels * i + j] * r[channels * i + j]
            d[i] = np.sqrt(total)


@part
def exceeds_noise(d, sigma, threshold, factor, over):  # type: ignore[no-untyped-def]
    """Write 1 into `over`, uint8, where ``d > max(threshold, factor * sigma)`` and 0 elsewhere; all (n,).

    Returns their number.
    """
    count = 0
    for i in range(over.size):
        over[i] = d[i] > max(threshold, factor * sigma[i])
    for i in range(over.size):
        count += np.int64(over[i])
    return count


@kernel
def learn_noise(d, mask, displaced, rate, foreground_rate, clip, floor, sigma):  # type: ignore[no-untyped-def]
    """Move `sigma` towards the clipped residual, at `rate` where `mask` is 0, elsewhere at `foreground_rate` times
    `displaced`, the share of a pixel's candidates that are moving background and no objects.

    `d`, `sigma` (n,) float32, `displaced` (n,) of any real dtype in a unit that `foreground_rate` takes care of,
    `mask` (n,) uint8, nothing is learned where it is `UNLEARNED`; the other ones float32. `floor` keeps sigma out of
    the denormals.
    """
    for i in range(sigma.size):
        a = _ZERO if mask[i] == UNLEARNED else foreground_rate * np.float32(displaced[i])
        a = rate if mask[i] == 0 else a
        sigma[i] = max(sigma[i] + a * (min(d[i], clip) - sigma[i]), floor)


@kernel
def follow_median(d, limit, up, down, least, scale):  # type: ignore[no-untyped-def]
    """Multiply `scale` by `up` where ``d > limit * scale`` and by `down` elsewhere, within [least, 1].

    ``limit * scale`` follows the median of `d`; both (n,) float32, as are the numbers.
    """
    for i in range(scale.size):
        step = up if d[i] > limit * scale[i] else down
        scale[i] = min(max(scale[i] * step, least), _ONE)


@part
def any_set(flags):  # type: ignore[no-untyped-def]
    """Return whether any of the bytes, (n,) uint8, is not zero; no early exit, so that it vectorises."""
    largest = np.uint8(0)
    for i in range(flags.size):
        largest = max(largest, flags[i])
    return largest != 0


@kernel
def match_neighbours(begin, end, x, l, scale, threshold, rate, belief, radius, full, displaced, over):  # type: ignore[no-untyped-def]
    """Take back candidates that look like the background a few pixels away, where most candidates do.

    A candidate is displaced background when the background within `radius` pixels (a square) is closer to its colour
    than `threshold`. `displaced` is the running share of such candidates among those of a pixel; where it exceeds
    `belief`, they are cleared.

    Parameters
    ----------
    begin, end : int
        The band of rows.
    x, l : ndarray, (h, w, c), any real dtype
        Frame and background; `scale` times them is in [0, 1].
    scale, threshold : float32
        Factor to the unit range; largest joint distance of a match.
    rate, belief : float32
        Weight of a new candidate in the share; least share.
    radius : int
        Half side of the square.
    full : float32
        The number that stands for a share of one: 1 for floating-point shares, 255 for bytes.
    displaced : ndarray, (h, w), float32 or uint8
        The shares, changed in place.
    over : ndarray, (h, w), uint8
        Candidates, changed in place.  O(h w + radius^2 c candidates).
    """
    h, w, channels = x.shape
    colours, others = x.reshape(-1), l.reshape(-1)
    shares, flags = displaced.reshape(-1), over.reshape(-1)
    limit = (threshold / scale) * (threshold / scale)
    half = np.float32(0.5) if full > 1 else _ZERO
    for i in range(begin, end):
        for a in range(i * w, (i + 1) * w, CHUNK):
            b = min(a + CHUNK, (i + 1) * w)
            if not any_set(flags[a:b]):
                continue
            for p in range(a, b):
                pixel = np.uint64(p)  # indices without a sign need no test for a negative one
                if flags[pixel] == 0:
                    continue
                j = p - i * w
                if channels == 3 and radius == 1 and 0 < i < h - 1 and 0 < j < w - 1:
                    nearest = nearest_of_nine(colours, others, pixel, np.uint64(w))
                else:
                    nearest = nearest_nearby(x, l, i, j, radius)
                found = nearest < limit
                share = np.float32(shares[pixel])
                share += rate * ((full if found else _ZERO) - share)
                shares[pixel] = share + half
                if found and share > belief * full:
                    flags[pixel] = 0


@part
def nearest_of_nine(colours, others, pixel, w):  # type: ignore[no-untyped-def]
    """Return the least squared distance of a pixel's three channels from those of the 3x3 pixels of `others` around.

    `colours`, `others` (n * 3,), `pixel`, `w` uint64; not for pixels on the border.
    """
    one, two, three = np.uint64(1), np.uint64(2), np.uint64(3)
    k = three * pixel
    x, y, z = np.float32(colours[k]), np.float32(colours[k + one]), np.float32(colours[k + two])
    nearest = np.float32(np.inf)
    k = three * (pixel - w - one)
    for _ in range(3):
        for column in range(3):
            m = k + three * np.uint64(column)
            p = x - np.float32(others[m])
            q = y - np.float32(others[m + one])
            r = z - np.float32(others[m + two])
            nearest = min(nearest, p * p + q * q + r * r)
        k += three * w
    return nearest


@part
def nearest_nearby(x, l, i, j, radius):  # type: ignore[no-untyped-def]
    """Return the least squared distance of ``x[i, j]`` from the pixels of `l` within `radius`; both (h, w, c)."""
    h, w, channels = l.shape
    nearest = np.float32(np.inf)
    for row in range(max(i - radius, 0), min(i + radius + 1, h)):
        for column in range(max(j - radius, 0), min(j + radius + 1, w)):
            total = _ZERO
            for c in range(channels):
                s = np.float32(x[i, j, c]) - np.float32(l[row, column, c])
                total += s * s
            nearest = min(nearest, total)
    return nearest


@kernel
def majority(begin, end, candidates, side, out, columns, counts):  # type: ignore[no-untyped-def]
    """Write 255 where most of the square around a pixel are candidates and 0 elsewhere, for a band of rows.

    Parameters
    ----------
    begin, end : int
        The rows.
    candidates : ndarray, (h, w), uint8
        0 or 1; continued over the border by the pixels on it.
    side : int
        Side of the square, odd.
    out : ndarray, (h, w), uint8, output
    columns, counts : ndarray, (w + side - 1,), (w,), uint16
        Workspaces.  O(h w side).
    """
    h, w = candidates.shape
    half = side // 2
    limit = side * side // 2
    inner = columns[half : half + w]
    inner[:] = 0
    for row in range(begin - half, begin + half + 1):
        added = candidates[min(max(row, 0), h - 1)]
        for j in range(w):
            inner[j] += added[j]
    for i in range(begin, end):
        if i > begin:
            added, removed = candidates[min(i + half, h - 1)], candidates[max(i - 1 - half, 0)]
            for j in range(w):
                inner[j] += np.uint16(added[j])
            for j in range(w):
                inner[j] -= np.uint16(removed[j])
        columns[:half] = inner[0]
        columns[half + w :] = inner[w - 1]
        sum_windows(columns, side, counts)
        row = out[i]
        for j in range(w):
            row[j] = 255 if counts[j] > limit else 0


@part
def sum_windows(columns, side, counts):  # type: ignore[no-untyped-def]
    """Write ``sum(columns[j : j + side])`` into ``counts[j]``; both uint16."""
    n = counts.size
    first = columns[:n]
    for j in range(n):
        counts[j] = first[j]
    for shift in range(1, side):
        part = columns[shift : shift + n]
        for j in range(n):
            counts[j] += part[j]


@kernel
def paint(where, value, image):  # type: ignore[no-untyped-def]
    """Write `value` into `image` where `where` is not zero; both (n,) uint8."""
    for i in range(image.size):
        image[i] = value if where[i] != 0 else image[i]


@kernel
def values_at(pixels, index, scale, out):  # type: ignore[no-untyped-def]
    """Write ``scale * pixels[index]`` into `out`, (s,) float32; `pixels` (m,) of any real dtype."""
    for i in range(index.size):
        out[i] = np.float32(pixels[index[i]]) * scale


@kernel
def seen_at(hidden, index, channels, out):  # type: ignore[no-untyped-def]
    """Write 0 into `out`, (s,) float32, where the pixel of an entry of `index` is hidden, 1 elsewhere; (n,) uint8."""
    for i in range(index.size):
        out[i] = _ZERO if hidden[index[i] // channels] != 0 else np.float32(1)
