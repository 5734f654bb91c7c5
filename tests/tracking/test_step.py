"""The thin Grassmann step against the dense one, and its laws."""

import numpy as np
import pytest
import reference_tracking as reference
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_tracking import SURROGATES

from bgsub.tracking.step import carried, make_step, preconditioned


def state(m, k, r, seed):
    """Return U, Q, R, C and one vector with its coefficients and observed entries."""
    rng = np.random.default_rng(seed)
    basis = np.linalg.qr(rng.standard_normal((m, k + r)))[0]
    R = 0.05 * rng.standard_normal((r, k))
    Y = rng.standard_normal((3 * k, k)) * np.sqrt(m) * 0.3
    y = Y[0]
    x = basis[:, :k] @ y + 0.02 * rng.standard_normal(m)
    x[rng.random(m) < 0.2] += 0.5
    return basis[:, :k], basis[:, k:], R, Y.T @ Y / len(Y), x, y, (rng.random(m) < 0.8).astype(float)


@pytest.mark.parametrize(
    ("metric", "surrogate"), list(zip(["scaled", "canonical", "scaled"], SURROGATES, strict=True)), ids=str
)
@given(m=st.integers(12, 60), k=st.integers(1, 4), seed=st.integers(0, 999), t=st.floats(0.05, 2.0), data=st.data())
@settings(max_examples=20)
def test_the_thin_step_matches_the_dense_one(metric, surrogate, m, k, seed, t, data):
    r = data.draw(st.integers(0, k))
    U, Q, R, C, x, y, a = state(m, k, r, seed)
    _, e, cost = reference.separate(U, y, x, a, surrogate)
    stack = np.column_stack([U, Q, e])
    step = make_step(stack.T @ e, R, C, y, 0.05, metric)
    U_new, G_new, H, objective = reference.grassmann_step(U, Q @ R, C, x, a, y, 0.05, surrogate, metric, t)
    Q_new = stack @ step.basis[:, k:]
    np.testing.assert_allclose(Q_new @ step.R, G_new, atol=1e-7)
    np.testing.assert_allclose(Q_new @ step.K, H, atol=1e-7 * max(1, np.abs(H).max()))
    np.testing.assert_allclose(Q_new.T @ Q_new, np.eye(step.R.shape[0]), atol=1e-8)
    np.testing.assert_allclose(U.T @ Q_new, 0, atol=1e-7)
    theta = step.rotation(t)
    np.testing.assert_allclose(stack @ step.basis @ theta[:, :k], U_new, atol=1e-7)
    low_rank = stack @ step.low_rank(theta, y)
    np.testing.assert_allclose(low_rank, U_new @ (U_new.T @ (U @ y)), atol=1e-6)
    thin = 0.05 * np.sum(surrogate.value(a * (x - low_rank))) + 0.95 * step.past(t)
    assert thin == pytest.approx(objective(t), abs=1e-9 + 1e-6 * abs(cost))


def test_an_influence_inside_the_span_adds_no_column_and_a_zero_one_is_empty():
    U, Q, R, C, _, y, _ = state(30, 3, 2, 1)
    e = U[:, 0] + 2 * Q[:, 1]
    stack = np.column_stack([U, Q, e])
    step = make_step(stack.T @ e, R, C, y, 0.1, "scaled")
    assert step.R.shape[0] <= 2
    expected = 0.9 * Q @ R - 0.1 * np.outer(2 * Q[:, 1], y)
    np.testing.assert_allclose(stack @ step.basis[:, 3:] @ step.R, expected, atol=1e-12)
    step = make_step(np.zeros(4), np.zeros((0, 3)), np.zeros((3, 3)), np.zeros(3), 0.05, "scaled")
    assert step.R.shape == (0, 3)
    assert step.slope == 0.0
    np.testing.assert_array_equal(step.rotation(1.0), np.eye(3))


def test_the_gradient_is_carried_by_the_model():
    rng = np.random.default_rng(2)
    R, Y = rng.standard_normal((2, 3)), rng.standard_normal((9, 3))
    C = Y.T @ Y
    np.testing.assert_allclose(carried(R, 0.25, C, "scaled", "model"), 0.75 * R)
    np.testing.assert_array_equal(carried(R, 0.25, C, "scaled", "unchanged"), R)
    np.testing.assert_allclose(
        carried(R, 0.25, C, "canonical", "model"), R @ (np.eye(3) - 0.25 * C / np.linalg.eigvalsh(C)[-1])
    )
    np.testing.assert_allclose(preconditioned(R, C, "scaled"), R @ np.linalg.inv(reference.raised(C)), rtol=1e-9)
