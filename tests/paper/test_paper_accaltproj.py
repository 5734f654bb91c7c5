"""Accelerated alternating projections with the true rank."""

import numpy as np
import pytest
from baselines import accaltproj
from baselines.accaltproj import _projected
from paper_kit import error

from bgsub.synthetic import low_rank_plus_sparse


def incoherence_of(L, rank):
    """The larger of the incoherences of both singular subspaces, the paper's mu."""
    U, _, Vt = np.linalg.svd(L, full_matrices=False)
    return max(len(basis) / rank * (basis[:, :rank] ** 2).sum(1).max() for basis in (U, Vt.T))


@pytest.mark.parametrize(("shape", "trimmed"), [((150, 150), True), ((120, 200), False), ((200, 120), True)])
def test_recovers_both_parts(shape, trimmed):
    """Theorem 1 of the paper: linear convergence to the planted parts."""
    X, L, S, _ = low_rank_plus_sparse(*shape, 3, 0.05, seed=1)
    incoherence = 1.1 * incoherence_of(L, 3) if trimmed else None  # as in the authors' example
    found = accaltproj(X, 3, tolerance=1e-9, incoherence=incoherence)
    assert error(found.low_rank, L) < 1e-8
    assert error(found.sparse, S) < 1e-8
    assert np.linalg.matrix_rank(found.low_rank) == 3


def test_convergence_is_linear_at_the_rate_gamma():
    """Theorem 1: the largest error of an entry of L is bounded by a constant times gamma^k."""
    X, L, _, _ = low_rank_plus_sparse(150, 150, 3, 0.05, seed=2)
    errors = []
    accaltproj(X, 3, gamma=0.5, tolerance=1e-9, callback=lambda low_rank: errors.append(np.abs(low_rank - L).max()))
    assert len(errors) >= 15
    assert all(e <= 2 * errors[0] * 0.5**k + 1e-12 for k, e in enumerate(errors))


def test_projection_on_the_tangent_space():
    """Against U U' Z + Z V V' - U U' Z V V', formed in full, and its truncated SVD."""
    rng = np.random.default_rng(0)
    U, V = (np.linalg.qr(rng.standard_normal((size, 4)))[0] for size in (30, 22))
    Z = rng.standard_normal((30, 22))
    full = U @ U.T @ Z + Z @ V @ V.T - U @ U.T @ Z @ V @ V.T
    A, s, Bt = np.linalg.svd(full)
    new_U, values, new_V = _projected(Z, U, V)
    np.testing.assert_allclose(values, s[:8], atol=1e-12)
    np.testing.assert_allclose(new_U * values[:4] @ new_V.T, A[:, :4] * s[:4] @ Bt[:4], atol=1e-12)
