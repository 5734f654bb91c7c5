"""Robust PCA: planted recovery, laws of the descent, estimator conventions, wrong input."""

import numpy as np
import pytest
import reference
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import config

from bgsub import RobustPCA
from bgsub._conjugate import CONJUGATE_RULES, minimise
from bgsub._halves import BasisHalf, CoefficientHalf, RobustFit
from bgsub.errors import ParameterError
from bgsub.rpca import truncated_svd
from bgsub.synthetic import low_rank_plus_sparse

# Without the compiler every entry costs microseconds: small matrices then, and no bound that needs large ones.
COMPILED = not config.DISABLE_JIT
SIZE = 100 if COMPILED else 24
RANK = 4 if COMPILED else 2
needs_compiler = pytest.mark.skipif(not COMPILED, reason="hundreds of sweeps over the matrix in plain Python")

# the worst of ten seeds was 1.3e-4, 9.3e-4, 3.3e-4 (complete) and 2.0e-4, 1.4e-3, 4.6e-4 (60 % observed)
COMPLETE = {"lp": 2e-4, "log": 1.4e-3, "atan": 5e-4}
INCOMPLETE = {"lp": 3e-4, "log": 2.1e-3, "atan": 7e-4}


def planted(seed=0, share=0.1, observed=1.0, shape=(SIZE, SIZE), rank=RANK):
    X, L, _, mask = low_rank_plus_sparse(*shape, rank, share, seed=seed, observed_share=observed)
    return X, L, mask


def error(model, L):
    return np.linalg.norm(model.low_rank_ - L) / np.linalg.norm(L)


@needs_compiler
@pytest.mark.parametrize("conjugate", list(CONJUGATE_RULES))
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("surrogate", list(COMPLETE))
def test_recovers_complete_matrices(surrogate, dtype, conjugate):
    X, L, _ = planted()
    model = RobustPCA(RANK, surrogate=surrogate, conjugate=conjugate).fit(X.astype(dtype))
    assert error(model, L) < COMPLETE[surrogate]
    for array in (
        model.components_,
        model.coefficients_,
        model.low_rank_,
        model.sparse_,
        model.transform(X.astype(dtype)),
    ):
        assert array.dtype == dtype


@needs_compiler
@pytest.mark.parametrize("conjugate", list(CONJUGATE_RULES))
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("surrogate", list(INCOMPLETE))
def test_recovers_incomplete_matrices(surrogate, dtype, conjugate):
    X, L, mask = planted(share=0.1, observed=0.6)
    X = np.where(mask, X, np.nan).astype(dtype)
    model = RobustPCA(RANK, surrogate=surrogate, conjugate=conjugate).fit(X)
    assert error(model, L) < INCOMPLETE[surrogate]


@needs_compiler
@pytest.mark.parametrize(("shape", "share"), [((60, 300), 0.1), ((300, 60), 0.1), ((100, 100), 0.3)])
def test_recovers_wide_tall_and_heavily_corrupted_matrices(shape, share):
    X, L, _ = planted(shape=shape, share=share)
    assert error(RobustPCA(RANK).fit(X), L) < 1e-3


@needs_compiler
def test_outliers_do_not_move_what_least_squares_lets_move():
    X, L, _ = planted()
    U, Y = truncated_svd(X, RANK)
    plain = np.linalg.norm((U @ Y).T - L)
    assert np.linalg.norm(RobustPCA(RANK).fit(X).low_rank_ - L) < 1e-2 * plain


def test_small_matrix_is_recovered():
    X, L, _ = planted(shape=(24, 24), rank=2, share=0.05)
    assert error(RobustPCA(2, iterations=30).fit(X), L) < 5e-3


