"""Kernel of the registration: a Gauss-Newton step over points of strong gradient."""

import math

import numpy as np

from bgsub.numerics.jit import kernel, part
from bgsub.tracking._kernels import RIDGE, solve_spd

_OUTSIDE = np.float32(1e4)  # residual of a point outside of the frame; its weight is negligible
_INERTIA = 1e-3  # per point: ridge of gain and offset, which separates them from the movement if texture is weak
_ONE = np.float32(1)


@part
def residuals(image, scale, points, rows, movement, r):  # type: ignore[no-untyped-def]
    """Write ``image(q) - gain * value - offset`` into `r`, (n,), with q the moved points, bilinear.  O(n c).

    `points` (2, n): x and y from the centre; `rows` (5 or 6, n): derivatives of the reference by x, y, angle, gain,
    offset and zoom, angle and zoom in pixels at a corner; `movement` (5 or 6,): dx, dy, angle, gain, offset, zoom.
    """
    h, w, channels = image.shape
    pixels = image.reshape(-1)
    cx, cy = np.float32((w - 1) / 2), np.float32((h - 1) / 2)
    size = 1 + movement[5] if movement.size > 5 else 1.0
    cos, sin = np.float32(size * math.cos(movement[2])), np.float32(size * math.sin(movement[2]))
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
        u, v, total = x - np.float32(j), y - np.float32(i), np.float32(0)
        upper = (i * w + j) * channels
        if u == 0 and v == 0:  # the camera is at rest
            for n in range(channels):
                total += np.float32(pixels[upper + n])
            r[k] = unit * total + gain * values[k] - offset
            continue
        a, b = (_ONE - u) * (_ONE - v), u * (_ONE - v)
        c, d = (_ONE - u) * v, u * v
        lower = upper + w * channels
        for n in range(channels):
            total += a * np.float32(pixels[upper + n]) + b * np.float32(pixels[upper + channels + n])
            total += c * np.float32(pixels[lower + n]) + d * np.float32(pixels[lower + channels + n])
        r[k] = unit * total + gain * values[k] - offset


@kernel
def align(image, scale, points, rows, soft, unit, movement, r, work, gram, right):  # type: ignore[no-untyped-def]
    """Take a reweighted Gauss-Newton step of `movement`, (5 or 6,), in place; return cost before and length."""
    # the weights are 1 / (1 + (r / soft)^2)^2; `unit`: distance of a corner from the centre, pixels
    n, unknowns = points.shape[1], movement.size
    r = r[:n]
    residuals(image, scale, points, rows, movement, r)
    gram, right = gram[:unknowns, :unknowns], right[:unknowns]
    weights, weighted = work[0], work[1]
    inverse = np.float32(1 / (soft * soft))
    total = np.float32(0)
    for k in range(n):
        s = r[k] * r[k] * inverse
        t = _ONE / (_ONE + s)
        total += s * t
        weights[k] = t * t
    for i in range(unknowns):
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
    solve_spd(gram, right, RIDGE * np.trace(gram))
    movement[0] += right[0]
    movement[1] += right[1]
    movement[2] += right[2] / unit
    movement[3] += right[3]
    movement[4] += right[4]
    length = math.hypot(math.hypot(right[0], right[1]), right[2])
    if unknowns > 5:
        movement[5] += right[5] / unit
        length = math.hypot(length, right[5])
    return total / n, length
