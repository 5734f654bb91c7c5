"""Hard matrices with fixed seeds: a rank above the true one on short sides, huge entries, rows to refit."""

import numpy as np
import pytest
from rpca_planted import error, needs_compiler, planted, some

from bgsub import RobustPCA
from bgsub.numerics.surrogates import Surrogate
from bgsub.robust_pca.cost import RobustCost
from bgsub.robust_pca.irls import refit_rows
from bgsub.robust_pca.noise import is_noise


def wrong_lines(model, L, axis):
    """Return how many rows (axis 1) or columns (axis 0) have a relative error above a thousandth."""
    return np.count_nonzero(np.linalg.norm(model.low_rank_ - L, axis=axis) > 1e-3 * np.linalg.norm(L, axis=axis))


@needs_compiler
@pytest.mark.parametrize(
    ("seed", "shape", "rank", "bound", "sigma", "most"),
    [
        (1, (5000, 30), 3, 10, 0.0, 1e-4),
        (1, (30, 5000), 3, 6, 0.05, 0.03),
        (1, (1000, 50), 3, 9, 0.0, 1e-4),
        (0, (100, 100), 3, 9, 0.0, 1e-5),
        (0, (50, 50), 2, 6, 0.0, 1e-5),
    ],
)
def test_rank_above_the_true_one(seed, shape, rank, bound, sigma, most):
    X, L, _ = planted(seed=seed, shape=shape, rank=rank)
    X = X + sigma * np.random.default_rng(2).standard_normal(shape)
    assert error(RobustPCA(bound).fit(X), L) < most


@needs_compiler
@pytest.mark.parametrize(("shape", "axis", "size"), [((60, 20000), 0, 1e3), ((20000, 60), 1, 1e6)])
def test_huge_entries_in_an_elongated_matrix(shape, axis, size):
    rng = np.random.default_rng(0)
    L = rng.standard_normal((shape[0], 5)) @ rng.standard_normal((5, shape[1])) / np.sqrt(5)
    X = np.where(rng.random(shape) < 0.1, size * rng.standard_normal(shape), L)
    assert wrong_lines(RobustPCA(5).fit(X), L, axis) == 0


def test_refit_moves_only_rows_in_a_wrong_minimum():
    X, mask, U, Y = some(40, 12, 3)
    point = np.concatenate([Y.T, U])
    X = np.where(mask, Y.T @ U.T, 0.0)
    X[2, :8] += 50.0
    lost = point.copy()
    lost[2] = 30.0
    lost[12 + 5] = -7.0
    cost = RobustCost(X, mask, Surrogate("log", 1e-6))
    found = refit_rows(cost, lost, np.array([2, 4]), cost.surrogate, 1.0, 0.0)
    np.testing.assert_array_equal(np.delete(found, 2, axis=0), np.delete(lost, 2, axis=0))
    lost[12 + 5] = point[12 + 5]
    np.testing.assert_allclose(refit_rows(cost, lost, np.array([2]), cost.surrogate, 1.0, 0.0)[:12], Y.T, atol=1e-6)
    lost[2], lost[12 + 5] = point[2], -7.0
    np.testing.assert_allclose(refit_rows(cost, lost, np.array([17]), cost.surrogate, 1.0, 0.0), point, atol=1e-4)


@pytest.mark.parametrize("seed", range(3))
def test_sparse_entries_are_noise_and_a_weak_direction_is_not(seed):
    rng = np.random.default_rng(seed)
    E = np.where(rng.random((60, 80)) < 0.1, rng.standard_normal((60, 80)), 0.0)
    E[:5] *= 2
    assert is_noise(E.copy(), rng)
    u, v = rng.standard_normal(60), rng.standard_normal(80)
    weak = E + 1.6 * np.linalg.norm(E, 2) / np.sqrt(60 * 80) * np.outer(u, v)
    assert not is_noise(weak, rng)