def test_attributes():
    X, _, mask = planted(observed=0.8)
    model = RobustPCA(RANK, iterations=6)
    Y = model.fit_transform(X, mask)
    np.testing.assert_allclose(model.components_ @ model.components_.T, np.eye(RANK), atol=1e-12)
    np.testing.assert_allclose(model.low_rank_, Y @ model.components_, atol=1e-12)
    np.testing.assert_allclose(model.inverse_transform(Y), model.low_rank_)
    np.testing.assert_allclose(model.sparse_, np.where(mask, X - model.low_rank_, 0))
    assert model.n_iter_ == len(model.objective_) == 6
    assert model.n_features_in_ == SIZE
    moment = Y.T @ Y
    assert np.all(np.diff(np.diagonal(moment)) <= 0)
    np.testing.assert_allclose(moment - np.diag(np.diagonal(moment)), 0, atol=1e-9 * moment[0, 0])


@pytest.mark.parametrize("surrogate", list(COMPLETE))
def test_objective_is_that_of_the_result(surrogate):
    X, _, mask = planted(observed=0.8)
    model = RobustPCA(RANK, surrogate=surrogate, mu_end=0.1, iterations=3, inner_iterations=2).fit(X, mask)
    U, Y = model.components_.T, model.coefficients_.T
    assert model.objective_[-1] == pytest.approx(reference.objective(X, mask, U, Y, surrogate, 0.1), rel=1e-6)


@pytest.mark.parametrize("conjugate", list(CONJUGATE_RULES))
@pytest.mark.parametrize("surrogate", list(COMPLETE))
def test_no_accepted_step_raises_the_objective(surrogate, conjugate):
    X, _, mask = planted(observed=0.8, share=0.2)
    seen = []
    RobustPCA(RANK, surrogate=surrogate, conjugate=conjugate, iterations=8, callback=seen.append).fit(X, mask)
    assert [progress.half for progress in seen] == ["basis", "coefficients"] * 8
    assert sum(len(progress.objective) - 1 for progress in seen) >= 16
    for progress in seen:
        assert np.all(np.diff(progress.objective) < 0)
    for basis, coefficients in zip(seen[::2], seen[1::2], strict=True):
        assert coefficients.objective[0] == pytest.approx(basis.objective[-1], rel=1e-9)


def test_smoothing_shrinks_geometrically():
    seen = []
    RobustPCA(RANK, mu_start=1.0, mu_end=0.01, iterations=3, callback=seen.append).fit(planted()[0])
    np.testing.assert_allclose([progress.mu for progress in seen[::2]], [1, 0.1, 0.01])


def test_callback_ends_the_fit():
    model = RobustPCA(RANK, callback=lambda progress: progress.iteration == 2).fit(planted()[0])
    assert model.n_iter_ == len(model.objective_) == 2


@given(m=st.integers(2, 20), n=st.integers(2, 20), seed=st.integers(0, 999))
@settings(max_examples=25, deadline=None)
@pytest.mark.parametrize("surrogate", list(COMPLETE))
@pytest.mark.parametrize("kind", [BasisHalf, CoefficientHalf])
def test_gradient_is_the_slope_of_the_curve(kind, surrogate, m, n, seed):
    rng = np.random.default_rng(seed)
    k = min(m, n, 3)
    X, mask = rng.standard_normal((n, m)), rng.random((n, m)) < 0.8
    U, Y = np.linalg.qr(rng.standard_normal((m, k)))[0], rng.standard_normal((k, n))
    fit = RobustFit(X, mask, surrogate, 0.5)
    fit.mu = 0.4
    value = fit.evaluate(U, Y)
    assert value == pytest.approx(reference.objective(X, mask, U, Y, surrogate, 0.4), rel=1e-6)
    half = kind(fit, U, Y)
    g = half.gradient()
    curve = half.curve(-half.precondition(g))
    step = 1e-5
    slope = (curve.value(step) - curve.value(-step)) / (2 * step)
    assert slope == pytest.approx(-np.vdot(g, half.precondition(g)), rel=1e-3, abs=1e-5)


