"""The batch methods of the baselines: recovery of both parts, convergence, refused input."""

from functools import partial

import numpy as np
import pytest
from baselines import accaltproj, ealm, godec, grasta, ialm, sparcs
from baselines._alm import SingularValueShrinkage
from baselines.accaltproj import _projected
from baselines.sparcs import _conjugate_gradients, _largest
from paper_kit import error

from bgsub.errors import ParameterError
from bgsub.synthetic import low_rank_plus_sparse

METHODS = {
    "IALM": ialm,
    "EALM": ealm,
    "GoDec": partial(godec, rank=2, cardinality=30),
    "AccAltProj": partial(accaltproj, rank=2),
    "SpaRCS": partial(sparcs, rank=2, cardinality=30),
}
EVERY = pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)


def incoherence_of(L, rank):
    """The larger of the incoherences of both singular subspaces, the paper's mu."""
    U, _, Vt = np.linalg.svd(L, full_matrices=False)
    return max(len(basis) / rank * (basis[:, :rank] ** 2).sum(1).max() for basis in (U, Vt.T))


# the errors that the papers report: exact, linear convergence, and the default tolerance 5e-4 of SpaRCS
RECOVERY = {
    "IALM": (lambda X, L, count: ialm(X), 1e-6, 1e-5),
    "EALM": (lambda X, L, count: ealm(X), 1e-6, 1e-5),
    "GoDec": (lambda X, L, count: godec(X, 4, count), 1e-6, 1e-6),
    "AccAltProj": (lambda X, L, count: accaltproj(X, 4, tolerance=1e-9), 1e-8, 1e-8),
    "AccAltProj, trimmed": (
        lambda X, L, count: accaltproj(X, 4, tolerance=1e-9, incoherence=1.1 * incoherence_of(L, 4)), 1e-8, 1e-8
    ),
    "SpaRCS": (lambda X, L, count: sparcs(X, 4, count), 3e-3, 3e-3),
    "SpaRCS, two": (lambda X, L, count: sparcs(X, 4, count, selection=2), 3e-3, 3e-3),
    "SpaRCS, precise": (lambda X, L, count: sparcs(X, 4, count, tolerance=1e-10), 1e-9, 1e-9),
}  # fmt: skip


@pytest.mark.parametrize("name", RECOVERY)
@pytest.mark.parametrize("shape", [(120, 120), (90, 150), (150, 90)])
def test_recovers_both_parts(name, shape):
    X, L, S, _ = low_rank_plus_sparse(*shape, 4, 0.05, seed=1)
    method, low_rank_bound, sparse_bound = RECOVERY[name]
    found = method(X, L, np.count_nonzero(S))
    assert error(found.low_rank, L) < low_rank_bound
    assert error(found.sparse, S) < sparse_bound
    assert np.linalg.matrix_rank(found.low_rank, tol=1e-6 * np.linalg.norm(X, 2)) == 4
    if name.startswith(("GoDec", "SpaRCS")):
        assert np.count_nonzero(found.sparse) <= np.count_nonzero(S)
    if name.endswith("ALM"):
        assert np.linalg.norm(X - found.low_rank - found.sparse) < 1e-7 * np.linalg.norm(X)


@EVERY
def test_callback_stops(method):
    X, calls = low_rank_plus_sparse(60, 50, 2, 0.05, seed=4)[0], []
    found = method(X, callback=lambda low_rank: calls.append(low_rank.copy()) or len(calls) == 2)
    assert len(calls) == 2
    assert found.iterations == (1 if method is ealm else 2)  # of its steps only the outer ones count
    np.testing.assert_array_equal(found.low_rank, calls[-1])


@EVERY
def test_zero_matrix_and_unchanged_data(method):
    found = method(np.zeros((7, 5)))
    assert not found.low_rank.any()
    assert not found.sparse.any()
    X = low_rank_plus_sparse(40, 30, 2, 0.05, seed=5)[0]
    before = X.copy()
    method(X)
    np.testing.assert_array_equal(X, before)


@pytest.mark.parametrize(
    ("method", "rank", "share"), [(ialm, 4, 0.05), (ialm, 12, 0.1), (ialm, 40, 0.3), (ealm, 4, 0.05), (ealm, 8, 0.05)]
)
def test_warm_start_of_alm_gives_what_full_svds_give(method, rank, share):
    X, L, _, _ = low_rank_plus_sparse(130, 110, rank, share, seed=2)
    fast, full = method(X), method(X, exact_svd=True)
    assert abs(fast.iterations - full.iterations) <= 1
    difference = np.linalg.norm(fast.low_rank - full.low_rank) / np.linalg.norm(L)
    assert difference < 0.3 * max(error(full.low_rank, L), 1e-6)
    weighted = method(X, lam=10.0)  # outliers so dear that L takes everything
    assert np.linalg.norm(weighted.sparse) < 1e-5 * np.linalg.norm(X)


