"""The batch start for tall matrices and the provisional median before it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_tracking import rows_given_coefficients

from bgsub.numerics.surrogates import Surrogate
from bgsub.tracking import _batch_start_kernels
from bgsub.tracking.batch_start import batch_start, orthonormalise

ATAN = Surrogate("atan", 0.05)


def planted_frames(n, m, k, seed, share=0.15):
    """Low-rank frames in [0, 1] as uint8 with blocks of outliers, and the clean ones."""
    rng = np.random.default_rng(seed)
    images = rng.random((k, m))
    weights = np.abs(1 + 0.2 * rng.standard_normal((n, k))) / (k + 1)
    clean = weights @ images
    frames = clean.copy()
    for frame in frames:
        begin = rng.integers(0, m - int(share * m) + 1)
        frame[begin : begin + int(share * m)] = rng.random()
    return (frames * 255).round().astype(np.uint8), clean


@pytest.mark.large
@pytest.mark.parametrize("surrogate", [ATAN, Surrogate("log", 0.0025), Surrogate("lp", 0.00125)], ids=lambda s: s.name)
@pytest.mark.parametrize(("n", "m", "k"), [(50, 4000, 3), (20, 900, 1), (30, 700, 5)])
def test_planted_background_is_recovered(surrogate, n, m, k):
    frames, clean = planted_frames(n, m, k, seed=n)
    U, Y = batch_start(frames, 1 / 255, k, surrogate, np.arange(0, m, 2))
    np.testing.assert_allclose(U @ U.T, np.eye(k), atol=1e-5)
    error = np.linalg.norm(Y @ U - clean) / np.linalg.norm(clean)
    assert error < 0.02


@pytest.mark.large
@pytest.mark.parametrize("k", [1, 3, 4, 5, 15])
def test_the_rows_do_not_depend_on_the_number_of_threads(k):
    rng = np.random.default_rng(k)
    X = rng.integers(0, 255, (22, 5 * _batch_start_kernels.BLOCK + 77), dtype=np.uint8)
    Y = rng.standard_normal((22, k)).astype(np.float32)
    mus = np.geomspace(0.5, 0.05, 4).astype(np.float32)
    fits = np.full((3, k, X.shape[1]), np.nan, np.float32)
    for U, threads in zip(fits, (1, 2, 4), strict=True):
        _batch_start_kernels.fit_rows(X, np.float32(1 / 255), Y, mus, ATAN.code, np.float32(0.5), U, threads)
    np.testing.assert_array_equal(fits[1], fits[0])
    np.testing.assert_array_equal(fits[2], fits[0])


@pytest.mark.parametrize("surrogate", [ATAN, Surrogate("log", 0.0025), Surrogate("lp", 0.00125)], ids=lambda s: s.name)
def test_reweightings_left_out_where_nothing_stands_out_change_next_to_nothing(surrogate):
    rng = np.random.default_rng(7)
    Y = rng.standard_normal((20, 2))
    X = 0.4 + 0.05 * Y @ rng.standard_normal((2, 60)) + 0.006 * rng.standard_normal((20, 60))
    Y = np.column_stack([np.ones(20), Y])
    first = 0.5 if surrogate.name == "atan" else 0.25
    mus = np.geomspace(first, surrogate.mu, 6)
    U = np.empty((3, 60), np.float32)
    _batch_start_kernels.fit_rows(
        X, np.float32(1), Y.astype(np.float32), mus.astype(np.float32), surrogate.code, np.float32(surrogate.p), U
    )
    expected = rows_given_coefficients(X, Y, mus, surrogate.name, surrogate.p)
    np.testing.assert_allclose(Y @ U, Y @ expected, atol=0.5 / 255)
    assert np.sqrt(np.mean((Y @ (U - expected)) ** 2)) < 0.05 / 255


def test_an_all_black_start_gives_some_orthonormal_basis():
    U, Y = batch_start(np.zeros((5, 40), np.uint8), 1 / 255, 3, ATAN, np.arange(40))
    np.testing.assert_allclose(U @ U.T, np.eye(3), atol=1e-5)
    np.testing.assert_allclose(Y @ U, 0, atol=1e-5)


def test_a_still_start_is_one_direction_and_any_others():
    image = np.random.default_rng(3).integers(0, 255, 500, dtype=np.uint8)
    U, Y = batch_start(np.tile(image, (10, 1)), 1 / 255, 3, ATAN, np.arange(500))
    np.testing.assert_allclose(U @ U.T, np.eye(3), atol=1e-4)
    np.testing.assert_allclose(Y @ U, np.tile(image / 255, (10, 1)), atol=5e-3)


@given(k=st.integers(1, 5), n=st.integers(5, 9), m=st.integers(10, 60), seed=st.integers(0, 99), data=st.data())
@settings(max_examples=25, deadline=None)
def test_orthonormalise_keeps_the_product(k, n, m, seed, data):
    rng = np.random.default_rng(seed)
    rank = data.draw(st.integers(0, k))
    U = (rng.standard_normal((k, rank)) @ rng.standard_normal((rank, m))).astype(np.float32)
    Y = rng.standard_normal((n, k))
    V, Z = orthonormalise(U, Y, k + 1)
    np.testing.assert_allclose(V @ V.T, np.eye(k + 1), atol=1e-5)
    np.testing.assert_allclose(Z @ V, Y @ U, atol=1e-3)
