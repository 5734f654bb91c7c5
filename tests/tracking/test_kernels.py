"""Every kernel against its dense twin in float64, and the thin Grassmann step against the dense one."""

import numpy as np
import pytest
import reference_tracking as reference
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_tracking import SURROGATES, F, arguments

from bgsub.tracking import _kernels
from bgsub.tracking.batch_start import fit_rows
from bgsub.tracking.step import carried, make_step, preconditioned

EVERYTHING = np.empty(0, F)
# the kernels of each further surrogate are compiled for seconds
each_case = pytest.mark.parametrize(
    ("surrogate", "complete"),
    [
        pytest.param(SURROGATES[0], True, id="atan"),
        pytest.param(SURROGATES[1], False, id="log", marks=pytest.mark.slow),
        pytest.param(SURROGATES[2], True, id="lp", marks=pytest.mark.slow),
        pytest.param(SURROGATES[0], False, id="atan-partial"),
    ],
)


@each_case
@given(m=st.integers(1, 5000), k=st.integers(1, 9), r=st.integers(0, 3), seed=st.integers(0, 99))
def test_residual_sweep_matches_its_twin(surrogate, complete, m, k, r, seed):
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((k + r + 1, m)) / np.sqrt(m)
    y, x = rng.standard_normal(k) * 0.3 * np.sqrt(m), rng.random(m)
    a = np.ones(m) if complete else (rng.random(m) < 0.7).astype(float)
    stack, low_rank, products = rows.astype(F), np.empty(m, F), np.empty(k + r + 1)
    cost = _kernels.residual_sweep(
        stack, k, y.astype(F), x.astype(F), EVERYTHING if complete else a.astype(F), *arguments(surrogate),
        low_rank, products, np.empty(_kernels.BLOCK, F),
    )  # fmt: skip
    expected, e, h = reference.separate(rows[:k].T, y, x, a, surrogate)
    rows[-1] = e
    np.testing.assert_allclose(low_rank, expected, atol=2e-5)
    np.testing.assert_allclose(stack[-1], e, atol=2e-5)
    np.testing.assert_allclose(products, rows @ e, atol=2e-5 * np.sqrt(m))
    assert cost == pytest.approx(h, rel=1e-3, abs=1e-7)


@pytest.mark.parametrize(
    "surrogate", [SURROGATES[0], *(pytest.param(s, marks=pytest.mark.slow) for s in SURROGATES[1:])]
)
@given(m=st.integers(1, 5000), n=st.integers(1, 10), seed=st.integers(0, 99))
def test_trial_cost_matches_its_twin(surrogate, m, n, seed):
    rng = np.random.default_rng(seed)
    rows, c, x = rng.standard_normal((n, m)) / np.sqrt(m), rng.standard_normal(n), rng.random(m)
    vectors = (values.astype(F) for values in (rows, c, x))
    cost = _kernels.trial_cost(*vectors, EVERYTHING, *arguments(surrogate), np.empty((2, _kernels.BLOCK), F))
    _, _, h = reference.separate(rows.T, c, x, 1.0, surrogate)
    assert cost == pytest.approx(h, rel=1e-4, abs=1e-7)


@given(m=st.integers(1, 5000), k=st.integers(1, 12), seed=st.integers(0, 99))
def test_step_rows_is_a_matrix_product(m, k, seed):
    rng = np.random.default_rng(seed)
    rows, a, b = rng.standard_normal((k + 1, m)), rng.standard_normal(k + 1), rng.standard_normal(k)
    stack = rows.astype(F)
    _kernels.step_rows(stack, a.astype(F), b, np.empty(_kernels.BLOCK, F))
    np.testing.assert_allclose(stack[:k], rows[:k] + np.outer(b, a @ rows), atol=1e-4)
    np.testing.assert_array_equal(stack[k], rows[k].astype(F))


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


