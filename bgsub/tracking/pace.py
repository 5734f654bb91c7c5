"""How fast the subspace is followed: the forgetting factor and the momentum, learned from the stream."""

from __future__ import annotations

import numpy as np

from bgsub.errors import ParameterError
from bgsub.numerics.state import State, array_of, numbers_of
from bgsub.tracking import _self_tuned_kernels

_SAMPLES = 4.0  # of every direction, that the shortest memory 1/w holds
_MOST = 0.1  # the largest forgetting factor, whatever the rank
_LEAST = 1e-4  # the smallest
_LIMIT = 0.2  # rise of log w per vector
_HYPER = 2.5  # times the hypergradient
_GAIN = 0.25  # of the velocity, per step and w: critically damped


class Pace:
    """Forgetting factor w and momentum of a tracker, adapted to the stream or fixed.

    w follows the gradient of the newest vector's cost with respect to log w ("hypergradient"): with Z the sensitivity
    ``dU / d(log w)``, a vector whose cost a larger w would have made smaller, ``e' Z'y > 0``, raises it, and one
    that shows that the last steps went too far lowers it, by ``log w += 2.5 e' Z'y / (k e'e)``. On a still subspace
    with noise w then falls about as ``3.5 / t``, as seen, nearly a running mean; on one that turns, it ends where
    steps do not agree any more. It falls no faster than ``1 / t``: in a cold start steps disagree as well, and a memory
    filled with it would last.

    The momentum, in [0, 1], is the share of the velocity V by which the subspace moves before a vector is seen; V is
    the running mean of all movement, prediction and step together. It rises while the influence points along the
    movement ``V'y``, and falls where it points back: ``momentum += w / w_max cos(e, V'y)``. A subspace that turns
    steadily is then followed without a lag.

    Parameters
    ----------
    k, n : int
        Rank, and entries of the pixel subset, on which the sensitivity is kept.
    forgetting : float or None
        A fixed w, without momentum; None adapts both.

    Attributes
    ----------
    w, momentum : float

    References
    ----------
    The hypergradient is that of V. J. Mathews and Z. Xie, "A stochastic gradient adaptive filter with gradient
    adaptive step size", IEEE Trans. Signal Processing 41(6), 1993, for the weight of a recursive mean.
    """

    def __init__(self, k: int, n: int, forgetting: float | None) -> None:
        self.is_adaptive = forgetting is None
        self._k = k
        self._most = min(1 / (_SAMPLES * k), _MOST)
        self.w = self._most / 2 if forgetting is None else forgetting
        self.momentum = 0.0
        self._Z = np.zeros((k, n), np.float32)

    def fix(self, forgetting: float | None) -> None:
        """Adapt no more, or, from None on, again."""
        self.is_adaptive = forgetting is None
        if forgetting is not None:
            self.w, self.momentum = forgetting, 0.0

    def turned(self, turn: np.ndarray) -> Pace:
        """Return the pace of the subspace ``turn U'``, turn (k_new, k), of another rank."""
        other = Pace(len(turn), self._Z.shape[1], None if self.is_adaptive else self.w)
        other.w, other.momentum = min(self.w, other._most) if self.is_adaptive else self.w, self.momentum
        other._Z = (turn @ self._Z).astype(np.float32)
        return other

    @property
    def velocity_rates(self) -> tuple[float, float]:
        """What the velocity keeps of itself, and what it takes of a step."""
        gain = _GAIN * self.w if self.is_adaptive else 0.0
        return 1 - gain * (1 - self.momentum), gain

    def adapt(
        self,
        subset: tuple[np.ndarray, np.ndarray, np.ndarray],
        small: tuple[np.ndarray, np.ndarray, np.ndarray],
        agreement: float,
        surprise: float,
        taken: bool,
    ) -> None:
        """Learn from a step.

        Parameters
        ----------
        subset : tuple of ndarray
            Basis (k, n), influence (n,) and weights (n,) on the pixel subset, before the step.
        small : tuple of ndarray, (k,)
            Coefficients y, ``M^-1 y`` and the inner products of the influence with the whole basis.
        agreement : float
            Cosine of the influence and the movement ``V'y``.
        surprise : float
            At least 1: by how much the scale of all residuals grew at once, which w does as well.
        taken : bool
            Whether the step was taken.
        """
        if not self.is_adaptive:
            return
        gained = _self_tuned_kernels.sense(self._Z, *subset, *small, self.w if taken else 0.0)
        self.momentum = min(max(self.momentum + self.w / self._most * agreement, 0.0), 1.0)
        change = min(max(_HYPER * gained / self._k, -self.w), _LIMIT)
        self.w = float(min(max(self.w * float(np.exp(change)) * surprise, _LEAST), self._most))

    def state(self) -> State:
        """Return what the next vector depends on, copied."""
        return {"sensitivity": self._Z.copy(), "pace": np.array([self.w, self.momentum])}

    def set_state(self, state: State) -> None:
        """Go on where another one stood; ParameterError when it does not fit."""
        self._Z = array_of(state, "sensitivity", self._Z.shape, "float32")
        w, self.momentum = numbers_of(state, "pace", 2)
        if not (0 < w < 1 and self.momentum <= 1):
            raise ParameterError(f"pace must hold a weight in (0, 1) and a share in [0, 1], got {w}, {self.momentum}")
        self.w = w if self.is_adaptive else self.w
