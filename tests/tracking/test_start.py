"""The batch start for tall matrices, and whether its directions are earned."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_tracking import rows_given_coefficients

from bgsub.numerics.surrogates import Surrogate
from bgsub.tracking import batch_start as row_fit
from bgsub.tracking.batch_start import batch_start, orthonormalise, passes_cross_validation

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
    X = rng.integers(0, 255, (22, 5 * row_fit.BLOCK + 77), dtype=np.uint8)
    Y = rng.standard_normal((22, k)).astype(np.float32)
    mus = np.geomspace(0.5, 0.05, 4).astype(np.float32)
    fits = np.full((3, k, X.shape[1]), np.nan, np.float32)
    for U, threads in zip(fits, (1, 2, 4), strict=True):
        row_fit.fit_rows(X, np.float32(1 / 255), Y, ATAN, mus, U, threads)
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
    row_fit.fit_rows(X, np.float32(1), Y.astype(np.float32), surrogate, mus.astype(np.float32), U)
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


# ---- earned directions -------------------------------------------------------------------------------------------

H, W, FRAMES = 30, 40, 40
BACKGROUND = np.random.default_rng(8).uniform(60, 180, (H, W))


def filmed(pictures, noise=2.0):
    """Pictures as a camera shows them, one per row."""
    rng = np.random.default_rng(9)
    frames = np.array(pictures) + noise * rng.standard_normal((len(pictures), H, W))
    return frames.clip(0, 255).round().astype(np.uint8).reshape(len(pictures), -1)


def with_object(left):
    """The background with an object from a column on; without one where that is None."""
    picture = BACKGROUND.copy()
    if left is not None:
        picture[8:24, max(left, 0) : max(left + 12, 0)] = 230
    return picture


def swayed(t):
    """The background, the left half of which is branches that are bent by t pixels."""
    return np.where(np.arange(W) < 20, (1 - t) * BACKGROUND + t * np.roll(BACKGROUND, 1, axis=1), BACKGROUND)


def lit(gain):
    """The background, the right half of which is under another lamp."""
    return np.where(np.arange(W) < 20, 1, gain) * BACKGROUND


def times(function, *values):
    return [function(values[i % len(values)]) for i in range(FRAMES)]


EARNED = {
    "a tree that sways": [swayed(0.5 + 0.5 * np.sin(1.3 * i)) for i in range(FRAMES)],
    "a lamp that flickers": times(lit, 1.0, 1.0, 0.8, 1.0, 0.8),
    "a thing that comes and goes": times(with_object, 14, 14, 14, None, None),
}
NOT_EARNED = {
    "noise": times(with_object, None),
    "an object that passes": [with_object(i - 6) for i in range(FRAMES)],
    "one that comes": [with_object(None if i < 30 else 14) for i in range(FRAMES)],
    "one that stands in the first half": [with_object(14 if i < 16 else None) for i in range(FRAMES)],
    "one that stands in the second half": [with_object(14 if 22 < i < 36 else None) for i in range(FRAMES)],
    "one in the first frame": [with_object(None if i else 14) for i in range(FRAMES)],
}


def earned(frames, rank, scale=1 / 255):
    return passes_cross_validation(frames, scale, rank, ATAN, np.arange(frames.shape[1]))


@pytest.mark.large
@pytest.mark.parametrize("rank", [2, 3])
@pytest.mark.parametrize("name", [*EARNED, *NOT_EARNED])
def test_directions_are_earned_by_what_comes_back(name, rank):
    pictures = EARNED.get(name) or NOT_EARNED[name]
    assert earned(filmed(pictures), rank) == (name in EARNED)
    assert earned(filmed(pictures).astype(np.float32) / 255, rank, 1.0) == (name in EARNED)


@pytest.mark.large
def test_exactly_still_frames_earn_nothing():
    """Costs are zero, or the rounding of it, with directions and without them."""
    still = filmed(times(with_object, None), noise=0)
    once = filmed(NOT_EARNED["one in the first frame"], noise=0)
    assert not any(earned(frames, rank) for frames in (still, once, np.zeros_like(still)) for rank in (2, 3))


def test_one_direction_is_the_background_and_earns_nothing():
    assert not earned(filmed(EARNED["a tree that sways"]), 1)


@pytest.mark.parametrize(("frames", "entries", "rank"), [(4, 1200, 3), (11, 1200, 3), (40, 1, 2), (40, 20, 3)])
def test_where_there_is_too_little_to_find_out_frames_are_kept_as_they_are(frames, entries, rank):
    assert earned(filmed(NOT_EARNED["noise"])[:frames, :entries], rank)
