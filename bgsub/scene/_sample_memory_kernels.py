"""Kernels that compare candidates with the background nearby and with a memory of samples."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bgsub.numerics.jit import kernel, part
from bgsub.scene._pixel_kernels import CHUNK, distance, places_of
from bgsub.tracking._kernels import any_set

_ZERO = np.float32(0)
_UNIT = np.float32(127)  # sample value of full scale
_RARELY = np.uint64(4)  # visits of a solid pixel per stored sample


class MatchLimits(NamedTuple):
    """Limits of a match."""

    sigma: np.ndarray  # (h, w) float32, noise scale
    scale: np.float32  # factor of frame and background to the unit range
    threshold: np.float32  # largest joint distance of a match
    factor: np.float32  # a pixel is restless if ``factor * sigma`` exceeds the threshold


@kernel
def clear_matching(begin, end, lanes, x, l, memory, rate, belief, full, radius, samples, shares, over):  # type: ignore[no-untyped-def]
    """Clear the matching candidates in `over`, (h, w), where most match.  O(h w + (radius^2 + q) c candidates).

    `x`, `l` (h, w, c); `samples` (h * w, c, q) int8; `shares` (h, w) uint8: running share of matching candidates, with
    weight `rate` of a new one; above `belief`, matching ones are cleared.
    """
    # a candidate matches a background colour within `radius` or, at a restless pixel, a sample of its deviation
    h, w = over.shape
    channels = len(lanes)
    colours, others, remembered = x.reshape(-1), l.reshape(-1), samples.reshape(-1)
    flat, flags, sigma = shares.reshape(-1), over.reshape(-1), memory.sigma.reshape(-1)
    limit = (memory.threshold / memory.scale) * (memory.threshold / memory.scale)
    reach = np.int32(memory.threshold * memory.threshold * _UNIT * _UNIT)
    unit = memory.scale * _UNIT
    places = np.empty(CHUNK, np.uint64)
    for i in range(begin, end):
        if not any_set(flags[i * w : (i + 1) * w]):  # most rows are empty; faster than chunk by chunk
            continue
        for a in range(i * w, (i + 1) * w, CHUNK):
            b = min(a + CHUNK, (i + 1) * w)
            if not any_set(flags[a:b]):
                continue
            for n in range(places_of(flags, a, b, places)):
                pixel = places[n]  # unsigned indices need no test for negative ones
                j = np.int64(pixel) - i * w
                if radius == 1 and 0 < i < h - 1 and 0 < j < w - 1:
                    nearest = np.float32(nearest_of_nine(colours, others, pixel, np.uint64(w), channels))
                else:
                    nearest = nearest_nearby(x, l, i, j, radius)
                found = nearest < limit
                if not found and memory.factor * sigma[pixel] > memory.threshold:
                    found = nearest_sample(colours, others, pixel, channels, unit, remembered, samples.shape[2]) < reach
                share = np.float32(flat[pixel])
                share += rate * ((full if found else _ZERO) - share)
                flat[pixel] = share + np.float32(0.5)
                flags[pixel] = 0 if found & (share > belief * full) else 1


@part
def nearest_sample(x, l, pixel, channels, unit, samples, count):  # type: ignore[no-untyped-def]
    """Return the least squared distance of ``unit * (x - l)`` at a pixel from its `count` samples; flat arrays."""
    nearest = np.int32(2147483647)
    first = pixel * np.uint64(channels)
    for q in range(count):
        total = np.int32(0)
        for c in range(channels):
            k = first + np.uint64(c)
            s = deviation(x[k], l[k], unit) - np.int32(samples[k * np.uint64(count) + np.uint64(q)])
            total += s * s
        nearest = min(nearest, total)
    return nearest


@part
def deviation(x, l, unit):  # type: ignore[no-untyped-def]
    """Return ``unit * (x - l)``, rounded and clipped to the range of a sample."""
    d = min(max((np.float32(x) - np.float32(l)) * unit, -_UNIT), _UNIT)
    return np.int32(np.rint(d))


@kernel
def remember(first, step, frame, x, l, memory, solid, age, samples):  # type: ignore[no-untyped-def]
    """Write the deviation of restless pixels into one of their samples, every second time also to a neighbour."""
    # at solid pixels only every fourth visit counts, and none where the age exceeds 1: an object stands there
    h, w, channels = x.shape
    count = np.uint64(samples.shape[2])
    unit, sigma = memory.scale * _UNIT, memory.sigma
    for i in range(h):
        begin = first - i * w
        for j in range(max(begin, begin % step), w, step):  # a division per pixel would cost most of the time
            if memory.factor * sigma[i, j] <= memory.threshold:
                continue
            p = i * w + j
            bits = scrambled(np.uint64(frame), np.uint64(p))
            if solid[i, j] != 0 and (age[i, j] > 1 or bits % _RARELY != 0):
                continue
            slot = np.int64((bits >> np.uint64(8)) % count)
            for c in range(channels):
                samples[p, c, slot] = deviation(x[i, j, c], l[i, j, c], unit)
            if (bits >> np.uint64(4)) % np.uint64(2) == 0:
                continue
            k = np.int64((bits >> np.uint64(16)) % np.uint64(9))
            u, v = min(max(i + k // 3 - 1, 0), h - 1), min(max(j + k % 3 - 1, 0), w - 1)
            slot = np.int64((bits >> np.uint64(24)) % count)
            for c in range(channels):
                samples[u * w + v, c, slot] = deviation(x[i, j, c], l[u, v, c], unit)


@part
def scrambled(frame, pixel):  # type: ignore[no-untyped-def]
    """Return 64 pseudo-random bits from two uint64 numbers (SplitMix64, G. Steele et al., 2014)."""
    z = frame * np.uint64(0x9E3779B97F4A7C15) + pixel * np.uint64(0xD1B54A32D192ED03)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@part
def nearest_of_nine(colours, others, pixel, w, channels):  # type: ignore[no-untyped-def]
    """Return the least squared distance of an inner pixel from the 3x3 pixels of `others` around it; flat arrays."""
    one, step = np.uint64(1), np.uint64(channels)
    here = step * pixel
    nearest = distance(colours, others, here, here, channels)
    k = step * (pixel - w - one)
    for _ in range(3):
        for column in range(3):
            nearest = min(nearest, distance(colours, others, here, k + step * np.uint64(column), channels))
        k += step * w
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
