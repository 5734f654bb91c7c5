"""What `SelfTunedSubspace` learns beside its basis: forgetting factor and momentum, the cold start, and the rank."""

from dataclasses import dataclass

import numpy as np

from bgsub.errors import ParameterError
from bgsub.numerics.state import LARGEST, State, array_of, numbers_of
from bgsub.tracking import _self_tuned_kernels
from bgsub.tracking.basis import Basis

_SHORTEST = 4.0  # vectors per dimension of the subspace in the shortest memory 1/w
_LARGEST_W, _SMALLEST_W = 0.1, 1e-4  # bounds of the forgetting factor w at any rank
_LARGEST_RISE = 0.2  # largest rise of log w per vector
_HYPERGRADIENT_GAIN = 2.5  # of log w, see `AdaptiveForgetting`
_VELOCITY_GAIN = 0.25  # weight of the newest step in the velocity, in units of w: critically damped

_FIRST_BOUND, _LAST_BOUND = 0.5, 0.05  # bound of the scales in a cold start, relative to the RMS of the vectors
_SHRINKS_FOR = 200.0  # vectors, counted by their observed share, in which the bound falls from the first to the last
_LASTS_FOR = 400.0  # vectors, counted alike, after which there is no bound
_FOUND = 0.25  # median scale, relative to the bound, below which the subspace is found and the bound ends
_FREE = 0.999  # median scale, relative to the bound, below which this does not limit most scales
_SIZE_RATE = 0.05  # weight of a vector in the running mean of their RMS

_RANK_MEMORY = 4.0  # vectors per direction in the running means of the rank search
_ADDED_FROM = 30.0  # mean square of the spare coefficient, relative to noise, from which its direction is added
_LARGE_SHARE = 0.1  # share of the energy outside the span that justifies a direction, however few entries are observed
_UNEXPLAINED = 0.5  # least share of the mean square of the spare coefficient that y does not explain
_DROPPED_BELOW = 10.0  # mean square of a coefficient, relative to noise, below which its direction is dropped
_NEGLIGIBLE = 1e-8  # least mean square relative to the sum over all coefficients, for streams without noise


class AdaptiveForgetting:
    """Forgetting factor w and momentum of a tracker, adapted to the stream or fixed."""

    # ``log w += 2.5 / k`` times the hypergradient ``e' Z'y / e'e``, with ``Z = dU / d(log w)`` on the pixel subset, and
    # ``momentum += w / w_max cos(e, V'y)``, after V. J. Mathews and Z. Xie, "A stochastic gradient adaptive filter with
    # gradient adaptive step size", 1993
    # w falls no faster than 1 / t: the steps of a cold start disagree, too, and a small w would keep them for long

    def __init__(self, k: int, n: int, forgetting: float | None) -> None:
        self._k, self._largest_w = k, min(1 / (_SHORTEST * k), _LARGEST_W)
        self._Z = np.zeros((k, n), np.float32)
        self.w, self.momentum = self._largest_w / 2, 0.0
        self.fix(forgetting)

    def fix(self, forgetting: float | None) -> None:
        """Fix w, or adapt it again for None."""
        self.is_adaptive = forgetting is None
        if forgetting is not None:
            self.w, self.momentum = forgetting, 0.0

    def turned(self, turn: np.ndarray) -> "AdaptiveForgetting":
        """Return the same for a basis of another rank, whose rows are ``turn U'``; turn (k_new, k)."""
        other = AdaptiveForgetting(len(turn), self._Z.shape[1], None if self.is_adaptive else self.w)
        if self.is_adaptive:
            other.w, other.momentum = min(self.w, other._largest_w), self.momentum
        other._Z = (turn @ self._Z).astype(np.float32)
        return other

    @property
    def velocity_rates(self) -> tuple[float, float]:
        """The factors of the old velocity and of the newest step in the new velocity."""
        gain = _VELOCITY_GAIN * self.w if self.is_adaptive else 0.0
        return 1 - gain * (1 - self.momentum), gain

    def adapt(
        self,
        subset: tuple[np.ndarray, np.ndarray, np.ndarray],  # basis (k, n), influence and weights (n,)
        small: tuple[np.ndarray, np.ndarray, np.ndarray],  # y, ``M^-1 y``, products of influence and basis, (k,)
        agreement: float,
        growth: float,
        taken: bool,
    ) -> None:
        """Learn from a step; `agreement`: cosine of influence and velocity; `growth`: of all scales, and so of w."""
        if not self.is_adaptive:
            return
        gained = _self_tuned_kernels.update_sensitivity(self._Z, *subset, *small, self.w if taken else 0.0)
        self.momentum = min(max(self.momentum + self.w / self._largest_w * agreement, 0.0), 1.0)
        change = min(max(_HYPERGRADIENT_GAIN * gained / self._k, -self.w), _LARGEST_RISE)
        self.w = float(min(max(self.w * float(np.exp(change)) * growth, _SMALLEST_W), self._largest_w))

    def state(self) -> State:
        """Return a copy of the state."""
        return {"sensitivity": self._Z.copy(), "pace": np.array([self.w, self.momentum])}

    def set_state(self, state: State) -> None:
        """Restore a state; ParameterError when it does not fit."""
        self._Z = array_of(state, "sensitivity", self._Z.shape, "float32")
        w, self.momentum = numbers_of(state, "pace", 2)
        if not (0 < w < 1 and self.momentum <= 1):
            raise ParameterError(f"pace must hold a weight in (0, 1) and a share in [0, 1], got {w}, {self.momentum}")
        self.w = w if self.is_adaptive else self.w


