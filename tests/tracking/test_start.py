"""The batch start for tall matrices, and the cross-validation of its directions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bgsub.numerics.surrogates import Surrogate
from bgsub.tracking.batch_start import BLOCK, batch_start, fit_rows, orthonormalise, passes_cross_validation, result_of

ATAN, LOG, LP = Surrogate("atan", 0.05), Surrogate("log", 0.0025), Surrogate("lp", 0.00125)


@pytest.mark.large
@pytest.mark.parametrize(("surrogate", "n", "m", "k"), [(ATAN, 50, 4000, 3), (LOG, 20, 900, 1), (LP, 30, 700, 5)])
def test_planted_background_is_recovered(surrogate, n, m, k):
    rng, length = np.random.default_rng(n), int(0.15 * m)
    images = rng.random((k, m))
    clean = np.abs(1 + 0.2 * rng.standard_normal((n, k))) / (k + 1) @ images
    frames = clean.copy()
    for frame in frames:  # blocks of outliers
        begin = rng.integers(0, m - length + 1)
        frame[begin : begin + length] = rng.random()
    U, Y = batch_start((frames * 255).round().astype(np.uint8), 1 / 255, k, surrogate, np.arange(0, m, 2))
    np.testing.assert_allclose(U @ U.T, np.eye(k), atol=1e-5)
    error = np.linalg.norm(Y @ U - clean) / np.linalg.norm(clean)
    assert error < 0.02


@pytest.mark.large
@pytest.mark.parametrize("k", [1, 4, 15])
def test_the_rows_do_not_depend_on_the_number_of_threads(k):
    rng = np.random.default_rng(k)
    X = rng.integers(0, 255, (22, 5 * BLOCK + 77), dtype=np.uint8)
    Y = rng.standard_normal((22, k)).astype(np.float32)
    mus = np.geomspace(0.5, 0.05, 4).astype(np.float32)
    fits = np.full((3, k, X.shape[1]), np.nan, np.float32)
    for U, threads in zip(fits, (1, 2, 4), strict=True):
        fit_rows(X, np.float32(1 / 255), Y, ATAN, mus, U, threads)
    np.testing.assert_array_equal(fits[1], fits[0])
    np.testing.assert_array_equal(fits[2], fits[0])


@pytest.mark.parametrize("brightness", [0, 1])
def test_a_still_or_black_start_gives_an_orthonormal_basis(brightness):
    image = brightness * np.random.default_rng(3).integers(0, 255, 500, dtype=np.uint8)
    U, Y = batch_start(np.tile(image, (10, 1)), 1 / 255, 3, ATAN, np.arange(500))
    np.testing.assert_allclose(U @ U.T, np.eye(3), atol=1e-4)
    np.testing.assert_allclose(Y @ U, np.tile(image / 255, (10, 1)), atol=5e-3)


@given(k=st.integers(1, 5), n=st.integers(5, 9), m=st.integers(10, 60), seed=st.integers(0, 99), data=st.data())
def test_orthonormalise_keeps_the_product(k, n, m, seed, data):
    rng = np.random.default_rng(seed)
    rank = data.draw(st.integers(0, k))
    U = (rng.standard_normal((k, rank)) @ rng.standard_normal((rank, m))).astype(np.float32)
    Y = rng.standard_normal((n, k))
    V = np.vstack([U, np.full((1, m), np.nan, np.float32)])
    Z = result_of(orthonormalise(V, Y))
    np.testing.assert_allclose(V @ V.T, np.eye(k + 1), atol=1e-5)
    np.testing.assert_allclose(Z @ V, Y @ U, atol=1e-3)


H, W, FRAMES = 30, 40, 40
BACKGROUND = np.random.default_rng(8).uniform(60, 180, (H, W))


def filmed(pictures, noise=2.0):
    """Noisy pictures, one per row."""
    rng = np.random.default_rng(9)
    frames = np.array(pictures) + noise * rng.standard_normal((len(pictures), H, W))
    return frames.clip(0, 255).round().astype(np.uint8).reshape(len(pictures), -1)


def with_object(left):
    """The background with an object at a column, or without one for None."""
    picture = BACKGROUND.copy()
    if left is not None:
        picture[8:24, max(left, 0) : max(left + 12, 0)] = 230
    return picture


def swayed(t):
    """The background with the left half shifted by t pixels."""
    return np.where(np.arange(W) < 20, (1 - t) * BACKGROUND + t * np.roll(BACKGROUND, 1, axis=1), BACKGROUND)


def times(function, *values):
    return [function(values[i % len(values)]) for i in range(FRAMES)]


PASSING = {
    "a swaying tree": [swayed(0.5 + 0.5 * np.sin(1.3 * i)) for i in range(FRAMES)],
    "a flickering lamp": times(lambda g: np.where(np.arange(W) < 20, 1, g) * BACKGROUND, 1.0, 1.0, 0.8, 1.0, 0.8),
    "an object that comes and goes": times(with_object, 14, 14, 14, None, None),
}
FAILING = {
    "noise": times(with_object, None),
    "a passing object": [with_object(i - 6) for i in range(FRAMES)],
    "an object that comes": [with_object(None if i < 30 else 14) for i in range(FRAMES)],
    "an object in the first half": [with_object(14 if i < 16 else None) for i in range(FRAMES)],
    "an object in the second half": [with_object(14 if 22 < i < 36 else None) for i in range(FRAMES)],
    "an object in the first frame": [with_object(None if i else 14) for i in range(FRAMES)],
}


def passes(frames, rank):
    return passes_cross_validation(frames, 1 / 255, rank, ATAN, np.arange(frames.shape[1]))


@pytest.mark.large
@pytest.mark.slow
@pytest.mark.parametrize("name", [*PASSING, *FAILING])
def test_directions_of_recurring_changes_pass(name):
    pictures, rank = PASSING.get(name) or FAILING[name], 2 + len(name) % 2
    assert passes(filmed(pictures), rank) == (name in PASSING)


@pytest.mark.large
@pytest.mark.slow
def test_exactly_still_frames_and_a_single_direction_do_not_pass():
    still = filmed(times(with_object, None), noise=0)
    once = filmed(FAILING["an object in the first frame"], noise=0)
    assert not any(passes(frames, rank) for frames in (still, once, np.zeros_like(still)) for rank in (2, 3))
    assert not passes(filmed(PASSING["a swaying tree"]), 1)


@pytest.mark.parametrize(("frames", "entries", "rank"), [(4, 1200, 3), (11, 1200, 3), (40, 1, 2), (40, 20, 3)])
def test_too_little_data_passes(frames, entries, rank):
    assert passes(filmed(FAILING["noise"])[:frames, :entries], rank)
