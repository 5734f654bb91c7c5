"""The self-tuned tracker and its kernels against their dense twins; laws of every step."""

import numpy as np
import pytest
import reference_self_tuned as reference
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import config
from reference_tracking import F, arguments

from bgsub import SubspaceTracker
from bgsub.numerics.surrogates import Surrogate
from bgsub.tracking import _kernels, _self_tuned_kernels, self_tuned

SURROGATES = [Surrogate.flattening_at(4.0, name) for name in ("atan", "log", "lp")]
LIMITS = self_tuned._FIT
LARGEST = 60 if config.DISABLE_JIT else 2500
STEPS = 8 if config.DISABLE_JIT else 40
sizes = settings(max_examples=4 if config.DISABLE_JIT else 12)
# the kernels of each further surrogate are compiled for half a minute
compiled_for_it = pytest.mark.slow
each_case = pytest.mark.parametrize(
    ("surrogate", "observed"),
    [(SURROGATES[0], 1.0), *(pytest.param(surrogate, 0.7, marks=compiled_for_it) for surrogate in SURROGATES[1:])],
    ids=["atan", "log", "lp"],
)


def mask(observed, m, rng):
    """Observed entries as 0/1, and as arguments of the kernels: empty for all."""
    a = np.ones(m) if observed == 1 else (rng.random(m) < observed).astype(float)
    return a, np.empty(0, F) if observed == 1 else a.astype(F)


def vector(U, rng, outliers=0.1, noise=0.02):
    """A vector of the subspace with noise and outliers, all in float32."""
    m, k = U.shape
    x = U @ rng.standard_normal(k) * np.sqrt(m / k) + noise * rng.standard_normal(m)
    hit = rng.random(m) < outliers
    x[hit] += rng.uniform(-3, 3, hit.sum())
    return x.astype(F)


@pytest.mark.parametrize("kind", ["taken", "refused", "inside the span"])
@given(m=st.integers(9, 200), k=st.integers(1, 4), w=st.floats(1e-3, 0.5), seed=st.integers(0, 99))
@sizes
def test_a_step_matches_its_twin(kind, m, k, w, seed):
    rng = np.random.default_rng(seed)
    U, A = np.linalg.qr(rng.standard_normal((m, k)))[0], rng.standard_normal((k, k))
    V = 0.1 * rng.standard_normal((m, k)) / np.sqrt(m)  # not quite tangent
    P, V, C = reference.predict(U, V, 0.5, A @ A.T + 0.1 * np.eye(k))
    y, e, cost, share, keep, gain = rng.standard_normal(k), rng.standard_normal(m), 3.0, 0.8, 0.99, 0.01
    inside, outside = P @ (P.T @ e), e - P @ (P.T @ e)
    outside *= np.linalg.norm(y) / np.linalg.norm(outside)
    e = {"taken": 0.02 * inside + 0.3 * outside, "refused": 1e9 * outside, "inside the span": inside}[kind]
    stack = np.column_stack([P, V, e]).T
    gram, products, moment, y_new = stack[:-1] @ stack[:-1].T, stack @ e, C.copy(), y.copy()
    T, objective, z = np.empty((2 * k, 2 * k + 1)), np.empty(2), np.empty(k)
    taken = _self_tuned_kernels.self_tuned_step(
        gram, np.eye(k, 2 * k), np.eye(k, 2 * k, k), products, moment, y_new, (w, share), cost, keep, gain,
        T, objective, z,
    )  # fmt: skip
    U, V, C, direction, expected, was_taken = reference.step(P, V, C, y, e, cost, w, share, keep, gain)
    assert taken == was_taken == (kind == "taken")
    np.testing.assert_allclose(T @ stack, np.hstack([U, V]).T, atol=1e-9)
    np.testing.assert_allclose(gram, T @ stack @ stack.T @ T.T, atol=1e-9)
    np.testing.assert_allclose(moment, C, atol=1e-12)
    np.testing.assert_allclose(z, direction, rtol=1e-7)
    np.testing.assert_allclose(objective, expected, rtol=1e-9)
    np.testing.assert_allclose(y_new, U.T @ (P @ y), atol=1e-9)


