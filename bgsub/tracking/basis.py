"""The tall matrices of the tracker, component-major, with steps that are carried out later.

Entries come in blocks, and each frame visits one of every `period` blocks. The basis is ``U = (V + D(e) G) N``: V is
the tall matrix, e holds for every block the influence at its last visit, and row i of G is the pending step of the
blocks of number i. A step ``U_new = U M + e h'``, with the e of the visited blocks, changes only the small matrices N
and G; the tall rank-one term waits for the next visit (`bgsub.scene._frame_kernels.sweep`).
"""

from typing import Any, NamedTuple

import numpy as np

from bgsub.errors import ParameterError
from bgsub.numerics.state import State, array_of
from bgsub.numerics.threads import copied
from bgsub.tracking import _kernels

WHOLE = 1 << 60  # entries of a block that is larger than any vector
DRIFTED = 0.05  # largest entry of ``U'U - I`` that rounding explains in a saved model
_COLUMNS = 2048  # per matrix product: they stay in the cache, and the BLAS uses one thread
_DOT = 8192  # entries per inner product, for the same reasons
_SKEWED = 4.0  # largest entry of N or its inverse; beyond it, V would amplify rounding: steps are carried out
_INVERTED = 1e-6  # largest entry of ``N N^-1 - I`` that rounding explains


class DeferredStep:
    """The small matrices N and its inverse, (k, k), and G, (period, k), float64, of ``U = (V + D(e) G) N``."""

    def __init__(self, k: int, period: int = 1, block: int = WHOLE) -> None:
        self.N, self.inverse, self.G = np.eye(k), np.eye(k), np.zeros((period, k))
        self.block, self.turn = block, 0  # entries of a block; number of the blocks that the newest visit updated

    def compose(self, T: np.ndarray) -> float:
        """Add the step T, (k, k + 1); return the largest entry of N and of its inverse."""
        # the usual step does this in `bgsub.tracking._step_kernels.compose`
        self.set_N(self.N @ T[:, :-1].T)
        self.G[self.turn] = self.inverse.T @ T[:, -1]
        return float(max(np.abs(self.N).max(), np.abs(self.inverse).max()))

    def rotate(self, L: np.ndarray) -> None:
        """Make ``U L^-T`` the basis, for L the Cholesky factor of ``U'U``."""
        self.set_N(np.linalg.solve(L, self.N.T).T)

    def set_N(self, N: np.ndarray) -> None:
        """Replace N, (k, k)."""
        self.N, self.inverse = np.ascontiguousarray(N), np.linalg.inv(N)


class Visit(NamedTuple):
    """The input of the engine's one pass over the basis; the low-rank part is ``V c``."""

    stack: np.ndarray  # (> k, >= m) float32, V' and the influence e at the last visit of each block
    G: np.ndarray  # (period, k) float32, the kernel adds ``e G[i]`` to the blocks of number i
    c: np.ndarray  # (k,) float32, coefficients in V
    period: int
    turn: int  # of every `period` blocks, number `turn` is visited


class Cost(NamedTuple):
    """A surrogate as kernels take it: code, smoothing (float32) and exponent (float32)."""

    kind: tuple[int, ...]
    mu: np.float32
    p: np.float32


