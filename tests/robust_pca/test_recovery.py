"""Robust PCA: planted recovery, noise, rank, units, difficult starts; the alternation of the paper beside it."""

import numpy as np
import pytest
from rpca_planted import GRADUATED, RANK, SURROGATES, error, needs_compiler, planted

from bgsub import RobustPCA

pytestmark = needs_compiler
# The worst of ten seeds was 1.3e-4, 9.3e-4, 3.3e-4 (complete), 2.0e-4, 1.4e-3, 4.6e-4 (60 %).
PAPER_COMPLETE = {"lp": 2e-4, "log": 1.4e-3, "atan": 5e-4}
PAPER_INCOMPLETE = {"lp": 3e-4, "log": 2.1e-3, "atan": 7e-4}


# each pair of values occurs
@pytest.mark.parametrize(
    ("observed", "surrogate", "dtype"),
    [
        (1.0, "log", np.float64),
        (0.6, "log", np.float32),
        (1.0, "lp", np.float32),
        (0.6, "lp", np.float64),
        (1.0, "atan", np.float64),
        (0.6, "atan", np.float32),
    ],
)
def test_recovers_matrices(observed, surrogate, dtype):
    X, L, mask = planted(observed=observed)
    X = np.where(mask, X, np.nan).astype(dtype)
    model = RobustPCA(RANK, surrogate=surrogate).fit(X)
    assert error(model, L) < (1e-5 if dtype == np.float64 else 3e-5)
    parts = (model.components_, model.coefficients_, model.low_rank_, model.sparse_, model.transform(X))
    assert all(part.dtype == dtype for part in parts)


@pytest.mark.parametrize("surrogate", SURROGATES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_paper_recovers(surrogate, dtype):
    model = RobustPCA(RANK, quality="paper", surrogate=surrogate)
    X, L, _ = planted()
    assert error(model.fit(X.astype(dtype)), L) < PAPER_COMPLETE[surrogate]
    X, L, mask = planted(observed=0.6)
    assert error(model.fit(np.where(mask, X, np.nan).astype(dtype)), L) < PAPER_INCOMPLETE[surrogate]


@pytest.mark.parametrize(
    ("shape", "rank", "share", "seed", "bound", "sigma", "most"),
    [
        ((60, 300), 4, 0.1, 0, 4, 0.0, 1e-5),
        ((300, 60), 4, 0.1, 0, 4, 0.0, 1e-5),
        ((100, 100), 4, 0.3, 0, 4, 0.0, 1e-5),
        ((60, 20000), 2, 0.0, 0, 2, 0.0, 1e-5),  # without outliers
        ((60, 20000), 2, 0.0, 2, 2, 0.0, 1e-5),
        ((5000, 30), 3, 0.1, 1, 10, 0.0, 1e-4),  # with a rank above the true one
        ((30, 5000), 3, 0.1, 1, 6, 0.05, 0.03),
        ((1000, 50), 3, 0.1, 1, 9, 0.0, 1e-4),
        ((100, 100), 3, 0.1, 0, 9, 0.0, 1e-5),
        ((50, 50), 2, 0.1, 0, 6, 0.0, 1e-5),
    ],
)
def test_recovers_matrices_of_many_shapes_and_ranks(shape, rank, share, seed, bound, sigma, most):
    X, L, _ = planted(seed, shape=shape, rank=rank, share=share)
    X = X + sigma * np.random.default_rng(2).standard_normal(shape)
    assert error(RobustPCA(bound).fit(X), L) < most


@pytest.mark.parametrize(("rank", "share"), [(36, 0.3), (60, 0.1), (12, 0.5)])
def test_recovers_where_the_schedule_of_the_paper_fails(rank, share):
    X, L, _ = planted(shape=(120, 120), rank=rank, share=share)
    assert error(RobustPCA(rank).fit(X), L) < 1e-5
    assert error(RobustPCA(rank, quality="paper", iterations=25).fit(X), L) > 0.1


def oracle(X, inliers, A, sweeps=20):
    """Least squares on the inliers alone, from the true factor A, (n, k)."""
    for _ in range(sweeps):
        B = np.array(
            [np.linalg.lstsq(A[known], x[known], rcond=None)[0] for x, known in zip(X.T, inliers.T, strict=True)]
        )
        A = np.array([np.linalg.lstsq(B[known], x[known], rcond=None)[0] for x, known in zip(X, inliers, strict=True)])
    return A @ B.T


@pytest.mark.parametrize(("sigma", "share"), [(0.01, 0.1), (0.1, 0.1), (0.1, 0.3)])
def test_noise_is_close_to_least_squares_on_the_inliers(sigma, share):
    X, L, _ = planted(share=share)
    inliers = X == L
    X = X + sigma * np.random.default_rng(1).standard_normal(X.shape)
    model = RobustPCA(RANK).fit(X)
    best = np.linalg.norm(oracle(X, inliers, L @ np.linalg.svd(L)[2][:RANK].T) - L) / np.linalg.norm(L)
    assert error(model, L) < 1.8 * best  # outliers of the size of the noise are noise
    assert sigma < model.noise_scale_ < 1.7 * sigma
    assert 0.3 < model.mu_ / (2.4 * sigma) ** 2 < 4


@pytest.mark.parametrize(("quality", "factor"), list(zip(GRADUATED, (1e-6, 1e3, 1e6), strict=True)))
def test_unit_of_the_samples_has_no_effect(quality, factor):
    X, L, _ = planted(share=0.2)
    assert error(RobustPCA(RANK, quality=quality).fit((factor * X).astype(np.float32)), factor * L) < 3e-5
    one, two = (RobustPCA(RANK, quality=quality).fit(c * X) for c in (1.0, factor))
    np.testing.assert_allclose(two.low_rank_ / factor, one.low_rank_, atol=1e-5)
    assert error(two, factor * L) < 2e-5
    assert two.noise_scale_ / factor == pytest.approx(one.noise_scale_, rel=0.5)


@pytest.mark.parametrize(
    ("quality", "size"), [("fast", 1e100), ("balanced", 1e3), ("balanced", 1e12), ("balanced", 1e30), ("best", 1e6)]
)
def test_outliers_of_any_size_are_outliers(quality, size):
    _, L, _ = planted()
    rng = np.random.default_rng(0)
    wrong = rng.random(L.shape) < 0.2
    X = np.where(wrong, size * rng.standard_normal(L.shape), L)
    model = RobustPCA(RANK, quality=quality).fit(X)
    assert error(model, L) < 2e-5
    np.testing.assert_allclose(model.low_rank_ + model.sparse_, X, rtol=1e-12)
    assert np.abs(model.inverse_transform(model.transform(X)) - L).max() < 1e-3


@pytest.mark.parametrize("axis", [0, 1])
def test_black_border_and_unobserved_feature_do_not_end_the_fit(axis):
    X, L, _ = planted()
    X, L = (np.concatenate([np.zeros_like(part), part], axis=axis) for part in (X, L))
    X[:, 7] = np.nan
    model = RobustPCA(RANK).fit(X)
    assert np.linalg.norm(np.delete(model.low_rank_ - L, 7, axis=1)) < 1e-5 * np.linalg.norm(L)
    assert model.n_iter_ < 100
