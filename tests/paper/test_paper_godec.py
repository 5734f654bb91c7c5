"""GoDec with the true rank and cardinality."""

import numpy as np
import pytest
from baselines import godec
from paper_kit import error

from bgsub.errors import ParameterError
from bgsub.synthetic import low_rank_plus_sparse


@pytest.mark.parametrize("shape", [(120, 120), (90, 150), (150, 90)])
def test_recovers_both_parts(shape):
    """The paper proves linear convergence to a local minimum; planted parts this small are recovered."""
    X, L, S, _ = low_rank_plus_sparse(*shape, 4, 0.05, seed=1)
    count = np.count_nonzero(S)
    found = godec(X, 4, count)
    assert error(found.low_rank, L) < 1e-6
    assert error(found.sparse, S) < 1e-6
    assert np.count_nonzero(found.sparse) <= count
    assert np.linalg.matrix_rank(found.low_rank) <= 4


def test_residual_never_grows():
    """Alternating projections: theorem 1 of the paper, up to the error of the random projection."""
    X, _, S, _ = low_rank_plus_sparse(80, 60, 5, 0.2, seed=2)
    count = np.count_nonzero(S)

    def residual(low_rank):
        smallest = np.sort(np.abs(X - low_rank), axis=None)[: X.size - count]
        residuals.append(np.linalg.norm(smallest))

    residuals = []
    godec(X, 5, count, power=10, max_iterations=25, callback=residual)
    assert len(residuals) == 25
    assert np.all(np.diff(residuals) < 1e-3 * residuals[0])
    assert residuals[-1] < 0.5 * residuals[0]


@pytest.mark.parametrize(
    ("rank", "cardinality", "power", "name"),
    [(0, 1, 0, "rank"), (5, 1, 0, "rank"), (1, -1, 0, "cardinality"), (1, 21, 0, "cardinality"), (1, 1, -1, "power")],
)
def test_bad_parameters(rank, cardinality, power, name):
    with pytest.raises(ParameterError, match=name):
        godec(np.ones((5, 4)), rank, cardinality, power=power)
