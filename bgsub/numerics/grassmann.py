"""The Grassmannian Gr(k, m) in thin form (arXiv 1210.0805, section 4.2, lemmas 1 to 4, and docs/method.md).

A point is an m x k basis ``U`` with ``U'U = I``, a tangent vector at U is an m x k matrix ``B`` with ``U'B = 0``.
"""

import numpy as np


def qr_positive(B: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the thin QR factors of `B`, (m, k), with a non-negative diagonal of R.  O(m k^2)."""
    Q, R = np.linalg.qr(B)
    signs = np.where(np.diagonal(R) < 0, -1.0, 1.0).astype(B.dtype)
    return Q * signs, R * signs[:, np.newaxis]


class Retraction:
    """The QR retraction at the basis U along the tangent vector B, both (m, k), for all step lengths."""

    # with ``B = Q R`` and the Q-factor theta of ``M(tR) = [[I, -t R'], [t R, I]]``, the new basis is ``U T11 + Q T21``,
    # the Q-factor of ``U + t B``; its companion is ``U T12 + Q T22`` (paper, section 4.2)
    # Q has r = min(k, m - k) columns, orthogonal to U even if B does not have full rank

    def __init__(self, U: np.ndarray, B: np.ndarray) -> None:
        self.U, self._k = U, U.shape[1]
        # the QR of [U B] keeps Q orthogonal to U where columns of B vanish or depend on each other
        Q, R = qr_positive(np.hstack([U, B]))
        self.Q, self.R = Q[:, self._k :], R[self._k :, self._k :]
        self._last: tuple[float, np.ndarray] = (0.0, np.eye(Q.shape[1], dtype=U.dtype))

    def theta(self, t: float) -> np.ndarray:
        """Return the (k + r, k + r) orthogonal Q-factor of ``M(tR)``, dtype of U; kept until t changes.  O(k^3)."""
        if t != self._last[0]:
            self._last = (t, small_rotation(t * self.R).astype(self.U.dtype))
        return self._last[1]

    def point(self, t: float) -> np.ndarray:
        """Return the new orthonormal basis, (m, k).  O(m k^2)."""
        theta = self.theta(t)[:, : self._k]
        return self.U @ theta[: self._k] + self.Q @ theta[self._k :]

    def companion(self, t: float) -> np.ndarray:
        """Return the transported Q, (m, r), orthonormal and orthogonal to the new basis.  O(m k^2)."""
        theta = self.theta(t)[:, self._k :]
        return self.U @ theta[: self._k] + self.Q @ theta[self._k :]

    def direction(self, t: float) -> np.ndarray:
        """Return the step direction transported along its own step, (m, k): companion times R.  O(m k^2)."""
        return self.companion(t) @ self.R

    def transport(self, C: np.ndarray, t: float) -> np.ndarray:
        """Transport the tangent vector `C`, (m, k), along the step: ``C - Q (Q'C) + Q_new (Q'C)``.  O(m k^2)."""
        inner = self.Q.T @ C
        return C + (self.companion(t) - self.Q) @ inner

    def coefficients(self, Y: np.ndarray, t: float) -> np.ndarray:
        """Return ``T11' Y``, (k, n): the coefficients of ``P(t) L`` in the new basis for ``L = U Y``.  O(k^2 n)."""
        return self.theta(t)[: self._k, : self._k].T @ Y


def small_rotation(R: np.ndarray) -> np.ndarray:
    """Return the Q-factor, (k + r, k + r), of ``M(R) = [[I, -R'], [R, I]]`` for `R`, (r, k).  O((k + r)^3)."""
    # M'M = blockdiag(I + R'R, I + R R'): divide each block of M by the upper Cholesky factor of its Gram matrix
    r, k = R.shape
    M = np.eye(k + r)
    M[:k, k:] = -R.T
    M[k:, :k] = R
    return qr_positive(M)[0]


def small_rank_one_update(
    R: np.ndarray, beta: np.ndarray, rho: float, y: np.ndarray, w: float, tolerance: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return J, (r + 1, r_new), and R_new, (r_new, k), with ``[[(1-w) R + w beta y'], [w rho y']] = J R_new``."""
    # the small factors of (1 - w) Q R + w p y' for p = Q beta + rho q (paper, algorithm 6)
    stacked = np.vstack([(1 - w) * R + w * np.outer(beta, y), w * rho * y[np.newaxis, :]])
    J, s, V = np.linalg.svd(stacked, full_matrices=False)
    keep = s > tolerance * max(float(s[0]), np.finfo(float).tiny)
    return J[:, keep], s[keep, np.newaxis] * V[keep]
