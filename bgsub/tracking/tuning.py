"""What `SelfTunedSubspace` learns beside its basis: forgetting factor and momentum, the cold start, and the rank."""

from dataclasses import dataclass

import numpy as np

from bgsub.errors import ParameterError
from bgsub.numerics.state import LARGEST, State, array_of, numbers_of
from bgsub.tracking import _self_tuned_kernels
from bgsub.tracking.basis import Basis

_SAMPLES = 4.0  # vectors per direction in the shortest memory 1/w
_MOST = 0.1  # the largest forgetting factor, whatever the rank
_LEAST = 1e-4  # the smallest
_LIMIT = 0.2  # largest rise of log w per vector
_HYPER = 2.5  # times the hypergradient
_GAIN = 0.25  # of the velocity, per step and w: critically damped

_FIRST, _LAST = 0.5, 0.05  # bound of the scales in a cold start, relative to the size of the vectors
_SHRINKS = 200.0  # complete vectors within which the bound falls from one to the other
_HOLDS = 400.0  # complete vectors after which the bound ends
_FOUND = 0.25  # of the bound: lower scales mean that the subspace is found
_PRESSED = 0.999  # of the bound: lower scales are free
_RATE = 0.05  # of the running mean of the size

_MEMORY = 4.0  # vectors per direction in the running means of the rank search
_ADD = 30.0  # mean square of a coefficient, relative to that of noise, from which a direction is added
_MUCH = 0.1  # share of the energy outside the span that justifies a direction, however few entries are observed
_UNEXPLAINED = 0.5  # share of it that y must not explain
_DROP = 10.0  # mean square, relative to that of noise, below which a direction is dropped
_NEGLIGIBLE = 1e-8  # share of the moment of all coefficients, for streams without noise


class AdaptiveForgetting:
    """Forgetting factor w and momentum of a tracker, adapted to the stream or fixed."""

    # with ``Z = dU / d(log w)``, ``log w += 2.5 e' Z'y / (k e'e)`` and ``momentum += w / w_max cos(e, V'y)``, after
    # V. J. Mathews and Z. Xie, "A stochastic gradient adaptive filter with gradient adaptive step size", 1993
    # w falls no faster than 1 / t: steps of a cold start disagree too, and a long memory of them would stay

    def __init__(self, k: int, n: int, forgetting: float | None) -> None:
        self._k, self._most = k, min(1 / (_SAMPLES * k), _MOST)
        self._Z = np.zeros((k, n), np.float32)
        self.w, self.momentum = self._most / 2, 0.0
        self.fix(forgetting)

    def fix(self, forgetting: float | None) -> None:
        """Fix w, or adapt it again for None."""
        self.is_adaptive = forgetting is None
        if forgetting is not None:
            self.w, self.momentum = forgetting, 0.0

    def turned(self, turn: np.ndarray) -> "AdaptiveForgetting":
        """Return that of the subspace ``turn U'``, turn (k_new, k), of another rank."""
        other = AdaptiveForgetting(len(turn), self._Z.shape[1], None if self.is_adaptive else self.w)
        if self.is_adaptive:
            other.w, other.momentum = min(self.w, other._most), self.momentum
        other._Z = (turn @ self._Z).astype(np.float32)
        return other

    @property
    def velocity_rates(self) -> tuple[float, float]:
        """The factors of the old velocity and of the newest step in the new velocity."""
        gain = _GAIN * self.w if self.is_adaptive else 0.0
        return 1 - gain * (1 - self.momentum), gain

    def adapt(
        self,
        subset: tuple[np.ndarray, np.ndarray, np.ndarray],  # basis (k, n), influence and weights (n,)
        small: tuple[np.ndarray, np.ndarray, np.ndarray],  # y, ``M^-1 y``, products of influence and basis, (k,)
        agreement: float,
        growth: float,
        taken: bool,
    ) -> None:
        """Learn from a step; `growth` is the factor by which all scales grew at once, and w with them."""
        if not self.is_adaptive:
            return
        gained = _self_tuned_kernels.sense(self._Z, *subset, *small, self.w if taken else 0.0)
        self.momentum = min(max(self.momentum + self.w / self._most * agreement, 0.0), 1.0)
        change = min(max(_HYPER * gained / self._k, -self.w), _LIMIT)
        self.w = float(min(max(self.w * float(np.exp(change)) * growth, _LEAST), self._most))

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

    # a missing direction leaves large residuals, in which a moving object would raise the scales until it is no outlier

    size: float = 0.0  # running mean of the root mean square of the vectors; 0 without a cold start or after it
    seen: float = 0.0  # number of vectors, each counted by its observed share

    def bound(self, x: np.ndarray, share: float) -> float | None:
        """Return the bound of the scales for the next vector x, of which a share is observed; None for none."""
        self.seen += share
        if not self.size or self.seen >= _HOLDS:
            self.size = 0.0
            return None
        self.size += _RATE * (float(np.linalg.norm(x)) / (share * x.size) ** 0.5 - self.size)
        return self.size * _FIRST * (_LAST / _FIRST) ** min(self.seen / _SHRINKS, 1.0)

    def is_free(self, scale: float) -> bool:
        """Return whether the usual scale, relative to the bound, is free; end the cold start far below the bound."""
        if scale < _FOUND:
            self.size = 0.0
        return scale < _PRESSED


class RankSearch:
    """Decide whether the basis needs a direction more or one less; `spare` (m,) follows the influence (Oja's rule)."""

    # only the part of its coefficient that y does not explain counts: a lagging subspace leaves e = dU'y

    def __init__(self, basis: Basis, most: int) -> None:
        k = basis.k
        self.most = most
        self.spare = np.zeros(basis.m, np.float32)
        self._rate = 1 / (_MEMORY * (k + 1))
        self._moment = np.zeros((k + 1, k + 1))  # of [y, q'e]
        self._noise, self._count = np.zeros(3), 0.0

    def observe(self, basis: Basis, y: np.ndarray, share: float) -> None:
        """Learn from the newest vector: its influence in the basis, coefficients (k,) and mean weight."""
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
        self._noise += rate * (np.array([noise, noise / share**2, _MUCH * share * energy]) - self._noise)
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
        if k > 1 and values[0] < max(_DROP * self._noise[1], least):
            return -1
        needed = max(min(_ADD * self._noise[0], self._noise[2]), _UNEXPLAINED * self._moment[k, k], least)
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
