"""Kernels of the illumination model: robust fit of a smooth gain field and a tone curve."""

from __future__ import annotations

import numpy as np

from bgsub.numerics.jit import allocating_kernel, kernel, part

_ZERO, _ONE = np.float32(0), np.float32(1)
_SATURATED = np.float32(0.98)  # of full scale


@kernel
def gather(pixels, index, scale, values):  # type: ignore[no-untyped-def]
    """Write ``scale * pixels`` at the pixels `index` into `values`, (n, c) float32; `pixels` (h w c,)."""
    channels = values.shape[1]
    for k in range(index.size):
        for c in range(channels):
            values[k, c] = scale * np.float32(pixels[index[k] * channels + c])


@kernel
def contrast(pixels, index, channels):  # type: ignore[no-untyped-def]
    """Return the standard deviation of the mean of the channels at the pixels `index`; `pixels` (h w c,)."""
    total, squares = 0.0, 0.0
    for k in range(index.size):
        brightness = 0.0
        for c in range(channels):
            brightness += float(pixels[index[k] * channels + c])
        total += brightness
        squares += brightness * brightness
    mean = total / index.size
    return np.sqrt(max(squares / index.size - mean * mean, 0.0)) / channels


@part
def design(value, corners, row):  # type: ignore[no-untyped-def]
    """Write the factors of the unknowns at a site into `row`, (8,): 4 corners times its value, 4 knots."""
    for i in range(4):
        row[i] = corners[i] * value
    position = min(max(value, _ZERO), _ONE) * np.float32(3)
    for i in range(4):
        row[4 + i] = max(_ONE - abs(position - np.float32(i)), _ZERO)


