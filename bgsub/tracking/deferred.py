"""A basis whose last steps are not yet carried out, so that one look at a part of it per frame is enough.

The pixels come in blocks; of every `period` blocks a frame steps and visits one. The basis is ``U = (V + D(e) G) N``:
V, the tall matrix, is touched only where the frame is read anyway (`bgsub.scene._engine_kernels.sweep`); e holds for
every block the influence at its last visit, and row i of G how the blocks of number i are to be stepped along it. The
step that a frame asks for, ``U_new = U M + e h'`` with the e of the blocks visited, changes the small matrices N and
G alone; the tall rank-one term waits for the next visit. O(k^3) per step.
"""

from __future__ import annotations

import numpy as np

from bgsub.tracking import _step_kernels

WHOLE = 1 << 60  # entries of a block that is larger than any vector


class DeferredStep:
    """The small matrices of ``U = (V + D(e) G) N``.

    Parameters
    ----------
    k : int
        Rank.
    period : int, default 1
        Frames in which every block is visited once.
    block : int, optional
        Entries of a block.

    Attributes
    ----------
    N : ndarray, (k, k), float64
        Change of basis.
    G : ndarray, (period, k), float64
        Coordinates of the pending rank-one terms; zero for the blocks that have been stepped.
    turn : int
        Number of the blocks that the newest frame visits.
    """

    def __init__(self, k: int, period: int = 1, block: int = WHOLE) -> None:
        self.N = np.eye(k)
        self.G = np.zeros((period, k))
        self.block = block
        self.turn = 0

    def advance(self) -> None:
        """Go on to the blocks that the next frame visits."""
        self.turn = (self.turn + 1) % len(self.G)

    def compose(self, T: np.ndarray) -> float:
        """Take over a step: row i of the new U' is ``sum_j T[i, j] U'_j + T[i, k] e``; T is (k, k + 1).

        Returns the largest entry of N and its inverse: when it grows, V and N should be multiplied out.
        """
        return float(_step_kernels.compose(self.N, np.ascontiguousarray(T), self.G[self.turn]))

    def rotate(self, L: np.ndarray) -> None:
        """Make ``U L^-T`` the basis, for L the Cholesky factor of ``U'U``."""
        self.N = np.ascontiguousarray(np.linalg.solve(L, self.N.T).T)
