"""SpaRCS with the true rank and cardinality, complete and incomplete."""

import numpy as np
import pytest
from baselines import sparcs
from baselines.sparcs import _conjugate_gradients, _largest
from paper_kit import error

from bgsub.errors import ParameterError
from bgsub.synthetic import low_rank_plus_sparse


@pytest.mark.parametrize(("shape", "selection"), [((120, 120), 1), ((90, 150), 2), ((150, 90), 1)])
def test_recovers_both_parts(shape, selection):
    """Robust PCA of the paper: the identity as the operator; the default tolerance is 5e-4."""
    X, L, S, _ = low_rank_plus_sparse(*shape, 4, 0.05, seed=1)
    count = np.count_nonzero(S)
    found = sparcs(X, 4, count, selection=selection)
    assert error(found.low_rank, L) < 3e-3
    assert error(found.sparse, S) < 3e-3
    assert np.count_nonzero(found.sparse) <= count
    assert np.linalg.matrix_rank(found.low_rank) == 4
    assert found.iterations < 35


def test_converges_to_the_tolerance():
    """The paper shows exponential convergence: six more digits take a few times the iterations."""
    X, L, S, _ = low_rank_plus_sparse(120, 100, 4, 0.05, seed=2)
    found = sparcs(X, 4, np.count_nonzero(S), tolerance=1e-10)
    assert error(found.low_rank, L) < 1e-9
    assert np.linalg.norm(X - found.low_rank - found.sparse) <= 1e-10 * np.linalg.norm(X)


@pytest.mark.parametrize("shape", [(130, 150), (150, 130)])
def test_recovers_from_some_entries(shape):
    """Robust matrix completion of the paper: the operator keeps some entries; hidden ones are not read."""
    X, L, S, observed = low_rank_plus_sparse(*shape, 3, 0.05, seed=3, observed_share=0.6)
    hidden = np.where(observed, X, np.nan)
    found = sparcs(hidden, 3, np.count_nonzero(S[observed]), observed=observed, tolerance=1e-6, max_iterations=100)
    assert error(found.low_rank, L) < 1e-4
    assert error(found.sparse[observed], S[observed]) < 1e-4
    assert not found.sparse[~observed].any()


def test_refuses_what_does_not_fit():
    X = np.eye(6)
    with pytest.raises(ParameterError, match=r"rank must be from 1 to min\(m, n\) = 6, got 7"):
        sparcs(X, 7, 3)
    with pytest.raises(ParameterError, match="cardinality must be from 0 to m n = 36, got 37"):
        sparcs(X, 2, 37)


def test_conjugate_gradients_and_largest():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((20, 8))
    b = rng.standard_normal(8)
    x = _conjugate_gradients(lambda v: A.T @ (A @ v), b, tolerance=1e-12)
    np.testing.assert_allclose(A.T @ A @ x, b, atol=1e-9)
    assert sorted(_largest(np.array([[1.0, -5.0], [3.0, -2.0]]), 2)) == [1, 2]
    assert _largest(np.ones((2, 2)), 0).size == 0