@part
def take_cell(unknowns, corner, rows, local):  # type: ignore[no-untyped-def]
    """Copy the unknowns, (c, p q + 4), of the cell with this upper left node into `local`, (c, 8)."""
    knots = unknowns.shape[1] - 4
    for c in range(local.shape[0]):
        for i in range(4):
            local[c, i] = unknowns[c, corner + i // 2 * rows + i % 2]
            local[c, 4 + i] = unknowns[c, knots + i]


@part
def add_cell(sums, moments, corner, rows, gram, right):  # type: ignore[no-untyped-def]
    """Add the sums of one cell, (c, 8, 8) and (c, 8), to the normal equations, and clear them."""
    knots = right.shape[1] - 4
    for c in range(sums.shape[0]):
        for i in range(8):
            p = corner + i // 2 * rows + i % 2 if i < 4 else knots + i - 4
            right[c, p] += moments[c, i]
            moments[c, i] = _ZERO
            for j in range(8):
                q = corner + j // 2 * rows + j % 2 if j < 4 else knots + j - 4
                if q <= p:
                    gram[c, p, q] += sums[c, i, j]
                sums[c, i, j] = _ZERO


@part
def residuals(x, base, corners, cells, rows, unknowns, d):  # type: ignore[no-untyped-def]
    """Write the joint residual of the lit base at the sites into `d`, (n,) float32; arguments as in `accumulate`."""
    n, channels = x.shape
    local, row = np.empty((channels, 8), np.float32), np.empty(8, np.float32)
    cell = -1
    for k in range(n):
        if cells[k] != cell:
            cell = cells[k]
            take_cell(unknowns, cell, rows, local)
        total = _ZERO
        for c in range(channels):
            design(base[k, c], corners[k], row)
            lit = _ZERO
            for i in range(8):
                lit += row[i] * local[c, i]
            s = x[k, c] - min(max(lit, _ZERO), _ONE)
            total += s * s
        d[k] = np.sqrt(total)


@part
def accumulate(x, base, corners, cells, rows, unknowns, mu, gram, right):  # type: ignore[no-untyped-def]
    """Add the normal equations of ``x ~ sum_j a_j phi_j base + sum_b t_b psi_b(base)`` to `gram` and `right`.

    `x`, `base` (n, c); `corners` (n, 4): bilinear weights; `cells` (n,): sorted upper left nodes; `unknowns` (c, p q +
    4): nodes and knots. Weights ``1 / (1 + (d / mu)^2)^2``. Saturated sites do not count if the current light saturates
    them too.
    """
    n, channels = x.shape
    local, row = np.empty((channels, 8), np.float32), np.empty((channels, 8), np.float32)
    sums, moments = np.zeros((channels, 8, 8), np.float32), np.zeros((channels, 8), np.float32)
    saturated = np.empty(channels, np.bool_)
    sharpness = np.float32(1 / (mu * mu))
    cell = -1
    for k in range(n + 1):
        if k == n or cells[k] != cell:
            if cell >= 0:
                add_cell(sums, moments, cell, rows, gram, right)
            if k == n:
                break
            cell = cells[k]
            take_cell(unknowns, cell, rows, local)
        total = _ZERO
        for c in range(channels):
            design(base[k, c], corners[k], row[c])
            lit = _ZERO
            for i in range(8):
                lit += row[c, i] * local[c, i]
            saturated[c] = x[k, c] > _SATURATED and lit >= x[k, c]  # only too little light is an error there
            s = x[k, c] - min(max(lit, _ZERO), _ONE)
            total += s * s
        s = _ONE + total * sharpness
        omega = _ONE / (s * s)
        for c in range(channels):
            if saturated[c]:
                continue
            for i in range(8):
                weighted = omega * row[c, i]
                moments[c, i] += weighted * x[k, c]
                for j in range(8):
                    sums[c, i, j] += weighted * row[c, j]


@part
def solve_envelope(gram, first, right):  # type: ignore[no-untyped-def]
    """Solve ``gram a = right`` in place by Cholesky; lower triangle, zero in row i before column ``first[i]``."""
    k = right.size
    for i in range(k):
        for j in range(first[i], i + 1):
            s = gram[i, j]
            for n in range(max(first[i], first[j]), j):
                s -= gram[i, n] * gram[j, n]
            gram[i, j] = np.sqrt(s) if i == j else s / gram[j, j]
        s = right[i]
        for n in range(first[i], i):
            s -= gram[i, n] * right[n]
        right[i] = s / gram[i, i]
    for i in range(k - 1, -1, -1):
        right[i] /= gram[i, i]
        for n in range(first[i], i):
            right[n] -= gram[i, n] * right[i]


@allocating_kernel
def fit(x, base, corners, cells, rows, penalty, first, pull, mus, unknowns, gram, right):  # type: ignore[no-untyped-def]
    """Refine the light, `unknowns`, by one step of reweighted least squares for each of `mus`."""
    # `penalty` (p q + 4, p q + 4) and `pull`, of the distance of the nodes from 1, are per site
    n, channels = x.shape
    nodes = right.shape[1] - 4
    for step in range(mus.size):
        for c in range(channels):
            for i in range(nodes + 4):
                right[c, i] = pull * n if i < nodes else 0.0
                for j in range(first[i], i + 1):
                    gram[c, i, j] = penalty[i, j] * n
        accumulate(x, base, corners, cells, rows, unknowns, mus[step], gram, right)
        for c in range(channels):
            solve_envelope(gram[c], first, right[c])
            for i in range(nodes + 4):
                unknowns[c, i] = right[c, i]


@kernel
def is_monotonic(unknowns, fall):  # type: ignore[no-untyped-def]
    """Return whether a light, (c, p q + 4), keeps brighter values brighter, up to `fall` from knot to knot."""
    channels, nodes = unknowns.shape[0], unknowns.shape[1] - 4
    for c in range(channels):
        gain = 0.0
        for i in range(nodes):
            gain += unknowns[c, i]
        for i in range(nodes, nodes + 3):
            if gain / (3 * nodes) + unknowns[c, i + 1] - unknowns[c, i] < -fall:
                return False
    return True


@kernel
def similar_share(x, base, index, channels, scale, threshold):  # type: ignore[no-untyped-def]
    """Return the share of the pixels `index` whose values, times `scale`, differ by less than `threshold`; (h w c,)."""
    count = 0
    limit = threshold * threshold
    for k in range(index.size):
        total = _ZERO
        for c in range(channels):
            s = scale * (np.float32(x[index[k] * channels + c]) - np.float32(base[index[k] * channels + c]))
            total += s * s
        count += total < limit
    return count / index.size


@allocating_kernel
def relight(begin, end, base, scale, grid, tone, height, width, out):  # type: ignore[no-untyped-def]
    """Write rows of the lit base into `out`, clipped to [0, 1]; both (h w c,), `grid` (p, q, c), `tone` (b, c)."""
    rows, columns, channels = grid.shape
    line = np.empty((columns, channels), np.float32)
    knots = tone.shape[0] - 1
    for y in range(begin, end):
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
                l = min(max(scale * np.float32(base[k]), _ZERO), _ONE)
                position = l * np.float32(knots)
                t = min(int(position), knots - 1)
                part = position - np.float32(t)
                lit = ((_ONE - b) * line[j, c] + b * line[j + 1, c]) * l
                lit += (_ONE - part) * np.float32(tone[t, c]) + part * np.float32(tone[t + 1, c])
                out[k] = min(max(lit, _ZERO), _ONE)
