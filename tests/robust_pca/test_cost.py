"""The cost of robust PCA: value, influence, and slopes along subspace, coefficients and both factors."""

import numpy as np
import pytest
import reference
from hypothesis import example, given
from hypothesis import strategies as st
from rpca_planted import SURROGATES, some

from bgsub.numerics.surrogates import Surrogate
from bgsub.robust_pca.alternating import BasisHalf, CoefficientHalf
from bgsub.robust_pca.conjugate_gradient import ConjugateGradients, Problem
from bgsub.robust_pca.cost import FactorProblem, RobustCost
from bgsub.robust_pca.irls import refit_rows, reweighted, robust_coefficients
from bgsub.robust_pca.noise import ResidualScale


@given(m=st.integers(1, 30), n=st.integers(1, 20), seed=st.integers(0, 999), masked=st.booleans())
@example(m=2047, n=1, seed=0, masked=True)  # sizes about whole blocks
@example(m=2049, n=1, seed=1, masked=False)
@example(m=4099, n=1, seed=2, masked=True)
@pytest.mark.parametrize("surrogate", SURROGATES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_cost_and_influence_match_the_surrogate(dtype, surrogate, m, n, seed, masked):
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


@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning")
@pytest.mark.parametrize(
    ("dtype", "mu", "size", "rounding"),
    [
        (np.float32, 1e4, 1, 1e-6),
        (np.float32, 1e20, 1, 1e-6),
        (np.float64, 1e12, 1, 1e-12),
        (np.float32, 1e-30, 1e15, 1e-6),
        (np.float64, 1e-30, 1e15, 1e-6),
    ],
)
def test_large_and_small_mu_lose_no_digits(dtype, mu, size, rounding):
    X, mask, U, Y = some(60, 50, 0, dtype=dtype)
    fit = RobustCost(X, mask, Surrogate("log", mu))
    value = fit.evaluate(U, dtype(size) * Y)
    r = np.where(mask, (X - fit.low_rank).astype(np.float64), 0)
    assert value == pytest.approx(np.sum(mu / 2 * np.log1p(r**2 / mu)), rel=rounding)
    np.testing.assert_allclose(fit.influence, fit.surrogate.influence(r), atol=1e-5)


@given(m=st.integers(2, 20), n=st.integers(2, 20), seed=st.integers(0, 999))
@pytest.mark.parametrize("surrogate", SURROGATES)
@pytest.mark.parametrize("kind", [BasisHalf, CoefficientHalf])
def test_gradient_of_a_half_is_the_slope(kind, surrogate, m, n, seed):
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


def test_a_step_of_the_subspace_projects_the_low_rank_matrix():
    X, mask, U, Y = some(20, 12, 3)
    half = BasisHalf(RobustCost(X, mask, Surrogate("log", 0.4)), U, Y)
    half.cost.evaluate(U, Y)
    curve = half.curve(-half.gradient())
    value = curve.value(0.3)
    curve.accept()
    np.testing.assert_allclose(half.U.T @ half.U, np.eye(len(Y)), atol=1e-12)
    assert np.linalg.norm(half.U @ half.U.T - U @ U.T) > 0.1
    np.testing.assert_allclose(half.Y, half.U.T @ U @ Y, atol=1e-12)
    assert value == pytest.approx(reference.objective(X, mask, half.U, half.Y, "log", 0.4), rel=1e-6)


@given(m=st.integers(2, 20), n=st.integers(2, 20), seed=st.integers(0, 999), ridge=st.floats(0, 5))
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


class Ball(Problem):
    """``x' x / 2`` inside the unit ball, infinite outside."""

    point = np.full(3, 0.5)

    def evaluate(self, x):
        return 0.5 * float(x @ x) if x @ x < 1 else np.inf

    def gradient(self):
        return self.point


@pytest.mark.parametrize("step_length", [2.5, 1e4])
def test_step_that_leaves_the_domain_is_shortened(step_length):
    problem = Ball()
    search = ConjugateGradients(problem, step_length=step_length)
    value = search.step(problem.evaluate(problem.point))
    assert 0 <= value == problem.evaluate(problem.point) < 0.375
    assert search.step_length < 2.5


@pytest.mark.parametrize("surrogate", SURROGATES)
def test_coefficients_ignore_outliers_and_other_samples(surrogate):
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


@pytest.mark.parametrize("row", [0, 19, 20, 49])  # the ends of both factors
def test_refit_replaces_a_wrong_row(row):
    _, mask, B, Y = some(30, 20, 1)
    true = np.concatenate([Y.T, B])
    wrong = true.copy()
    wrong[row] += 5
    cost = RobustCost(Y.T @ B.T, mask, Surrogate("log", 1e-8))
    found = refit_rows(cost, wrong, np.array([row]), cost.surrogate, 1.0, 0.0)
    np.testing.assert_allclose(found, true, atol=1e-6)


def scale_of(X, rank=0, observed=None):
    observed = np.ones(X.shape, bool) if observed is None else observed
    return ResidualScale(X, observed, rank, np.random.default_rng(0))


@pytest.mark.parametrize(("shape", "factor"), [((40, 60), 1e-6), ((300, 500), 1.0), ((300, 500), 1e6)])
def test_scale_of_noise_under_outliers(shape, factor):
    rng = np.random.default_rng(8)
    X = rng.standard_normal(shape)
    observed = rng.random(shape) < 0.9
    wrong = rng.random(shape) < 0.4
    X[wrong] = rng.uniform(-50, 50, np.count_nonzero(wrong))
    zero = np.zeros((shape[0], 1)), np.zeros((shape[1], 1))
    scale = scale_of(factor * X, observed=observed).of_residual(*zero)
    # a quarter of all entries is two fifths of the inliers: at most the quantile .42 of |x|, which is .55
    assert 0.9 < scale / factor < 2
    X = rng.standard_normal(shape)
    scale = scale_of(factor * X, observed=observed).of_residual(*zero)
    assert scale / factor == pytest.approx(1, rel=0.15)


def test_scale_of_a_single_observed_entry():
    observed = np.zeros((500, 500), bool)
    observed[3, 4] = True
    assert scale_of(np.full((500, 500), -5.0), observed=observed).of_data() == pytest.approx(5 / 0.3186, rel=1e-3)


def test_reweighting_without_a_cost_is_least_squares(monkeypatch):
    X, mask, U, _ = some(20, 9, 3)
    expected = [np.linalg.lstsq(U[known], x[known], rcond=None)[0] for x, known in zip(X, mask, strict=True)]
    for size in (1 << 19, 40):
        monkeypatch.setattr("bgsub.robust_pca.irls._BLOCK", size)
        np.testing.assert_allclose(reweighted(X, mask, np.zeros((9, 3)), U, None), expected, atol=1e-10)
