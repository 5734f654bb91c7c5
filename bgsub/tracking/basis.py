"""The tall matrices of the tracker, component-major, with their deferred steps."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bgsub.errors import ParameterError
from bgsub.numerics.state import State, array_of
from bgsub.numerics.threads import copied
from bgsub.tracking import _kernels
from bgsub.tracking.coefficients import Fit
from bgsub.tracking.deferred import WHOLE, DeferredStep

DRIFTED = 0.05  # from an orthonormal basis, beyond what rounding does
_MANY = 16  # rows from which the BLAS is faster than a pass of our own
_COLUMNS = 8192  # of a product of the BLAS, so that its result stays in the cache
_SKEWED = 4.0  # largest entry of the change of basis, or of its inverse, from which it is carried out


class Visit(NamedTuple):
    """What a kernel needs of the basis for its one pass (`bgsub.scene._engine_kernels.sweep`).

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


class Cost(NamedTuple):
    """A surrogate as kernels take it: its code, smoothing (float32) and exponent (float32)."""

    kind: tuple[int, ...]
    mu: np.float32
    p: np.float32


class Sweep(NamedTuple):
    """A pass over the model that has begun: the coefficients are known, all that is proportional to m is not.

    Attributes
    ----------
    visit : Visit
        Of the basis.
    cost : Cost
        Of the residual.
    fit : Fit
        The vector on the pixel subset, and its coefficients.
    number : int
        Of the pass.
    """

    visit: Visit
    cost: Cost
    fit: Fit
    number: int


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

    def state(self, rows: int) -> State:
        """Return what the next vector depends on; `rows` of the stack are in use, that of e the last of them."""
        deferred = self.deferred
        return {
            "stack": copied(self.stack[:rows, : self.m]),
            "N": deferred.N.copy(),
            "G": deferred.G.copy(),
            "blocks": np.array([deferred.block, deferred.turn, self.newest]),
        }

    @classmethod
    def from_state(cls, state: State, k: int, m: int | None = None) -> Basis:
        """Return a basis of rank k, of m entries, that goes on where another one stood; ParameterError if it cannot."""
        stack = array_of(state, "stack", (None, m), "float32")
        G = array_of(state, "G", (None, k), "float64")
        block, turn, newest = (int(number) for number in array_of(state, "blocks", (3,), "int64", -1, WHOLE))
        if not (k < len(stack) <= 2 * k + 2 and len(G) and block > 0 and 0 <= turn < len(G) and -1 <= newest < len(G)):
            raise ParameterError(f"the saved basis does not fit rank {k}: {stack.shape}, {G.shape}, block {block}")
        basis = cls(stack[:k])
        basis.stack[: len(stack), : basis.m] = stack
        basis.deferred = DeferredStep(k, len(G), block)
        basis.deferred.N, basis.deferred.G = array_of(state, "N", (k, k), "float64"), G
        basis.deferred.turn, basis.newest = turn, newest
        return basis

    def is_orthonormal(self) -> bool:
        """Return whether ``U'U`` is the identity but for rounding; carries pending steps out."""
        return bool(np.abs(self.gram() - np.eye(self.k)).max() < DRIFTED)

    def coordinates(self, y: np.ndarray) -> np.ndarray:
        """Return coefficients in U, (k,), as coefficients in V, (k,) float32."""
        return (self.deferred.N @ y).astype(np.float32)

    def low_rank(self, y: np.ndarray) -> np.ndarray:
        """Return ``U y``, (m,) float32."""
        self.settle()
        rows = self.stack[: self.k, : self.m]
        return sum((c * row for c, row in zip(self.coordinates(y), rows, strict=True)), np.zeros(self.m, np.float32))

    # -- deferred steps ------------------------------------------------------------------------------------------

    def begin_visit(self, y: np.ndarray, period: int, block: int) -> Visit:
        """Return what a pass needs that visits one of `period` blocks of `block` entries; `y`, (k,), coefficients."""
        if (len(self.deferred.G), self.deferred.block) != (period, block):
            self.carry_out()
            self.deferred = DeferredStep(self.k, period, block)
        self.deferred.advance()
        G = self.deferred.G.astype(np.float32)
        return Visit(self.stack, G, self.coordinates(y), period, self.deferred.turn)

    def end_visit(self, visit: Visit, products: np.ndarray) -> np.ndarray:
        """Turn inner products of e with V and itself, (k + 1,), into those with U and itself, after a pass."""
        self.newest = visit.turn
        self.deferred.G[self.newest] = 0.0
        turned = products.copy()
        np.dot(products[: self.k], self.deferred.N, out=turned[: self.k])
        return turned

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
        if len(T) < _MANY:
            _kernels.transform_rows(self.stack[: T.shape[1]], T, self.work)
            return
        for first in range(0, self.m, _COLUMNS):
            columns = self.stack[: T.shape[1], first : first + _COLUMNS]
            columns[: len(T)] = T @ columns

    def gram(self) -> np.ndarray:
        """Return ``U'U``, (k, k) float64."""
        self.settle()
        N = self.deferred.N
        return N.T @ _kernels.gram_of(self.stack, self.k, self.m) @ N

    def retarget(self, target: np.ndarray, where: np.ndarray, start: int, y: np.ndarray) -> np.ndarray:
        """Add ``(target - U y) y' / |y|^2`` to U for some entries; return ``U'U`` then, (k, k).

        Parameters as in `bgsub.tracking.subspace.Subspace.retarget`. U'U is known without a pass over the other
        entries, for it was the identity before.
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
