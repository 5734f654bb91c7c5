"""The cost scales of the pixels follow the median of the residual."""

import numpy as np
import pytest
import reference_sweep as dense

from bgsub.scene import background as module
from bgsub.scene._frame_kernels import LearnParams

F = np.float32
SHAPE = (12, 16)


def still(n, noise, seed=0):
    """Return n frames of one picture, (n, 12, 16, 3), with noise."""
    rng = np.random.default_rng(seed)
    picture = rng.uniform(0.3, 0.7, (*SHAPE, 3))
    return (picture + noise * rng.standard_normal((n, *SHAPE, 3))).astype(F)


def followed(frames, known=None, **parameters):
    """Return the cost scales, and where the cost flattens, after the second half of the frames."""
    background, engine = dense.tracked(frames, 1, **parameters)
    skip = np.zeros(SHAPE, np.uint8) if known is None else 2 * known.astype(np.uint8)
    for pixels in frames[len(frames) // 2 :]:
        engine.begin(pixels)
        compared = background.separate(engine, None)
        scale, rates = background.rates(compared.due)
        engine.learn(skip, LearnParams(F(0), F(1), F(0), *rates), scale, compared.due)
        background.learn(compared.update, None)
    return background.scale, background.tracker.surrogate_.scale * background.scale


@pytest.mark.parametrize("noise", [0.01, 0.02])
def test_cost_flattens_at_three_times_the_noise(noise, monkeypatch):
    monkeypatch.setattr(module, "_PACE", 0.01)
    _, flat = followed(still(800, noise), surrogate="atan")
    median = 1.538 * noise  # of the norm of three normal deviates
    expected = np.clip(3 / np.sqrt(3) * median, 0.02, 0.06)
    assert np.median(flat) == pytest.approx(expected, rel=0.05)


def test_scales_are_kept_at_known_foreground_or_with_mu():
    frames, known = still(80, 0.002), np.zeros(SHAPE, bool)
    known[:4] = True
    scale, _ = followed(frames, known)
    assert (scale[known] == 1).all()
    assert (scale[~known] < 1).all()
    assert (followed(frames, mu=0.06)[0] == 1).all()
