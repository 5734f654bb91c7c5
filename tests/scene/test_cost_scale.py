"""The cost scales of the pixels follow the median of the residual."""

import numpy as np
import pytest
import reference_sweep as dense

from bgsub.scene import background as module
from bgsub.scene.engine import FrameInput

F = np.float32
SHAPE = (12, 16)


def still(n, noise, seed=0):
    """Return n frames of one picture, (n, 12, 16, 3), with noise."""
    rng = np.random.default_rng(seed)
    picture = rng.uniform(0.3, 0.7, (*SHAPE, 3))
    return (picture + noise * rng.standard_normal((n, *SHAPE, 3))).astype(F)


def followed(frames, known=None, **parameters):
    """Return a background that has learned the second half of the frames, and its buffers."""
    background, buffers = dense.tracked(frames, 1, **parameters)
    for pixels in frames[len(frames) // 2 :]:
        learn(background, buffers, pixels, known)
    return background, buffers


def learn(background, buffers, pixels, known=None):
    buffers.turn()
    compared = background.separate(FrameInput(pixels, None, np.full(SHAPE, 0.02, F), *dense.LIMITS), buffers)
    background.learn(compared.update, None)
    background.follow(buffers.residual, known)


@pytest.mark.parametrize("noise", [0.01, 0.02])
def test_cost_flattens_at_three_times_the_noise(noise, monkeypatch):
    monkeypatch.setattr(module, "_PACE", 0.01)
    background, _ = followed(still(800, noise), surrogate="atan")
    flat = background.tracker.surrogate_.scale * background.scale
    median = 1.538 * noise  # of the norm of three normal deviates
    expected = np.clip(3 / np.sqrt(3) * median, 0.02, 0.06)
    assert np.median(flat) == pytest.approx(expected, rel=0.05)


def test_scales_are_kept_at_known_foreground_or_with_mu():
    frames, known = still(80, 0.002), np.zeros(SHAPE, bool)
    known[:4] = True
    background, _ = followed(frames, known)
    assert (background.scale[known] == 1).all()
    assert (background.scale[~known] < 1).all()
    assert (followed(frames, mu=0.06)[0].scale == 1).all()


def test_calm_pixel_learns_an_object_more_slowly(monkeypatch):
    monkeypatch.setattr(module, "_PACE", 0.02)
    learned = {}
    for name, parameters in {"own": {}, "common": {"mu": 0.06}}.items():
        background, buffers = followed(still(300, 0.004), **parameters)
        before = background.low_rank().reshape(*SHAPE, 3).copy()
        frame = before.copy()
        frame[4:8, 4:8] += 0.25
        for _ in range(30):
            learn(background, buffers, frame)
        learned[name] = np.abs(background.low_rank().reshape(*SHAPE, 3) - before)[4:8, 4:8].mean()
    assert learned["own"] < learned["common"] / 3
