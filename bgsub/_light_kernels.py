"""The Numba passes of the illumination model: a smooth gain field and a tone curve, fitted robustly."""

from __future__ import annotations

import numpy as np

from bgsub._jit import kernel

_ONE = np.float32(1)
_SATURATED = 0.98  # of full scale


@kernel
def gain_at(grid, u, v, channel):  # type: ignore[no-untyped-def]
    """Return the bilinear interpolation of ``grid[:, :, channel]`` at (u, v), in units of its cells."""
    i = min(int(v), grid.shape[0] - 2)
    j = min(int(u), grid.shape[1] - 2)
    a, b = v - i, u - j
    upper = (1 - b) * grid[i, j, channel] + b * grid[i, j + 1, channel]
    lower = (1 - b) * grid[i + 1, j, channel] + b * grid[i + 1, j + 1, channel]
    return (1 - a) * upper + a * lower


@kernel
def tone_at(tone, value, channel):  # type: ignore[no-untyped-def]
    """Return the piecewise linear curve ``tone[:, channel]`` over [0, 1] at `value`."""
    position = min(max(value, 0.0), 1.0) * (tone.shape[0] - 1)
    b = min(int(position), tone.shape[0] - 2)
    part = position - b
    return (1 - part) * tone[b, channel] + part * tone[b + 1, channel]


@kernel
def site_residuals(x, base, places, grid, tone, d):  # type: ignore[no-untyped-def]
    """Write the joint residual of the lit base at some sites into `d`, (n,) float32.

    `x`, `base` (n, c) float32 values at the sites, `places` (n, 2) float32 their (u, v) in cells of `grid`,
    (p, q, c), and `tone`, (b, c), float64.  What exceeds full scale is saturated.
    """
    n, channels = x.shape
    for k in range(n):
        total = 0.0
        for c in range(channels):
            lit = gain_at(grid, places[k, 0], places[k, 1], c) * base[k, c] + tone_at(tone, base[k, c], c)
            s = x[k, c] - min(max(lit, 0.0), 1.0)
            total += s * s
        d[k] = np.sqrt(total)


@kernel
def accumulate(x, base, places, grid, tone, d, mu, channel, gram, right):  # type: ignore[no-untyped-def]
    """Write the normal equations of one channel: unknowns are the nodes of the gain field, then those of the tone.

    ``x ~ sum_j a_j phi_j base + sum_b t_b psi_b(base)``, weights ``1 / (1 + (d / mu)^2)^2`` with the joint residual
    `d` of all channels; sites in saturation do not count where the light as it stands, `grid` and `tone`, saturates
    them too.  `gram` (p q + b, p q + b), `right` (p q + b,) float64.
    """
    rows, columns = grid.shape[0], grid.shape[1]
    nodes = rows * columns
    gram[:] = 0.0
    right[:] = 0.0
    index = np.empty(6, np.int64)
    value = np.empty(6)
    for k in range(x.shape[0]):
        target = x[k, channel]
        l = base[k, channel]
        if target > _SATURATED:  # more light than the sensor shows: only too little of it is wrong
            gain = gain_at(grid, places[k, 0], places[k, 1], channel)
            if gain * l + tone_at(tone, l, channel) >= target:
                continue
        s = d[k] / mu
        omega = 1 / ((1 + s * s) * (1 + s * s))
        u, v = places[k, 0], places[k, 1]
        i, j = min(int(v), rows - 2), min(int(u), columns - 2)
        a, b = v - i, u - j
        index[0], value[0] = i * columns + j, (1 - a) * (1 - b) * l
        index[1], value[1] = i * columns + j + 1, (1 - a) * b * l
        index[2], value[2] = (i + 1) * columns + j, a * (1 - b) * l
        index[3], value[3] = (i + 1) * columns + j + 1, a * b * l
        position = min(max(l, 0.0), 1.0) * (tone.shape[0] - 1)
        t = min(int(position), tone.shape[0] - 2)
        index[4], value[4] = nodes + t, 1 - (position - t)
        index[5], value[5] = nodes + t + 1, position - t
        for p in range(6):
            right[index[p]] += omega * value[p] * target
            for q in range(6):
                gram[index[p], index[q]] += omega * value[p] * value[q]


@kernel
def relight(base, grid, tone, height, width, out):  # type: ignore[no-untyped-def]
    """Write the lit base picture into `out`; both (height * width * c,) float32, saturated at [0, 1]."""
    rows, columns, channels = grid.shape
    line = np.empty((columns, channels), np.float32)
    knots = tone.shape[0] - 1
    for y in range(height):
        v = y * (rows - 1) / max(height - 1, 1)
        i = min(int(v), rows - 2)
        a = v - i
        for j in range(columns):
            for c in range(channels):
                line[j, c] = (1 - a) * grid[i, j, c] + a * grid[i + 1, j, c]
        for x in range(width):
            u = x * (columns - 1) / max(width - 1, 1)
            j = min(int(u), columns - 2)
            b = np.float32(u - j)
            for c in range(channels):
                k = (y * width + x) * channels + c
                l = min(max(base[k], np.float32(0)), _ONE)
                position = l * np.float32(knots)
                t = min(int(position), knots - 1)
                part = position - np.float32(t)
                lit = ((_ONE - b) * line[j, c] + b * line[j + 1, c]) * l
                lit += (_ONE - part) * np.float32(tone[t, c]) + part * np.float32(tone[t + 1, c])
                out[k] = min(max(lit, np.float32(0)), _ONE)
