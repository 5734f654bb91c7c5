"""The pace of the noise scale: every frame while it is a plain mean, every second one afterwards, equally fast."""

import numpy as np

from bgsub.scene.segmentation import NoiseScale

F = np.float32
NOTHING = np.zeros((4, 5), np.uint8)


def follow(noise, residuals):
    """Return which frames were learned from."""
    learned = []
    for residual in residuals:
        learned.append(not noise.skips_frame)
        if noise.skips_frame:
            noise.skip_frame()
        else:
            noise.learn(np.full(NOTHING.shape, residual, F), NOTHING)
    return np.array(learned)


def test_the_first_frames_are_all_learned_and_then_every_second_one():
    learned = follow(NoiseScale(NOTHING.shape, 1.0, 1), [0.01] * 120)
    assert learned[:45].all()
    later = learned[60:].reshape(-1, 4)
    assert (later.sum(axis=1) >= 1).all()
    assert abs(int(learned[60:].sum()) - 30) <= 1
    assert len({tuple(four) for four in later.tolist()}) > 1  # not always the same ones


def test_a_change_is_followed_as_fast_as_by_the_running_mean_of_every_frame():
    noise, mean = NoiseScale(NOTHING.shape, 1.0, 1), 0.02
    follow(noise, [0.02] * 100)
    for frames in (20, 40, 80):
        follow(noise, [0.1] * frames)
        for _ in range(frames):
            mean += 0.02 * (0.1 - mean)
        np.testing.assert_allclose(noise.sigma, mean, atol=0.04 * 0.08)  # one step: as many frames, but not the same


def test_a_copy_goes_on_with_the_same_frames():
    noise, copy = (NoiseScale(NOTHING.shape, 1.0, 1) for _ in range(2))
    follow(noise, [0.02] * 101)
    copy.set_state(noise.state())
    np.testing.assert_array_equal(follow(noise, [0.05] * 9), follow(copy, [0.05] * 9))
    np.testing.assert_array_equal(noise.sigma, copy.sigma)
