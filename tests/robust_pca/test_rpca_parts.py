"""The parts of robust PCA: costs and slopes, conjugate gradients, reweighting, the scale of a residual, starts."""

import numpy as np
import pytest
import reference
from hypothesis import given, settings
from hypothesis import strategies as st
from rpca_planted import SURROGATES, needs_compiler

from bgsub.numerics.surrogates import Surrogate
from bgsub.robust_pca.alternating import BasisHalf, CoefficientHalf
from bgsub.robust_pca.conjugate_gradient import CONJUGATE_RULES, ConjugateGradients, Line, minimise
from bgsub.robust_pca.cost import RobustCost
from bgsub.robust_pca.factors import FactorProblem
from bgsub.robust_pca.irls import Past, held_back_cost, reweighted, robust_coefficients
from bgsub.robust_pca.scale import ResidualScale
from bgsub.robust_pca.svd import fill_missing, principal_axes, random_svd, truncated_svd

RULES = list(CONJUGATE_RULES)


def some(m, n, seed, k=3, dtype=np.float64):
    """Return samples, a mask, a basis and coefficients, all random."""
    rng = np.random.default_rng(seed)
    k = min(m, n, k)
    X, mask = rng.standard_normal((n, m)).astype(dtype), rng.random((n, m)) < 0.8
    U, Y = np.linalg.qr(rng.standard_normal((m, k)))[0], rng.standard_normal((k, n))
    return X, mask, U.astype(dtype), Y.astype(dtype)


# ---- the cost and its slopes -------------------------------------------------------------------------------------


