"""The Numba passes between frames, residual images and masks; one pixel does not know the others here."""

from __future__ import annotations

import numpy as np

from bgsub._jit import kernel

_ZERO = np.float32(0)


@kernel
def to_unit(pixels, scale, x):  # type: ignore[no-untyped-def]
    """Write ``scale * pixels`` into `x`, (m,), float32; `pixels` (m,) of any real dtype, `scale` float32."""
    for i in range(x.size):
        x[i] = np.float32(pixels[i]) * scale


@kernel
def to_integers(l, full, top, out):  # type: ignore[no-untyped-def]
    """Write ``full * l``, rounded and clipped to [0, top], into `out`, (m,) uint8 or uint16; `full`, `top` float32."""
    for i in range(out.size):
        out[i] = np.int32(min(max(l[i] * full, _ZERO), top) + np.float32(0.5))


@kernel
def joint_residual(x, l, channels, d):  # type: ignore[no-untyped-def]
    """Write the Euclidean norm over the channels of ``x - l``, (n * channels,), into `d`, (n,); all float32."""
    if channels == 1:
        for i in range(d.size):
            d[i] = abs(x[i] - l[i])
    elif channels == 3:
        for i in range(d.size):
            b, g, r = x[3 * i] - l[3 * i], x[3 * i + 1] - l[3 * i + 1], x[3 * i + 2] - l[3 * i + 2]
            d[i] = np.sqrt(b * b + g * g + r * r)
    else:
        for i in range(d.size):
            total = _ZERO
            for j in range(channels):
                s = x[channels * i + j] - l[channels * i + j]
                total += s * s
            d[i] = np.sqrt(total)


@kernel
def exceeds_noise(d, sigma, threshold, factor, over):  # type: ignore[no-untyped-def]
    """Write 1 into `over`, uint8, where ``d > max(threshold, factor * sigma)`` and 0 elsewhere; all (n,)."""
    for i in range(over.size):
        over[i] = d[i] > max(threshold, factor * sigma[i])


@kernel
def learn_noise(d, mask, rate, foreground_rate, clip, floor, sigma):  # type: ignore[no-untyped-def]
    """Move `sigma` towards the clipped residual, at `rate` where `mask` is 0 and at `foreground_rate` elsewhere.

    `d`, `sigma` (n,) float32, `mask` (n,) uint8, the other ones float32. `floor` keeps sigma out of the denormals.
    """
    for i in range(sigma.size):
        a = rate if mask[i] == 0 else foreground_rate
        sigma[i] = max(sigma[i] + a * (min(d[i], clip) - sigma[i]), floor)