@dataclass
class ColdStart:
    """A bound of the scales that shrinks while a subspace is found from nothing."""

    # a missing direction leaves large residuals: scales that follow them would make inliers of moving objects

    size: float = 0.0  # running mean of the root mean square of the vectors; 0 without a cold start or after it
    seen: float = 0.0  # number of vectors, each counted by its observed share

    def bound(self, x: np.ndarray, share: float) -> float | None:
        """Return the bound of the scales for the next vector x, of which a share is observed; None for none."""
        self.seen += share
        if not self.size or self.seen >= _LASTS_FOR:
            self.size = 0.0
            return None
        self.size += _SIZE_RATE * (float(np.linalg.norm(x)) / (share * x.size) ** 0.5 - self.size)
        return self.size * _FIRST_BOUND * (_LAST_BOUND / _FIRST_BOUND) ** min(self.seen / _SHRINKS_FOR, 1.0)

    def is_free(self, scale: float) -> bool:
        """Return whether the median scale, relative to the bound, is below it; end the cold start if far below."""
        if scale < _FOUND:
            self.size = 0.0
        return scale < _FREE


class RankSearch:
    """Decide whether the basis needs one direction more or less; `spare` (m,), the next one, is found by Oja's rule."""

    # a subspace that lags by dU leaves the influence dU'y, which y explains: only the rest of the coefficient counts

    def __init__(self, basis: Basis, most: int) -> None:
        k = basis.k
        self.most = most
        self.spare = np.zeros(basis.m, np.float32)
        self._rate = 1 / (_RANK_MEMORY * (k + 1))
        self._moment = np.zeros((k + 1, k + 1))  # of [y, q'e]
        self._noise, self._count = np.zeros(3), 0.0

    def observe(self, basis: Basis, y: np.ndarray, share: float) -> None:
        """Learn from the newest vector: e, row 2 k of the stack, coefficients y (k,), and the mean weight `share`."""
        k, m = basis.k, basis.m
        rows, e = basis.stack[:k, :m], basis.stack[2 * k, :m]
        p = e - (rows @ e) @ rows
        energy = float(p @ p)
        if not energy > 0:
            return
        if not self.spare.any():
            self.spare = p / np.float32(np.sqrt(energy))
            return
        self.spare -= (rows @ self.spare) @ rows
        along = float(self.spare @ p)
        seen = np.append(y, along)
        self._count += share
        rate = max(self._rate * share, share / self._count)
        self._moment += rate * (np.outer(seen, seen) - self._moment)
        noise = energy / max(m - k, 1)  # of q'e; the noise of y = (U'WU)^-1 U'e is the second number
        self._noise += rate * (np.array([noise, noise / share**2, _LARGE_SHARE * share * energy]) - self._noise)
        q = (1 - rate) * self._moment[k, k] * self.spare + rate * along * p
        length = float(np.linalg.norm(q))
        self.spare = (q / length if length > 0 else q).astype(np.float32)

    @property
    def strength(self) -> float:
        """Mean square of the spare coefficient that y does not explain."""
        inner, mixed = self._moment[:-1, :-1], self._moment[:-1, -1]
        return float(self._moment[-1, -1] - mixed @ np.linalg.lstsq(inner, mixed, rcond=1e-9)[0])

    @property
    def change(self) -> int:
        """1 for a direction more, -1 for one less, 0 for neither or too few vectors."""
        k = len(self._moment) - 1
        if self._count < 2 / self._rate:
            return 0
        values = np.linalg.eigvalsh(self._moment[:k, :k])
        least = _NEGLIGIBLE * float(values.sum())
        if k > 1 and values[0] < max(_DROPPED_BELOW * self._noise[1], least):
            return -1
        needed = max(min(_ADDED_FROM * self._noise[0], self._noise[2]), _UNEXPLAINED * self._moment[k, k], least)
        return int(k < self.most and self.strength > needed)

    def weakest(self) -> np.ndarray:
        """Return the orthogonal matrix, (k, k), whose last row is the direction of the weakest coefficient."""
        return np.linalg.eigh(self._moment[:-1, :-1])[1].T[::-1]

    def state(self) -> State:
        """Return a copy of the state."""
        numbers = np.array([*self._noise, self._count], np.float64)
        return {"spare": self.spare.copy(), "moment": self._moment.copy(), "evidence": numbers}

    def set_state(self, state: State) -> None:
        """Restore a state; ParameterError when it does not fit."""
        self.spare = array_of(state, "spare", self.spare.shape, "float32")
        self._moment = array_of(state, "moment", self._moment.shape, "float64")
        *noise, count = array_of(state, "evidence", (4,), "float64", 0, LARGEST**2).tolist()
        self._noise, self._count = np.array(noise), count
