"""Reweighted least squares: no step raises the cost, rows are independent, outliers have no effect."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rpca_planted import SURROGATES, some

from bgsub.numerics.surrogates import Surrogate
from bgsub.robust_pca.cost import RobustCost
from bgsub.robust_pca.irls import Past, reweighted, robust_coefficients


@given(m=st.integers(4, 20), n=st.integers(1, 9), seed=st.integers(0, 999))
@settings(max_examples=12, deadline=None)
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


def test_reweighting_without_a_cost_is_least_squares(monkeypatch):
    X, mask, U, _ = some(20, 9, 3)
    expected = [np.linalg.lstsq(U[known], x[known], rcond=None)[0] for x, known in zip(X, mask, strict=True)]
    for size in (1 << 19, 40):
        monkeypatch.setattr("bgsub.robust_pca.irls._BLOCK", size)
        np.testing.assert_allclose(reweighted(X, mask, np.zeros((9, 3)), U, None), expected, atol=1e-10)


def test_strong_past_and_rows_without_entries_do_not_move():
    X, mask, U, Y = some(20, 9, 4)
    held = reweighted(X, mask, np.zeros((9, 3)), U, None, Past(Y.T, 1e12 * np.eye(3)))
    np.testing.assert_allclose(held, Y.T, atol=1e-6)
    free = reweighted(X, np.zeros_like(mask), np.ascontiguousarray(Y.T), U, Surrogate("log", 0.1))
    np.testing.assert_allclose(free, Y.T, atol=1e-12)


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
