"""The Numba pass of the registration: Gauss-Newton over a few hundred points."""

from __future__ import annotations

import math

import numpy as np

from bgsub._jit import kernel
from bgsub._kernels import solve_spd


@kernel
def sample(image, x, y):  # type: ignore[no-untyped-def]
    """Return the mean over the channels of `image`, (h, w, c), at (x, y), bilinear; -1 outside."""
    h, w, channels = image.shape
    j, i = math.floor(x), math.floor(y)
    if j < 0 or i < 0 or j + 1 >= w or i + 1 >= h:
        return -1.0
    u, v = x - j, y - i
    total = 0.0
    for c in range(channels):
        upper = (1 - u) * image[i, j, c] + u * image[i, j + 1, c]
        lower = (1 - u) * image[i + 1, j, c] + u * image[i + 1, j + 1, c]
        total += (1 - v) * upper + v * lower
    return total / channels


@kernel
def align(image, points, values, gradient, soft, iterations, converged, movement, gram, right):  # type: ignore[no-untyped-def]
    """Refine a rigid movement and a tone by iteratively reweighted Gauss-Newton steps.

    ``image(q) ~ gain * value + offset`` with q the moved point; weights ``1 / (1 + (r / soft)^2)^2``.

    Parameters
    ----------
    image : ndarray, (h, w, c), float32
        Frame.
    points : ndarray, (n, 2), float32
        Places (x, y) in the reference.
    values : ndarray, (n,), float32
        Reference there.
    gradient : ndarray, (n, 2), float32
        Its derivatives by x and y.
    soft : float
        Intensity where outliers begin.
    iterations : int
        Most steps, at least 1.
    converged : float
        Pixels; a shorter step is the last one.
    movement : ndarray, (5,), float64
        dx, dy in pixels, angle in radians about the centre, gain, offset; start and result.
    gram, right : ndarray, (5, 5), (5,), float64
        Workspaces.

    Returns
    -------
    cost : float
        Mean of ``r^2 / (soft^2 + r^2)`` at the place before the last step; 1 for points outside.
    step : float
        Length of the last step in pixels.  O(iterations n c).
    """
    h, w = image.shape[0], image.shape[1]
    cx, cy = (w - 1) / 2, (h - 1) / 2
    unit = max(math.hypot(cx, cy), 1.0)  # the angle in pixels at the corner, so that all unknowns are alike
    n = points.shape[0]
    row = np.empty(5)
    cost, step = 1.0, 0.0
    for _ in range(iterations):
        cos, sin = math.cos(movement[2]), math.sin(movement[2])
        gram[:] = 0.0
        right[:] = 0.0
        total = 0.0
        for k in range(n):
            px, py = points[k, 0] - cx, points[k, 1] - cy
            value = sample(image, cx + cos * px - sin * py + movement[0], cy + sin * px + cos * py + movement[1])
            if value < 0:
                total += 1.0
                continue
            r = value - movement[3] * values[k] - movement[4]
            s = r * r / (soft * soft)
            total += s / (1 + s)
            omega = 1 / ((1 + s) * (1 + s))
            row[0], row[1] = gradient[k, 0], gradient[k, 1]
            row[2] = (gradient[k, 1] * px - gradient[k, 0] * py) / unit
            row[3], row[4] = -values[k], -1.0
            for i in range(5):
                right[i] -= omega * row[i] * r
                for j in range(i + 1):
                    gram[i, j] += omega * row[i] * row[j]
        cost = total / n
        gram[3, 3] += 1e-3 * n  # a little inertia keeps tone and movement apart where the picture is poor
        gram[4, 4] += 1e-3 * n
        right[3] += 1e-3 * n * (1 - movement[3])
        right[4] -= 1e-3 * n * movement[4]
        solve_spd(gram, right)
        movement[0] += right[0]
        movement[1] += right[1]
        movement[2] += right[2] / unit
        movement[3] += right[3]
        movement[4] += right[4]
        step = math.hypot(math.hypot(right[0], right[1]), right[2])
        if step < converged:
            break
    return cost, step
