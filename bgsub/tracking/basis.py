"""The tall matrices of the tracker, component-major, with their deferred steps."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from bgsub.tracking import _kernels
from bgsub.tracking.deferred import DeferredStep

_SKEWED = 4.0  # largest entry of the change of basis, or of its inverse, from which it is carried out


class Sweep(NamedTuple):
    """What a kernel needs for its one pass over the model (`bgsub.scene._sweep_kernels.sweep`).

    Attributes
    ----------
    stack : ndarray, (> k, >= m), float32
        Rows 0..k-1 hold V'; row k holds for every block the influence e at its last visit, and receives the new one.
    G : ndarray, (period, k), float32
        The kernel adds ``e G[i]`` to the blocks of number i that it visits.
    c : ndarray, (k,), float32
        Coefficients: the low-rank part is ``V c``.
    period, turn : int
        Of every `period` blocks, number `turn` is to be visited.
    """

    stack: np.ndarray
    G: np.ndarray
    c: np.ndarray
    period: int
    turn: int


class Basis:
    """The rows U', Q' and e' of the tracker, ``U = (V + D(e) G) N`` as in `bgsub.tracking.deferred`.

    Parameters
    ----------
    components : ndarray, (k, m)
        U', orthonormal.

    Attributes
    ----------
    k, m : int
        Rank and entries.
    stack : ndarray, (2 k + 2, >= m), float32
        V', then Q' (only while nothing is deferred), then e'.
    deferred : DeferredStep
        The small matrices.
    newest : int
        Number of the blocks whose influence is that of a vector not yet learned; -1 when there is none.
    """

    def __init__(self, components: np.ndarray) -> None:
        self.k, self.m = components.shape
        self.stack = _aligned_rows(2 * self.k + 2, self.m)
        self.stack[: self.k, : self.m] = components
        self.deferred = DeferredStep(self.k)
        self.newest = -1
        self.work = np.empty((2 * self.k + 2, _kernels.BLOCK), np.float32)

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what no step has filled yet, half of the stack in the usual case."""
        used = len(self.stack)
        while used > self.k + 1 and not self.stack[used - 1].view(np.int32).any():
            used -= 1
        return {**self.__dict__, "stack": self.stack[:used]}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        filled = self.stack
        self.stack = _aligned_rows(2 * self.k + 2, self.m)
        self.stack[: len(filled)] = filled

    def coordinates(self, y: np.ndarray) -> np.ndarray:
        """Return coefficients in U, (k,), as coefficients in V, (k,) float32."""
        return (self.deferred.N @ y).astype(np.float32)

    def low_rank(self, y: np.ndarray) -> np.ndarray:
        """Return ``U y``, (m,) float32."""
        self.settle()
        out = np.empty(self.m, np.float32)
        _kernels.combine(self.stack, 0, self.coordinates(y), out)
        return out

    # -- deferred steps ------------------------------------------------------------------------------------------

    def begin_sweep(self, y: np.ndarray, period: int, block: int) -> Sweep:
        """Return what a pass needs that visits one of `period` blocks of `block` entries; `y`, (k,), coefficients."""
        if (len(self.deferred.G), self.deferred.block) != (period, block):
            self.carry_out()
            self.deferred = DeferredStep(self.k, period, block)
        self.deferred.advance()
        G = self.deferred.G.astype(np.float32)
        return Sweep(self.stack, G, self.coordinates(y), period, self.deferred.turn)

    def end_sweep(self, products: np.ndarray) -> np.ndarray:
        """Turn inner products of e with V and itself, (k + 1,), into those with U and itself, after a pass."""
        self.newest = self.deferred.turn
        self.deferred.G[self.newest] = 0.0
        return np.append(products[: self.k] @ self.deferred.N, products[self.k])

    def settle(self) -> None:
        """Carry out the pending steps; the influence of a vector that is not yet learned is kept."""
        deferred = self.deferred
        if deferred.G.any() or self.newest >= 0:
            _kernels.settle(self.stack, 0, self.m, deferred.block, deferred.G.astype(np.float32), self.newest)
            deferred.G[:] = 0.0

    def carry_out(self) -> None:
        """Carry all steps out: the first rows of the stack are U' itself then."""
        self.settle()
        N = self.deferred.N
        if not np.array_equal(N, np.eye(self.k)):
            self.transform(N.T)
            N[:] = np.eye(self.k)

    def step(self, T: np.ndarray) -> None:
        """Replace U' by T times ``[U' e']``, T (k, k + 1): deferred after a pass, at once else."""
        if self.newest < 0:
            self.transform(np.column_stack([T[:, : self.k] @ self.deferred.N.T, T[:, self.k]]))
            self.deferred = DeferredStep(self.k)
            return
        skew = self.deferred.compose(T)
        self.newest = -1
        if skew > _SKEWED:
            self.carry_out()

    def step_with_gradient(self, T: np.ndarray) -> None:
        """Replace U' and Q', which is empty so far, by T times ``[U' e']``, T (k + r, k + 1)."""
        self.settle()
        self.transform(np.column_stack([T[:, : self.k] @ self.deferred.N.T, T[:, self.k]]))
        self.deferred, self.newest = DeferredStep(self.k), -1

    # -- at once -------------------------------------------------------------------------------------------------

    def transform(self, T: np.ndarray) -> None:
        """Replace the leading rows of the stack by `T`, (n_new, n_rows), times its leading rows."""
        T = np.ascontiguousarray(T, np.float32)
        _kernels.transform_rows(self.stack[: T.shape[1]], T, self.work)

    def gram(self) -> np.ndarray:
        """Return ``U'U``, (k, k) float64."""
        self.settle()
        N = self.deferred.N
        return N.T @ _kernels.gram_of(self.stack, self.k, self.m) @ N

    def retarget(self, target: np.ndarray, where: np.ndarray, start: int, y: np.ndarray) -> np.ndarray:
        """Add ``(target - U y) y' / |y|^2`` to U for some entries; return ``U'U`` then, (k, k).

        Parameters as in `SubspaceTracker.retarget`. U'U is known without a pass over the other entries, for it was
        the identity before.
        """
        deferred = self.deferred
        begin, end = start // deferred.block * deferred.block, start + target.size
        end = min(-(-end // deferred.block) * deferred.block, self.m)
        _kernels.settle(self.stack, begin, end, deferred.block, deferred.G.astype(np.float32), -1)
        z = np.linalg.solve(deferred.N.T, y) / float(y @ y)  # the least change of U, not of V
        change = np.zeros((self.k, self.k))
        numbers = self.coordinates(y), z.astype(np.float32)
        _kernels.turn_rows(self.stack, start, *numbers, target, where, change, self.work)
        self.newest = -1
        return np.eye(self.k) + deferred.N.T @ change @ deferred.N


def _aligned_rows(rows: int, m: int) -> np.ndarray:
    """Return zeros, (rows, >= m) float32, every row at the beginning of a cache line: loads then never cross one."""
    line = 16
    width = -(-m // line) * line + line  # the extra line keeps equal columns out of one and the same cache set
    flat = np.zeros(rows * width + line, np.float32)
    first = -flat.ctypes.data % 64 // 4
    return flat[first : first + rows * width].reshape(rows, width)
