"""Naive dense float64 twins of the kernels on whole images, and images with known truth."""

import math

import numpy as np
from scipy import ndimage

from bgsub.scene import _cast_shadow_kernels, _shadow_kernels
from bgsub.scene._frame_kernels import CHUNK


def filled(image):
    """Return which chunks of the pixels of an image are not empty, (chunks,) uint8."""
    flat = np.pad(image.reshape(-1) != 0, (0, -image.size % CHUNK))
    return flat.reshape(-1, CHUNK).any(axis=1).astype(np.uint8)


# ---- pictures ----------------------------------------------------------------------------------------------------


class Texture:
    """An image defined by a formula, which can be sampled anywhere: waves, and tiles with soft edges.

    `finest` is the shortest wavelength in pixels.
    """

    def __init__(self, seed, channels=1, finest=9.0, waves=24, tiles=12, side=160):
        rng = np.random.default_rng(seed)
        length = finest * 8 ** rng.random(waves)
        direction = 2 * np.pi * rng.random(waves)
        self._kx, self._ky = 2 * np.pi / length * np.cos(direction), 2 * np.pi / length * np.sin(direction)
        self._phase = 2 * np.pi * rng.random(waves)
        tint = 1 + 0.3 * rng.standard_normal((2, max(waves, tiles), channels))
        self._amplitude = rng.normal(0, 0.5 / np.sqrt(waves), (waves, 1)) * tint[0, :waves]
        self._tiles = side * rng.random((tiles, 2)), side * (0.05 + 0.15 * rng.random((tiles, 2)))
        self._colour = rng.uniform(-0.25, 0.25, (tiles, 1)) * tint[1, :tiles]

    def at(self, x, y):
        """Return the image at places of any shape s: (*s, channels), within (0.1, 0.9)."""
        angles = self._kx * x[..., None] + self._ky * y[..., None] + self._phase
        total = np.sin(angles.astype(np.float32)) @ self._amplitude  # fifteen times as fast as in float64
        for (cx, cy), (a, b), colour in zip(*self._tiles, self._colour, strict=True):
            soft = _step(a - np.abs(x - cx)) * _step(b - np.abs(y - cy))
            total = total + soft[..., None] * colour
        return 0.5 + 0.4 * np.tanh(1.5 * total)

    def seen(self, h, w, dx=0.0, dy=0.0, angle=0.0, zoom=0.0):
        """Return the frame, (h, w, channels) float32, of a rotated, zoomed and shifted camera."""
        rows, columns = np.mgrid[:h, :w].astype(float)
        cx, cy = (w - 1) / 2, (h - 1) / 2
        px, py = columns - cx - dx, rows - cy - dy
        c, s = math.cos(angle) / (1 + zoom), math.sin(angle) / (1 + zoom)
        return self.at(cx + c * px + s * py, cy - s * px + c * py).astype(np.float32)


def _step(t):
    return 1 / (1 + np.exp(-np.clip(1.5 * t, -50, 50)))


# ---- registration ------------------------------------------------------------------------------------------------


def hat(t):
    """Return the linear hat function: 1 at 0, 0 from 1 on."""
    return np.maximum(0.0, 1 - np.abs(t))


