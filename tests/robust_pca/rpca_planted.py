"""Planted matrices for the tests of robust PCA, small ones where nothing is compiled."""

import numpy as np
import pytest
from numba import config

from bgsub.robust_pca.parameters import SCHEDULES
from bgsub.synthetic import low_rank_plus_sparse

# Without the compiler every entry costs microseconds: small matrices then, and no bound that needs large ones.
COMPILED = not config.DISABLE_JIT
SIZE = 100 if COMPILED else 24
RANK = 4 if COMPILED else 2
SURROGATES = ("log", "lp", "atan")
GRADUATED = tuple(SCHEDULES)
needs_compiler = pytest.mark.skipif(not COMPILED, reason="hundreds of passes over a matrix in plain Python")


def planted(seed=0, share=0.1, observed=1.0, shape=(SIZE, SIZE), rank=RANK):
    X, L, _, mask = low_rank_plus_sparse(*shape, rank, share, seed=seed, observed_share=observed)
    return X, L, mask


def error(model, L):
    return np.linalg.norm(model.low_rank_ - L) / np.linalg.norm(L)


def some(m, n, seed, k=3, dtype=np.float64):
    """Return samples, a mask, a basis and coefficients, all random."""
    rng = np.random.default_rng(seed)
    k = min(m, n, k)
    X, mask = rng.standard_normal((n, m)).astype(dtype), rng.random((n, m)) < 0.8
    U, Y = np.linalg.qr(rng.standard_normal((m, k)))[0], rng.standard_normal((k, n))
    return X, mask, U.astype(dtype), Y.astype(dtype)
