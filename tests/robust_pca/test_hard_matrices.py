"""Hard matrices with fixed seeds: huge entries, rows to refit, means and sizes of columns."""

import tracemalloc

import numpy as np
import pytest
from rpca_planted import RANK, SURROGATES, needs_compiler, planted

from bgsub import RobustPCA
from bgsub.robust_pca.samples import Standardisation


def wrong_lines(model, L, axis):
    """Return how many rows (axis 1) or columns (axis 0) have a relative error above a thousandth."""
    return np.count_nonzero(np.linalg.norm(model.low_rank_ - L, axis=axis) > 1e-3 * np.linalg.norm(L, axis=axis))


@needs_compiler
@pytest.mark.parametrize(("shape", "axis", "size"), [((60, 20000), 0, 1e3), ((20000, 60), 1, 1e6)])
def test_huge_entries_in_an_elongated_matrix(shape, axis, size):
    rng = np.random.default_rng(0)
    L = rng.standard_normal((shape[0], 5)) @ rng.standard_normal((5, shape[1])) / np.sqrt(5)
    X = np.where(rng.random(shape) < 0.1, size * rng.standard_normal(shape), L)
    assert wrong_lines(RobustPCA(5).fit(X), L, axis) == 0


def noisy(sigma, share=0.1, shape=(120, 80), rank=RANK):
    X, _, _ = planted(shape=shape, share=share, rank=rank)
    return X + sigma * np.random.default_rng(3).standard_normal(X.shape)


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
@pytest.mark.parametrize(
    ("sigma", "dtype"), [(0.0, np.float64), (0.0, np.float32), (1e-3, np.float32), (0.1, np.float64)]
)
def test_true_rank_scores_best(sigma, dtype):
    X = noisy(sigma, share=0.2).astype(dtype)
    scores = [RobustPCA(rank).fit(X[:80]).score(X[80:]) for rank in range(RANK - 2, RANK + 3)]
    assert int(np.argmax(scores)) == 2


BOTH = {"center": True, "scale": True}


def spread(shape=(150, 100), mean=1e3, decades=2, sigma=0.0, share=0.1, rank=RANK):
    """Return samples of rank `rank` about a mean, columns of other sizes, and their parts: varying, mean, sizes."""
    X, L, _ = planted(shape=shape, share=share, rank=rank)
    rng = np.random.default_rng(5)
    size = 10 ** rng.uniform(-decades / 2, decades / 2, shape[1])
    center = mean * rng.standard_normal(shape[1])
    noise = sigma * rng.standard_normal(shape)
    return (X + noise + center) * size, L, center, size


def gap(model, L, center, size):
    """Return the relative error of the low-rank part, all columns of one weight."""
    return np.linalg.norm(model.low_rank_ / size - center - L) / np.linalg.norm(L)


@needs_compiler
@pytest.mark.parametrize(
    ("mean", "decades", "share", "surrogate"),
    [(0, 2, 0.1, "log"), (1e3, 0, 0.3, "lp"), (1e3, 2, 0.1, "atan"), (1e5, 6, 0.3, "log"), (1e5, 6, 0.1, "lp")],
)
def test_means_and_sizes_have_no_effect(mean, decades, share, surrogate):
    X, *parts = spread(mean=mean, decades=decades, share=share)
    assert gap(RobustPCA(RANK, surrogate=surrogate, **BOTH).fit(X), *parts) < 2e-6


@needs_compiler
def test_scale_and_centre_improve_uneven_columns():
    X, *parts = spread(mean=0, sigma=0.1, share=0.3)
    plain, scaled = (gap(RobustPCA(RANK, scale=scale).fit(X), *parts) for scale in (False, True))
    assert scaled < 0.06
    assert plain > 1.3 * scaled
    X, *parts = spread(mean=1e4, decades=0)
    plain, centred = RobustPCA(RANK + 1).fit(X), RobustPCA(RANK, center=True).fit(X)
    assert gap(centred, *parts) < 1e-2 * gap(plain, *parts)


@needs_compiler
@pytest.mark.parametrize(("dtype", "observed"), [(np.float32, 0.7), (np.float64, 0.7), (np.float64, 1.0)])
def test_attributes_agree(dtype, observed):
    X, *parts = spread(mean=10, shape=(150, 120))
    X = np.where(np.random.default_rng(1).random(X.shape) < observed, X, np.nan).astype(dtype)
    model = RobustPCA(RANK, **BOTH).fit(X)
    tolerance = {"rtol": 1e-5, "atol": 1e-4} if dtype == np.float32 else {"rtol": 1e-9}
    assert gap(model, *parts) < (1e-4 if dtype == np.float32 else 3e-6)
    L = model.coefficients_ @ model.components_ * model.scale_ + model.location_
    np.testing.assert_allclose(model.low_rank_, L, **tolerance)
    np.testing.assert_allclose(model.inverse_transform(model.coefficients_), model.low_rank_, **tolerance)
    np.testing.assert_allclose(model.coefficients_.mean(axis=0), 0, atol=1e-4)
    np.testing.assert_allclose(np.where(np.isnan(X), 0, model.low_rank_ + model.sparse_), np.nan_to_num(X), **tolerance)
    np.testing.assert_allclose(model.location_, model.low_rank_.mean(axis=0), rtol=1e-4, atol=1e-3)
    assert not model.sparse_[np.isnan(X)].any()
    np.testing.assert_allclose(model.transform(X), model.coefficients_, atol=5e-3)
    assert {part.dtype for part in (model.low_rank_, model.sparse_, model.location_, model.scale_)} == {np.dtype(dtype)}


def test_medians_and_deviations():
    X = np.array([[1.0, 2.0, 9.0, 3.0], [5.0] * 4, [2.0, 4.0, np.nan, 6.0], [np.nan] * 4]).T
    known = ~np.isnan(X)
    found = Standardisation.of(np.nan_to_num(X), known, True, True)
    np.testing.assert_allclose(found.location, [2.5, 5, 4, 0])
    np.testing.assert_allclose(found.scale, 1.4826022 * np.array([1, 1.5, 2, 1.5]))  # no deviation: the median one
    assert not found.standard(np.nan_to_num(X), known)[~known].any()


@needs_compiler
@pytest.mark.slow
@pytest.mark.parametrize(("options", "most"), [({}, 3.9), ({"scale": True}, 5.4), ({"center": True}, 5.4)])
def test_peak_memory_of_a_fit(options, most):
    X = np.random.default_rng(0).standard_normal((1500, 1500)) + 5
    model = RobustPCA(2, iterations=3, quality="fast", **options).fit(X[:60, :60])  # compiles the kernels
    tracemalloc.start()
    try:
        model.fit(X)
        assert tracemalloc.get_traced_memory()[1] < most * X.nbytes
    finally:
        tracemalloc.stop()
