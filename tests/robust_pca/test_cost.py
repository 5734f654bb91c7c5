"""The cost of robust PCA: value, influence, and slopes along subspace, coefficients and both factors."""

import numpy as np
import pytest
import reference
from hypothesis import example, given, settings
from hypothesis import strategies as st
from rpca_planted import SURROGATES, some

from bgsub.numerics.surrogates import Surrogate
from bgsub.robust_pca.alternating import BasisHalf, CoefficientHalf
from bgsub.robust_pca.cost import FactorProblem, RobustCost


@given(m=st.integers(1, 30), n=st.integers(1, 20), seed=st.integers(0, 999), masked=st.booleans())
@example(m=2047, n=1, seed=0, masked=True)  # sizes about whole blocks
@example(m=2049, n=1, seed=1, masked=False)
@example(m=4099, n=1, seed=2, masked=True)
@settings(max_examples=12, deadline=None)
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


@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning", "ignore:invalid value:RuntimeWarning")
def test_overflowing_cost_is_infinite():
    X, mask, U, Y = some(12, 8, 0)
    assert RobustCost(X, mask, Surrogate("log", 1.0)).evaluate(U, 1e160 * Y) == np.inf


@given(m=st.integers(2, 20), n=st.integers(2, 20), seed=st.integers(0, 999))
@settings(max_examples=12, deadline=None)
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


@given(m=st.integers(2, 20), n=st.integers(2, 20), seed=st.integers(0, 999), ridge=st.floats(0, 5))
@settings(max_examples=12, deadline=None)
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


def test_ridge_is_the_nuclear_norm():
    X, mask, U, _ = some(15, 12, 0)
    s = np.array([3.0, 2.0, 0.5])
    V = np.linalg.qr(np.random.default_rng(1).standard_normal((12, 3)))[0]
    fit = RobustCost(X, mask, Surrogate("log", 0.4))
    with_ridge, without = (
        FactorProblem(fit, np.concatenate([V * np.sqrt(s), U * np.sqrt(s)]), ridge) for ridge in (0.7, 0.0)
    )
    gap = with_ridge.evaluate(with_ridge.point) - without.evaluate(without.point)
    assert gap == pytest.approx(0.7 * s.sum())
