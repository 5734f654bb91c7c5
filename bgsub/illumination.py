"""Light that changes in one frame: a gain field and a tone curve on the background, and a memory of backgrounds.

A frame under new light is ``x ~ (1 + Phi c) * l + t(l)``: bilinear hat functions Phi on a coarse grid, a piecewise
linear tone curve t for offsets and gamma, each channel with its own. Both are fitted by reweighted least squares on
some thousand pixels, with continuation in mu from large to small; objects are the outliers. Bases are the background
as it was and the remembered ones of other lamps.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg

from bgsub import _light_kernels

_GRID = (6, 8)  # nodes of the gain field along the height and the width
_KNOTS = 4  # of the tone curve
_SITES = 3000
_SMOOTH = 1e-4  # penalty on differences of neighbouring nodes, per site
_RIDGE = 1e-4  # penalty on the gain's distance from 1
_TONE_RIDGE = 3e-3
_MUS = np.geomspace(0.5, 0.05, 8)
_STEPS = 2  # reweightings at each mu
_FALLS = 0.02  # most that the tone may fall from knot to knot
_MEMORY = 4  # backgrounds
_ALIKE = 0.9  # share of explained sites that makes two backgrounds one


@dataclass(frozen=True, eq=False)
class Light:
    """One explanation of a frame: which background, under which light.

    Attributes
    ----------
    base : ndarray, (m,), float32
        The background.
    grid, tone : ndarray
        Gain field (p, q, c) and tone curve (b, c).
    explained : float
        Share of the sites that it explains.
    """

    base: np.ndarray
    grid: np.ndarray
    tone: np.ndarray
    explained: float


class Illumination:
    """Explain whole frames by backgrounds under other light.

    Parameters
    ----------
    shape : tuple of int
        (h, w, c) of the frames.
    threshold : float
        Residual of an explained site.
    """

    def __init__(self, shape: tuple[int, int, int], threshold: float) -> None:
        self._shape = shape
        self._threshold = threshold
        h, w, _ = shape
        rng = np.random.default_rng(0)
        self._index = np.sort(rng.choice(h * w, min(_SITES, h * w), replace=False))
        rows, columns = np.divmod(self._index, w)
        self._places = np.stack(
            [columns * (_GRID[1] - 1) / max(w - 1, 1), rows * (_GRID[0] - 1) / max(h - 1, 1)], 1
        ).astype(np.float32)
        self._penalty = _smoothness(len(self._index))
        self._memory: list[np.ndarray] = []
        nodes = _GRID[0] * _GRID[1] + _KNOTS
        self._work = np.empty(len(self._index), np.float32), np.empty((nodes, nodes)), np.empty(nodes)

    def at_sites(self, x: np.ndarray) -> np.ndarray:
        """Return the values of a picture, (m,), at the sites: (n, c)."""
        return x.reshape(-1, self._shape[2])[self._index]

    def explain(self, x: np.ndarray, backgrounds: list[np.ndarray]) -> Light:
        """Return the best explanation of a frame, (m,), by `backgrounds`, (m,) each, and the remembered ones."""
        values = self.at_sites(x)
        candidates = [self._fit(values, base) for base in (*backgrounds, *self._memory)]
        return max(candidates, key=lambda light: light.explained)

    def explained(self, x: np.ndarray, base: np.ndarray) -> float:
        """Return the share of the sites where `base` is the frame as it stands."""
        d = np.sqrt(np.sum((self.at_sites(x) - self.at_sites(base)) ** 2, axis=1))
        return float(np.mean(d < self._threshold))

    def remember(self, background: np.ndarray) -> None:
        """Keep a background, (m,), unless it is among those that are kept; the oldest one is forgotten."""
        for i, kept in enumerate(self._memory):
            if self.explained(background, kept) > _ALIKE:
                del self._memory[i]
                break
        self._memory = [background.copy(), *self._memory][:_MEMORY]

    def render(self, light: Light) -> np.ndarray:
        """Return the background of an explanation, (m,), float32."""
        out = np.empty_like(light.base)
        _light_kernels.relight(light.base, light.grid, light.tone, self._shape[0], self._shape[1], out)
        return out

    def _fit(self, x: np.ndarray, base: np.ndarray) -> Light:
        channels = self._shape[2]
        l = self.at_sites(base)
        grid, tone = np.ones((*_GRID, channels)), np.zeros((_KNOTS, channels))
        d, gram, right = self._work
        nodes = _GRID[0] * _GRID[1]
        _light_kernels.site_residuals(x, l, self._places, grid, tone, d)
        for mu in np.repeat(_MUS, _STEPS):
            for c in range(channels):
                _light_kernels.accumulate(x, l, self._places, grid, tone, d, mu, c, gram, right)
                gram += self._penalty
                right[:nodes] += _RIDGE * len(x)
                solution = scipy.linalg.solve(gram, right, assume_a="pos", check_finite=False)
                grid[..., c] = solution[:nodes].reshape(_GRID)
                tone[:, c] = solution[nodes:]
            _light_kernels.site_residuals(x, l, self._places, grid, tone, d)
        return Light(base, grid, tone, float(np.mean(d < self._threshold)) if _rises(grid, tone) else 0.0)


def _rises(grid: np.ndarray, tone: np.ndarray) -> bool:
    """Return whether brighter places of the background stay brighter, as under any light: a negative is none."""
    steps = grid.mean(axis=(0, 1)) / (_KNOTS - 1) + np.diff(tone, axis=0)
    return bool((steps > -_FALLS).all())


def _smoothness(sites: int) -> np.ndarray:
    """Return the penalty matrix of the unknowns: differences of neighbouring nodes, distance from 1, tone."""
    rows, columns = _GRID
    nodes = rows * columns
    number = np.arange(nodes).reshape(_GRID)
    penalty = np.zeros((nodes + _KNOTS, nodes + _KNOTS))
    pairs = [*zip(number[:, :-1].ravel(), number[:, 1:].ravel(), strict=True)]
    pairs += [*zip(number[:-1].ravel(), number[1:].ravel(), strict=True)]
    for i, j in pairs:
        penalty[i, i] += _SMOOTH
        penalty[j, j] += _SMOOTH
        penalty[i, j] -= _SMOOTH
        penalty[j, i] -= _SMOOTH
    diagonal = np.r_[np.full(nodes, _RIDGE), np.full(_KNOTS, _TONE_RIDGE)]
    return (penalty + np.diag(diagonal)) * sites
