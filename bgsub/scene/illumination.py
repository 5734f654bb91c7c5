"""Light that changes in one frame: a gain field and a tone curve on the background, and a memory of backgrounds.

A frame under new light is ``x ~ (1 + Phi c) * l + t(l)``: bilinear hat functions Phi on a coarse grid, a piecewise
linear tone curve t for offsets and gamma, each channel with its own. Both are fitted by reweighted least squares on
some thousand pixels, with continuation in mu from large to small; objects are the outliers. Bases are the background
as it was and the remembered ones of other lamps. Few pixels and a poorer light tell which of them it can be, more
pixels whether it is one at all, and only then all pixels count.

References
----------
J. Pilet, C. Strecha, P. Fua, Making background subtraction robust to sudden illumination changes, ECCV 2008: light as
a low-dimensional effect on whole areas. Graduated reweighting: C. Hage, M. Kleinsteuber, arXiv 1210.0805.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from bgsub.numerics.state import State, array_of, numbers_of
from bgsub.numerics.threads import copied
from bgsub.scene import _illumination_kernels
from bgsub.scene.frame_format import plain

_GRID, _QUICK_GRID = (6, 8), (3, 4)  # nodes of the gain field along the height and the width
_QUICK, _CLOSE, _LAST = 200, 600, 3000  # sites of the three looks at a frame ...
_QUICK_MUS, _CLOSE_MUS, _LAST_MUS = (0.4, 0.15, 0.08), (0.2, 0.1, 0.06), (0.08, 0.05)  # ... and their reweightings
_QUICK_DOUBT, _CLOSE_DOUBT = 0.06, 0.02  # share of explained sites by which the first two may err
_KNOTS = 4  # of the tone curve
_SMOOTH = 1e-4  # penalty on differences of neighbouring nodes, per site
_RIDGE = 1e-4  # penalty on the gain's distance from 1
_TONE_RIDGE = 3e-3
_FALLS = 0.02  # most that the tone may fall from knot to knot
_MEMORY = 4  # backgrounds
_LOOKS = 500  # sites that tell the contrast of a picture
_ALIKE = 0.9  # share of explained sites that makes two backgrounds one
_LIKELY = 3  # bases at which the second look is
_SUDDEN = 0.04  # share of the frame that must turn into candidates at once before light is asked for
_LONGEST_WAIT = 16  # frames between two questions that were answered with no
_CALM_RATE = 0.1  # of the running share of candidates, per frame


@dataclass(frozen=True, eq=False)
class Light:
    """One explanation of a frame: which background, under which light.

    Attributes
    ----------
    base : ndarray, (m,)
        The background.
    grid, tone : ndarray
        Gain field (p, q, c) and tone curve (b, c).
    explained : float
        Share of the sites that it explains.
    scale : float
        ``scale * base`` lies in [0, 1].
    """

    base: np.ndarray
    grid: np.ndarray
    tone: np.ndarray
    explained: float
    scale: float = 1.0


class _Look:
    """Fits of the light on one grid of nodes at some of the sites.

    Parameters
    ----------
    shape : tuple of int
        (h, w, c) of the frames.
    index : ndarray of int
        Pixels that are looked at.
    grid : tuple of int
        Nodes of the gain field along the height and the width.
    mus : tuple of float
        Where outliers begin, for each reweighting.
    threshold : float
        Residual of an explained site.
    """

    def __init__(
        self,
        shape: tuple[int, int, int],
        index: np.ndarray,
        grid: tuple[int, int],
        mus: tuple[float, ...],
        threshold: float,
    ) -> None:
        h, w, self._channels = shape
        self._grid, self._mus, self.threshold = grid, np.array(mus), threshold
        rows, columns = np.divmod(index, w)
        v, u = rows * (grid[0] - 1) / max(h - 1, 1), columns * (grid[1] - 1) / max(w - 1, 1)
        i, j = np.minimum(v.astype(int), grid[0] - 2), np.minimum(u.astype(int), grid[1] - 2)
        cells = j * grid[0] + i
        order = np.lexsort([index, cells])
        a, b = (v - i)[order], (u - j)[order]
        self._index, self._cells = index[order], cells[order]
        self._corners = np.stack([(1 - a) * (1 - b), a * (1 - b), (1 - a) * b, a * b], 1).astype(np.float32)
        nodes = grid[0] * grid[1]
        self._penalty = _smoothness(grid)
        self._first = np.r_[np.maximum(np.arange(nodes) - grid[0] - 1, 0), np.zeros(_KNOTS, np.int64)]
        self._work = (
            np.empty((self._channels, nodes + _KNOTS, nodes + _KNOTS)),
            np.empty((self._channels, nodes + _KNOTS)),
        )
        self._residuals = np.empty(len(index), np.float32)

    def fit(self, x: np.ndarray, lights: list[Light]) -> list[Light]:
        """Return lights refined to explain a frame, the best first; a negative explains nothing."""
        values = self._values(x, lights[0].scale)
        return sorted((self._refined(values, light) for light in lights), key=lambda light: -light.explained)

    def _values(self, picture: np.ndarray, scale: float) -> np.ndarray:
        """Return ``scale * picture`` at the sites, (n, c) float32."""
        values = np.empty((len(self._index), self._channels), np.float32)
        _illumination_kernels.gather(plain(picture).reshape(-1), self._index, np.float32(scale), values)
        return values

    def _refined(self, x: np.ndarray, light: Light) -> Light:
        """Return a light refined to explain the values `x`, (n, c), at the sites."""
        rows = self._grid[0]
        base, unknowns = self._values(light.base, light.scale), self._unknowns(light)
        sites = x, base, self._corners, self._cells, rows
        _illumination_kernels.fit(*sites, self._penalty, self._first, _RIDGE, self._mus, unknowns, *self._work)
        explained = 0.0
        if _illumination_kernels.rises(unknowns, _FALLS):
            _illumination_kernels.residuals(*sites, unknowns, self._residuals)
            explained = float(np.mean(self._residuals < self.threshold))
        grid = unknowns[:, :-_KNOTS].reshape(self._channels, -1, rows).transpose(2, 1, 0)
        return Light(light.base, grid, unknowns[:, -_KNOTS:].T, explained, light.scale)

    def _unknowns(self, light: Light) -> np.ndarray:
        """Return a light on this grid of nodes: (c, p q + b) float32, nodes numbered down the columns."""
        grid = light.grid
        if grid.shape[:2] != self._grid:
            down, along = _hats(grid.shape[0], self._grid[0]), _hats(grid.shape[1], self._grid[1])
            grid = np.moveaxis(down @ np.moveaxis(grid, 2, 0) @ along.T, 0, 2)
        nodes = grid.transpose(2, 1, 0).reshape(self._channels, -1)
        return np.concatenate([nodes, light.tone.T], axis=1, dtype=np.float32)


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
        sites = np.random.default_rng(0).choice(h * w, min(_LAST, h * w), replace=False)
        self._index = np.sort(sites)
        self._few = np.ascontiguousarray(self._index[:: max(len(self._index) // _LOOKS, 1)])
        self._quick = _Look(shape, sites[:_QUICK], _QUICK_GRID, _QUICK_MUS, threshold)
        self._close = _Look(shape, sites[:_CLOSE], _GRID, _CLOSE_MUS, threshold)
        self._last = _Look(shape, sites, _GRID, _LAST_MUS, threshold)
        self._memory: list[np.ndarray] = []

    def set_threshold(self, threshold: float) -> None:
        """Change the residual of an explained site."""
        self._threshold = threshold
        for look in (self._quick, self._close, self._last):
            look.threshold = threshold

    def contrast(self, picture: np.ndarray, scale: float = 1.0) -> float:
        """Return the standard deviation of the brightness of ``scale * picture`` at some of the sites."""
        return float(_illumination_kernels.contrast(plain(picture).reshape(-1), self._few, self._shape[2])) * scale

    def explain(self, x: np.ndarray, backgrounds: list[np.ndarray], scale: float = 1.0, enough: float = 0.0) -> Light:
        """Return the best explanation of a frame by `backgrounds` and the remembered ones.

        Parameters
        ----------
        x : ndarray
            The frame, (m,) or as an image, with ``scale * x`` in [0, 1].
        backgrounds : list of ndarray
            Like `x`, in its units.
        scale : float, default 1
            Reciprocal of full scale.
        enough : float, default 0
            Share of explained sites below which an explanation is none; where few sites tell that none reaches it,
            the result is as coarse as they are.
        """
        grid, tone = np.ones((*_QUICK_GRID, self._shape[2])), np.zeros((_KNOTS, self._shape[2]))
        lights = [Light(base, grid, tone, 0.0, scale) for base in (*backgrounds, *self._memory)]
        lights = self._quick.fit(x, lights)
        if lights[0].explained < enough - _QUICK_DOUBT:
            return lights[0]
        lights = self._close.fit(x, lights[:_LIKELY])
        if lights[0].explained < enough - _CLOSE_DOUBT:
            return lights[0]
        return self._last.fit(x, lights[:1])[0]

    def explained(self, x: np.ndarray, base: np.ndarray, scale: float = 1.0) -> float:
        """Return the share of the sites where `base` is the frame as it stands, both times `scale` in [0, 1]."""
        pixels = plain(x).reshape(-1), plain(base).reshape(-1)
        return float(
            _illumination_kernels.alike(*pixels, self._index, self._shape[2], np.float32(scale), self._threshold)
        )

    def state(self) -> State:
        """Return the remembered backgrounds, copied."""
        return {f"memory{i}": copied(background) for i, background in enumerate(self._memory)}

    def set_state(self, state: State) -> None:
        """Take over remembered backgrounds; ParameterError when they do not fit the frames."""
        size = int(np.prod(self._shape))
        self._memory = [array_of(state, f"memory{i}", (size,), "float32") for i in range(min(len(state), _MEMORY))]

    def remember(self, background: np.ndarray, scale: float = 1.0) -> None:
        """Keep a background, (m,), unless it is among those that are kept; the oldest one is forgotten."""
        for i, kept in enumerate(self._memory):
            if self.explained(background, kept, scale) > _ALIKE:
                del self._memory[i]
                break
        self._memory = [background.copy(), *self._memory][:_MEMORY]

    def render(self, light: Light) -> np.ndarray:
        """Return the background of an explanation, (m,), float32."""
        out = np.empty(light.base.size, np.float32)
        h, w, _ = self._shape
        grid, tone = np.ascontiguousarray(light.grid), np.ascontiguousarray(light.tone)
        _illumination_kernels.relight(plain(light.base).reshape(-1), np.float32(light.scale), grid, tone, h, w, out)
        return out


@dataclass(frozen=True)
class LightChangeTrigger:
    """How calm a scene is.

    Attributes
    ----------
    usual : float
        Running share of candidates.
    waiting : int
        Frames until light may be asked for again.
    patience : int
        Frames to wait for after the next no: 1, 2, 4, ..., so that a tree in the wind is not asked every time.
    """

    usual: float = 0.0
    waiting: int = 0
    patience: int = 1

    def next(self, eager: bool = False) -> LightChangeTrigger:
        """Return what holds in the next frame, in which light may be asked for again at once if `eager`."""
        return replace(self, waiting=0 if eager else self.waiting - 1) if self.waiting else self

    def is_broken_by(self, share: float) -> bool:
        """Return whether a share of candidates is so sudden that light should be asked for."""
        return self.waiting == 0 and share > self.usual + _SUDDEN

    def answered(self, yes: bool) -> LightChangeTrigger:
        """Return what holds after an answer."""
        if yes:
            return replace(self, waiting=0, patience=1)
        return replace(self, waiting=self.patience, patience=min(2 * self.patience, _LONGEST_WAIT))

    def after(self, share: float) -> LightChangeTrigger:
        """Return what holds after a frame with a share of candidates."""
        usual = self.usual + _CALM_RATE * (min(share, self.usual + _SUDDEN) - self.usual)
        return LightChangeTrigger(usual, self.waiting, self.patience)

    def state(self) -> State:
        """Return the numbers as an array."""
        return {"light_trigger": np.array([self.usual, float(self.waiting), float(self.patience)])}

    @classmethod
    def from_state(cls, state: State) -> LightChangeTrigger:
        """Return what `state` was of; ParameterError when the numbers are not there."""
        usual, waiting, patience = numbers_of(state, "light_trigger", 3)
        return cls(usual, int(waiting), max(int(patience), 1))


def _hats(nodes: int, places: int) -> np.ndarray:
    """Return the hat functions of some nodes at evenly spaced places, (places, nodes) float32."""
    position = np.linspace(0, nodes - 1, places)[:, None]
    return np.maximum(0, 1 - np.abs(position - np.arange(nodes))).astype(np.float32)


def _smoothness(grid: tuple[int, int]) -> np.ndarray:
    """Return the penalty matrix of the unknowns, per site: differences of neighbouring nodes, distance from 1, tone.

    Nodes are numbered down the columns.
    """
    rows, columns = grid
    nodes = rows * columns
    number = np.arange(nodes).reshape(columns, rows)
    penalty = np.zeros((nodes + _KNOTS, nodes + _KNOTS))
    pairs = [*zip(number[:, :-1].ravel(), number[:, 1:].ravel(), strict=True)]
    pairs += [*zip(number[:-1].ravel(), number[1:].ravel(), strict=True)]
    for i, j in pairs:
        penalty[i, i] += _SMOOTH
        penalty[j, j] += _SMOOTH
        penalty[i, j] -= _SMOOTH
        penalty[j, i] -= _SMOOTH
    return penalty + np.diag(np.r_[np.full(nodes, _RIDGE), np.full(_KNOTS, _TONE_RIDGE)])
