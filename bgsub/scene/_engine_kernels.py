"""Kernels of the pass over the model: step, background, residual, candidates and influence of a frame.

Blocks of the basis stay in the first-level cache: each is read once and written once. Every inner loop runs over
contiguous entries of separate slices, float32 loops apart from byte loops, so that all of them vectorise.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bgsub.numerics.jit import kernel, part
from bgsub.scene._pixel_kernels import CHUNK, exceeds_noise, norm_of, residual_of, to_picture
from bgsub.tracking._kernels import any_set, combine, dot, influence_and_value

_ZERO = np.float32(0)


class FrameArrays(NamedTuple):
    """A frame, flattened for the kernels: n pixels, m = n c values."""

    pixels: np.ndarray  # (m,), uint8 or float32, ``scale * pixels`` is in [0, 1]
    sigma: np.ndarray  # (n,) float32, noise scale
    cost_scale: np.ndarray  # (n,) float32, scales s of the costs ``s^2 h(r / s)``; empty without costs
    hidden: np.ndarray  # (n,) uint16, not 0 where a pixel is not observed; empty if all are observed
    before: np.ndarray  # (m,), type of the pixels, background of the previous frame
    kept: bool  # whether the blocks that are not visited keep that background


class CompareParams(NamedTuple):
    """Units of a frame and limits of a candidate."""

    scale: np.float32  # factor to the unit range
    lanes: tuple[int, ...]  # see `bgsub.scene.frame_format.lanes_of`
    full: np.float32  # reciprocal of `scale`
    top: np.float32  # largest value of an integer image, 0 for floating point
    threshold: np.float32  # a pixel is a candidate if its joint residual exceeds ``max(threshold, factor * sigma)``
    factor: np.float32


class Outputs(NamedTuple):
    """Output arrays."""

    d: np.ndarray  # (n,) float32, joint residual
    picture: np.ndarray  # (m,), type of the frame, background
    over: np.ndarray  # (n,) uint8, candidates


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


@part
def for_channels(values, channels, out):  # type: ignore[no-untyped-def]
    """Write the value of every pixel, (n,), into `out`, (n * channels,), once per channel; both float32."""
    for i in range(values.size):
        for c in range(channels):
            out[channels * i + c] = values[i]


@part
def compare_block(l, pixels, sigma, look, r, d, picture, over):  # type: ignore[no-untyped-def]
    """Write residual, joint norm, picture and candidates of a block with background `l`; return their number."""
    residual_of(pixels, look.scale, l, r)
    to_picture(l, look.full, look.top, picture)
    norm_of(r, len(look.lanes), d)
    return exceeds_noise(d, sigma, look.threshold, look.factor, over)


@kernel
def compare(begin, end, l, frame, look, out, work):  # type: ignore[no-untyped-def]
    """Compare the pixels `begin` to `end` with a background `l`, (m,); return the number of candidates.  O(m)."""
    channels = len(look.lanes)
    count, pixels_per_block = 0, work.shape[1] // channels
    for a in range(begin, end, pixels_per_block):
        b = min(a + pixels_per_block, end)
        first, last = a * channels, b * channels
        count += compare_block(
            l[first:last], frame.pixels[first:last], frame.sigma[a:b], look,
            work[1, : last - first], out.d[a:b], out.picture[first:last], out.over[a:b],
        )  # fmt: skip
    return count


@kernel
def sweep(begin, end, visit, cost, frame, look, out, work, products):  # type: ignore[no-untyped-def]
    """Step the due blocks of the basis and separate the pixels `begin` to `end` of a frame.  O(m k).

    `work` (3, channels * pixels of a block) float32. `products` (blocks, k + 3) float64: inner products of e with the
    rows of V and with itself, the cost, the number of candidates.
    """
    # one row of products per block: their sums do not depend on the number of bands
    stack, c, channels = visit.stack, visit.c, len(look.lanes)
    k, pixels_per_block = c.size, work.shape[1] // channels
    for a in range(begin, end, pixels_per_block):
        b = min(a + pixels_per_block, end)
        sums = products[a // pixels_per_block]
        sums[:] = 0.0
        first, last = a * channels, b * channels
        l, r, s = work[0, : last - first], work[1, : last - first], work[2, : last - first]
        e = stack[k, first:last]
        is_visited = a // pixels_per_block % visit.period == visit.turn
        if frame.kept and not is_visited:
            sums[k + 2] = compare_kept_block(
                frame.before[first:last], frame.pixels[first:last], frame.sigma[a:b], look,
                r, out.d[a:b], out.picture[first:last], out.over[a:b],
            )  # fmt: skip
            continue
        if is_visited:
            advance(stack, first, visit.G[visit.turn], e, c, l)
        else:
            combine(stack, first, c, l)
        sums[k + 2] = compare_block(
            l, frame.pixels[first:last], frame.sigma[a:b], look,
            r, out.d[a:b], out.picture[first:last], out.over[a:b],
        )  # fmt: skip
        if not is_visited:
            continue
        if frame.hidden.size > 0:
            hide(frame.hidden[a:b], channels, r)
        for_channels(frame.cost_scale[a:b], channels, s)
        sums[k + 1] = visit.period * influence_and_value(r, s, e, cost.kind, cost.mu, cost.p)
        sums[k] = multiply(e, np.float32(visit.period))
        project(stack, first, e, sums[:k])


@part
def compare_kept_block(before, pixels, sigma, look, r, d, picture, over):  # type: ignore[no-untyped-def]
    """Do the work of `compare_block` with the displayed background of the previous frame, (n * channels,)."""
    for i in range(r.size):
        picture[i] = before[i]
        r[i] = look.scale * (np.float32(pixels[i]) - np.float32(before[i]))
    norm_of(r, len(look.lanes), d)
    return exceeds_noise(d, sigma, look.threshold, look.factor, over)


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