@needs_compiler
@pytest.mark.parametrize("rule", list(CONJUGATE_RULES))
def test_conjugate_gradients_solve_least_squares(rule):
    rng = np.random.default_rng(0)
    X, mask = rng.standard_normal((10, 30)), rng.random((10, 30)) < 0.7
    U = np.linalg.qr(rng.standard_normal((30, 3)))[0]
    fit = RobustFit(X, mask, "log", 0.5)
    fit.mu = 1e8  # a cost without outliers
    half = CoefficientHalf(fit, U, np.zeros((3, 10)))
    minimise(half, fit.evaluate(U, half.Y), CONJUGATE_RULES[rule], steps=200, tolerance=0, step_length=1.0)
    for j in range(10):
        expected = np.linalg.lstsq(U[mask[j]], X[j, mask[j]], rcond=None)[0]
        np.testing.assert_allclose(half.Y[:, j], expected, atol=1e-4)


@needs_compiler
def test_permuted_samples_have_permuted_coefficients():
    X, _, mask = planted(observed=0.8)
    order = np.random.default_rng(1).permutation(len(X))
    one, two = RobustPCA(RANK).fit(X, mask), RobustPCA(RANK).fit(X[order], mask[order])
    np.testing.assert_allclose(two.coefficients_, one.coefficients_[order], atol=1e-4)
    P = reference.projector(one.components_.T)
    np.testing.assert_allclose(reference.projector(two.components_.T), P, atol=1e-5)


@needs_compiler
def test_scale_of_samples_and_smoothing_go_together():
    X, _, _ = planted()
    one = RobustPCA(RANK, mu_start=0.9, mu_end=1e-3).fit(X)
    two = RobustPCA(RANK, mu_start=0.9 * 64, mu_end=64e-3).fit(8 * X)
    np.testing.assert_allclose(two.low_rank_, 8 * one.low_rank_, atol=1e-3)


def test_fit_is_deterministic_and_leaves_its_input_alone():
    X, _, mask = planted(observed=0.8)
    kept = X.copy(), mask.copy()
    one, two = (RobustPCA(RANK, iterations=4).fit(X, mask) for _ in range(2))
    np.testing.assert_array_equal(one.low_rank_, two.low_rank_)
    np.testing.assert_array_equal(X, kept[0])
    np.testing.assert_array_equal(mask, kept[1])


def test_hidden_entries_do_not_matter():
    X, _, mask = planted(observed=0.8)
    wild = np.where(mask, X, np.inf)
    one = RobustPCA(RANK, iterations=4).fit(X, mask)
    two = RobustPCA(RANK, iterations=4).fit(wild, mask)
    three = RobustPCA(RANK, iterations=4).fit(np.where(mask, X, np.nan))
    np.testing.assert_array_equal(one.low_rank_, two.low_rank_)
    np.testing.assert_array_equal(one.low_rank_, three.low_rank_)


@needs_compiler
@pytest.mark.parametrize("observed", [1.0, 0.6])
@pytest.mark.parametrize("surrogate", list(COMPLETE))
def test_transform_is_robust_on_new_samples(surrogate, observed):
    X, L, mask = planted(shape=(120, 100), observed=observed)
    model = RobustPCA(RANK, surrogate=surrogate).fit(X[:100], mask[:100])
    Y = model.transform(X[100:], mask[100:])
    gap = np.linalg.norm(model.inverse_transform(Y) - L[100:]) / np.linalg.norm(L[100:])
    assert gap < INCOMPLETE[surrogate]


@needs_compiler
def test_transform_of_the_fitted_samples_returns_their_coefficients():
    X, _, _ = planted()
    model = RobustPCA(RANK).fit(X)
    np.testing.assert_allclose(model.transform(X), model.coefficients_, atol=5e-3)


