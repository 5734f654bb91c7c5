"""Kernels of the registration: points of strong gradient, and Gauss-Newton steps over them."""

from __future__ import annotations

import math

import numpy as np

from bgsub.numerics.jit import kernel, part
from bgsub.tracking._kernels import RIDGE, solve_spd, trace

_OUTSIDE = np.float32(1e4)  # residual of a point outside of the frame; its weight is negligible
_INERTIA = 1e-3  # per point; separates tone and movement in images with little texture
_ONE = np.float32(1)


@part
def slopes(image, y, scale, sums, gx, gy):  # type: ignore[no-untyped-def]
    """Write the Sobel derivatives of the channel mean along inner row `y` into `gx`, `gy`, (w,) float32."""
    w, channels = image.shape[1], image.shape[2]
    above, here, below = image[y - 1].reshape(-1), image[y].reshape(-1), image[y + 1].reshape(-1)
    smooth, steep = sums[0], sums[1]
    for k in range(w * channels):  # contiguous, so that it vectorises
        a, b = np.float32(above[k]), np.float32(below[k])
        smooth[k] = a + np.float32(2) * np.float32(here[k]) + b
        steep[k] = b - a
    for x in range(w):
        s, t = np.float32(0), np.float32(0)
        for c in range(channels):
            s += smooth[x * channels + c]
            t += steep[x * channels + c]
        smooth[x], steep[x] = s, t
    unit = np.float32(scale / (8 * channels))
    for x in range(1, w - 1):
        gx[x] = unit * (smooth[x + 1] - smooth[x - 1])
        gy[x] = unit * (steep[x - 1] + np.float32(2) * steep[x] + steep[x + 1])


@part
def first_least(values):  # type: ignore[no-untyped-def]
    """Return the place of the least of `values`, (n,)."""
    least = 0
    for i in range(values.size):
        least = i if values[i] < values[least] else least
    return least


@kernel
def strongest(image, scale, side, stride, first, last, places, strength, sums, gx, gy):  # type: ignore[no-untyped-def]
    """Choose the places of strongest gradient in the rows of square cells `first` to `last`.

    `places` (cell rows, cells per row, n) int64; `strength`, like it: squared gradients, -1 if a cell has too few
    pixels. `sums` (2, w c), `gx`, `gy` (w,) float32 are workspaces.
    """
    h, w = image.shape[0], image.shape[1]
    for row in range(first, last):
        strength[row] = np.float32(-1)
        for y in range(max(row * side, 1), min((row + 1) * side, h - 1), stride):
            slopes(image, y, scale, sums, gx, gy)
            for cell in range(strength.shape[1]):
                kept, where = strength[row, cell], places[row, cell]
                least = first_least(kept)
                for x in range(max(cell * side, 1), min((cell + 1) * side, w - 1)):
                    s = gx[x] * gx[x] + gy[x] * gy[x]
                    if s > kept[least]:
                        kept[least], where[least] = s, y * w + x
                        least = first_least(kept)


@kernel
def look(image, scale, places, values, gx, gy):  # type: ignore[no-untyped-def]
    """Write the channel mean and its Sobel derivatives at inner pixels `places`, (n,) int64.  O(n c)."""
    w, channels = image.shape[1], image.shape[2]
    unit = np.float32(scale / channels)
    eighth = np.float32(0.125)
    for k in range(places.size):
        y, x = places[k] // w, places[k] % w
        value, right, down = np.float32(0), np.float32(0), np.float32(0)
        for c in range(channels):
            corner = np.float32(image[y + 1, x + 1, c]) - np.float32(image[y - 1, x - 1, c])
            other = np.float32(image[y - 1, x + 1, c]) - np.float32(image[y + 1, x - 1, c])
            beside = np.float32(image[y, x + 1, c]) - np.float32(image[y, x - 1, c])
            under = np.float32(image[y + 1, x, c]) - np.float32(image[y - 1, x, c])
            value += np.float32(image[y, x, c])
            right += corner + other + beside + beside
            down += corner - other + under + under
        values[k] = unit * value
        gx[k], gy[k] = eighth * unit * right, eighth * unit * down


@kernel
def shrink(image, factor, stride, rounding, line, out):  # type: ignore[no-untyped-def]
    """Write the means of squares of `factor` pixels, every `stride`-th row, into `out`, (h // factor, w // factor)."""
    width = factor * image.shape[2]
    rows = (factor - 1) // stride + 1
    unit = np.float32(1 / (rows * width))
    for i in range(out.shape[0]):
        line[:] = np.float32(0)
        for y in range(i * factor, (i + 1) * factor, stride):
            pixels = image[y].reshape(-1)
            for k in range(line.size):
                line[k] += np.float32(pixels[k])
        for j in range(out.shape[1]):
            total = np.float32(0)
            for k in range(j * width, (j + 1) * width):
                total += line[k]
            out[i, j] = unit * total + rounding