@given(n=st.integers(5, LARGEST), k=st.integers(1, 5), w=st.sampled_from([0.0, 0.05]), seed=st.integers(0, 99))
@sizes
def test_sense_matches_its_twin(n, k, w, seed):
    rng = np.random.default_rng(seed)
    Z, P = rng.standard_normal((2, k, n)) / np.sqrt(n)
    (y, z, inside), e, omega = rng.standard_normal((3, k)), rng.standard_normal(n), rng.random(n)
    carried = Z.astype(F)
    gained = _self_tuned_kernels.update_sensitivity(carried, P.astype(F), e.astype(F), omega.astype(F), y, z, inside, w)
    expected, sensitivity = reference.update_sensitivity(Z.T, P.T, e, omega, y, z, inside, w)
    assert gained == pytest.approx(expected, abs=1e-5)
    np.testing.assert_allclose(carried, sensitivity.T, atol=1e-5)


@each_case
@given(m=st.integers(3, LARGEST), k=st.integers(1, 4), seed=st.integers(0, 99))
@sizes
def test_the_sweep_matches_its_twin(surrogate, observed, m, k, seed):
    rng = np.random.default_rng(seed)
    rows, c, x = rng.standard_normal((2 * k, m)) / np.sqrt(m), rng.standard_normal(2 * k), rng.standard_normal(m)
    a, given_a = mask(observed, m, rng)
    s = rng.uniform(0.01, 2, m)
    stack, scale = np.vstack([rows, np.zeros((1, m))]).astype(F), s.astype(F)
    follow, products = (1.2, 1.05, 1 / 1.05, 0.9, 0.02), np.empty(2 * k + 1)
    cost = _self_tuned_kernels.self_tuned_sweep(
        stack, k, c.astype(F), x.astype(F), given_a, scale, tuple(F(v) for v in follow), *arguments(surrogate),
        products, np.empty((2, _kernels.BLOCK), F),
    )  # fmt: skip
    r = a * (x - c @ rows)
    e = s * surrogate.influence(r / s)
    np.testing.assert_allclose(stack[2 * k], e, atol=2e-6)
    np.testing.assert_allclose(products, np.append(rows @ e, e @ e), rtol=1e-4, atol=2e-5 * np.sqrt(m))
    assert cost == pytest.approx(np.sum(s**2 * surrogate.value(r / s)), rel=1e-4)
    clear = np.abs(1.2 * np.abs(r) - s) > 1e-5
    np.testing.assert_allclose(scale[clear], reference.followed(s, r, a, follow)[clear], rtol=1e-5)


@each_case
@given(n=st.integers(40, 100 if config.DISABLE_JIT else 300), k=st.integers(1, 4), seed=st.integers(0, 99))
@sizes
def test_coefficients_match_their_twin(surrogate, observed, n, k, seed):
    rng = np.random.default_rng(seed)
    U = np.linalg.qr(rng.standard_normal((n, k)))[0].astype(F)
    a, given_a = mask(observed, n, rng)
    x, s = a.astype(F) * vector(U, rng), rng.uniform(0.01, 0.05, n).astype(F)
    y, e, work = np.empty(k), np.empty(n, F), np.empty((4, n), F)
    small = np.empty(k, F), np.empty((k, k)), np.empty(k)
    share, ratio = _self_tuned_kernels.own_scale_coefficients(
        U.T.copy(), x, given_a, s, np.median(s), *arguments(surrogate), LIMITS, y, e, work, small
    )
    found, r, omega, mean, median = reference.own_scale_coefficients(U, x, a, s, surrogate, LIMITS)
    np.testing.assert_allclose(y, found, atol=1e-4 * np.linalg.norm(found))
    np.testing.assert_allclose(work[2], omega, atol=2e-2)
    np.testing.assert_allclose(e, omega * r, atol=2e-3)
    assert share == pytest.approx(mean, rel=1e-3)
    assert ratio == pytest.approx(median, rel=2e-2)


def twins(surrogate, rng, m, k, subset=4000, **parameters):
    U = np.linalg.qr(rng.standard_normal((m, k)))[0].astype(F)
    tracker = SubspaceTracker(k, surrogate, subset=subset, **parameters).initialise(U.T, np.zeros((0, k)))
    forgetting, own = parameters.get("forgetting"), "mu" not in parameters
    return tracker, reference.SelfTuned(U.astype(float), tracker.subset_of(m), tracker.surrogate_, forgetting, own)


