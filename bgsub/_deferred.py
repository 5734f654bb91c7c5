"""A basis whose last step is not yet carried out: ``U = (V + e g') N``, so that one pass per frame is enough.

V, the tall matrix, is touched only where the frame is read anyway (`bgsub._sweep_kernels.sweep`). The step that a
frame asks for, ``U_new = U M + e h'`` with the influence e of that frame, changes the small matrices N and g alone;
the tall rank-one term waits for the pass of the next frame. O(k^3) per step.
"""

from __future__ import annotations

import numpy as np


class DeferredStep:
    """The small matrices of ``U = (V + e g') N``.

    Parameters
    ----------
    k : int
        Rank.

    Attributes
    ----------
    N : ndarray, (k, k), float64
        Change of basis.
    g : ndarray, (k,), float64
        Coordinates of the pending rank-one term; zero once a pass has carried it out.
    """

    def __init__(self, k: int) -> None:
        self.N = np.eye(k)
        self.g = np.zeros(k)

    def compose(self, T: np.ndarray) -> None:
        """Take over a step: row i of the new U' is ``sum_j T[i, j] U'_j + T[i, k] e``; T is (k, k + 1)."""
        k = len(self.N)
        self.N = self.N @ T[:, :k].T
        self.g = np.linalg.solve(self.N.T, T[:, k])

    def rotate(self, L: np.ndarray) -> None:
        """Make ``U L^-T`` the basis, for L the Cholesky factor of ``U'U``."""
        self.N = np.linalg.solve(L, self.N.T).T

    def rows(self) -> np.ndarray:
        """Return the rows of U' in the stack ``[V e]``, (k, k + 1), float32."""
        return np.column_stack([self.N.T, self.N.T @ self.g]).astype(np.float32)

    def is_trivial(self) -> bool:
        """Return whether U is V."""
        return not self.g.any() and np.array_equal(self.N, np.eye(len(self.N)))

    def condition(self) -> float:
        """Return the condition number of N."""
        return float(np.linalg.cond(self.N))
