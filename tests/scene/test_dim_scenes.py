"""Noise of the sensor and dark scenes: how they are recognised, and that objects are found there."""

import cv2
import numpy as np
import pytest

from bgsub import BackgroundSubtractor
from bgsub.scene.exposure import sensor_noise

F = np.float32


def pictures(n, gain=1.0, noise=0.0, seed=0):
    """Return frames of a street with a walker from frame 40 on, and the masks of the walker."""
    rng = np.random.default_rng(seed)
    still = np.kron(rng.uniform(60, 200, (12, 16, 3)), np.ones((8, 8, 1)))
    frames, masks = [], []
    for index in range(n):
        mask = np.zeros(still.shape[:2], bool)
        if index >= 40:
            left = (4 * index) % 100
            mask[30:70, left : left + 20] = True
        frame = gain * np.where(mask[..., None], still + 35 * np.sign(130 - still), still)
        frames.append(np.clip(frame + noise * rng.standard_normal(frame.shape), 0, 255).astype(np.uint8))
        masks.append(mask)
    return np.array(frames), np.array(masks)


def test_sensor_noise_is_measured_and_leaves_and_light_are_none():
    rng = np.random.default_rng(0)
    one, other = (5 * rng.standard_normal((2, 60, 80, 3)) + 100).astype(F)
    assert sensor_noise(one, other) == pytest.approx(5, rel=0.05)
    assert sensor_noise(one, 0.7 * one) < 1.5  # the noise of one picture
    leaves = np.full((60, 80, 3), 100, F)
    leaves[:, :50] += rng.uniform(-60, 60, (60, 50, 3))
    assert sensor_noise(np.full_like(leaves, 100) + rng.standard_normal(leaves.shape), leaves) == 0


@pytest.mark.large
@pytest.mark.parametrize(("gain", "noise", "least"), [(0.25, 0, 0.85), (0.25, 4, 0.85), (1, 12, 0.95)])
def test_a_walker_is_found_in_the_dark_and_in_noise(gain, noise, least):
    # the walker is a brighter or darker background: part of it counts as a weak shadow
    frames, masks = pictures(70, gain, noise)
    subtractor = BackgroundSubtractor(start_frames=20)
    found = np.array([subtractor.apply(frame) for frame in frames]) == 255
    found, masks = found[45:], masks[45:]
    assert np.mean(found[masks]) > least
    assert np.mean(found[~masks]) < 0.03


@pytest.mark.large
def test_frames_are_smoothed_once_noise_rises_and_never_while_objects_move():
    calm, masks = pictures(140)
    rng = np.random.default_rng(1)
    noisy = np.clip(calm + 12 * rng.standard_normal(calm.shape), 0, 255).astype(np.uint8)
    night = np.concatenate([calm[:60], noisy[60:]])
    for frames, is_smooth in ((calm, False), (night, True)):
        subtractor = BackgroundSubtractor(start_frames=20)
        found = np.array([subtractor.apply(frame) for frame in frames]) == 255
        assert subtractor._scenes.model._smooth == is_smooth
        assert np.mean(found[80:][masks[80:]]) > 0.95
        assert np.mean(found[80:][~masks[80:]]) < 0.03


@pytest.mark.large
def test_a_dark_object_in_haze_is_no_shadow_and_a_shadow_is_one():
    rng = np.random.default_rng(0)
    still = cv2.GaussianBlur(rng.uniform(60, 200, (100, 120, 3)), (9, 9), 0) * (1, 0.9, 0.8)
    still[:20, :30] = 5  # something black
    subtractor = BackgroundSubtractor(start_frames=20)
    for index in range(70):
        frame, left = still.copy(), (4 * index) % 90
        frame[30:50, left : left + 20], frame[60:90, left : left + 20] = 12, 0.6 * still[60:90, left : left + 20]
        mask = subtractor.apply(np.clip(0.5 * frame + 100 + rng.normal(0, 1, frame.shape), 0, 255).astype(np.uint8))
        if index > 50:
            assert np.mean(mask[31:49, left + 1 : left + 19] == 255) > 0.98
            assert np.mean(mask[62:88, left + 2 : left + 18] == 127) > 0.98


def test_black_falls_at_once_and_rises_slowly():
    rng, subtractor = np.random.default_rng(0), BackgroundSubtractor()
    haze = rng.integers(120, 250, (60, 80, 3), dtype=np.uint8)
    subtractor.apply(haze)
    model = subtractor._scenes.model
    assert model.segmenter.scene.black == pytest.approx(120 / 255, abs=0.05)
    dark = haze.copy()
    dark[:20, :20] = 10
    model._adapt(haze, dark)
    assert (model._darkest, model.segmenter.scene.black) == (pytest.approx(10 / 255), 0)
    for _ in range(5):
        model._adapt(haze, haze)
    assert 10 / 255 < model._darkest < 0.15
    assert model.segmenter.scene.black == 0  # some scenes show nothing darker
    for _ in range(35):
        model._adapt(haze, haze)
    assert 0 < model.segmenter.scene.black < model._darkest < 100 / 255
    other = BackgroundSubtractor.from_snapshot(*subtractor.snapshot())._scenes.model
    assert (other._darkest, other.segmenter.scene) == (model._darkest, model.segmenter.scene)


def test_black_and_exposure_have_no_steps_from_a_thin_veil_to_a_thick_one():
    shades, looks = np.random.default_rng(0).uniform(0, 1, (60, 80, 1)).astype(F).repeat(3, axis=2), []
    for veil in np.linspace(0, 0.5, 51, dtype=F):
        subtractor = BackgroundSubtractor()
        subtractor.apply(veil + F(0.4) * shades)
        looks.append(subtractor._scenes.model.segmenter.scene)
    blacks, exposures = np.array([(look.black, look.exposure) for look in looks]).T
    assert blacks[0] == 0
    assert blacks[-1] == pytest.approx(0.5, abs=0.05)
    assert (np.diff(blacks) >= 0).all()
    assert (np.diff(blacks) < 0.05).all()
    assert (np.abs(np.diff(exposures)) < 0.04).all()


@pytest.mark.parametrize(("low", "high"), [(0, 60), (0, 100), (10, 180), (10, 255), (220, 256)])
def test_the_threshold_follows_the_light_and_a_bright_wall_keeps_its_own(low, high):
    subtractor = BackgroundSubtractor()
    frame = np.random.default_rng(0).integers(low, high, (60, 80, 1), dtype=np.uint8).repeat(3, axis=2)
    subtractor.apply(frame)
    look = subtractor._scenes.model.segmenter.scene
    contrast = np.quantile(frame, 0.95) / 255 - look.black
    assert look.exposure == pytest.approx(max((contrast / 0.75) ** 0.75, 0.25), rel=0.03)
    assert look.exposure > 1 or high < 200


@pytest.mark.slow
def test_values_below_zero_are_saved():
    other = BackgroundSubtractor()
    other.apply(np.random.default_rng(0).uniform(-0.2, 0.8, (60, 80)).astype(F))
    assert BackgroundSubtractor.from_snapshot(*other.snapshot())._scenes.model._darkest == 0