@pytest.mark.parametrize(
    "X",
    [
        np.zeros((5, 7)),
        np.ones((5, 7)),
        np.outer(np.arange(5), np.ones(7)),
        np.ones((1, 4)),
        np.ones((4, 1)),
        [[2]],
    ],
    ids=["zeros", "constant", "rank one", "one sample", "one feature", "one entry"],
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_degenerate_matrices(X, dtype):
    X = np.asarray(X, dtype)
    k = min(3, *X.shape)
    model = RobustPCA(k, iterations=10).fit(X)
    np.testing.assert_allclose(model.low_rank_, X, atol=1e-3)
    np.testing.assert_allclose(model.components_ @ model.components_.T, np.eye(k), atol=1e-5)


def test_feature_never_observed_stays_finite():
    X, _, _ = planted()
    X[:, 3] = np.nan
    model = RobustPCA(RANK, iterations=5).fit(X)
    assert np.isfinite(model.low_rank_).all()
    assert not model.sparse_[:, 3].any()


def test_parameters_can_be_read_and_set():
    model = RobustPCA(3, surrogate="log")
    copy = RobustPCA(**model.get_params())
    assert copy.get_params() == model.get_params()
    assert copy.set_params(rank=2, mu_end=0.1) is copy
    assert (copy.rank, copy.mu_end, model.rank) == (2, 0.1, 3)
    with pytest.raises(ParameterError, match=r"parameter must be one of rank, .*, got 'ranks'"):
        copy.set_params(ranks=1)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"rank": 0}, "rank must be an integer >= 1, got 0"),
        ({"rank": 2.0}, "rank must be an integer >= 1, got 2.0"),
        ({"rank": True}, "rank must be an integer >= 1, got True"),
        ({"rank": 5}, r"rank must be in 1..4 for samples of shape \(4, 6\), got 5"),
        ({"surrogate": "l1"}, "surrogate must be one of lp, log, atan, got 'l1'"),
        ({"p": 1.5}, r"p must be in \(0, 1\), got 1.5"),
        ({"mu_start": -1}, "mu must be > 0, got -1"),
        ({"mu_start": 0.1, "mu_end": 0.2}, "mu_end must be <= mu_start = 0.1, got 0.2"),
        ({"iterations": 0}, "iterations must be an integer >= 1, got 0"),
        ({"inner_iterations": 0}, "inner_iterations must be an integer >= 1, got 0"),
        ({"tolerance": -1.0}, r"tolerance must be in \[0, 1\), got -1.0"),
        ({"conjugate": "pr"}, "conjugate must be one of hestenes-stiefel, fletcher-reeves, got 'pr'"),
    ],
)
def test_wrong_parameters_are_named(parameters, message):
    with pytest.raises(ParameterError, match=message):
        RobustPCA(**({"rank": 2} | parameters)).fit(np.ones((4, 6)))


@pytest.mark.parametrize(
    ("X", "observed", "message"),
    [
        (np.ones(4), None, r"X must be a non-empty array .* got shape \(4,\)"),
        (np.ones((0, 4)), None, r"X must be a non-empty array .* got shape \(0, 4\)"),
        ([["a"]], None, "X must be a real array"),
        ([[1.0], [1.0, 2.0]], None, "X must be a real array"),
        (np.ones((3, 3), complex), None, "X must be a real array"),
        ([[1.0, np.inf]], None, "X must be finite where observed, got an infinite entry"),
        (
            [[1.0, 2.0], [np.nan, np.nan]],
            None,
            "each sample must have an observed entry, got none in sample 1",
        ),
        (
            np.ones((2, 2)),
            np.ones((2, 3), bool),
            r"observed must be boolean with shape \(2, 2\), got bool with .*3\)",
        ),
        (np.ones((2, 2)), np.ones((2, 2)), r"observed must be boolean with shape \(2, 2\), got float64 with"),
        (np.ones((2, 2)), np.eye(2, dtype=bool) & [[True], [False]], "got none in sample 1"),
    ],
)
def test_wrong_samples_are_named(X, observed, message):
    with pytest.raises(ParameterError, match=message):
        RobustPCA(1).fit(X, observed)


def test_transforms_check_their_input():
    with pytest.raises(ParameterError, match="call fit first"):
        RobustPCA(1).transform(np.ones((2, 2)))
    with pytest.raises(ParameterError, match="call fit first"):
        RobustPCA(1).inverse_transform(np.ones((2, 1)))
    model = RobustPCA(1, iterations=2).fit(np.ones((3, 4)))
    with pytest.raises(ParameterError, match="X must have 4 features as in fit, got 3"):
        model.transform(np.ones((2, 3)))
    with pytest.raises(ParameterError, match=r"Y must have shape \(n_samples, 1\), got \(2, 2\)"):
        model.inverse_transform(np.ones((2, 2)))