class Basis:
    """The rows U', Q' and e', `stack` (2 k + 2, >= m) float32, of the tracker, ``U = (V + D(e) G) N``."""

    def __init__(self, k: int, m: int) -> None:
        self.k, self.m = k, m
        self._rows = _aligned_rows(2 * k + 2, m)  # uses memory only where it is written
        self.mirror: Any = None  # a copy of V' and e' on a GPU, which `mirror.bring_back` copies into its argument
        self.deferred = DeferredStep(self.k)
        self.newest = -1  # number of the blocks whose e waits for the step of the newest visit; -1: none
        self.work = np.empty((2 * self.k + 2, _kernels.BLOCK), np.float32)

    @property
    def stack(self) -> np.ndarray:
        """The rows U', Q' and e', which may be changed."""
        if self.mirror is not None:
            self.mirror.bring_back(self._rows)
        return self._rows

    @classmethod
    def of(cls, components: np.ndarray) -> "Basis":
        """Return the basis with the rows `components`, (k, m)."""
        basis = cls(*components.shape)
        basis.stack[: basis.k, : basis.m] = components
        return basis

    def state(self, rows: int) -> State:
        """Return a copy of the state with `rows` rows of the stack, without the last one, e, if nothing is pending."""
        deferred = self.deferred
        return {
            "stack": copied(self.stack[: rows - self.is_settled, : self.m]),
            "N": np.stack([deferred.N, deferred.inverse]),
            "G": deferred.G.copy(),
            "blocks": np.array([deferred.block, deferred.turn, self.newest]),
        }

    @classmethod
    def from_state(cls, state: State, k: int, m: int | None = None) -> "Basis":
        """Return the basis of rank k and m entries of a state; ParameterError if it does not fit."""
        stack = array_of(state, "stack", (None, m), "float32")
        G = array_of(state, "G", (None, k), "float64")
        block, turn, newest = (int(number) for number in array_of(state, "blocks", (3,), "int64", -1, WHOLE))
        if not (k <= len(stack) <= 2 * k + 2 and len(G) and block > 0 and 0 <= turn < len(G) and -1 <= newest < len(G)):
            raise ParameterError(f"the saved basis does not fit rank {k}: {stack.shape}, {G.shape}, block {block}")
        basis = cls.of(stack[:k])
        basis.stack[: len(stack), : basis.m] = stack
        basis.deferred = DeferredStep(k, len(G), block)
        N, inverse = array_of(state, "N", (2, k, k), "float64")
        if not np.abs(N @ inverse - np.eye(k)).max() < _INVERTED:
            raise ParameterError("N must be an invertible matrix and its inverse")
        basis.deferred.N, basis.deferred.inverse, basis.deferred.G = N, inverse, G
        basis.deferred.turn, basis.newest = turn, newest
        return basis

    def is_orthonormal(self) -> bool:
        """Return whether ``U'U`` is the identity but for rounding; add the pending rank-one terms."""
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
        """Return the input of a pass with coefficients y, (k,), over one of `period` blocks of `block` entries."""
        if (len(self.deferred.G), self.deferred.block) != (period, block):
            self.carry_out()
            self.deferred = DeferredStep(self.k, period, block)
        self.deferred.turn = (self.deferred.turn + 1) % period
        return Visit(self._rows, self.deferred.G.astype(np.float32), self.coordinates(y), period, self.deferred.turn)

    def end_visit(self, visit: Visit, products: np.ndarray) -> np.ndarray:
        """End a pass: return the inner products of e with U and itself, given those with V and itself, (k + 1,)."""
        self.newest = visit.turn
        self.deferred.G[self.newest] = 0.0
        turned = products.copy()  # faster than to join two parts
        turned[: self.k] = products[: self.k] @ self.deferred.N
        return turned

    @property
    def is_settled(self) -> bool:
        """Whether no rank-one term is pending, so that nothing depends on e."""
        return self.newest < 0 and not self.deferred.G.any()

    def settle(self) -> None:
        """Add the pending rank-one terms to V; keep the e of blocks whose step is still to come (`newest`)."""
        if not self.is_settled:
            self._settle(0, self.m, self.newest)
            self.deferred.G[:] = 0.0

    def _settle(self, begin: int, end: int, newest: int = -1) -> None:
        """Add the pending terms of the blocks from `begin` to `end`, but not of number `newest`; e becomes 0 there."""
        block, G = self.deferred.block, self.deferred.G.astype(np.float32)
        for first in range(begin, end, block):
            number = first // block % len(G)
            if number != newest:
                V, e = np.split(self.stack[: self.k + 1, first : min(first + block, end)], [self.k])
                V += G[number][:, np.newaxis] * e
                e[:] = 0

    def carry_out(self) -> None:
        """Carry all steps out, so that the first rows of the stack are U' itself."""
        self.settle()
        N = self.deferred.N
        if not np.array_equal(N, np.eye(self.k)):
            self.transform(N.T)
            self.deferred.set_N(np.eye(self.k))

    def step(self, T: np.ndarray) -> None:
        """Replace U' (and an empty Q') by T times ``[U' e']``, T (k + r, k + 1); defer it after a pass if r is 0."""
        if self.newest >= 0 and len(T) == self.k:
            self.stepped(self.deferred.compose(T))
            return
        if len(T) > self.k:
            self.settle()
        self.transform(np.column_stack([T[:, : self.k] @ self.deferred.N.T, T[:, self.k]]))
        self.deferred, self.newest = DeferredStep(self.k), -1

    def stepped(self, skew: float) -> None:
        """End a deferred step; `skew` is the largest entry of N and of its inverse."""
        self.newest = -1
        if skew > _SKEWED:
            self.carry_out()

    # -- immediate changes ---------------------------------------------------------------------------------------

    def transform(self, T: np.ndarray) -> None:
        """Replace the leading rows of the stack by T, (n_new, n_rows), times its leading rows."""
        T = T.astype(np.float32)
        for first in range(0, self.m, _COLUMNS):
            columns = self.stack[: T.shape[1], first : first + _COLUMNS]
            columns[: len(T)] = T @ columns

    def gram(self) -> np.ndarray:
        """Return ``U'U``, (k, k) float64."""
        self.settle()
        N = self.deferred.N
        return N.T @ gram_of(self.stack[: self.k, : self.m]) @ N

    def factorise(self, noise: float) -> np.ndarray:
        """Make nearly dependent rows of U' orthonormal, after adding noise; return L, (k, k), of ``U' = L Q'``."""
        # a Cholesky factor would amplify rounding; without noise, a direction may be 0 on the whole pixel subset
        self.carry_out()
        rows = self.stack[: self.k, : self.m]
        random = np.random.default_rng(0).standard_normal(rows.shape, np.float32)
        Q, R = np.linalg.qr((rows + np.float32(noise / np.sqrt(self.m)) * random).T)
        rows[:] = Q.T
        return R.T.astype(np.float64)

    def retarget(self, target: np.ndarray, where: np.ndarray, start: int, y: np.ndarray) -> np.ndarray:
        """Add ``(target - U y) y' / |y|^2`` to U as `Subspace.retarget` asks for; return the new ``U'U``, (k, k)."""
        deferred = self.deferred
        begin, end = start // deferred.block * deferred.block, start + target.size
        end = min(-(-end // deferred.block) * deferred.block, self.m)
        self._settle(begin, end)
        z = deferred.inverse.T @ y / float(y @ y)  # the smallest change of U, not of V
        change = np.zeros((self.k, self.k))
        c, z32 = self.coordinates(y), z.astype(np.float32)
        for first in range(0, target.size, _COLUMNS):
            columns = slice(first, first + _COLUMNS)
            V = self.stack[: self.k, start + first : start + min(first + _COLUMNS, target.size)]
            delta = target[columns] - c @ V
            if where.size:
                delta *= where[columns] != 0
            projections = np.outer(V @ delta, z)
            change += projections + projections.T + float(delta @ delta) * np.outer(z, z)
            V += z32[:, np.newaxis] * delta
        self.newest = -1
        return np.eye(self.k) + deferred.N.T @ change @ deferred.N  # U'U was the identity: no pass over the rest

    def scale(self, factors: np.ndarray) -> np.ndarray:
        """Multiply the rows of U by `factors`, (m,) float32; return the new ``U'U``, (k, k)."""
        deferred, gram, self.newest = self.deferred, np.empty((self.k, self.k)), -1
        _kernels.scale_rows(self.stack, deferred.G.astype(np.float32), deferred.block, factors, gram)
        deferred.G[:] = 0.0
        return deferred.N.T @ gram @ deferred.N

    def move(self, places: np.ndarray) -> np.ndarray:
        """Take over the rows of U of other entries, (m,) indices; return the new ``U'U``, (k, k)."""
        self._settle(0, self.m)
        self.newest = -1
        for row in self.stack[: self.k, : self.m]:
            row[:] = row.take(places)
        return self.gram()

    def multiply(self, A: np.ndarray, where: np.ndarray) -> np.ndarray:
        """Multiply the rows of U at `where`, (m,) uint8, whose e is 0, by A (k, k); return the new ``U'U``, (k, k)."""
        places, block, N = np.flatnonzero(where), self.deferred.block, self.deferred.N
        self._settle(int(places[0]) // block * block, min(-(-int(places[-1] + 1) // block) * block, self.m))
        self.newest = -1
        before = self.stack[: self.k, places]
        after = (N @ A @ self.deferred.inverse).T.astype(np.float32) @ before
        self.stack[: self.k, places] = after
        return np.eye(self.k) + N.T @ (after @ after.T - before @ before.T).astype(np.float64) @ N


def gram_of(rows: np.ndarray) -> np.ndarray:
    """Return the Gram matrix of rows, (k, m) float32, as (k, k) float64.  O(m k^2)."""
    total = np.zeros((len(rows), len(rows)))
    for first in range(0, rows.shape[1], _DOT):
        part = rows[:, first : first + _DOT]
        for i in range(len(rows)):
            for j in range(i + 1):
                total[i, j] += np.dot(part[i], part[j])  # for few rows faster than a matrix product
    return total + np.tril(total, -1).T


def _aligned_rows(rows: int, m: int) -> np.ndarray:
    """Return zeros, (rows, >= m) float32, with each row at a cache line: no load crosses one."""
    line = 16
    width = -(-m // line) * line + line  # the extra line keeps equal columns out of the same cache set
    flat = np.zeros(rows * width + line, np.float32)
    first = -flat.ctypes.data % 64 // 4
    return flat[first : first + rows * width].reshape(rows, width)
