"""NoiseScale: solid regions against a naive twin, and which residuals are learned."""

import numpy as np
import pytest
import reference_scene as reference
from hypothesis import given, settings
from hypothesis import strategies as st

from bgsub.parameters import SegmenterParameters
from bgsub.scene.segmentation import NoiseScale, Segmenter

F = np.float32
H, W = 24, 30
NOTHING = np.zeros((H, W), np.uint8)
OBJECT = np.s_[8:16, 10:22]
GROWN = np.s_[6:18, 8:24]  # by two pixels


def scale_of(shape=(H, W), joint=1.0, bands=1):
    return NoiseScale(shape, joint, bands)


@given(h=st.integers(1, 14), w=st.integers(1, 14), share=st.floats(0.4, 1), seed=st.integers(0, 999))
@settings(max_examples=60, deadline=None)
def test_solid_equals_its_twin(h, w, share, seed):
    over = np.random.default_rng(seed).random((h, w)) < share
    found = scale_of((h, w)).solid(np.where(over, F(0.2), F(0.1)), F(0.15))
    assert found.dtype == np.uint8
    np.testing.assert_array_equal(found, reference.solid(over))


def test_objects_are_solid_and_scatter_is_not():
    rng, d = np.random.default_rng(0), np.zeros((H, W), F)
    d[OBJECT] = 0.3
    expected = NOTHING.copy()
    expected[GROWN] = 1
    np.testing.assert_array_equal(scale_of().solid(d, F(0.08)), expected)
    d[OBJECT] = np.where(rng.random((8, 12)) < 0.5, 0.3, 0)
    assert not scale_of().solid(d, F(0.08)).any()
    d[:] = 0
    d[5:8, 3:27] = d[3:21, 26:29] = 0.3  # twigs
    assert not scale_of().solid(d, F(0.08)).any()


def learned(segmenter, d, known=None, frames=200):
    """Return the noise scale after many frames of a residual, an array or a function."""
    age, x = np.zeros(segmenter.shape, np.uint16), np.zeros((*segmenter.shape, 3), F)
    for _ in range(frames):
        residual = d() if callable(d) else d
        segmenter.candidates(residual)
        segmenter.learn(residual, known, age, x, x)
    return segmenter.noise.sigma


def test_scatter_is_learned_and_solid_regions_are_not():
    rng = np.random.default_rng(1)

    def residual():
        d = F(0.01) * rng.random((H, W), F)
        d[OBJECT] = 0.3
        d[20:, 24:] = np.where(rng.random((4, 6)) < 0.4, 0.3, 0.01)
        return d

    sigma = learned(Segmenter((H, W)), residual)
    assert sigma[OBJECT].max() < 0.02  # from the first median
    assert sigma[20:, 24:].mean() == pytest.approx(0.4 * 0.2 + 0.6 * 0.01, rel=0.1)  # clipped at 0.2
    np.testing.assert_allclose(sigma[:5, :7].mean(), 0.005, rtol=0.2)


def test_known_foreground_is_not_learned():
    rng, known = np.random.default_rng(2), np.zeros((H, W), bool)
    known[:, 15:] = True
    segmenter = Segmenter((H, W))
    segmenter.candidates(np.full((H, W), 0.01, F))
    first = segmenter.noise.sigma.copy()
    sigma = learned(segmenter, lambda: np.where(rng.random((H, W)) < 0.4, F(0.3), F(0.01)), known)
    np.testing.assert_array_equal(sigma[known], first[known])
    assert sigma[~known].mean() > 0.08


def test_early_scale_is_the_mean_of_clipped_residuals():
    rng = np.random.default_rng(3)
    residuals = 0.1 * rng.random((20, H, W)).astype(F)
    scale = scale_of()
    scale.begin(residuals[0])
    for d in residuals:
        scale.learn(d, NOTHING)
    weights = np.ones(21)
    first = float(np.median(residuals[0]))
    expected = np.tensordot(weights / 22, [np.full((H, W), first), *residuals], (0, 0)) + first / 22  # counts twice
    np.testing.assert_allclose(scale.sigma, expected, atol=1e-6)
    before = scale.sigma.copy()
    scale.learn(np.full((H, W), 1.5, F), NOTHING)
    np.testing.assert_allclose(scale.sigma, before + (0.2 - before) / 23, atol=1e-6)


def test_first_residual_sets_its_median_within_bounds():
    rng, scale = np.random.default_rng(4), scale_of(joint=0.5)
    scale.begin(np.zeros((H, W), F))
    assert scale.is_empty
    d = 0.03 * rng.random((H, W)).astype(F)
    for residual in (d, 10 * d):  # only the first one counts
        scale.begin(residual)
        assert not scale.is_empty
        np.testing.assert_array_equal(scale.sigma, np.median(d))
    bright = scale_of(joint=0.5)
    bright.begin(np.full((H, W), 0.4, F))
    np.testing.assert_array_equal(bright.sigma, F(0.05))
    for _ in range(1500):
        scale.learn(np.zeros((H, W), F), NOTHING)
    assert scale.sigma.min() >= 1e-7  # never denormal


def test_bands_and_filters_do_not_influence_the_scale():
    rng = np.random.default_rng(5)
    one, many = scale_of(), scale_of(bands=3)
    for _ in range(5):
        d, kept = rng.random((H, W)).astype(F), (rng.random((H, W)) < 0.5).astype(np.uint8)
        for scale in (one, many):
            scale.begin(d)
            scale.learn(d, kept)
    np.testing.assert_array_equal(one.sigma, many.sigma)
    d = np.where(rng.random((H, W)) < 0.3, F(0.3), F(0.01))
    plain, other = Segmenter((H, W)), Segmenter((H, W), SegmenterParameters(median=1, min_area=0, neighbours=0))
    np.testing.assert_array_equal(learned(plain, d), learned(other, d))


def follow(noise, residuals):
    """Return which frames were learned."""
    learned = []
    for residual in residuals:
        learned.append(not noise.skips_frame)
        if noise.skips_frame:
            noise.skip_frame()
        else:
            noise.learn(np.full((H, W), residual, F), NOTHING)
    return np.array(learned)


def test_half_of_the_later_frames_are_learned_at_the_whole_rate():
    noise, mean = scale_of(), 0.02
    learned = follow(noise, [0.02] * 120)
    assert learned[:45].all()
    assert abs(int(learned[60:].sum()) - 30) <= 1
    assert len({tuple(four) for four in learned[60:].reshape(-1, 4).tolist()}) > 1  # in changing phase
    for frames in (20, 40, 80):
        follow(noise, [0.1] * frames)
        for _ in range(frames):
            mean += 0.02 * (0.1 - mean)
        np.testing.assert_allclose(noise.sigma, mean, atol=0.04 * 0.08)


@pytest.mark.parametrize("phase", [0, 1])
def test_blinking_pixels_are_learned_in_both_phases(phase):
    noise = scale_of()
    follow(noise, [0.1 * ((i + phase) % 2) for i in range(450)])
    np.testing.assert_allclose(noise.sigma, 0.05, atol=0.01)
