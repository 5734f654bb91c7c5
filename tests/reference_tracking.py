"""Dense float64 twins of the kernels of tracker and segmenter, written like the formulas."""

import numpy as np

from bgsub.numerics.surrogates import Surrogate
from bgsub.tracking.step import FLOOR

F = np.float32
SURROGATES = [Surrogate("atan", 0.05), Surrogate("log", 0.0025), Surrogate("lp", 0.00125)]


def arguments(surrogate):
    """Return a surrogate as kernels take it."""
    return surrogate.code, F(surrogate.mu), F(surrogate.p)


def separate(U, y, x, a, surrogate: Surrogate):
    """Return low-rank part, influence and cost ``sum h(r)`` of one vector; U (m, k), x and a (m,)."""
    low_rank = U @ y
    r = a * (x - low_rank)
    return low_rank, surrogate.influence(r), float(np.sum(surrogate.value(r)))


def weighted_fit(U, x, a, s, surrogate: Surrogate, widening: float, y):
    """One weighted least squares for ``argmin_y sum_i a_i t_i^2 h(r_i / s_i)``, s widened, t at most its median."""
    r = a * (x - U @ y)
    W = np.diag(a * surrogate.weight(r / (widening * s)) * np.clip(np.median(s) / s, 0.1, 1) ** 2)
    return y + np.linalg.solve(U.T @ W @ U, U.T @ W @ r)


def rows_given_coefficients(X, Y, mus, name: str, p: float):
    """One robust regression per column of X, (n, m), on Y, (n, k); returns U', (k, m)."""
    U, ones = np.zeros((Y.shape[1], X.shape[1])), np.ones(len(X))
    for pixel in range(X.shape[1]):
        u = np.linalg.lstsq(Y, X[:, pixel], rcond=None)[0]
        for mu in mus:
            u = weighted_fit(Y, X[:, pixel], ones, ones, Surrogate(name, mu, p), 1.0, u)
        U[:, pixel] = u
    return U


def polar(U, H):
    """The basis ``(U + H) S`` of the span of U + H, H a tangent at U, and ``S = (I + H'H)^(-1/2)``."""
    values, vectors = np.linalg.eigh(np.eye(H.shape[1]) + H.T @ H)
    S = vectors @ np.diag(values**-0.5) @ vectors.T
    return (U + H) @ S, S


def raised(C):
    """C with its eigenvalues raised by a share of their sum."""
    return C + FLOOR * np.trace(C) * np.eye(len(C))


def grassmann_step(U, G, C, x, a, y, w: float, surrogate: Surrogate, metric: str, t: float):
    """One step of algorithms 5 and 6 with full matrices.

    Returns the new basis (m, k), the new gradient (m, k) before it is carried, the direction (m, k), and the whole
    objective as a function of the step length.
    """
    projector = np.eye(len(U)) - U @ U.T
    _, e, _ = separate(U, y, x, a, surrogate)
    G_new = (1 - w) * G + w * np.outer(-projector @ e, y)
    C_new = (1 - w) * C + w * np.outer(y, y)
    largest = np.linalg.eigvalsh(C_new)[-1]
    scaling = np.linalg.inv(raised(C_new)) if metric == "scaled" else np.eye(len(C_new)) / largest
    H = -G_new @ scaling

    def moved(s: float):
        Q, R = np.linalg.qr(U + s * H)
        return Q * np.sign(np.diagonal(R))

    def objective(s: float) -> float:
        P = moved(s) @ moved(s).T
        sample = float(np.sum(surrogate.value(a * (x - P @ (U @ y)))))
        past = s * np.sum(G * H) + s * s / 2 * np.trace(H @ C @ H.T)
        return w * sample + (1 - w) * past

    return moved(t), G_new, H, objective