def fit_coefficients(U, x, a, surrogate, iterations, tolerance, start, before):
    """Return y, low-rank part, influence and change of the kernel."""
    k, outputs = len(start), (np.empty(len(start)), *np.empty((2, len(x)), F))
    work = np.empty(len(x), F), np.empty(k, F), np.empty((k, k)), np.empty(k)
    known = U.T.astype(F).copy(), x, a, *arguments(surrogate), iterations, tolerance, start, before
    return *outputs, _kernels.subset_coefficients(*known, *outputs, *work)


@each_case
@given(m=st.integers(40, 400), k=st.integers(1, 6), seed=st.integers(0, 99))
def test_subset_coefficients_match_their_twin(surrogate, complete, m, k, seed):
    U, *_, x, truth, a = state(m, k, 0, seed)
    start, before = truth + 0.01, x.astype(F)
    vector = x.astype(F), EVERYTHING if complete else a.astype(F)
    y, low_rank, e, moved = fit_coefficients(U, *vector, surrogate, 4, 0.0, start, before)
    observed = np.ones(m) if complete else a
    expected = start
    for _ in range(4):
        expected = reference.weighted_fit(U, x, observed, np.ones(m), surrogate, 1.0, expected)
    np.testing.assert_allclose(y, expected, atol=2e-3 * np.abs(expected).max())
    shown, influence, _ = reference.separate(U, y, x, observed, surrogate)
    np.testing.assert_allclose(low_rank, shown, atol=2e-5)
    np.testing.assert_allclose(observed * e, influence, atol=2e-5)
    assert moved == pytest.approx(np.mean((shown - x) ** 2), rel=1e-3)


@given(m=st.integers(40, 400), k=st.integers(2, 6), share=st.sampled_from([0.0, 1e-4, 1e-3]), seed=st.integers(0, 99))
def test_a_direction_that_is_hidden_keeps_its_coefficient(m, k, share, seed):
    rng = np.random.default_rng(seed)
    U = np.zeros((m, k))
    U[:k, :k] = np.eye(k)
    U[k:, 0] = 1
    U[k:, 1:] = share * rng.standard_normal((m - k, k - 1))  # all but the first direction are seen at k pixels only
    U = np.linalg.qr(U)[0]
    a, x, y = np.ones(m, F), rng.uniform(0, 100, m).astype(F), rng.standard_normal(k)
    a[:k] = 0
    start = y
    for _ in range(20):
        y, *_ = fit_coefficients(U, x, a, SURROGATES[0], 15, 1e-4, y, x)
    assert np.abs(y[1:] - start[1:]).max() <= 10 * np.linalg.norm(x)


@pytest.mark.parametrize(("surrogate", "dtype"), list(zip(SURROGATES, [np.uint8, np.uint16, np.float32], strict=True)))
@given(n=st.integers(16, 30), m=st.integers(1, 200), k=st.integers(1, 4), seed=st.integers(0, 99))
@settings(max_examples=6)
def test_fit_rows_is_one_robust_regression_per_pixel(surrogate, dtype, n, m, k, seed):
    rng = np.random.default_rng(seed)
    top = {np.uint8: 255.0, np.uint16: 65535.0, np.float32: 1.0}[dtype]
    Y = rng.standard_normal((n, k)) + np.eye(n, k) * 2
    values = np.clip(0.5 + 0.1 * Y @ rng.standard_normal((k, m)) + 0.01 * rng.standard_normal((n, m)), 0, 1)
    values[rng.random((n, m)) < 0.15] = 0.9
    X = (values * top).astype(dtype)
    mus = np.geomspace(0.5, max(surrogate.mu, 0.05), 4)
    U = np.empty((k, m), F)
    fit_rows(X, F(1 / top), Y.astype(F), surrogate, mus.astype(F), U)
    expected = reference.rows_given_coefficients(X / top, Y, mus, surrogate.name, surrogate.p)
    np.testing.assert_allclose(U, expected, atol=5e-3)


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
