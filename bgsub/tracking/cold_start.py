"""The first vectors of a stream of which nothing is known: the cost from wide to narrow, then as it is."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bgsub.numerics.state import State, numbers_of

_FIRST, _LAST = 0.5, 0.05  # bound of the scales, of the size of the vectors
_SHRINKS = 200.0  # complete vectors within which it falls from one to the other
_HOLDS = 400.0  # after which it is gone
_FOUND = 0.25  # of the bound: scales below it are those of a subspace that is found
_PRESSED = 0.999  # of the bound: scales below it are free
_RATE = 0.05  # of the running mean of the size


@dataclass
class ColdStart:
    """A bound of the scales that shrinks while a subspace is found from nothing.

    Scales follow the residuals, and residuals are large where a direction of the subspace is missing: a large object
    that moves can take its place, and the scales then never become small enough to make it an outlier. So they are
    pressed for some hundred vectors, as the paper's batch algorithm shrinks mu on a schedule of its own, and let go.
    With a rank that is to be found there is no such bound: residuals are large for good reason while it is too small.
    Scales of a subspace that is found are far below the bound long before, which is the end of the cold start.

    Attributes
    ----------
    size : float
        Running mean of the vectors' root mean square; 0 where the start was not a cold one, or is over.
    seen : float
        Vectors so far, each counted by the share of it that was observed.
    """

    size: float = 0.0
    seen: float = 0.0

    def bound(self, x: np.ndarray, share: float) -> float | None:
        """Return the bound of the scales for the next vector x, of which a share is observed; None for none."""
        self.seen += share
        if not self.size or self.seen >= _HOLDS:
            self.size = 0.0
            return None
        self.size += _RATE * (float(np.linalg.norm(x)) / (share * x.size) ** 0.5 - self.size)
        return self.size * _FIRST * (_LAST / _FIRST) ** min(self.seen / _SHRINKS, 1.0)

    def is_over(self, scale: float) -> bool:
        """Return whether the usual scale, in units of the bound, is free; one far below it is the end."""
        if scale < _FOUND:
            self.size = 0.0
        return scale < _PRESSED

    def state(self) -> State:
        """Return what the next vector depends on."""
        return {"cold": np.array([self.size, self.seen])}

    @classmethod
    def from_state(cls, state: State) -> ColdStart:
        """Return one that goes on where another stood; ParameterError when it cannot."""
        return cls(*numbers_of(state, "cold", 2))
