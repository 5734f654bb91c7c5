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
def learn_noise(d, mask, displaced, rate, foreground_rate, clip, floor, sigma):  # type: ignore[no-untyped-def]
    """Move `sigma` towards the clipped residual, at `rate` where `mask` is 0, elsewhere at `foreground_rate` times
    `displaced`, the share of a pixel's candidates that are moving background and no objects.

    `d`, `displaced`, `sigma` (n,) float32, `mask` (n,) uint8, the other ones float32. `floor` keeps sigma
    out of the denormals.
    """
    for i in range(sigma.size):
        a = rate if mask[i] == 0 else foreground_rate * displaced[i]
        sigma[i] = max(sigma[i] + a * (min(d[i], clip) - sigma[i]), floor)


@kernel
def match_neighbours(x, l, threshold, rate, belief, radius, displaced, over):  # type: ignore[no-untyped-def]
    """Take back candidates that look like the background a few pixels away, where most candidates do.

    A candidate is displaced background when the background within `radius` pixels (a square) is closer to its colour
    than `threshold`. `displaced` is the running share of such candidates among those of a pixel; where it exceeds
    `belief`, they are cleared.

    Parameters
    ----------
    x, l : ndarray, (h, w, c), float32
        Frame and background.
    threshold : float32
        Largest joint distance of a match.
    rate, belief : float32
        Weight of a new candidate in the share; least share.
    radius : int
        Half side of the square.
    displaced : ndarray, (h, w), float32
        The shares, changed in place.
    over : ndarray, (h, w), uint8
        Candidates, changed in place.  O(h w + radius^2 c candidates).
    """
    h, w, channels = x.shape
    limit = threshold * threshold
    for i in range(h):
        for j in range(w):
            if over[i, j] == 0:
                continue
            found = False
            for a in range(max(i - radius, 0), min(i + radius + 1, h)):
                for b in range(max(j - radius, 0), min(j + radius + 1, w)):
                    total = _ZERO
                    for c in range(channels):
                        s = x[i, j, c] - l[a, b, c]
                        total += s * s
                    if total < limit:
                        found = True
                        break
                if found:
                    break
            displaced[i, j] += rate * ((np.float32(1) if found else _ZERO) - displaced[i, j])
            if found and displaced[i, j] > belief:
                over[i, j] = 0