def correlated(reference, image, reach, rows, columns):
    """Return the translation of largest likeness of the edges and the width of its peak, 0 at rest, and its clarity.

    A sum over pixels for each translation, on a torus of `rows` and `columns`; see `bgsub.scene.registration`.
    """

    def directions(picture):
        slopes = np.stack([ndimage.sobel(picture.astype(float), axis, mode="mirror") for axis in (1, 0)])
        length, (h, w) = np.hypot(*slopes), picture.shape
        return np.pad(slopes / (length + length.mean()), [(0, 0), (0, rows - h), (0, columns - w)])

    one, other = directions(reference), directions(image)
    up, across = (min(reach, (n - 1) // 2) for n in (rows, columns))
    likeness = np.empty((2 * up + 1, 2 * across + 1))
    for i, j in np.ndindex(likeness.shape):
        likeness[i, j] = rows * columns * (one * np.roll(other, (up - i, across - j), (1, 2))).sum()
    y, x = np.unravel_index(likeness.argmax(), likeness.shape)
    best, others = likeness[y, x], likeness.copy()
    others[max(y - 3, 0) : y + 4, max(x - 3, 0) : x + 4] = 0
    stands_out = best > 1.5 * others.max()
    if likeness[up, across] >= 0.9 * best:
        return 0, 0, 0, stands_out
    shift, curvatures = [x - across, y - up], []
    for axis, (line, at) in enumerate([(likeness[y], x), (likeness[:, x], y)]):
        inside = 0 < at < line.size - 1
        curvatures.append(2 * line[at] - line[at - 1] - line[at + 1] if inside else 1e-9)
        shift[axis] += (line[at + 1] - line[at - 1]) / 2 / curvatures[-1] if inside else 0
    return *shift, np.sqrt(2 * best / sum(curvatures)), stands_out


def align_step(image, points, rows, soft, unit, movement):
    """One reweighted Gauss-Newton step as a dense least-squares problem: the new movement, the cost before, the length.

    Points from the centre of the picture. Unknowns: translation, angle in pixels at the corner, gain and offset with a
    little inertia, and the zoom in pixels at the corner if the movement has one.
    """
    h, w, _ = image.shape
    n = points.shape[1]
    dx, dy, angle, gain, offset, *zoom = movement
    size, k = 1 + sum(zoom), len(movement)
    rotation = size * np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    x, y = rotation @ points.astype(float) + [[(w - 1) / 2 + dx], [(h - 1) / 2 + dy]]
    inside = (x >= 0) & (x < w - 1) & (y >= 0) & (y < h - 1)
    seen = ndimage.map_coordinates(image.mean(axis=2, dtype=float), [y[inside], x[inside]], order=1)
    rows = rows[:, inside].astype(float)
    r = seen + gain * rows[3] - offset
    cost = (np.sum(r**2 / (soft**2 + r**2)) + np.sum(~inside)) / n
    root = np.sqrt(np.r_[(1 + (r / soft) ** 2) ** -2, 1e-3 * n, 1e-3 * n])
    J = np.vstack([rows.T, np.eye(k)[3:5]])
    target = -np.r_[r, gain - 1, offset]
    step = np.linalg.lstsq(J * root[:, None], target * root, rcond=None)[0]
    moved = np.delete(step, [3, 4])
    return movement + step / [1, 1, unit, 1, 1, unit][:k], cost, float(np.linalg.norm(moved))


# ---- light -------------------------------------------------------------------------------------------------------


def node_weights(shape, u, v):
    """Return all hat functions of a grid of nodes, `shape`, at (u, v)."""
    return np.outer(hat(np.arange(shape[0]) - v), hat(np.arange(shape[1]) - u))


def roughness(shape):
    """Return the matrix of the sum of squared differences between neighbouring nodes of a grid."""
    places = np.argwhere(np.ones(shape))
    near = np.abs(places[:, np.newaxis] - places).sum(axis=2) == 1
    return np.diag(near.sum(axis=1)) - near


def lit(base, places, grid, tone):
    """Return the light at sites, clipped like a sensor: (n, c)."""
    return brightness(base, places, grid, tone).clip(0, 1)


def brightness(base, places, grid, tone):
    """``(gain at the place) * base + tone(base)`` at sites: (n, c)."""
    knots, at = np.linspace(0, 1, len(tone)), places[:, ::-1].T
    gains = (ndimage.map_coordinates(nodes, at, order=1, mode="nearest") for nodes in grid.transpose(2, 0, 1))
    return np.stack([g * l + np.interp(l, knots, t) for g, l, t in zip(gains, base.T, tone.T, strict=True)], axis=1)


def light_errors(x, base, places, grid, tone):
    """Return the distances of a frame from the light, (n,), and where saturation hides both, (n, c)."""
    light, errors = brightness(base, places, grid, tone), x - lit(base, places, grid, tone)
    hidden = (base > 0.98) & (x >= light)  # what was saturated may be brighter than it was seen
    return np.linalg.norm(np.where(hidden, 0, errors), axis=1), hidden | ((x > 0.98) & (light >= x))


def light_equations(x, base, places, grid, tone, mu, channel):
    """Return the normal equations of one channel by the dense design matrix, without saturated sites.

    The unknowns are the nodes, row by row of the grid, and the knots.
    """
    base_of, shape, knots = base[:, channel].astype(float), grid.shape[:2], len(tone)
    gains = [node_weights(shape, *place).ravel() * l for place, l in zip(places.astype(float), base_of, strict=True)]
    tones = hat(np.arange(knots) - base_of.clip(0, 1)[:, np.newaxis] * (knots - 1))  # hat functions of the curve
    design = np.hstack([gains, tones])
    d, hidden = light_errors(x, base, places, grid, tone)
    weighted = design * np.where(hidden[:, channel], 0, (1 + (d / mu) ** 2) ** -2)[:, np.newaxis]
    return weighted.T @ design, weighted.T @ x[:, channel].astype(float)


def places_of(h, w, shape):
    """(u, v) of every pixel, row by row, in cells of the grid of nodes that spans the picture."""
    rows, columns = np.divmod(np.arange(h * w), w)
    return np.stack([columns * (shape[1] - 1) / max(w - 1, 1), rows * (shape[0] - 1) / max(h - 1, 1)], 1)


# ---- objects and pixels ------------------------------------------------------------------------------------------


class Ages:
    """Ages: how long every pixel has been foreground or light of one colour, how often it became strong in it."""

    def __init__(self, n, channels, tolerance):
        self.age, self._anchor, self._tolerance = np.zeros(n, int), np.zeros((n, channels)), tolerance
        self.returns, self.is_back = np.zeros(n, int), np.zeros(n, bool)

    def see(self, x, mask, strong, lit):
        x, counts = x.astype(float), (mask == 255) | (lit == 2)
        near = np.linalg.norm(x - self._anchor, axis=1) < self._tolerance
        self.returns = np.minimum(self.returns + 10 * (near & strong & ~self.is_back), 160)
        same, self.is_back = (self.age > 0) & near, strong | (self.is_back & near)
        new = np.where(counts[:, None], x, self._anchor)
        self._anchor = np.where((same & counts)[:, None], 0.9 * self._anchor + 0.1 * x, new)
        self.age = np.where(~counts, 0, np.where(same, self.age + 1, 1))


def deviation(x, l, scale):
    """Return the deviation from the background as a sample; 127 is full scale."""
    return np.rint(np.clip(127 * scale * (x.astype(float) - l.astype(float)), -127, 127)).astype(int)


def matching(x, l, memory, rate, chance, belief, full, radius, samples, shares, over):
    """Return the running shares of matching candidates, and the candidates, 2 or 3 where they match."""
    shares, over, scale, threshold = shares.copy(), over.copy(), float(memory.scale), float(memory.threshold)
    h, w = x.shape[:2]
    for i, j in zip(*np.nonzero(over), strict=True):
        top, left = max(i - radius, 0), max(j - radius, 0)
        window = l[top : i + radius + 1, left : j + radius + 1]
        is_inner = radius == 1 and 2 <= i < h - 2 and 2 <= j < w - 2
        matches = []  # of the pixel and those beside it, at each shift
        for u, v in [(0, 0), (-1, 0), (1, 0), (0, -1), (0, 1)] if is_inner else [(0, 0)]:
            near = l[top + u : top + u + len(window), left + v : left + v + window.shape[1]].astype(float)
            matches.append(np.linalg.norm(x[i + u, j + v].astype(float) - near, axis=2) * scale < threshold)
        is_certain = np.all(matches, axis=0).any()
        found = is_certain or (memory.is_coloured and matches[0].any())
        believed, weight = (0.5, rate * (1 if is_certain else chance)) if found else (belief, rate)
        if memory.factor * memory.sigma[i, j] > threshold:
            away = samples[i * w + j].astype(int) - deviation(x[i, j], l[i, j], scale)[:, None]
            found |= (away**2).sum(axis=0).min() < int((127 * threshold) ** 2)
        share = shares[i, j] + weight * (full * found - shares[i, j])
        shares[i, j] = int(share + 0.5)
        if found:
            over[i, j] = 2 if share > believed * full else 3
    return shares, over


def cleared(x, l, limit, over, reach, filled, tile, dense, moving):
    """Return the candidates, 0 or 1, after those that match are outvoted or cleared; see the kernel."""
    result = (over > 0).astype(np.uint8)
    for i, j in zip(*np.nonzero(over == 2), strict=True):
        r, t = i // tile, j // tile
        top, left = max(r - reach, 0) * tile, max(t - reach, 0) * tile
        around = over[top : (r + reach + 1) * tile, left : (t + reach + 1) * tile]
        one, two = np.sum((around == 1) | (around == 3)), np.sum(around == 2)
        result[i, j] = one >= two and one >= filled * around.size
    padded = np.pad(over, [(0, -size % tile) for size in over.shape])
    tiles = padded.reshape(padded.shape[0] // tile, tile, -1, tile)
    regions, count = ndimage.label((tiles > 0).sum(axis=(1, 3)) >= dense, np.ones((3, 3)))
    regions = np.kron(regions, np.ones((tile, tile), int))[: over.shape[0], : over.shape[1]]
    for region in range(1, count + 1):
        own = over[(regions == region) & (over > 0)]
        if np.mean(own > 1) > moving:
            for i, j in zip(*np.nonzero(regions == region), strict=True):
                radius, step = tile * reach, max(tile * reach // 8, 1)  # at most 17 x 17 pixels
                around = l[max(i - radius, 0) : i + radius + 1 : step, max(j - radius, 0) : j + radius + 1 : step]
                is_far = np.linalg.norm(around.astype(float) - x[i, j], axis=2).min() >= limit
                result[i, j] = over[i, j] == 1 and is_far
    return result


def random_bits(frame, pixel):
    """SplitMix64 of two numbers, with Python's integers."""
    z = frame * 0x9E3779B97F4A7C15 + pixel * 0xD1B54A32D192ED03 & _64_BITS
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & _64_BITS
    z = (z ^ z >> 27) * 0x94D049BB133111EB & _64_BITS
    return z ^ z >> 31


_64_BITS = 2**64 - 1


def remembered(frame, every, x, l, memory, solid, age, samples):
    """Return the samples after the restless pixels of the chunks that are due have stored their deviation."""
    samples, scale = samples.copy(), float(memory.scale)
    h, w, _ = x.shape
    for p in range(h * w):
        if random_bits(frame // every, p // CHUNK * CHUNK) % every != frame % every:
            continue
        i, j = divmod(p, w)
        bits = random_bits(frame, p)
        calm = memory.factor * memory.sigma[i, j] <= memory.threshold
        if calm or (solid[i, j] and (age[i, j] > 1 or bits % 4)):
            continue
        samples[p, :, (bits >> 8) % samples.shape[2]] = deviation(x[i, j], l[i, j], scale)
        if (bits >> 4) % 2:
            down, right = divmod((bits >> 16) % 9, 3)
            u, v = np.clip(i + down - 1, 0, h - 1), np.clip(j + right - 1, 0, w - 1)
            samples[u * w + v, :, (bits >> 24) % samples.shape[2]] = deviation(x[i, j], l[u, v], scale)
    return samples


# ---- shadows ------------------------------------------------------------------------------------------------------


def darkened(x, l, mask, tint, darkest, faintest, lit, colour, lightest, weak, slack):
    """Which foreground pixels are the background, tinted or not, times a factor in a range, or near it with one near 1.

    Or the reverse: the background is such a pixel times a factor. Limits are wider by `slack`.
    """
    square = np.sum(l * l, axis=2) + 1e-4
    g = np.sum(x * l, axis=2) / square
    even = g[:, :, np.newaxis]
    tinted = (1 + (1 - even) * tint) * l
    along = [np.sum(x * y, axis=2) ** 2 / (np.sum(y * y, axis=2) + 1e-4) for y in (l, tinted)]
    distance = np.maximum(np.sum(x * x, axis=2) - np.max(along, axis=0), 0.0)
    more, less = 1 + slack, 1 - slack
    is_near = (g < lightest * more) & (((1 - g) / _shadow_kernels._WEAK) ** 2 + distance / weak**2 < more)
    is_dark = (g > darkest * less) & (g < faintest * more) & (distance < colour**2 * more)
    inverse = np.sum(x * l, axis=2) / (np.sum(x * x, axis=2) + 1e-4)
    rest = np.maximum(square - inverse * np.sum(x * l, axis=2), 0.0)
    is_lit = (inverse > darkest * less) & (inverse < lit * more) & (rest < colour**2 * more)
    return (mask != 0) & (is_dark | is_near | is_lit)


def shadow_sums(x, l, i, j, most):
    """Brightnesses in 3x3 pixels, the RMS of what no factor explains, RMS of the background, and correlation."""
    box = np.s_[i - 1 : i + 2, j - 1 : j + 2]
    p, q = x[box].mean(axis=2).ravel(), l[box].mean(axis=2).ravel()
    is_lit = shadow_steps(x[i, j], l[i, j], most) > 9  # the background is then the darker one
    one, other = (q, p) if is_lit else (p, q)
    g = one @ other / (other @ other + 1e-4 / x.shape[2] ** 2)
    rest = np.sqrt(max(one @ one - g * (one @ other), 0) / 9)
    return rest, q.std(), np.corrcoef(p, q)[0, 1] if p.std() > 0 and q.std() > 0 else 0.0


def shadow_steps(x, l, most, slack=0.0):
    """Steps of 0.1 of the brightness relative to the background, plus `slack`; from 10 on the inverse below `most`."""
    ratio = x.sum(axis=-1) / l.sum(axis=-1) + slack
    shadow = np.clip(np.floor(10 * ratio + 0.5), 0, 9).astype(int)
    lit = 10 + np.floor(10 / np.maximum(ratio, 0.1)).astype(int)
    return np.where(ratio * most > 1, lit, shadow)


def shadow_seen(x, l, is_seen, most, slack):
    """Where shadows of a factor have been seen; fewer with a negative `slack`, more with a positive one."""
    known = [is_seen[shadow_steps(x, l, most, d)] != 0 for d in (-abs(slack), abs(slack))]
    return (np.any if slack > 0 else np.all)(known, axis=0)


def shadow_votes(p, q, mask):
    """Return the votes of the middle of 3x3 pixels, and the distances of its numbers to their limits."""
    bins, square = 17, np.sum(q[1, 1] ** 2)
    g, ratios = np.sum(p[1, 1] * q[1, 1]) / square, p.sum(axis=(0, 1)) / q.sum(axis=(0, 1))
    brightness, usual = p.sum(axis=2).ravel(), q.sum(axis=2).ravel()
    correlation = np.corrcoef(brightness, usual)[0, 1]
    numbers = np.array([q[1, 1].min() - 0.1, g - 0.35, 0.85 - g, usual.std() - 3 * 0.015, correlation - 0.9])
    t = (ratios / g - 1) / (1 - g) / 0.1
    row, column = (t[c] - t[1] + bins // 2 for c in (0, 2))
    votes = np.zeros((2, bins, bins))
    if (numbers[:4] > 0).all() and (mask != 0).all() and max(abs(t[0] - t[1]), abs(t[2] - t[1])) < bins / 2:
        votes[:, round(row), round(column)] = correlation > 0.9, 1
    return votes, np.append(numbers, [abs(row % 1 - 0.5), abs(column % 1 - 0.5)])


def shadow_outline(x, l, mask):
    """Pixels of the outline on each side, lit ones and all."""
    (h, w), every, depth, counts = mask.shape, _cast_shadow_kernels._ROW_STEP, _cast_shadow_kernels._DEPTH, []
    i, j = np.indices(mask.shape)
    inner = (i % every == 0) & (depth <= i) & (i < h - depth) & (depth <= j) & (j < w - depth) & (mask != 0)
    is_lit = np.float32(x.sum(axis=2)) >= _cast_shadow_kernels._LIT * np.float32(l.sum(axis=2))
    for dy, dx in _cast_shadow_kernels.STEPS:
        near, far = (np.roll(mask, (-k * dy, -k * dx), (0, 1)) for k in (depth - 1, depth))
        found = inner & (near != 0) & (far == 0)
        counts.append([np.sum(found & is_lit), np.sum(found)])
    return counts


def shadow_walk(dy, dx, levels, mask, umbra, faintest, rise, fall):
    """Walk in from each pixel at the background, one after the other; -1 outside."""
    h, w = mask.shape
    cast = np.zeros_like(mask)
    for start in np.argwhere(mask):
        i, j = start
        if not (0 <= i + dy < h and 0 <= j + dx < w) or mask[i + dy, j + dx] or levels[i, j] >= faintest:
            continue
        darkest = np.inf
        while 0 <= i < h and 0 <= j < w and mask[i, j]:
            level = levels[i, j]
            goes_on = level <= darkest + rise if level <= umbra else level < darkest - fall
            if not goes_on and darkest < np.inf:
                break
            cast[i, j], darkest = 1, min(level, darkest)
            i, j = i - dy, j - dx
    return cast
