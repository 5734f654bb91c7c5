"""Coefficients from a fixed random subset of the entries (paper, algorithm 6, the fit of y)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from bgsub.errors import ParameterError
from bgsub.numerics.state import State, array_of
from bgsub.numerics.surrogates import Surrogate
from bgsub.tracking import _kernels
from bgsub.tracking.batch_start import first_mu
from bgsub.tracking.step import DeferredStep

_ITERATIONS = 15
_TOLERANCE = 1e-4
_CONTINUATION = 6
_JUMP = 0.1  # change of y, relative to y, from which a second fit is tried
_UNKNOWN = 1e3  # larger than any low-rank part of an image
_APART = 0.05  # largest relative difference of the basis on the subset; some 1e-5 is usual
_BAD_FIT = 0.5  # mean cost, in units of the cost of a residual three times the scale, that is bad


@dataclass(eq=False, slots=True)
class Fit:
    """A vector on the pixel subset, and its coefficients."""

    values: np.ndarray  # (s,) float32
    a: np.ndarray  # (s,) float32, observed entries, 0 or 1; empty for all
    y: np.ndarray  # (k,) float64
    change: float  # root mean square change of the low-rank part; large after `PixelSubset.gather`
    influence: np.ndarray  # (s,) float32, ``A psi(A(x - U y))``


class PixelSubset:
    """The basis on some thousand entries: `index` (s,) int64, rank k, and the cost of the residual."""

    def __init__(self, index: np.ndarray, k: int, surrogate: Surrogate) -> None:
        self.index, self._k, self._surrogate = index, k, surrogate
        self._bad = _BAD_FIT * float(surrogate.value(np.asarray(3 * surrogate.scale)))
        self._stack = np.zeros((k + 1, index.size), np.float32)  # rows of U', then the influence
        self._work = np.empty((3, index.size), np.float32)
        self._block = np.empty((k + 1, _kernels.BLOCK), np.float32)
        self._small = (np.empty(k, np.float32), np.empty((k, k)), np.empty(k))
        self._low_rank = np.full(index.size, _UNKNOWN, np.float32)

    def gather(self, stack: np.ndarray, deferred: DeferredStep) -> None:
        """Read the basis ``(V + D(e) G) N``, V' and e' the rows of `stack`."""
        self._low_rank[:] = _UNKNOWN
        own = self._stack[: self._k]
        _kernels.gather(stack, self.index, deferred.block, deferred.G.astype(np.float32), own)
        _kernels.transform_rows(own, np.ascontiguousarray(deferred.N.T, np.float32), self._block)

    def state(self) -> State:
        """Return copies of the basis on the subset, whose rounding is its own, and of the low-rank part."""
        return {"stack": self._stack.copy(), "low_rank": self._low_rank.copy()}

    def set_state(self, state: State) -> None:
        """Restore a state for the gathered basis; ParameterError when it does not fit."""
        stack, k = array_of(state, "stack", self._stack.shape, "float32"), self._k
        if not np.abs(stack[:k] - self._stack[:k]).max() <= _APART * np.abs(self._stack[:k]).max():
            raise ParameterError("the saved subset does not fit the saved basis")
        self._stack[:] = stack
        self._low_rank[:] = array_of(state, "low_rank", self._low_rank.shape, "float32")

    def step(self, T: np.ndarray, fit: Fit, weights: np.ndarray | None) -> None:
        """Step as the whole basis, by T (k, k + 1); `weights`, (s,) float32, are those of e, None for one."""
        np.multiply(fit.influence, 1 if weights is None else weights, out=self._stack[self._k])
        _kernels.transform_rows(self._stack, np.ascontiguousarray(T, np.float32), self._block)

    def stepped(self, fit: Fit, weights: np.ndarray) -> tuple[np.ndarray, ...]:
        """Return what a step changes and needs here, see `bgsub.tracking._step_kernels.deferred_step`."""
        return self._stack, fit.influence, weights, self._block

    def fit(self, values: np.ndarray, a: np.ndarray, y: np.ndarray, mu: float, widest: float) -> Fit:
        """Fit ``argmin_y h(A(x - U y))`` from the previous y, (k,), by reweighted least squares."""
        # where y jumps or the fit is bad, y may be in a local minimum: try again with mu falling from `widest`, keep
        # the better fit
        new = y.copy()
        seen = values, a
        cost, low_rank, e = self._reweight(seen, new, mu)
        jump = new - y
        if jump @ jump > _JUMP**2 * (new @ new) or cost > self._bad:
            other = new.copy()
            for large in np.geomspace(first_mu(self._surrogate, widest), mu, _CONTINUATION):
                again = self._reweight(seen, other, large)
            if again[0] < cost:
                new, (_, low_rank, e) = other, again
        d = np.subtract(low_rank, self._low_rank, out=self._work[0])
        self._low_rank = low_rank
        return Fit(*seen, new, math.sqrt(d @ d / d.size), e)

    def _reweight(
        self, seen: tuple[np.ndarray, np.ndarray], y: np.ndarray, mu: float
    ) -> tuple[float, np.ndarray, np.ndarray]:
        """Refine y, in place; return the mean cost, the low-rank part and the influence."""
        s, (low_rank, r, omega) = self._surrogate, self._work
        arguments = s.code, np.float32(mu), np.float32(s.p), _ITERATIONS, _TOLERANCE
        cost = _kernels.subset_coefficients(self._stack[: self._k], *seen, *arguments, y, self._work, *self._small)
        return cost, low_rank.copy(), omega * r
