"""A dense float64 engine in place of the compiled one."""

import numpy as np
import pytest
import reference_sweep as dense

from bgsub import BackgroundSubtractor
from bgsub.synthetic import scene

F32 = np.float32


@pytest.mark.parametrize(("channels", "dtype"), [(3, np.uint8), pytest.param(1, np.float32, marks=pytest.mark.slow)])
def test_dense_engine_gives_the_same_masks(channels, dtype, monkeypatch):
    """Equal masks up to single pixels, including batch start, light and objects."""
    frames = [frame for frame, _ in scene("lobby", size=(64, 48), length=80, seed=1, channels=channels, empty_start=12)]
    frames = frames if dtype == np.uint8 else [frame.astype(F32) / 255 for frame in frames]
    parameters = {"start_frames": 10, "subset": 600, "rank": 2}
    usual = BackgroundSubtractor(**parameters)
    masks = [usual.apply(frame) for frame in frames]
    made = []
    monkeypatch.setattr("bgsub.scene.model.SweepEngine", lambda *a: made.append(1) or dense.DenseEngine(*a))
    other = BackgroundSubtractor(**parameters)
    differing = [np.mean(mask != other.apply(frame)) for mask, frame in zip(masks, frames, strict=True)]
    assert made
    assert np.mean(differing) < 1e-3
    assert max(np.mean(mask == 255) for mask in masks) > 0.01
    level = 1 if dtype == np.uint8 else 1 / 255
    assert np.mean(np.abs(usual.getBackgroundImage().astype(float) - other.getBackgroundImage())) < level / 4
