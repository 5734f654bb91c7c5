"""The noise scale: solid regions against a naive twin, and which residuals are learned."""

import numpy as np
import pytest
import reference_scene as reference
from hypothesis import given, settings
from hypothesis import strategies as st

from bgsub.scene import _segment_kernels
from bgsub.scene._frame_kernels import LearnParams
from bgsub.scene.engine import SweepEngine
from bgsub.scene.frame_format import FrameFormat
from bgsub.scene.segmentation import NoiseScale, SceneLook, Segmenter

F = np.float32
H, W = 24, 30
OBJECT = np.s_[8:16, 10:22]


@given(h=st.integers(1, 14), w=st.integers(1, 14), share=st.floats(0.4, 1), seed=st.integers(0, 999))
@settings(max_examples=60)
def test_solid_equals_its_twin(h, w, share, seed):
    strong = (np.random.default_rng(seed).random((h, w)) < share).astype(np.uint8)
    solid = np.full((h, w), 9, np.uint8)
    _segment_kernels.find_solid(strong, reference.filled(strong), np.empty((2, w + 10), np.uint8), solid)
    np.testing.assert_array_equal(solid, reference.solid(strong))


class Learner:
    """A segmenter and an engine that learn from residuals on a black background."""

    def __init__(self):
        form = FrameFormat.of(np.zeros((H, W, 3), F))
        self.segmenter = Segmenter((H, W))
        self.noise = self.segmenter.noise
        self.engine = SweepEngine(form, 1, 1, self.noise.sigma)
        self.engine.set_limits(*self.segmenter.limits)

    def see(self, d):
        """Learn from a residual, (h, w)."""
        x = np.repeat(d[..., np.newaxis] / np.sqrt(F(3)), 3, axis=2).astype(F)
        self.engine.begin(x)
        self.engine.compare()
        if self.noise.is_empty:
            self.noise.begin(self.engine.residual())
        strong = self.engine.strong, self.engine.filled
        skip = self.segmenter.unlearned(*strong, None, np.zeros((H, W), np.uint16), x, self.engine.picture, 0.04)
        learn = LearnParams(*self.noise.rates(1))
        self.engine.learn(skip, learn, (1, 0))


def test_scatter_is_learned_and_solid_regions_are_not():
    rng, learner = np.random.default_rng(1), Learner()
    for _ in range(200):
        d = F(0.01) * rng.random((H, W), F)
        d[OBJECT] = 0.3
        d[20:, 24:] = np.where(rng.random((4, 6)) < 0.4, 0.3, 0.01)
        learner.see(d)
    sigma = learner.noise.sigma
    assert sigma[OBJECT].max() < 0.02  # from the first median
    assert sigma[20:, 24:].mean() == pytest.approx(0.4 * 0.2 + 0.6 * 0.01, rel=0.1)  # clipped at 0.2
    np.testing.assert_allclose(sigma[:5, :7].mean(), 0.005, rtol=0.2)


def test_early_scale_is_the_mean_of_clipped_residuals():
    rng, learner = np.random.default_rng(3), Learner()
    residuals = 0.079 * rng.random((20, H, W)).astype(F)
    for d in residuals:
        learner.see(d)
    first = float(np.median(residuals[0]))
    expected = np.tensordot(np.ones(21) / 22, [np.full((H, W), first), *residuals], (0, 0)) + first / 22  # counts twice
    np.testing.assert_allclose(learner.noise.sigma, expected, atol=1e-6)


def test_the_first_change_of_pictures_without_noise_is_an_object():
    for still, limit in ((5, 0.04), (60, 1e-5)):
        learner = Learner()
        for _ in range(still):
            learner.see(np.zeros((H, W), F))
        learner.noise.begin(np.full((H, W), 0.04, F))
        assert learner.noise.sigma.max() == pytest.approx(limit, rel=0.1, abs=1e-5)
        assert not learner.noise.is_empty


def test_rate_is_in_proportion_to_the_period():
    noise = NoiseScale((H, W), 1.0)
    rates = [float(noise.rates(1)[0]) for _ in range(60)]
    np.testing.assert_allclose(rates[:3], [1 / 3, 1 / 4, 1 / 5], rtol=1e-6)
    assert rates[-1] == pytest.approx(0.02)
    assert float(noise.rates(3)[0]) == pytest.approx(0.06)
    assert float(NoiseScale((H, W), 1.7).rates(1)[1]) == pytest.approx(1.7 * 0.2)  # the clip of a joint residual
    segmenter = Segmenter((H, W))
    segmenter.set_scene(SceneLook(exposure=0.3))
    clip = float(segmenter.noise.rates(1)[1])
    segmenter.noise.begin(np.full((H, W), 0.5, F))
    assert float(segmenter.noise.sigma[0, 0]) == pytest.approx(clip / 2)  # both follow the exposure
    segmenter.set_scene(SceneLook())
    assert clip == pytest.approx(0.3 * float(segmenter.noise.rates(1)[1]))


def test_samples_are_learned_from_half_of_the_later_frames():
    noise, even = NoiseScale((H, W), 1.0), []
    for _ in range(120):
        even.append(noise.is_even)
        noise.rates(1)
    assert all(even[:45])
    later = np.array(even[60:])
    assert abs(int(later.sum()) - 30) <= 1
    assert len({tuple(four) for four in later.reshape(-1, 4).tolist()}) > 1  # in changing phase