@pytest.mark.parametrize(
    ("name", "observed", "parameters"),
    [
        ("atan", 1.0, {}),
        pytest.param("log", 0.7, {}, marks=compiled_for_it),
        pytest.param("lp", 0.7, {"subset": 40}, marks=compiled_for_it),
        pytest.param("log", 1.0, {"mu": 0.1}, marks=compiled_for_it),
        ("atan", 0.7, {"forgetting": 0.05}),
    ],
)
def test_the_tracker_matches_its_dense_twin(name, observed, parameters):
    rng, m, k = np.random.default_rng(0), 60, 2
    tracker, twin = twins(name, rng, m, k, **parameters)
    turn = np.linalg.qr(rng.standard_normal((m, 2 * k)))[0]
    for i in range(STEPS):
        x = vector(np.cos(0.005 * i) * turn[:, :k] + np.sin(0.005 * i) * turn[:, k:], rng)
        a = mask(observed, m, rng)[0]
        tracker.partial_fit(np.where(a > 0, x, np.nan), a > 0)
        twin.learn(x.astype(float), a)
        model = tracker._model
        np.testing.assert_allclose(tracker.components_, twin.U.T, atol=2e-5)
        np.testing.assert_allclose(model.basis.stack[k : 2 * k, :m], twin.V.T, atol=1e-6)
        np.testing.assert_allclose(model.scale, twin.s, rtol=1e-4)
        np.testing.assert_allclose(model._C, twin.C, atol=1e-4 * np.trace(twin.C))
        np.testing.assert_allclose(tracker.objective_, twin.objective, rtol=1e-3, atol=1e-6)
        assert tracker.forgetting_ == pytest.approx(twin.w, rel=5e-4)  # 2e-4 seen: float32 in the first vectors
        assert tracker.momentum_ == pytest.approx(twin.momentum, abs=1e-4)
        assert tracker.step_length_ == twin.taken


@each_case
def test_laws_of_every_step(surrogate, observed):
    rng, m, k = np.random.default_rng(1), 80, 3
    tracker, twin = twins(surrogate.name, rng, m, k)
    basis, most = np.linalg.qr(rng.standard_normal((m, k)))[0], 0.1
    for _ in range(STEPS):
        x, (a, _) = vector(basis, rng), mask(observed, m, rng)
        model, w = tracker._model, tracker.forgetting_
        rows = model.basis.stack[: 2 * k, :m].astype(float)
        twin.s, twin.momentum = model.scale.astype(float), tracker.momentum_
        if not twin.s.any():
            twin.first_scale(a * x, a)
        twin.press(a * x, np.mean(a))
        P, _, C = reference.predict(rows[:k].T, rows[k:].T, twin.momentum, model._C)
        s, y = twin.s.copy(), twin.fit(P, x.astype(float), a)[0]
        tracker.partial_fit(x, a > 0)
        U = tracker.components_.T.astype(float)
        assert np.abs(U.T @ U - np.eye(k)).max() < 1e-5
        stack = model.basis.stack[: 2 * k, :m].astype(float)
        np.testing.assert_allclose(model._gram, stack @ stack.T, atol=1e-5)
        H = U @ np.linalg.inv(P.T @ U) - P  # the step, U = (P + H) L^-T
        past = (1 - w) / 2 * np.trace(H @ C @ H.T)
        before, after = (w * np.sum(s**2 * surrogate.value(a * (x - l) / s)) for l in (P @ y, U @ (U.T @ (P @ y))))
        assert after + past <= before * (1 + 1e-4)
        assert tracker.objective_[1] <= tracker.objective_[0]
        assert after + past <= tracker.objective_[1] * (1 + 1e-4)  # which is a bound of it
        assert 1e-4 <= tracker.forgetting_ <= most
        assert 0 <= tracker.momentum_ <= 1


@pytest.mark.large
@given(
    m=st.integers(1, 40), k=st.integers(1, 6), observed=st.floats(0, 1), seed=st.integers(0, 999), auto=st.booleans()
)
def test_any_size_stays_orthonormal(m, k, observed, seed, auto):
    rng, k = np.random.default_rng(seed), min(m, k)
    tracker = SubspaceTracker("auto" if auto else k, max_rank=k)
    U = np.linalg.qr(rng.standard_normal((m, k)))[0]
    for _ in range(60):
        tracker.partial_fit(vector(U, rng, 0.3, 0.0), rng.random(m) < observed)
        gram = tracker.components_.astype(float) @ tracker.components_.T
        assert np.abs(gram - np.eye(len(gram))).max() < 1e-5
        assert tracker.rank_ <= k
        assert np.isfinite(tracker.coefficients_).all()
