"""Which rank a stream has: a direction that is missing is taken up, one that carries nothing is dropped."""

from __future__ import annotations

import numpy as np

from bgsub.numerics.state import LARGEST, State, array_of
from bgsub.tracking.basis import Basis

_MEMORY = 4.0  # vectors per direction in the running means
_SOMETHING = 30.0  # mean square of a coefficient, in units of that of noise, from which a direction is taken up
_MUCH = 0.1  # share of the energy of an influence outside the span that is something, however few entries are seen
_UNEXPLAINED = 0.5  # share of it that y must not explain
_NOTHING = 10.0  # below which it is dropped
_LEAST = 1e-8  # share of the moment of all coefficients that is something, for streams without noise


class RankSearch:
    """Evidence for one direction more, and for one less.

    The spare direction q follows the strongest direction of the influence outside the span, by Oja's rule. What
    counts is the part of its coefficient ``q'e`` that a linear function of y does not explain: a subspace that lags
    behind leaves ``e = dU'y``, one that lacks a direction leaves something that y does not know. Both are compared
    with the mean square of the influence in any direction, which is all there is where only noise is left.

    Parameters
    ----------
    basis : Basis
        U as it is now.
    most : int
        The largest rank.

    Attributes
    ----------
    spare : ndarray, (m,), float32
        q, of length one once there is an influence.
    strength : float
        Mean square of its coefficient that y does not explain.
    """

    def __init__(self, basis: Basis, most: int) -> None:
        k = basis.k
        self.most = most
        self.spare = np.zeros(basis.m, np.float32)
        self._rate = 1 / (_MEMORY * (k + 1))
        self._moment = np.zeros((k + 1, k + 1))  # of [y, q'e]
        self._noise, self._count = np.zeros(3), 0.0

    def look(self, basis: Basis, y: np.ndarray, share: float) -> None:
        """Learn from the newest vector, whose influence is still in its row of the basis.

        Parameters
        ----------
        basis : Basis
        y : ndarray, (k,)
            Its coefficients.
        share : float
            Mean weight of its entries.
        """
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
        noise = energy / max(m - k, 1)  # of q'e; y = (U'WU)^-1 U'e has that of the second
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
    def verdict(self) -> int:
        """1 for a direction more, -1 for one less, 0 for neither or not yet."""
        k = len(self._moment) - 1
        if self._count < 2 / self._rate:
            return 0
        values = np.linalg.eigvalsh(self._moment[:k, :k])
        least = _LEAST * float(values.sum())
        if k > 1 and values[0] < max(_NOTHING * self._noise[1], least):
            return -1
        something = min(_SOMETHING * self._noise[0], self._noise[2])
        needed = max(something, _UNEXPLAINED * self._moment[k, k], least)
        return int(k < self.most and self.strength > needed)

    def weakest(self) -> np.ndarray:
        """Return the orthogonal matrix, (k, k), whose last row is the direction of the weakest coefficient."""
        return np.linalg.eigh(self._moment[:-1, :-1])[1].T[::-1]

    def state(self) -> State:
        """Return what the next vector depends on, copied."""
        numbers = np.array([*self._noise, self._count], np.float64)
        return {"spare": self.spare.copy(), "moment": self._moment.copy(), "evidence": numbers}

    def set_state(self, state: State) -> None:
        """Go on where another one stood; ParameterError when it does not fit."""
        self.spare = array_of(state, "spare", self.spare.shape, "float32")
        self._moment = array_of(state, "moment", self._moment.shape, "float64")
        *noise, count = array_of(state, "evidence", (4,), "float64", 0, LARGEST**2).tolist()
        self._noise, self._count = np.array(noise), count
