"""Principal component pursuit by the two augmented Lagrange multiplier methods, and the thresholding they share."""

import numpy as np
import pytest
from baselines import ealm, ialm
from baselines._alm import SingularValueShrinkage
from paper_kit import error

from bgsub.errors import ParameterError
from bgsub.synthetic import low_rank_plus_sparse

METHODS = pytest.mark.parametrize("method", [ialm, ealm])


@METHODS
@pytest.mark.parametrize("shape", [(120, 120), (90, 150), (150, 90)])
def test_recovers_both_parts_exactly(method, shape):
    """Candes et al. 2011: PCP with lambda = 1/sqrt(max(m, n)) is exact; Lin et al. report about 1e-6 at tol 1e-7."""
    X, L, S, _ = low_rank_plus_sparse(*shape, 4, 0.05, seed=1)
    found = method(X)
    assert error(found.low_rank, L) < 1e-6
    assert error(found.sparse, S) < 1e-5
    assert np.linalg.norm(X - found.low_rank - found.sparse) < 1e-7 * np.linalg.norm(X)
    assert np.linalg.matrix_rank(found.low_rank, tol=1e-6 * np.linalg.norm(X, 2)) == 4


@pytest.mark.parametrize(
    ("method", "rank", "share"), [(ialm, 4, 0.05), (ialm, 12, 0.1), (ialm, 40, 0.3), (ealm, 4, 0.05), (ealm, 8, 0.05)]
)
def test_warm_start_gives_what_full_svds_give(method, rank, share):
    X, L, _, _ = low_rank_plus_sparse(130, 110, rank, share, seed=2)
    fast, full = method(X), method(X, exact_svd=True)
    assert abs(fast.iterations - full.iterations) <= 1
    difference = np.linalg.norm(fast.low_rank - full.low_rank) / np.linalg.norm(L)
    assert difference < 0.3 * max(error(full.low_rank, L), 1e-6)


def test_methods_agree_on_the_minimiser():
    X = low_rank_plus_sparse(80, 60, 3, 0.05, seed=3)[0]
    assert error(ialm(X).low_rank, ealm(X).low_rank) < 1e-6
    weighted = [np.linalg.norm(method(X, lam=10.0).sparse) for method in (ialm, ealm)]
    assert max(weighted) < 1e-5 * np.linalg.norm(X)  # outliers so dear that L takes everything


@METHODS
@pytest.mark.parametrize("X", [np.zeros(4), np.zeros((0, 3)), np.full((3, 3), np.nan)])
def test_bad_data(method, X):
    with pytest.raises(ParameterError, match="X must be"):
        method(X)


@pytest.mark.parametrize(("shape", "rank"), [((150, 120), 5), ((120, 150), 20), ((60, 90), 50)])
def test_thresholding_against_full_svd(shape, rank):
    """Few, more than predicted and nearly all singular values above the threshold; decayed by 1e4."""
    rng = np.random.default_rng(0)
    U, s, Vt = np.linalg.svd(rng.standard_normal(shape), full_matrices=False)
    s = np.where(np.arange(len(s)) < rank, np.geomspace(1e4, 1, len(s)), 0.1)
    M = U * s @ Vt
    threshold = s[rank - 1] / 2
    expected = U * np.maximum(s - threshold, 0) @ Vt
    out = np.empty_like(M)
    shrink = SingularValueShrinkage(shape, predicted=3)
    for _ in range(2):  # the second call starts warm
        assert shrink(M, threshold, 1e-9 * s[0], out) == np.count_nonzero(s > threshold)
        assert np.linalg.norm(out - expected) < 1e-8 * s[0]
