"""Robust PCA after a fit: `transform` and `partial_fit` of new samples."""

import numpy as np
import pytest
from rpca_planted import RANK, SURROGATES, angle, error, needs_compiler, planted

from bgsub import RobustPCA


def stream(turn=0.0, sigma=0.0, share=0.1, batches=10, n=30, m=100, k=4, seed=0):
    """Return batches of samples of a subspace that turns by so many radians per sample, and its last basis."""
    rng = np.random.default_rng(seed)
    Q = np.linalg.qr(rng.standard_normal((m, m)))[0]
    U, V = Q[:, :k], Q[:, k : 2 * k]
    rows = []
    for i in range(batches * n):
        basis = U * np.cos(turn * i) + V * np.sin(turn * i)
        rows.append(np.sqrt(m / k) * basis @ rng.standard_normal(k))
    X = np.array(rows) + sigma * rng.standard_normal((batches * n, m))
    X += (rng.random(X.shape) < share) * rng.uniform(-5, 5, X.shape)
    return np.split(X, batches), basis


@needs_compiler
@pytest.mark.parametrize(("quality", "observed"), [("balanced", 1.0), ("paper", 0.6)])
@pytest.mark.parametrize("surrogate", SURROGATES)
def test_transform_is_robust_on_new_samples(surrogate, quality, observed):
    X, L, mask = planted(shape=(120, 100), observed=observed)
    model = RobustPCA(RANK, surrogate=surrogate, quality=quality).fit(X[:100], observed=mask[:100])
    Y = model.transform(X[100:], observed=mask[100:])
    gap = np.linalg.norm(model.inverse_transform(Y) - L[100:]) / np.linalg.norm(L[100:])
    assert gap < (1e-5 if quality == "balanced" else {"lp": 3e-4, "log": 2.1e-3, "atan": 7e-4}[surrogate])


@needs_compiler
@pytest.mark.parametrize(("surrogate", "share", "unit"), [("log", 0.1, 1e-6), ("lp", 0.3, 1e6), ("atan", 0.3, 1)])
def test_batches_find_a_static_subspace_as_one_fit_does(surrogate, share, unit):
    batches, basis = stream(share=share)
    batches = [unit * batch for batch in batches]
    model = RobustPCA(4, surrogate=surrogate)
    for batch in batches:
        assert model.partial_fit(batch) is model
    assert angle(basis, model.components_.T) < 2e-5
    assert model.n_samples_seen_ == 300
    np.testing.assert_allclose(model.low_rank_ + model.sparse_, batches[-1], atol=1e-12 * unit)
    np.testing.assert_allclose(model.components_ @ model.components_.T, np.eye(4), atol=1e-12)
    whole = RobustPCA(4, surrogate=surrogate).fit(np.concatenate(batches))
    np.testing.assert_allclose(model.singular_values_, whole.singular_values_, rtol=1e-3)


@needs_compiler
def test_batches_average_the_noise():
    batches, basis = stream(sigma=0.05, share=0.3)
    model = RobustPCA(4)
    angles = [angle(basis, model.partial_fit(batch).components_.T) for batch in batches]
    whole = angle(basis, RobustPCA(4).fit(np.concatenate(batches)).components_.T)
    assert angles[-1] < 1.4 * whole
    assert angles[-1] < 0.5 * angles[0]
    assert model.noise_scale_ == pytest.approx(0.05, rel=0.5)


@needs_compiler
@pytest.mark.parametrize("sigma", [0.0, 0.05])
def test_forgetting_follows_a_subspace_that_turns(sigma):
    batches, basis = stream(turn=1e-3, sigma=sigma, n=50)
    firm, loose = RobustPCA(4), RobustPCA(4, forgetting=0.05)
    for batch in batches:
        firm.partial_fit(batch)
        loose.partial_fit(batch)
    assert angle(basis, loose.components_.T) < 0.12
    assert angle(basis, loose.components_.T) < 0.4 * angle(basis, firm.components_.T)
    assert loose.singular_values_[0] < firm.singular_values_[0]


@needs_compiler
def test_incomplete_batches_and_batches_of_one_sample():
    batches, basis = stream()
    rng = np.random.default_rng(1)
    first = np.concatenate(batches[:3])
    model = RobustPCA(4).partial_fit(first, observed=rng.random(first.shape) < 0.8)
    for batch in batches[3:5]:
        for x in batch:
            model.partial_fit(np.where(rng.random(x.shape) < 0.7, x, np.nan)[None])
    assert model.n_samples_seen_ == 150
    assert angle(basis, model.components_.T) < 1e-4


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_partial_fit_types_callback_and_last_mu(dtype):
    X, _, _ = planted(rank=2)
    seen = []
    model = RobustPCA(2, iterations=5).fit(X.astype(dtype))
    model.set_params(callback=lambda progress: seen.append(progress) or progress.iteration == 4, mu_end=1e-3)
    model.partial_fit(X.astype(dtype))
    assert model.components_.dtype == model.coefficients_.dtype == model.low_rank_.dtype == dtype
    assert model.n_iter_ == len(model.objective_) == 4
    for progress in seen:
        assert progress.half == "both"
        assert progress.objective[1] <= progress.objective[0] * (1 + 1e-5)
    np.testing.assert_allclose(seen[-1].coefficients @ seen[-1].components, model.low_rank_, atol=1e-4)
    model.set_params(callback=None).partial_fit(X.astype(dtype))
    assert model.mu_ == pytest.approx(1e-3)


@pytest.mark.parametrize("X", [np.zeros((4, 6)), np.ones((4, 6)), np.eye(4, 6)])
def test_degenerate_batches(X):
    model = RobustPCA(2)
    for _ in range(3):
        assert np.isfinite(model.partial_fit(X).low_rank_).all()
    np.testing.assert_allclose(model.components_ @ model.components_.T, np.eye(2), atol=1e-10)
    assert np.isfinite(model.score(X))


@needs_compiler
def test_partial_fit_continues_a_fit():
    X, L, _ = planted(shape=(120, 100))
    model = RobustPCA(RANK).fit(X[:60]).partial_fit(X[60:])
    assert error(model, L[60:]) < 1e-4
    assert model.fit(X[:60]).n_samples_seen_ == 60
