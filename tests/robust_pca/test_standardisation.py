"""Columns of different location and scale: estimated, removed and restored."""

import tracemalloc

import numpy as np
import pytest
from rpca_planted import COMPILED, RANK, angle, needs_compiler, planted

from bgsub import RobustPCA
from bgsub.robust_pca.standardisation import Standardisation

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
def test_noise_is_as_without_standardisation():
    X, *parts = spread(mean=10, decades=0, sigma=0.1)
    plain = gap(RobustPCA(RANK + 1).fit(X), *parts)
    assert gap(RobustPCA(RANK, center=True).fit(X), *parts) < 1.1 * plain
    model = RobustPCA(RANK, **BOTH).fit(X)
    assert gap(model, *parts) < 1.3 * plain
    assert model.noise_scale_ * np.median(model.scale_) == pytest.approx(0.1, rel=0.3)
    np.testing.assert_allclose(model.transform(X), model.coefficients_, atol=2e-2)  # refined without the last direction


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


@needs_compiler
def test_batches_keep_the_location_and_the_scale_of_the_first():
    X, L, center, size = spread(shape=(300, 100))
    model = RobustPCA(RANK, **BOTH).partial_fit(X[:100])
    location, scale = model.location_, model.scale_
    for batch in np.split(X[100:], 4):
        model.partial_fit(batch)
    np.testing.assert_array_equal(model.location_, location)
    np.testing.assert_array_equal(model.scale_, scale)
    assert gap(model, L[-50:], center, size) < 1e-4
    P = np.linalg.svd(L * size / scale, full_matrices=False)[2][:RANK]
    assert angle(P.T, model.components_.T) < 1e-3


def test_medians_and_deviations():
    X = np.array([[1.0, 2.0, 9.0, 3.0], [5.0] * 4, [2.0, 4.0, np.nan, 6.0], [np.nan] * 4]).T
    known = ~np.isnan(X)
    found = Standardisation.of(np.nan_to_num(X), known, True, True)
    np.testing.assert_allclose(found.location, [2.5, 5, 4, 0])
    mads = 1.4826022 * np.array([1, 2])  # of the first and the third; the others have none and get the one between
    np.testing.assert_allclose(found.scale, [mads[0], mads.mean(), mads[1], mads.mean()])
    standard = found.standard(np.nan_to_num(X), known)
    assert not standard[~known].any()
    np.testing.assert_allclose(found.restore(standard.copy())[known], X[known])
    assert Standardisation.of(np.nan_to_num(X), known, False, False).is_identity
    none = Standardisation(np.zeros(4), np.ones(4))
    assert none.standard(X, known) is X
    assert none.restore(X) is X


@pytest.mark.parametrize("quality", ["balanced", "paper"])
@pytest.mark.parametrize("X", [np.zeros((5, 7)), 7 * np.ones((5, 7)), np.ones((1, 4)), np.eye(5), np.ones((4, 1))])
def test_degenerate_matrices(X, quality):
    k = min(2, *X.shape)
    model = RobustPCA(k, quality=quality, **BOTH).fit(X)
    np.testing.assert_allclose(model.components_ @ model.components_.T, np.eye(k), atol=1e-9)
    np.testing.assert_allclose(model.low_rank_ + model.sparse_, X, atol=1e-9)
    assert np.isfinite(model.transform(X)).all()
    assert (model.scale_ > 0).all()


@pytest.mark.parametrize("rank", [1, 5, 6])
def test_rank_is_the_number_of_components(rank):
    seen = set()
    model = RobustPCA(rank, center=True, iterations=5, callback=lambda step: seen.add(len(step.components)))
    assert model.fit(np.random.default_rng(0).standard_normal((6, 9))).components_.shape == (rank, 9)
    assert seen == {min(rank + 1, 6)}


@pytest.mark.parametrize("size", [1e-12, 1e12])
def test_scale_accepts_units_that_would_be_refused(size):
    X = planted(shape=(60, 50) if COMPILED else (20, 16), rank=2)[0].astype(np.float32)
    one, other = (RobustPCA(2, iterations=30, **BOTH).fit(factor * X) for factor in (np.float32(1), np.float32(size)))
    np.testing.assert_allclose(other.low_rank_ / size, one.low_rank_, atol=1e-2)


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
