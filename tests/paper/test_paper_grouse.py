"""GROUSE: static and rotating subspaces, complete and incomplete, without outliers."""

import numpy as np
import pytest
from baselines import Grouse
from paper_kit import follow_rotation, largest_sine

from bgsub.errors import ParameterError


@pytest.mark.parametrize(
    ("rule", "step", "observed_share", "bound"),
    [
        ("greedy", None, 1.0, 1e-12),
        ("greedy", None, 0.3, 1e-6),
        ("constant", 0.01, 1.0, 1e-12),
        ("constant", 0.01, 0.3, 1e-3),
        ("diminishing", 1.0, 1.0, 1e-6),
        ("diminishing", 1.0, 0.3, 1e-2),
    ],
)
def test_finds_a_static_subspace(rng, planted, rule, step, observed_share, bound):
    """Without noise all three rules converge; the greedy one from every start (Zhang and Balzano, theorem 1)."""
    tracker = Grouse(3, 100, step, rule=rule, seed=1)
    for _ in range(700):
        observed = None if observed_share == 1 else rng.random(100) < observed_share
        x = np.sqrt(10) * (planted @ rng.standard_normal(3))
        weights, residual = tracker.update(x if observed is None else np.where(observed, x, np.nan), observed)
    assert largest_sine(planted, tracker.U) < bound
    np.testing.assert_allclose(tracker.U.T @ tracker.U, np.eye(3), atol=1e-11)
    assert weights.shape == (3,)
    assert np.linalg.norm(residual) < 10 * bound
    assert observed is None or not residual[~observed].any()


@pytest.mark.parametrize(("rule", "step"), [("greedy", None), ("constant", 0.02)])
@pytest.mark.parametrize("observed_share", [1.0, 0.3])
def test_follows_a_rotating_subspace(rng, planted, rule, step, observed_share):
    def column(B):
        return np.sqrt(10) * (B @ rng.standard_normal(3)), rng.random(100) < observed_share

    follow_rotation(Grouse(3, 100, step, rule=rule, seed=1), rng, planted, column)


def test_a_greedy_step_takes_the_column_in(rng):
    """After a full greedy step the column lies in the subspace."""
    tracker = Grouse(4, 30, seed=2)
    x = rng.standard_normal(30)
    assert np.linalg.norm(tracker.update(x)[1]) > 1
    assert np.linalg.norm(x - tracker.U @ (tracker.U.T @ x)) < 1e-12


def test_refuses_an_unknown_rule():
    with pytest.raises(ParameterError, match="rule must be one of greedy, constant, diminishing, got 'adam'"):
        Grouse(3, 100, rule="adam")
