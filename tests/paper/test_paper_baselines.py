"""Properties of every batch method of the baselines."""

from functools import partial

import numpy as np
import pytest
from baselines import accaltproj, ealm, godec, ialm, sparcs

from bgsub.synthetic import low_rank_plus_sparse

METHODS = {
    "IALM": ialm,
    "EALM": ealm,
    "GoDec": partial(godec, rank=2, cardinality=30),
    "AccAltProj": partial(accaltproj, rank=2),
    "SpaRCS": partial(sparcs, rank=2, cardinality=30),
}
pytestmark = pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)


def test_callback_stops(method):
    X, calls = low_rank_plus_sparse(60, 50, 2, 0.05, seed=4)[0], []
    found = method(X, callback=lambda low_rank: calls.append(low_rank.copy()) or len(calls) == 2)
    assert len(calls) == 2
    assert found.iterations == (1 if method is ealm else 2)  # of its steps only the outer ones count
    np.testing.assert_array_equal(found.low_rank, calls[-1])


def test_zero_matrix_and_unchanged_data(method):
    found = method(np.zeros((7, 5)))
    assert not found.low_rank.any()
    assert not found.sparse.any()
    X = low_rank_plus_sparse(40, 30, 2, 0.05, seed=5)[0]
    before = X.copy()
    method(X)
    np.testing.assert_array_equal(X, before)