@given(m=st.integers(1, 30), n=st.integers(1, 20), seed=st.integers(0, 999), masked=st.booleans())
@settings(max_examples=25, deadline=None)
@pytest.mark.parametrize("surrogate", SURROGATES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_cost_and_influence_are_those_of_the_surrogate(dtype, surrogate, m, n, seed, masked):
    X, mask, U, Y = some(m, n, seed, dtype=dtype)
    mask = mask if masked else np.ones_like(mask)
    cost = Surrogate(surrogate, 0.3, 0.5 if seed % 2 else 0.7)
    fit = RobustCost(X, mask, cost)
    value = fit.evaluate(U, Y)
    r = np.where(mask, X.astype(float) - (U.astype(float) @ Y).T, 0)
    rounding = 1e-5 if dtype == np.float32 else 1e-12
    assert value == pytest.approx(cost.value(r).sum(), rel=rounding)
    np.testing.assert_allclose(fit.influence, cost.influence(r), atol=rounding)
    assert fit.influence.dtype == dtype
    assert not fit.influence[~mask].any()


@pytest.mark.parametrize("size", [2047, 2048, 2049, 4099])
@pytest.mark.parametrize("surrogate", SURROGATES)
def test_cost_beyond_one_block(surrogate, size):
    X, mask, U, Y = some(size, 1, 0, 1)
    cost = Surrogate(surrogate, 1e-3)
    fit = RobustCost(X, mask, cost)
    value = fit.evaluate(U, Y)
    r = np.where(mask, X - (U @ Y).T, 0)
    assert value == pytest.approx(cost.value(r).sum(), rel=1e-12)
    np.testing.assert_allclose(fit.influence, cost.influence(r), atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("mu", [1e4, 1e12, 1e20])
def test_a_large_mu_costs_no_digits(dtype, mu):
    X, mask, U, Y = some(60, 50, 0, dtype=dtype)
    fit = RobustCost(X, mask, Surrogate("log", mu))
    value = fit.evaluate(U, Y)
    r = np.where(mask, (X - fit.low_rank).astype(np.float64), 0)
    assert value == pytest.approx(np.sum(mu / 2 * np.log1p(r**2 / mu)), rel=1e-6 if dtype == np.float32 else 1e-12)


@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_products_beyond_the_largest_number_are_not_needed(dtype):
    X, mask, U, Y = some(60, 50, 0, dtype=dtype)
    fit = RobustCost(X, mask, Surrogate("log", 1e-30))
    value = fit.evaluate(U, dtype(1e15) * Y)
    r = np.where(mask, (X - fit.low_rank).astype(np.float64), 0)
    assert value == pytest.approx(np.sum(1e-30 / 2 * np.log1p(r**2 / 1e-30)), rel=1e-6)
    np.testing.assert_allclose(fit.influence, fit.surrogate.influence(r), atol=1e-6)


@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning", "ignore:invalid value:RuntimeWarning")
def test_a_cost_that_overflows_is_infinite():
    X, mask, U, Y = some(12, 8, 0)
    assert RobustCost(X, mask, Surrogate("log", 1.0)).evaluate(U, 1e160 * Y) == np.inf


@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_step_that_is_far_too_long_is_refused(dtype):
    X, mask, U, Y = some(12, 8, 0, dtype=dtype)
    fit = RobustCost(X, mask, Surrogate("log", 1e-30))
    fit.surrogate = Surrogate("log", 1.0)
    half = CoefficientHalf(fit, U, Y)
    start = fit.evaluate(U, Y)
    with np.errstate(over="ignore", invalid="ignore"):
        values, _ = minimise(half, start, CONJUGATE_RULES[RULES[0]], steps=20, tolerance=0, step_length=1e18)
    assert np.isfinite(half.Y).all()
    assert values[-1] <= start


@given(m=st.integers(2, 20), n=st.integers(2, 20), seed=st.integers(0, 999))
@settings(max_examples=25, deadline=None)
@pytest.mark.parametrize("surrogate", SURROGATES)
@pytest.mark.parametrize("kind", [BasisHalf, CoefficientHalf])
def test_gradient_of_a_half_is_the_slope_of_the_curve(kind, surrogate, m, n, seed):
    X, mask, U, Y = some(m, n, seed)
    fit = RobustCost(X, mask, Surrogate(surrogate, 0.4))
    value = fit.evaluate(U, Y)
    assert value == pytest.approx(reference.objective(X, mask, U, Y, surrogate, 0.4), rel=1e-6)
    half = kind(fit, U, Y)
    g = half.gradient()
    curve = half.curve(-half.precondition(g))
    step = 1e-5
    slope = (curve.value(step) - curve.value(-step)) / (2 * step)
    assert slope == pytest.approx(-np.vdot(g, half.precondition(g)), rel=1e-3, abs=1e-5)


@given(m=st.integers(2, 20), n=st.integers(2, 20), seed=st.integers(0, 999), ridge=st.floats(0, 5))
@settings(max_examples=25, deadline=None)
@pytest.mark.parametrize("surrogate", SURROGATES)
def test_gradient_of_both_factors_is_the_slope(surrogate, m, n, seed, ridge):
    X, mask, U, Y = some(m, n, seed)
    problem = FactorProblem(RobustCost(X, mask, Surrogate(surrogate, 0.4)), np.concatenate([Y.T, 2 * U]), ridge)
    value = problem.evaluate(problem.point)
    plain = reference.objective(X, mask, 2 * U, Y, surrogate, 0.4)
    assert value == pytest.approx(plain + ridge / 2 * (np.sum(Y**2) + 4 * np.sum(U**2)), rel=1e-6)
    g = problem.gradient()
    H = np.random.default_rng(seed + 1).standard_normal(g.shape)
    step = 1e-5
    slope = (problem.evaluate(problem.point + step * H) - problem.evaluate(problem.point - step * H)) / (2 * step)
    assert slope == pytest.approx(np.vdot(g, H), rel=1e-3, abs=1e-4)
    assert np.vdot(g, problem.precondition(g)) >= 0


def test_the_ridge_is_the_nuclear_norm():
    X, mask, U, _ = some(15, 12, 0)
    s = np.array([3.0, 2.0, 0.5])
    V = np.linalg.qr(np.random.default_rng(1).standard_normal((12, 3)))[0]
    fit = RobustCost(X, mask, Surrogate("log", 0.4))
    with_ridge, without = (
        FactorProblem(fit, np.concatenate([V * np.sqrt(s), U * np.sqrt(s)]), ridge) for ridge in (0.7, 0.0)
    )
    gap = with_ridge.evaluate(with_ridge.point) - without.evaluate(without.point)
    assert gap == pytest.approx(0.7 * s.sum())


# ---- conjugate gradients -----------------------------------------------------------------------------------------


@needs_compiler
@pytest.mark.parametrize("rule", RULES)
def test_conjugate_gradients_solve_least_squares(rule):
    rng = np.random.default_rng(0)
    X, mask = rng.standard_normal((10, 30)), rng.random((10, 30)) < 0.7
    U = np.linalg.qr(rng.standard_normal((30, 3)))[0]
    fit = RobustCost(X, mask, Surrogate("log", 1e8))  # a cost without outliers
    half = CoefficientHalf(fit, U, np.zeros((3, 10)))
    minimise(half, fit.evaluate(U, half.Y), CONJUGATE_RULES[rule], steps=200, tolerance=0, step_length=1.0)
    for j in range(10):
        expected = np.linalg.lstsq(U[mask[j]], X[j, mask[j]], rcond=None)[0]
        np.testing.assert_allclose(half.Y[:, j], expected, atol=1e-4)


class Quadratic:
    """``x' D x / 2`` with the present point x."""

    def __init__(self, d, x):
        self.d, self.point = d, x

    def evaluate(self, x):
        return 0.5 * float(x @ (self.d * x))

    def gradient(self):
        return self.d * self.point

    def precondition(self, gradient):
        return gradient

    def curve(self, direction):
        return Line(self, direction)


@pytest.mark.parametrize("probing", [True, False])
@pytest.mark.parametrize("rule", RULES)
def test_conjugate_gradients_fall(rule, probing):
    problem = Quadratic(np.array([1.0, 0.5, 0.1, 0.01]), np.ones(4))
    search = ConjugateGradients(problem, CONJUGATE_RULES[rule], probing=probing)
    values = [problem.evaluate(problem.point)]
    for _ in range(150):
        new = search.step(values[-1])
        if new is None or new < 1e-20:
            break
        assert new < values[-1]
        values.append(new)
    assert values[-1] < 1e-6 * values[0]


@pytest.mark.parametrize("probing", [True, False])
def test_a_direction_across_the_gradient_is_given_up(probing):
    def across(g, z, g_old, z_old, H_old):
        """Return the factor at which the slope is down to some units of rounding."""
        return (1 - 1e-15) * np.vdot(g, z) / np.vdot(g, H_old)

    problem = Quadratic(np.array([1.0, 0.1]), np.ones(2))
    search = ConjugateGradients(problem, across, step_length=1.5, probing=probing)  # beyond the minimum of the line
    first = search.step(problem.evaluate(problem.point))
    second = search.step(first)
    assert second < 0.9 * first
    assert problem.evaluate(problem.point) == second
    assert search.step_length > 0.1


def test_no_step_is_taken_from_a_minimum():
    problem = Quadratic(np.ones(3), np.zeros(3))
    search = ConjugateGradients(problem, CONJUGATE_RULES["hestenes-stiefel"])
    assert search.step(0.0) is None
    assert not problem.point.any()


# ---- reweighting -------------------------------------------------------------------------------------------------


@given(m=st.integers(4, 20), n=st.integers(1, 9), seed=st.integers(0, 999))
@settings(max_examples=25, deadline=None)
@pytest.mark.parametrize("surrogate", SURROGATES)
def test_reweighting_never_raises_the_cost(surrogate, m, n, seed):
    X, mask, U, Y = some(m, n, seed)
    cost = Surrogate(surrogate, 0.2)
    rows = np.random.default_rng(seed).standard_normal(Y.T.shape)
    past = Past(rows, np.diag([2.0, 1.0, 0.0][: len(Y)]))
    fit = RobustCost(X, mask, cost)
    values = []
    for _ in range(4):
        values.append(fit.evaluate(U, Y) + past.cost(Y.T))
        Y = reweighted(X, mask, np.ascontiguousarray(Y.T), U, cost, past).T
    assert np.all(np.diff(values) <= 1e-9 * values[0])
    assert values[-1] < values[0]


def test_reweighting_without_a_cost_is_least_squares_whatever_the_blocks(monkeypatch):
    X, mask, U, _ = some(20, 9, 3)
    expected = [np.linalg.lstsq(U[known], x[known], rcond=None)[0] for x, known in zip(X, mask, strict=True)]
    for size in (1 << 19, 40):
        monkeypatch.setattr("bgsub.robust_pca.irls._BLOCK", size)
        np.testing.assert_allclose(reweighted(X, mask, np.zeros((9, 3)), U, None), expected, atol=1e-10)


def test_a_firm_past_holds_and_rows_without_entries_stay():
    X, mask, U, Y = some(20, 9, 4)
    held = reweighted(X, mask, np.zeros((9, 3)), U, None, Past(Y.T, 1e12 * np.eye(3)))
    np.testing.assert_allclose(held, Y.T, atol=1e-6)
    free = reweighted(X, np.zeros_like(mask), np.ascontiguousarray(Y.T), U, Surrogate("log", 0.1))
    np.testing.assert_allclose(free, Y.T, atol=1e-12)


@pytest.mark.parametrize("surrogate", SURROGATES)
def test_robust_coefficients_ignore_outliers_and_other_samples(surrogate):
    _, _, U, Y = some(60, 12, 5)
    L = (U @ Y).T
    rng = np.random.default_rng(6)
    X = L + (rng.random(L.shape) < 0.3) * rng.uniform(-3, 3, L.shape)
    mask = rng.random(L.shape) < 0.8
    cost = Surrogate(surrogate, 1.0).at_scale(1e-6)
    first = cost.at_scale(1.0).mu
    found = robust_coefficients(X, mask, U, cost, first)
    np.testing.assert_allclose(found, Y.T, atol=1e-7)
    alone = np.concatenate([robust_coefficients(X[j : j + 1], mask[j : j + 1], U, cost, first) for j in range(12)])
    np.testing.assert_allclose(alone, found, atol=1e-10)


def test_entries_held_back_tell_a_rank_that_is_too_high():
    rng = np.random.default_rng(7)
    basis = np.linalg.qr(rng.standard_normal((80, 8)))[0]
    X = 10 * rng.standard_normal((30, 3)) @ basis[:, :3].T + 0.1 * rng.standard_normal((30, 80))
    costs = [held_back_cost(X, np.ones(X.shape, bool), basis[:, :k], Surrogate("log", 0.06), 2.0) for k in range(1, 9)]
    assert np.argmin(costs) == 2
    assert costs[2] == pytest.approx(0.01 / 2, rel=0.2)


# ---- the scale of a residual -------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(40, 60), (300, 500)])
@pytest.mark.parametrize("factor", [1e-6, 1.0, 1e6])
def test_scale_of_noise_under_outliers(shape, factor):
    rng = np.random.default_rng(8)
    X = rng.standard_normal(shape)
    observed = rng.random(shape) < 0.9
    wrong = rng.random(shape) < 0.4
    X[wrong] = rng.uniform(-50, 50, np.count_nonzero(wrong))
    zero = np.zeros((shape[0], 1)), np.zeros((shape[1], 1))
    scale = ResidualScale(factor * X, observed, 0, np.random.default_rng(0)).of_residual(*zero)
    # a quarter of all entries is two fifths of the inliers: at most the quantile .42 of |x|, which is .55
    assert 0.9 < scale / factor < 2
    X = rng.standard_normal(shape)
    scale = ResidualScale(factor * X, observed, 0, np.random.default_rng(0)).of_residual(*zero)
    assert scale / factor == pytest.approx(1, rel=0.15)


def test_scale_counts_the_degrees_of_freedom():
    X = np.random.default_rng(9).standard_normal((50, 50))
    U, Y = truncated_svd(X, 20)
    raw, corrected = (ResidualScale(X, np.ones(X.shape, bool), k, np.random.default_rng(0)) for k in (0, 20))
    spread = np.sqrt(1 - 20 * 80 / 2500)
    assert raw.of_residual(Y.T, U) == pytest.approx(spread * corrected.of_residual(Y.T, U))
    assert corrected.of_residual(Y.T, U) == pytest.approx(1, rel=0.3)


def test_scale_of_data_that_is_mostly_zero():
    X = np.zeros((10, 10))
    observed = np.ones(X.shape, bool)
    assert ResidualScale(X, observed, 1, np.random.default_rng(0)).of_data() == 0
    np.fill_diagonal(X, 2.0)
    assert ResidualScale(X, observed, 1, np.random.default_rng(0)).of_data() == pytest.approx(np.sqrt(0.4))


def test_scale_leaves_out_what_is_zero_throughout():
    X = np.random.default_rng(1).standard_normal((60, 80))
    framed = np.zeros((300, 400))
    framed[100:160, 200:280] = X
    inner = ResidualScale(X, np.ones(X.shape, bool), 1, np.random.default_rng(0))
    outer = ResidualScale(framed, np.ones(framed.shape, bool), 1, np.random.default_rng(0))
    assert outer.of_data() == inner.of_data()
    A, B = np.zeros((300, 1)), np.zeros((400, 1))
    assert outer.of_residual(A, B) == inner.of_residual(A[:60], B[:80])


# ---- starts and results ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(70, 90), (90, 70), (10, 80)])
def test_random_svd_is_nearly_the_best(shape, dtype):
    rng = np.random.default_rng(10)
    X = (10 * rng.standard_normal((shape[0], 4)) @ rng.standard_normal((4, shape[1]))).astype(dtype)
    X += rng.standard_normal(shape).astype(dtype)
    (U, Y), (V, Z) = truncated_svd(X, 4), random_svd(X, 4, rng)
    best, near = np.linalg.norm(X - (U @ Y).T), np.linalg.norm(X - (V @ Z).T)
    assert best == pytest.approx(np.sqrt(np.sum(np.linalg.svd(X)[1][4:] ** 2)), rel=1e-4)
    assert best <= near * (1 + 1e-5)
    assert near < 1.001 * best
    assert V.dtype == Z.dtype == dtype
    np.testing.assert_allclose(V.T @ V, np.eye(4), atol=1e-5)


def test_principal_axes():
    rng = np.random.default_rng(11)
    U, Y, past = rng.standard_normal((20, 3)), rng.standard_normal((3, 15)), np.array([5.0, 0.0, 900.0])
    for given_past in (None, past):
        V, Z, energy = principal_axes(U, Y, given_past)
        np.testing.assert_allclose(V @ Z, U @ Y, atol=1e-10)
        np.testing.assert_allclose(V.T @ V, np.eye(3), atol=1e-12)
        assert np.all(V[np.abs(V).argmax(axis=0), range(3)] > 0)
        assert np.all(np.diff(energy) <= 0)
        columns = U @ Y if given_past is None else np.hstack([U @ Y, U * np.sqrt(past)])
        np.testing.assert_allclose(energy, np.linalg.svd(columns)[1][:3] ** 2)


def test_missing_entries_begin_at_the_mean_of_their_feature():
    X, mask = np.array([[1.0, 0, 0], [3, 5, 0]]), np.array([[True, False, False], [True, True, False]])
    np.testing.assert_array_equal(fill_missing(X, mask), [[1, 5, 0], [3, 5, 0]])
