"""The score of robust PCA: a likelihood of predicted entries, comparable between settings."""

import numpy as np
import pytest
from rpca_planted import RANK, SURROGATES, needs_compiler, planted
from scipy import optimize, stats

from bgsub import RobustPCA
from bgsub.numerics.surrogates import Surrogate
from bgsub.robust_pca.fitted import cross_validation_residual, log_likelihood


def noisy(sigma, share=0.1, shape=(120, 80), rank=RANK):
    X, _, _ = planted(shape=shape, share=share, rank=rank)
    return X + sigma * np.random.default_rng(3).standard_normal(X.shape)


def test_likelihood_is_that_of_the_best_scale():
    rng = np.random.default_rng(0)
    residual = np.where(rng.random(2000) < 0.3, rng.uniform(-9, 9, 2000), 0.02 * rng.standard_normal(2000))

    def loss(log_scale):
        return -stats.cauchy.logpdf(residual, scale=np.exp(log_scale)).mean()

    best = optimize.minimize_scalar(loss, bounds=(-10, 3), method="bounded")
    assert log_likelihood(residual, 1e-9) == pytest.approx(-best.fun, abs=1e-6)
    assert np.exp(best.x) < 0.05
    assert log_likelihood(residual, 0.1) == log_likelihood(np.where(np.abs(residual) < 0.1, 0.1, residual), 1e-9)
    assert np.isfinite(log_likelihood(np.zeros(3), float(np.finfo(np.float32).tiny)))


def test_predicted_entries_reveal_a_rank_too_high():
    rng = np.random.default_rng(7)
    basis = np.linalg.qr(rng.standard_normal((80, 8)))[0]
    X = 10 * rng.standard_normal((30, 3)) @ basis[:, :3].T + 0.1 * rng.standard_normal((30, 80))
    mask = rng.random(X.shape) < 0.9
    cost = Surrogate("log", 0.06)
    residuals = [cross_validation_residual(np.where(mask, X, 0), mask, basis[:, :k], cost, 2.0) for k in range(1, 9)]
    assert {residual.shape for residual in residuals} == {(np.count_nonzero(mask),)}
    assert np.argmin([np.std(residual) for residual in residuals]) == 2
    assert np.std(residuals[2]) == pytest.approx(0.1, rel=0.1)


@needs_compiler
@pytest.mark.parametrize("surrogate", SURROGATES)
def test_scores_of_all_settings_have_one_unit(surrogate):
    X = noisy(0.1)
    train, test = X[:90], X[90:]
    options = {"log": {"scale": True}, "lp": {"center": True}, "atan": {"quality": "best"}}[surrogate]
    scores = [RobustPCA(RANK, surrogate=surrogate, **more).fit(train).score(test) for more in ({}, options)]
    assert np.ptp(scores) < 0.1
    wrong = RobustPCA(RANK, surrogate=surrogate).fit(planted(shape=(120, 80), seed=1)[0]).score(test)
    assert wrong < min(scores) - 1


@needs_compiler
def test_score_is_a_density_in_the_unit_of_the_samples():
    X = noisy(0.1)
    model = RobustPCA(RANK, scale=True, center=True).fit(X[:90])
    one, gaps = model.score(X[90:]), X[90:].copy()
    gaps[np.random.default_rng(0).random(gaps.shape) < 0.2] = np.nan
    assert model.score(gaps) == pytest.approx(one, abs=0.15)
    assert one - model.fit(1e3 * X[:90]).score(1e3 * X[90:]) == pytest.approx(np.log(1e3), abs=1e-3)


@needs_compiler
def test_scale_improves_the_score_of_uneven_columns():
    X = noisy(0.05)
    spread = X * np.geomspace(0.1, 10, X.shape[1])
    plain, scaled = (RobustPCA(RANK, scale=scale).fit(spread[:90]).score(spread[90:]) for scale in (False, True))
    assert scaled > plain + 0.3
    assert scaled == pytest.approx(RobustPCA(RANK, scale=True).fit(X[:90]).score(X[90:]), abs=0.01)


@needs_compiler
@pytest.mark.parametrize(
    ("sigma", "dtype"), [(0.0, np.float64), (0.0, np.float32), (1e-3, np.float32), (0.1, np.float64)]
)
def test_true_rank_scores_best(sigma, dtype):
    X = noisy(sigma, share=0.2).astype(dtype)
    scores = [RobustPCA(rank).fit(X[:80]).score(X[80:]) for rank in range(RANK - 2, RANK + 3)]
    assert int(np.argmax(scores)) == 2
