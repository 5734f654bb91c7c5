"""Naive dense twins in float64: full projectors, full complements, plain loops, formulas as printed in the paper."""

import numpy as np

# ---- surrogates, section 6.1 -------------------------------------------------------------------------------------


def surrogate_value(name, r, mu, p=0.5):
    """h(r) / h''(0), entry by entry."""
    x = np.asarray(r, np.float64)
    return {
        "lp": (x * x + mu) ** (p / 2) / (p * mu ** (p / 2 - 1)),
        "log": np.log(1 + x * x / mu) / (2 / mu),
        "atan": np.arctan(x / mu) ** 2 / (2 / mu**2),
    }[name]


def surrogate_influence(name, r, mu, p=0.5):
    """h'(r) / h''(0), entry by entry."""
    x = np.asarray(r, np.float64)
    return {
        "lp": p * x * (x * x + mu) ** (p / 2 - 1) / (p * mu ** (p / 2 - 1)),
        "log": 2 * x / (mu + x * x) / (2 / mu),
        "atan": 2 * np.arctan(x / mu) * mu / (mu * mu + x * x) / (2 / mu**2),
    }[name]


def surrogate_weight(name, r, mu, p=0.5):
    """psi(r) / r, entry by entry; its limit 1 at zero."""
    x, psi = np.asarray(r, np.float64), surrogate_influence(name, r, mu, p)
    return np.divide(psi, x, out=np.ones_like(psi), where=x != 0)


# ---- geometry, section 4.2 ---------------------------------------------------------------------------------------


def projector(U):
    """The m x m point of the Grassmannian."""
    return U @ U.T


def complement(U, first=None):
    """An m x (m - k) orthonormal complement of U; the columns of `first`, orthonormal in it, come first."""
    m, k = U.shape
    given = np.hstack([U, np.empty((m, 0)) if first is None else first])
    rest = np.linalg.svd(given, full_matrices=True)[0][:, given.shape[1] :]
    return np.hstack([given, rest])[:, k:]


def q_factor(M):
    """Q-factor with a positive diagonal of R."""
    Q, R = np.linalg.qr(M)
    return Q * np.where(np.diagonal(R) < 0, -1, 1)


def tangent_matrix(U, B):
    """The symmetric m x m tangent vector at P that belongs to the thin one."""
    return B @ U.T + U @ B.T


def rotation(U, B, t, U_perp):
    """The m x m orthogonal matrix of the QR retraction along t B: Theta M_Q(t) Theta', Theta = [U U_perp]."""
    m, k = U.shape
    K = U_perp.T @ B
    M = np.eye(m)
    M[:k, k:] = -t * K.T
    M[k:, :k] = t * K
    theta = np.hstack([U, U_perp])
    return theta @ q_factor(M) @ theta.T


# ---- objective, section 4 ----------------------------------------------------------------------------------------


def objective(X, observed, U, Y, name, mu, p=0.5):
    """h(X - A(U Y)) for samples as rows X; U (m, k), Y (k, n)."""
    return float(np.sum(surrogate_value(name, np.where(observed, X - (U @ Y).T, 0.0), mu, p)))
