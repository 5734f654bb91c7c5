"""Changes of the light: a gain field and a tone curve on the background, and a memory of backgrounds.

A frame under new light is ``x ~ (1 + Phi c) * l + t(l)`` per channel: bilinear hat functions Phi on a coarse grid, and
a piecewise linear tone curve t. Reweighted least squares fits both on some thousand pixels, with mu from large to
small; objects are the outliers. Bases are the current background and remembered ones. A few pixels and a coarse light
select the base; more of them are fitted only while light explains what the background does not.

References
----------
J. Pilet, C. Strecha, P. Fua, Making background subtraction robust to sudden illumination changes, ECCV 2008: light as
a low-dimensional effect on whole areas. Graduated reweighting: C. Hage, M. Kleinsteuber, arXiv 1210.0805.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from bgsub._opencv import cv2
from bgsub.numerics.state import State, array_of
from bgsub.numerics.threads import bands_for, copied, in_bands, one_blas_thread
from bgsub.scene import _frame_kernels
from bgsub.scene.frame_format import plain

_GRID, _QUICK_GRID = (6, 8), (3, 4)  # nodes of the gain field along the height and the width
_QUICK, _CLOSE, _LAST = 200, 600, 3000  # sites (random pixels) of the three fits, from coarse to final
_QUICK_MUS, _CLOSE_MUS, _LAST_MUS = (0.4, 0.15, 0.08), (0.2, 0.1, 0.06), (0.08, 0.05)  # mu of each reweighting
_ALL_MUS = (*_QUICK_MUS, _LAST_MUS[-1])
_QUICK_DOUBT, _CLOSE_DOUBT = 1.3, 1.15  # the first two fits are inaccurate: they may leave so many times more sites
_KNOTS = 4  # of the tone curve
_SMOOTH = 1e-4  # penalty on differences of neighbouring nodes, per site
_RIDGE = 1e-4  # penalty on the distance of the gain from 1
_TONE_RIDGE = 3e-3  # penalty on the tone curve
_SATURATED = 0.98  # of full scale: larger values are clipped
_FALLS = 0.02  # largest fall of the brightness from knot to knot; a light that inverts brightness is rejected
_MEMORY = 4  # remembered backgrounds
_CONTRAST_SITES = 200  # sites of the contrast
_ALIKE = 0.9  # share of explained sites from which a background replaces a remembered one
_LIKELY = 3  # number of best bases that the second fit tries
_STEP = 2  # pixels to the right and down: the detail of a picture is its differences over this distance
_DETAIL = 0.12  # least correlation of the detail of a frame and of its base
_PLAIN = 0.3  # RMS detail, relative to the residual of an explained site, below which a base has none
_RETURNS = 0.75  # a remembered background has returned if it leaves less than this share of the unexplained sites ...
_FITTED = 0.02  # ... and the fitted light does not explain this share of all sites more
_SUDDEN = 0.04  # rise of the share of candidates that triggers a fit
_SURGE = 0.1  # rise of that share since a failed fit that ends the wait
_MAX_BACKOFF = 16  # frames, longest wait after a failed fit
_WORK = 100_000  # pixels per band, see `bands_for`
_USUAL_RATE = 0.1  # weight of a frame in the usual share of candidates
_DRIFT_SITES = 1500  # most sites of the fit of a drift
_DRIFT_SMOOTH = 3e-4  # penalty on differences of neighbouring nodes of the drift, per site
_DRIFTS = 0.01  # smallest change of a gain that is followed, and ...
_SURE = 4.0  # ... in units of its standard error
_FAINT = 0.05  # of the mean energy of the channels, added to each: a channel near 0 consists mostly of rounding errors
_SEEN = 0.1  # least mean weight of the sites; with less, the frame shows another scene. Least share of known sites


@dataclass(frozen=True, eq=False)
class Light:
    """One explanation of a frame: a background under a light."""

    base: np.ndarray  # (m,), the background; ``scale * base`` is in [0, 1]
    grid: np.ndarray  # (p, q, c), gain field
    tone: np.ndarray  # (b, c), tone curve
    explained: float  # share of explained sites
    scale: float = 1.0
    has_returned: bool = False  # whether the base is the newest remembered background, as after a flash


class _LightFit:
    """Fits of lights with one grid of gain nodes, at the pixels `index`, (n,), each with a weight of 0 or 1."""

    def __init__(
        self, shape: tuple[int, ...], index: np.ndarray, grid: tuple[int, int], mus: tuple[float, ...], threshold: float
    ) -> None:
        h, w, self._channels = shape
        self.index, self._grid, self._mus, self.threshold, self.exposure = index, grid, mus, threshold, 1.0
        self.weights = np.ones(len(index), np.float32)
        rows, columns = np.divmod(index, w)
        down, along = _hats(grid[0], rows / max(h - 1, 1)), _hats(grid[1], columns / max(w - 1, 1))
        self.nodes = (down[:, :, np.newaxis] * along[:, np.newaxis]).reshape(len(index), -1)
        self._penalty = len(index) * _smoothness(grid)
        self._pull = len(index) * np.repeat([_RIDGE, 0.0], [grid[0] * grid[1], _KNOTS])

    def fit(self, x: np.ndarray, lights: list[Light]) -> list[Light]:
        """Return lights refined to explain a frame, the best first; one that inverts brightness explains nothing."""
        values = self.values(x, lights[0].scale)
        mus = [mu * self.exposure for mu in self._mus]
        refined = (self.refined(values, self.values(light.base, light.scale), light, mus) for light in lights)
        return sorted(refined, key=lambda light: -light.explained)

    def values(self, picture: np.ndarray, scale: float) -> np.ndarray:
        """Return ``scale * picture`` at the sites of this fit, (n, c) float32."""
        return _at(picture, self.index, self._channels) * np.float32(scale)

    def explained(self, x: np.ndarray, base: np.ndarray, scale: float = 1.0) -> float:
        """Return the share of the sites where `base` equals the frame, both times `scale` in [0, 1]."""
        values, others = (_at(image, self.index, self._channels) for image in (x, base))
        squares = np.sum((values - others) ** 2, axis=1)
        return float(np.average(squares < (self.threshold / scale) ** 2, weights=self.weights))

    @one_blas_thread()
    def refined(self, x: np.ndarray, base: np.ndarray, light: Light, mus: Sequence[float]) -> Light:
        """Return a light refined to explain the values `x` by those of its base, both (n, c), at the sites."""
        x, base = x.T, base.T[:, :, np.newaxis]
        tone = _hats(_KNOTS, base[:, :, 0].clip(0, 1))
        design = np.concatenate([self.nodes * base, tone], axis=2)  # (c, n, p q + b)
        down, along = (_hats(m, np.linspace(0, 1, n)) for m, n in zip(light.grid.shape, self._grid, strict=False))
        nodes = (down @ light.grid.transpose(2, 0, 1) @ along.T).reshape(self._channels, -1)
        unknowns = np.concatenate([nodes, light.tone.T], axis=1, dtype=np.float32)  # (c, p q + b)
        for mu in mus:
            squares, is_free = _errors(design, unknowns, x, base)
            weights = self.weights * (1 + squares * np.float32(1 / (mu * mu))) ** -2
            weighted = design * np.where(is_free, 0, weights)[:, :, np.newaxis]
            gram = weighted.transpose(0, 2, 1) @ design + self._penalty
            right = (x[:, np.newaxis] @ weighted)[:, 0] + self._pull
            unknowns = np.linalg.solve(gram, right[:, :, np.newaxis])[:, :, 0].astype(np.float32)
        explained = 0.0
        if (unknowns[:, :-_KNOTS].mean(axis=1) / (_KNOTS - 1) + np.diff(unknowns[:, -_KNOTS:]).T >= -_FALLS).all():
            is_lit = _errors(design, unknowns, x, base)[0] < self.threshold**2
            explained = float(np.average(is_lit, weights=self.weights))
        grid = unknowns[:, :-_KNOTS].reshape(-1, *self._grid).transpose(1, 2, 0)
        return Light(light.base, grid, unknowns[:, -_KNOTS:].T, explained, light.scale)


class _Drift:
    """Fit slow changes of the light by least squares: a field of gains, as of clouds, and a gain per channel."""

    def __init__(self, shape: tuple[int, int, int], sites: np.ndarray) -> None:
        self._sites, size = sites, _GRID[0] * _GRID[1]
        hats = _LightFit(shape, sites, _GRID, (), 0.0).nodes
        near = np.argsort(-hats, axis=1, kind="stable")[:, :4]
        self._near, self._share = np.ascontiguousarray(near), np.take_along_axis(hats, near, axis=1)
        self._gram, (self._right, self._spread) = np.empty((size, size)), np.empty((2, size))
        self._colours = np.empty((shape[2], 3))
        differences = _smoothness(_GRID)[:size, :size] - _RIDGE * np.eye(size)
        self._penalty = differences * (_DRIFT_SMOOTH / _SMOOTH) + _RIDGE * np.eye(size)
        self._penalty *= len(sites) * shape[2] / 3

    def gains(
        self, pixels: np.ndarray, picture: np.ndarray, mask: np.ndarray, limit: float, full: float
    ) -> tuple[np.ndarray, np.ndarray] | None:
        """Return the gains at the nodes and of the channels; None if none differs from 1 by more than its error."""
        images = plain(pixels).reshape(-1), plain(picture).reshape(-1)
        sites = self._sites, plain(mask).reshape(-1), self._near, self._share
        sums = self._gram, self._right, self._spread, self._colours
        limits = np.float32(limit * full), np.float32(_SATURATED * full)
        seen = _frame_kernels.drift_sums(*images, *sites, *limits, *sums)
        if seen < _SEEN:
            return None
        penalty = self._penalty * full**2
        change = self._right / (self._gram.sum(axis=1) + penalty.diagonal())
        energy, right, spread = self._colours.T
        ridge = _RIDGE * len(self._sites) * full**2
        mean = right.sum() / (energy.sum() + ridge)
        right = right - mean * energy
        own = right / (energy + _FAINT * energy.mean() + ridge)  # of each channel, relative to the mean of all
        if not any(
            ((np.abs(gain) > _DRIFTS) & (side**2 > _SURE**2 * error)).any()
            for gain, side, error in ((change, self._right, self._spread), (own, right, spread))
        ):
            return None
        with one_blas_thread():  # rare, and it takes as long as the sums
            gains: np.ndarray = 1 + np.linalg.solve(self._gram + penalty, self._right).reshape(_GRID)
        return gains.astype(np.float32), 1 + own / (1 + mean)


class Illumination:
    """Explain whole frames by backgrounds under other light."""

    def __init__(self, shape: tuple[int, int, int], threshold: float) -> None:
        self._shape = shape
        h, w, _ = shape
        sites = np.random.default_rng(0).choice(h * w, min(_LAST, h * w), replace=False)
        self._index = np.sort(sites)
        rows, columns = np.divmod(self._index, w)
        self._beside = np.minimum(rows + _STEP, h - 1) * w + np.minimum(columns + _STEP, w - 1)
        self._few = np.ascontiguousarray(self._index[:: max(len(self._index) // _CONTRAST_SITES, 1)])
        self._quick = _LightFit(shape, sites[:_QUICK], _QUICK_GRID, _QUICK_MUS, threshold)
        self._close = _LightFit(shape, sites[:_CLOSE], _GRID, _CLOSE_MUS, threshold)
        self._last = _LightFit(shape, sites, _GRID, _LAST_MUS, threshold)
        self._drift = _Drift(shape, sites[:_DRIFT_SITES])
        self._down, self._along = (_hats(n, np.linspace(0, 1, size)) for n, size in zip(_GRID, (h, w), strict=True))
        self._memory: list[np.ndarray] = []

    def set_limits(self, threshold: float, exposure: float, unknown: np.ndarray) -> None:
        """Set the residual of an explained site, and the pixels, (n,) indices, whose background is `unknown`."""
        # `exposure` multiplies the residual and the mu of the fits; light is explained where the background is known
        if unknown.size > (1 - _SEEN) * math.prod(self._shape[:2]):
            unknown = unknown[:0]
        for look in (self._quick, self._close, self._last):
            look.threshold, look.exposure = threshold * exposure, exposure
            look.weights = np.isin(look.index, unknown, invert=True).astype(np.float32)

    def contrasts(self, x: np.ndarray, picture: np.ndarray) -> tuple[float, float]:
        """Return the standard deviations of the brightness of a frame and a picture at some of the sites."""
        found: tuple[float, float] = _frame_kernels.contrasts(x.reshape(-1), picture, self._few)
        return found

    def sites(self, picture: np.ndarray) -> np.ndarray:
        """Return the sites of a picture, (h, w, c), as float32, (c, sites)."""
        return picture.reshape(-1, self._shape[2]).take(self._index, axis=0).T.astype(np.float32, order="C")

    def explain(
        self, x: np.ndarray, backgrounds: list[np.ndarray], leaves: float = math.inf, of_all: bool = False
    ) -> Light | None:
        """Return the best explanation of a frame, (m,) or an image, by `backgrounds` and the remembered ones.

        None if it leaves more than the share `leaves` of the sites that the first background does not explain, or, if
        `of_all`, of all sites; or if the frame shows nothing of its detail, as leaves close to the lens.
        """
        lights = [self._same(base) for base in (*backgrounds, *self._memory)]
        stages = (self._quick, len(lights), _QUICK_DOUBT), (self._close, _LIKELY, _CLOSE_DOUBT), (self._last, 1, 1.0)
        for look, bases, doubt in stages:
            lights = look.fit(x, lights[:bases])
            before = 0.0 if of_all else look.explained(x, backgrounds[0])
            if 1 - lights[0].explained > doubt * leaves * (1 - before):
                return None
        return lights[0] if self._has_detail(x, lights[0]) else None

    def returned(self, x: np.ndarray, background: np.ndarray, light: Light | None) -> Light | None:
        """Return the newest remembered background if a frame, (m,), shows it nearly unchanged; else the `light`."""
        # after a flash or a broken frame: a light on the background of a flash may leave objects where it clipped
        if not self._memory:
            return light
        explained = self.explained(x, self._memory[0])
        if 1 - explained > _RETURNS * (1 - self.explained(x, background)):
            return light
        if light is None:
            return replace(self._same(self._memory[0]), explained=explained, has_returned=True)
        if light.explained > explained + _FITTED:
            return light
        values = self.values(x), self.values(self._memory[0])
        mus = [mu * self._last.exposure for mu in _LAST_MUS]
        found = self._last.refined(*values, self._same(self._memory[0]), mus)
        return replace(found, has_returned=True) if found.explained > light.explained - _FITTED else light

    def _has_detail(self, x: np.ndarray, light: Light) -> bool:
        """Return whether the detail of a frame correlates with that of the base of its light, or the base has none."""
        channels = self._shape[2]
        own, base = (_at(one, self._index, channels) - _at(one, self._beside, channels) for one in (x, light.base))
        size = float(np.vdot(base, base))
        if size < len(base) * (_PLAIN * self._last.threshold / light.scale) ** 2:
            return True
        return float(np.vdot(own, base)) > _DETAIL * math.sqrt(size * float(np.vdot(own, own)))

    def _same(self, base: np.ndarray) -> Light:
        """Return the light that leaves a base unchanged."""
        channels = self._shape[2]
        return Light(base, np.ones((*_QUICK_GRID, channels)), np.zeros((_KNOTS, channels)), 0.0)

    def values(self, picture: np.ndarray, scale: float = 1.0) -> np.ndarray:
        """Return ``scale * picture`` at all sites, (n, c) float32."""
        return self._last.values(picture, scale)

    def between(self, before: np.ndarray, after: np.ndarray) -> Light:
        """Return the light that turns a background into another, given their `values`."""
        return self._last.refined(after, before, self._same(before), _ALL_MUS)

    def relit(self, picture: np.ndarray, light: Light, scale: float) -> np.ndarray:
        """Return a picture, (m,) with ``scale * picture`` in [0, 1], under a light, in its own type."""
        lit = self.render(Light(picture.astype(np.float32, copy=False), light.grid, light.tone, 0.0, scale))
        lit *= np.float32(1 / scale)
        if picture.dtype == np.uint8:
            lit += np.float32(0.5)
        return lit.astype(picture.dtype, copy=False)

    def explained(self, x: np.ndarray, base: np.ndarray, scale: float = 1.0) -> float:
        """Return the share of the sites where `base` equals the frame, both times `scale` in [0, 1]."""
        return self._last.explained(x, base, scale)

    def drift(
        self, pixels: np.ndarray, picture: np.ndarray, mask: np.ndarray, limit: float, scale: float
    ) -> np.ndarray | None:
        """Return factors, (h, w, c) float32, of a `picture` that make it follow the `pixels`, both (h, w, c).

        None without a change of the light. Foreground of `mask`, (h, w) uint8, has no weight, residuals of
        ``scale * pixels`` above `limit` little. What is saturated in the picture falls to the pixels at most.
        """
        found = self._drift.gains(pixels, picture, mask, limit, 1 / scale)
        if found is None:
            return None
        gains, colours = found
        most = _SATURATED / scale
        with one_blas_thread():
            field = self._down @ gains @ self._along.T
        factors = cv2.merge([field * np.float32(gain) for gain in colours]).reshape(self._shape)
        if picture.max() > most:
            bright = picture > most
            factors[bright] = np.maximum(factors[bright], np.minimum(pixels[bright] / picture[bright], 1))
        return factors

    def state(self) -> State:
        """Return the remembered backgrounds, copied."""
        return {f"memory{i}": copied(background) for i, background in enumerate(self._memory)}

    def set_state(self, state: State) -> None:
        """Restore remembered backgrounds; ParameterError if they do not fit the frames."""
        size = int(np.prod(self._shape))
        self._memory = [array_of(state, f"memory{i}", (size,), "float32") for i in range(min(len(state), _MEMORY))]

    def remember(self, background: np.ndarray) -> None:
        """Add a background, (m,), in place of a similar one or of the oldest one."""
        for i, kept in enumerate(self._memory):
            if self.explained(background, kept) > _ALIKE:
                del self._memory[i]
                break
        self._memory = [background.copy(), *self._memory][:_MEMORY]

    def move(self, places: np.ndarray) -> None:
        """Move pixel ``places[i]``, (h * w,) indices, to pixel i."""
        colours = (len(places), -1)
        self._memory = [kept.reshape(colours).take(places, axis=0).reshape(-1) for kept in self._memory]

    @one_blas_thread()
    def render(self, light: Light, x: np.ndarray | None = None) -> np.ndarray:
        """Return the background of an explanation, (m,), float32; where its base was saturated, by the frame `x`."""
        h, w, channels = self._shape
        base, out = light.base.reshape(self._shape), np.empty(self._shape, np.float32)
        down, along = (_hats(n, np.linspace(0, 1, size)) for n, size in zip(light.grid.shape, (h, w), strict=False))
        knots = np.linspace(0, 1, _KNOTS)

        def relight(begin: int, end: int, _band: int) -> None:
            for c in range(channels):
                l = base[begin:end, :, c] * np.float32(light.scale)
                gain = down[begin:end] @ light.grid[:, :, c] @ along.T
                out[begin:end, :, c] = gain * l + np.interp(l, knots, light.tone[:, c])

        in_bands(relight, h, bands_for(h * w, _WORK, None))
        lit = out.clip(0, 1, out=out).reshape(-1)
        if x is not None:
            np.maximum(lit, x, out=lit, where=light.base > _SATURATED)
        return lit


@dataclass
class LightChangeTrigger:
    """Decides when to try to explain a frame by light; failed fits back off exponentially."""

    usual: float = 0.0  # running mean of the share of candidates
    since: float = 0  # frames since the last fit
    wait: float = 0  # frames from a failed fit to the next one
    failed: float = 0.0  # share of candidates at the last fit

    def fires(self, share: float, eager: bool = False) -> bool:
        """Return whether the share of candidates of a new frame may be a change of light; `eager` ends the wait."""
        self.since += 1
        if not eager and self.since < self.wait and share <= self.failed + _SURGE:
            return False
        return share > self.usual + _SUDDEN

    def fitted(self, explained: bool, share: float) -> None:
        """Note the result of a fit and the share of candidates before it."""
        self.since, self.failed = 0, share
        self.wait = 0 if explained else min(max(2 * self.wait, 1), _MAX_BACKOFF)

    def learn(self, share: float) -> None:
        """Learn the usual share of candidates."""
        self.usual += _USUAL_RATE * (min(share, self.usual + _SUDDEN) - self.usual)


def _at(picture: np.ndarray, index: np.ndarray, channels: int) -> np.ndarray:
    """Return the values of a picture at the pixels `index`, (n, c) float32."""
    return picture.reshape(-1, channels)[index].astype(np.float32)


def _errors(design: np.ndarray, unknowns: np.ndarray, x: np.ndarray, base: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return squared distances of `x` from the lit base at the sites, (n,), and which values to leave out of the fit.

    A saturated value, of the base or of `x`, is a lower limit: it is no error, (c, n) True, if the other is larger.
    """
    lit = (design @ unknowns[:, :, np.newaxis])[:, :, 0]
    hides = (base[:, :, 0] > _SATURATED) & (x >= lit)
    errors = np.where(hides, 0, x - lit.clip(0, 1))
    return np.sum(errors * errors, axis=0), hides | ((x > _SATURATED) & (lit >= x))


def _hats(nodes: int, position: np.ndarray) -> np.ndarray:
    """Return the hat functions of evenly spaced nodes at some positions, (...) in [0, 1]: (..., nodes) float32."""
    distance = np.abs(position[..., np.newaxis] * (nodes - 1) - np.arange(nodes))
    return np.maximum(0, 1 - distance).astype(np.float32)


def _smoothness(grid: tuple[int, int]) -> np.ndarray:
    """Return the penalty matrix per site: differences of neighbouring nodes, distance of the gain from 1, tone."""
    nodes = grid[0] * grid[1]
    number = np.arange(nodes).reshape(grid)
    penalty = np.zeros((nodes + _KNOTS, nodes + _KNOTS))
    for these, others in ((number[:, :-1], number[:, 1:]), (number[:-1], number[1:])):
        i, j = these.ravel(), others.ravel()
        np.add.at(penalty, (np.r_[i, j], np.r_[i, j]), _SMOOTH)
        penalty[i, j] = penalty[j, i] = -_SMOOTH
    return penalty + np.diag(np.r_[np.full(nodes, _RIDGE), np.full(_KNOTS, _TONE_RIDGE)])