@part
def residuals_at_rest(image, scale, places, rows, movement, r):  # type: ignore[no-untyped-def]
    """Do the work of `residuals` for a camera at rest; `places` (n,) int64 are indices of pixels."""
    channels = image.shape[2]
    pixels = image.reshape(-1)
    unit, gain, offset = np.float32(scale / channels), np.float32(movement[3]), np.float32(movement[4])
    values = rows[3]
    for k in range(places.size):
        total = np.float32(0)
        for c in range(channels):
            total += np.float32(pixels[places[k] * channels + c])
        r[k] = unit * total + gain * values[k] - offset


@kernel
def residuals(image, scale, points, rows, movement, r):  # type: ignore[no-untyped-def]
    """Write ``image(q) - gain * value - offset`` into `r`, (n,), with q the moved points, bilinear.  O(n c).

    `points` (2, n): x and y from the centre; `rows` (5, n): derivatives of the reference by x, y, angle (pixels at the
    corner), gain and offset; `movement` (5,): dx, dy, angle, gain, offset.
    """
    h, w, channels = image.shape
    pixels = image.reshape(-1)
    cx, cy = np.float32((w - 1) / 2), np.float32((h - 1) / 2)
    cos, sin = np.float32(math.cos(movement[2])), np.float32(math.sin(movement[2]))
    tx, ty = cx + np.float32(movement[0]), cy + np.float32(movement[1])
    unit, gain, offset = np.float32(scale / channels), np.float32(movement[3]), np.float32(movement[4])
    values = rows[3]
    right, below = np.float32(w - 1), np.float32(h - 1)
    for k in range(r.size):
        px, py = points[0, k], points[1, k]
        x, y = tx + cos * px - sin * py, ty + sin * px + cos * py
        if not (x >= 0 and y >= 0 and x < right and y < below):
            r[k] = _OUTSIDE
            continue
        j, i = int(x), int(y)
        u, v = x - np.float32(j), y - np.float32(i)
        a, b = (_ONE - u) * (_ONE - v), u * (_ONE - v)
        c, d = (_ONE - u) * v, u * v
        upper = (i * w + j) * channels
        lower = upper + w * channels
        total = np.float32(0)
        for n in range(channels):
            total += a * np.float32(pixels[upper + n]) + b * np.float32(pixels[upper + channels + n])
            total += c * np.float32(pixels[lower + n]) + d * np.float32(pixels[lower + channels + n])
        r[k] = unit * total + gain * values[k] - offset


@part
def step(rows, r, soft, unit, movement, work, gram, right):  # type: ignore[no-untyped-def]
    """Take one reweighted Gauss-Newton step of `movement`, (5,), in place; return the cost before and the length."""
    # weights 1 / (1 + (r / soft)^2)^2; `unit` is the movement of a corner per radian
    n = r.size
    weights, weighted = work[0], work[1]
    inverse = np.float32(1 / (soft * soft))
    total = np.float32(0)
    for k in range(n):
        s = r[k] * r[k] * inverse
        t = _ONE / (_ONE + s)
        total += s * t
        weights[k] = t * t
    for i in range(5):
        slope = rows[i]
        along = np.float32(0)
        for k in range(n):
            weighted[k] = weights[k] * slope[k]
            along += weighted[k] * r[k]
        right[i] = -along
        for j in range(i + 1):
            other = rows[j]
            product = np.float32(0)
            for k in range(n):
                product += weighted[k] * other[k]
            gram[i, j] = product
    gram[3, 3] += _INERTIA * n
    gram[4, 4] += _INERTIA * n
    right[3] += _INERTIA * n * (1 - movement[3])
    right[4] -= _INERTIA * n * movement[4]
    solve_spd(gram, right, RIDGE * trace(gram))
    movement[0] += right[0]
    movement[1] += right[1]
    movement[2] += right[2] / unit
    movement[3] += right[3]
    movement[4] += right[4]
    return total / n, math.hypot(math.hypot(right[0], right[1]), right[2])


@kernel
def probe(image, scale, places, rows, soft, unit, movement, r, work, gram, right):  # type: ignore[no-untyped-def]
    """Take one step from rest at the pixels `places`; return the cost before it and its length, see `step`."""
    residuals_at_rest(image, scale, places, rows, movement, r)
    return step(rows, r[: places.size], soft, unit, movement, work, gram, right)


@kernel
def shift(image, dx, dy, rounding, line, out):  # type: ignore[no-untyped-def]
    """Write `image` at (x + dx, y + dy), bilinear, into `out` except for the margin; both (h, w, c)."""
    h, w, channels = image.shape
    column, row = math.floor(dx), math.floor(dy)
    u, v, half = np.float32(dx - column), np.float32(dy - row), np.float32(rounding)
    left, right = max(0, -column), min(w, w - 1 - column)
    for y in range(max(0, -row), min(h, h - 1 - row)):
        upper, lower = image[y + row].reshape(-1), image[y + row + 1].reshape(-1)
        for k in range(line.size):
            line[k] = (_ONE - v) * np.float32(upper[k]) + v * np.float32(lower[k]) + half
        here, beside = line[(left + column) * channels :], line[(left + column + 1) * channels :]
        target = out[y].reshape(-1)[left * channels : max(left, right) * channels]
        for k in range(target.size):
            target[k] = (_ONE - u) * here[k] + u * beside[k]
