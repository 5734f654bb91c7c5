"""The scale of a residual under outliers."""

import numpy as np
import pytest

from bgsub.robust_pca.noise import ResidualScale
from bgsub.robust_pca.svd import truncated_svd


def scale_of(X, rank=0, observed=None):
    observed = np.ones(X.shape, bool) if observed is None else observed
    return ResidualScale(X, observed, rank, np.random.default_rng(0))


@pytest.mark.parametrize(("shape", "factor"), [((40, 60), 1e-6), ((300, 500), 1.0), ((300, 500), 1e6)])
def test_scale_of_noise_under_outliers(shape, factor):
    rng = np.random.default_rng(8)
    X = rng.standard_normal(shape)
    observed = rng.random(shape) < 0.9
    wrong = rng.random(shape) < 0.4
    X[wrong] = rng.uniform(-50, 50, np.count_nonzero(wrong))
    zero = np.zeros((shape[0], 1)), np.zeros((shape[1], 1))
    scale = scale_of(factor * X, observed=observed).of_residual(*zero)
    # a quarter of all entries is two fifths of the inliers: at most the quantile .42 of |x|, which is .55
    assert 0.9 < scale / factor < 2
    X = rng.standard_normal(shape)
    scale = scale_of(factor * X, observed=observed).of_residual(*zero)
    assert scale / factor == pytest.approx(1, rel=0.15)


def test_scale_counts_the_degrees_of_freedom():
    X = np.random.default_rng(9).standard_normal((50, 50))
    U, Y = truncated_svd(X, 20)
    raw, corrected = (scale_of(X, k) for k in (0, 20))
    spread = np.sqrt(1 - 20 * 80 / 2500)
    assert raw.of_residual(Y.T, U) == pytest.approx(spread * corrected.of_residual(Y.T, U))
    assert corrected.of_residual(Y.T, U) == pytest.approx(1, rel=0.3)


def test_scale_of_data_that_is_mostly_zero():
    X = np.zeros((10, 10))
    assert scale_of(X, 1).of_data() == 0
    np.fill_diagonal(X, 2.0)
    assert scale_of(X, 1).of_data() == pytest.approx(np.sqrt(0.4))


def test_scale_skips_rows_and_columns_of_zeros():
    X = np.random.default_rng(1).standard_normal((60, 80))
    framed = np.zeros((300, 400))
    framed[100:160, 200:280] = X
    inner, outer = scale_of(X, 1), scale_of(framed, 1)
    assert outer.of_data() == inner.of_data()
    A, B = np.zeros((300, 1)), np.zeros((400, 1))
    assert outer.of_residual(A, B) == inner.of_residual(A[:60], B[:80])