@pytest.mark.parametrize(("shape", "rank"), [((150, 120), 5), ((120, 150), 20), ((60, 90), 50)])
def test_thresholding_against_full_svd(shape, rank):
    """Few, more than predicted and nearly all singular values above the threshold; decayed by 1e4."""
    rng = np.random.default_rng(0)
    U, s, Vt = np.linalg.svd(rng.standard_normal(shape), full_matrices=False)
    s = np.where(np.arange(len(s)) < rank, np.geomspace(1e4, 1, len(s)), 0.1)
    M = U * s @ Vt
    threshold = s[rank - 1] / 2
    expected = U * np.maximum(s - threshold, 0) @ Vt
    out = np.empty_like(M)
    shrink = SingularValueShrinkage(shape, predicted=3)
    for _ in range(2):  # the second call starts warm
        assert shrink(M, threshold, 1e-9 * s[0], out) == np.count_nonzero(s > threshold)
        assert np.linalg.norm(out - expected) < 1e-8 * s[0]


def test_convergence_of_accaltproj_is_linear_at_the_rate_gamma():
    """Theorem 1: the largest error of an entry of L is bounded by a constant times gamma^k."""
    X, L, _, _ = low_rank_plus_sparse(150, 150, 3, 0.05, seed=2)
    errors = []
    accaltproj(X, 3, gamma=0.5, tolerance=1e-9, callback=lambda low_rank: errors.append(np.abs(low_rank - L).max()))
    assert len(errors) >= 15
    assert all(e <= 2 * errors[0] * 0.5**k + 1e-12 for k, e in enumerate(errors))


def test_projection_of_accaltproj_on_the_tangent_space():
    """Against U U' Z + Z V V' - U U' Z V V', formed in full, and its truncated SVD."""
    rng = np.random.default_rng(0)
    U, V = (np.linalg.qr(rng.standard_normal((size, 4)))[0] for size in (30, 22))
    Z = rng.standard_normal((30, 22))
    A, s, Bt = np.linalg.svd(U @ U.T @ Z + Z @ V @ V.T - U @ U.T @ Z @ V @ V.T)
    new_U, values, new_V = _projected(Z, U, V)
    np.testing.assert_allclose(values, s[:8], atol=1e-12)
    np.testing.assert_allclose(new_U * values[:4] @ new_V.T, A[:, :4] * s[:4] @ Bt[:4], atol=1e-12)


def test_residual_of_godec_never_grows():
    """Alternating projections: theorem 1 of the paper, up to the error of the random projection."""
    X, _, S, _ = low_rank_plus_sparse(80, 60, 5, 0.2, seed=2)
    count, residuals = np.count_nonzero(S), []

    def residual(low_rank):
        residuals.append(np.linalg.norm(np.sort(np.abs(X - low_rank), axis=None)[: X.size - count]))

    godec(X, 5, count, power=10, max_iterations=25, callback=residual)
    assert len(residuals) == 25
    assert np.all(np.diff(residuals) < 1e-3 * residuals[0])
    assert residuals[-1] < 0.5 * residuals[0]


@pytest.mark.parametrize("shape", [(130, 150), (150, 130)])
def test_sparcs_recovers_from_some_entries(shape):
    """Robust matrix completion of the paper: the operator keeps some entries; hidden ones are not read."""
    X, L, S, observed = low_rank_plus_sparse(*shape, 3, 0.05, seed=3, observed_share=0.6)
    hidden = np.where(observed, X, np.nan)
    found = sparcs(hidden, 3, np.count_nonzero(S[observed]), observed=observed, tolerance=1e-6, max_iterations=100)
    assert error(found.low_rank, L) < 1e-4
    assert error(found.sparse[observed], S[observed]) < 1e-4
    assert not found.sparse[~observed].any()


def test_conjugate_gradients_and_largest_of_sparcs():
    rng = np.random.default_rng(0)
    A, b = rng.standard_normal((20, 8)), rng.standard_normal(8)
    x = _conjugate_gradients(lambda v: A.T @ (A @ v), b, tolerance=1e-12)
    np.testing.assert_allclose(A.T @ A @ x, b, atol=1e-9)
    assert sorted(_largest(np.array([[1.0, -5.0], [3.0, -2.0]]), 2)) == [1, 2]
    assert _largest(np.ones((2, 2)), 0).size == 0


@pytest.mark.parametrize(
    ("method", "arguments", "message"),
    [
        *((method, [X], "X must be") for method in (ialm, ealm) for X in (np.zeros(4), np.zeros((0, 3)), [[np.nan]])),
        (grasta, [np.eye(6), 0], "rank .* 6, got 0"),
        (sparcs, [np.eye(6), 7, 3], "rank .* 6, got 7"),
        (sparcs, [np.eye(6), 2, 37], "cardinality .* 36, got 37"),
        (godec, [np.ones((5, 4)), 0, 1], "rank"),
        (godec, [np.ones((5, 4)), 5, 1], "rank"),
        (godec, [np.ones((5, 4)), 1, -1], "cardinality"),
        (godec, [np.ones((5, 4)), 1, 21], "cardinality"),
        (partial(godec, power=-1), [np.ones((5, 4)), 1, 1], "power"),
    ],
)
def test_refuses_wrong_arguments(method, arguments, message):
    with pytest.raises(ParameterError, match=message):
        method(*arguments)
