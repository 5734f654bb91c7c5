"""GRASTA: the l1 fit, the tracker, and the batch method made of several passes."""

import numpy as np
import pytest
from baselines import Grasta, grasta
from baselines.grasta import l1_fit
from paper_kit import error, follow_rotation, largest_sine
from scipy.optimize import linprog

from bgsub.errors import ParameterError
from bgsub.synthetic import low_rank_plus_sparse


def corrupted(rng, B, share):
    x = np.sqrt(B.shape[0]) * (B @ rng.standard_normal(B.shape[1]))
    return x + np.where(rng.random(x.size) < share, rng.uniform(-5, 5, x.size), 0.0)


def test_l1_fit_is_the_linear_programme(rng, planted):
    """With slow growth of the penalty ADMM ends at the minimum that a simplex method finds."""
    x = corrupted(rng, planted, 0.2) + 0.05 * rng.standard_normal(100)
    weights, sparse, dual = l1_fit(planted, planted.T, x, 1.02, 600, 1e-9)
    identity = np.eye(100)
    constraints = np.hstack([planted, identity, -identity])
    free = [(None, None)] * 3 + [(0, None)] * 200
    programme = linprog(np.r_[np.zeros(3), np.ones(200)], A_eq=constraints, b_eq=x, bounds=free)
    assert np.abs(sparse).sum() == pytest.approx(programme.fun, rel=1e-4)
    np.testing.assert_allclose(planted @ weights + sparse, x, atol=1e-5)
    assert np.abs(dual).max() <= 1


@pytest.mark.parametrize(("observed_share", "columns"), [(1.0, 800), (0.4, 1500)])
def test_finds_a_static_subspace(rng, planted, observed_share, columns):
    """Section on robust subspace identification: a tenth of outliers, complete and incomplete."""
    tracker = Grasta(3, 100, seed=1)
    for _ in range(columns):
        observed = None if observed_share == 1 else rng.random(100) < observed_share
        x = corrupted(rng, planted, 0.1)
        weights, sparse = tracker.update(x if observed is None else np.where(observed, x, np.nan), observed)
    assert largest_sine(planted, tracker.U) < 1e-4
    np.testing.assert_allclose(tracker.U.T @ tracker.U, np.eye(3), atol=1e-12)
    assert weights.shape == (3,)
    assert sparse.shape == (100,)
    if observed is not None:
        assert not sparse[~observed].any()
    assert tracker.level > 5


@pytest.mark.parametrize("settings", [{}, {"constant_step": 0.02, "admm_iterations": (20, 20)}])
def test_follows_a_rotating_subspace(rng, planted, settings):
    follow_rotation(Grasta(3, 100, seed=1, **settings), rng, planted, lambda B: [corrupted(rng, B, 0.1)])


@pytest.mark.parametrize(("shape", "observed_share"), [((90, 200), 1.0), ((200, 160), 1.0), ((90, 300), 0.6)])
def test_batch_recovers_both_parts(shape, observed_share):
    X, L, S, observed = low_rank_plus_sparse(*shape, 3, 0.1, seed=1, observed_share=observed_share)
    mask = None if observed_share == 1 else observed
    found = grasta(X if mask is None else np.where(mask, X, np.nan), 3, mask)
    assert error(found.low_rank, L) < 1e-3
    assert error(found.sparse[observed], S[observed]) < 1e-3
    assert mask is None or not found.sparse[~mask].any()
    assert found.iterations % shape[1] == 0
    assert found.iterations <= 10 * shape[1]


def test_refuses_what_does_not_fit():
    with pytest.raises(ParameterError, match=r"rank must be from 1 to min\(m, n\) = 6, got 0"):
        grasta(np.eye(6), 0)
