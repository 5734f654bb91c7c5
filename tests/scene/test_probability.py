"""The foreground probability of a frame."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bgsub import BackgroundSubtractor, Separation
from bgsub.scene.frame_result import ForegroundProbability
from bgsub.separation import FOREGROUND
from bgsub.synthetic import scene


def naive(residual, sigma, threshold, factor, side):
    """Return the mean count of the residuals over a square; border pixels are replicated."""
    h, w = residual.shape
    limit = np.hypot(np.float64(threshold), np.float64(factor) * sigma)
    counts = 1 - 1 / (1 + (residual / limit) ** 2)
    padded = np.pad(counts, side // 2, mode="edge")
    return np.array([[padded[i : i + side, j : j + side].mean() for j in range(w)] for i in range(h)])


def vote_on(residual, sigma, side=5, threshold=0.08, factor=2.5):
    return ForegroundProbability(residual, sigma, np.float32(threshold), np.float32(factor), side)


@settings(max_examples=60)
@given(st.integers(1, 9), st.integers(1, 9), st.sampled_from([1, 3, 5, 7]), st.integers(0, 2**31))
def test_map_equals_its_twin(height, width, side, seed):
    rng = np.random.default_rng(seed)
    residual, sigma = (rng.exponential(0.1, (2, height, width))).astype(np.float32)
    np.testing.assert_allclose(
        vote_on(residual, sigma, side)(), naive(residual, sigma, np.float32(0.08), 2.5, side), atol=1e-6
    )


@settings(max_examples=40)
@given(st.integers(1, 12), st.integers(1, 12), st.integers(0, 2**31))
def test_mask_decides_the_side(height, width, seed):
    rng, calls = np.random.default_rng(seed), []
    mask = rng.choice(np.array([0, 127, 255], np.uint8), (height, width))
    vote = rng.choice(np.float32([0, 0.2, 0.5, 0.50001, 0.9, 1]), (height, width))
    lazy = lambda: calls.append(1) or vote  # noqa: E731
    separation = Separation(mask, mask, mask, vote, np.empty(0), "tracking", soft_vote=lazy)
    assert not calls
    probability, foreground = separation.probability, mask == FOREGROUND
    assert separation.probability is probability
    assert len(calls) == 1
    assert (probability.dtype, probability.shape) == (np.float32, mask.shape)
    np.testing.assert_array_equal(probability > 0.5, foreground)
    kept = foreground == (vote > 0.5)
    np.testing.assert_array_equal(probability[kept], vote[kept])
    assert np.abs(probability[~kept] - 0.5).max(initial=0) < 1e-6


@pytest.mark.large
@pytest.mark.parametrize(
    ("options", "shake"), [({"scale": 0.5}, 2.0), ({"median": 1}, 0), ({"shadows": "merged", "min_area": 0.01}, 4.0)]
)
def test_stream(options, shake):
    subtractor = BackgroundSubtractor(start_frames=15, **options)
    frames = list(
        scene("lobby", size=(320, 240), length=40, seed=5, shake=shake, lamps=False, walkers=8, empty_start=0)
    )
    results = [subtractor.process(frame) for frame, _ in frames]  # maps are made after the last frame
    right, wrong = [], []
    for result, (_, truth) in zip(results[20:], frames[20:], strict=True):
        probability, foreground = result.probability, result.mask == FOREGROUND
        assert (probability.shape, probability.dtype) == (result.mask.shape, np.float32)
        assert probability.min() >= 0
        assert probability.max() <= 1
        np.testing.assert_array_equal(probability > 0.5, foreground)
        right.append(probability[foreground & (truth == FOREGROUND)])
        wrong.append(probability[foreground & (truth == 0)])
    assert np.concatenate(right).mean() > np.concatenate(wrong).mean() + 0.05
