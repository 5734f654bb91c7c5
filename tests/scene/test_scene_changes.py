"""What hides most of the background for a while, and a camera that turns to other places and back."""

import numpy as np
import pytest
from test_scene_manager import QUICK, Camera, H, W, picture, share, started, with_object

pytestmark = pytest.mark.large
HIDDEN = round(10 * QUICK["fps"])  # frames for which a hidden background is kept


def hiding(camera, count, left=16):
    """Yield frames of something close to the lens, of which no frame resembles the one before."""
    for number in range(count):
        near, _ = with_object(camera.background, left, 0, W - left, H, seed=20 + number)
        yield camera.frame(near)


def test_a_hidden_background_stays_as_it_was():
    camera = Camera(picture())
    subtractor = started(camera)
    coefficients = subtractor.tracker.coefficients_.copy()
    background = subtractor.getBackgroundImage().astype(float)
    for frame in hiding(camera, HIDDEN - 5):
        result = subtractor.process(frame)
        assert result.event is None
        assert share(result.mask) > 0.7
    np.testing.assert_array_equal(subtractor.tracker.coefficients_, coefficients)
    assert np.abs(subtractor.getBackgroundImage() - background).max() < 3
    result = subtractor.process(camera.frame())
    assert (result.event, share(result.mask) < 0.02) == (None, True)


def test_what_hides_the_background_for_longer_is_a_scene_until_the_old_one_returns():
    camera = Camera(picture())
    subtractor = started(camera)
    events = [subtractor.process(frame).event for frame in hiding(camera, HIDDEN + 5)]
    assert events.count("scene-change") == 1
    assert events.index("scene-change") >= HIDDEN
    result = subtractor.process(camera.frame())
    assert (result.event, share(result.mask) < 0.02) == ("scene-return", True)


@pytest.mark.parametrize(("seconds", "given"), [(60.0, {"learningRate": 0.05}), (2.4, {})])
def test_a_hidden_background_is_replaced_where_parameters_say_so(seconds, given):
    """By a learning rate, and by `absorb_after` without scenes."""
    camera = Camera(picture())
    subtractor = started(camera, absorb_after=seconds, scene_changes=False)
    near, _ = with_object(camera.background, 16, 0, W - 16, H)
    shares = [share(subtractor.apply(camera.frame(near), **given)) for _ in range(30)]
    assert shares[0] > 0.7
    assert shares[-1] < 0.02


@pytest.mark.parametrize(("gains", "is_learned"), [((0.8, 1.25), True), ((0.6, 1.6), False)])
def test_a_background_that_is_to_be_seen_in_other_light_is_not_hidden(gains, is_learned):
    camera = Camera(np.repeat(picture(channels=1), 3, axis=2))
    subtractor = started(camera, scene_changes=False)
    coefficients = subtractor.tracker.coefficients_.copy()
    light = np.random.default_rng(0).choice(gains, (H // 2, W // 2, 1)).repeat(2, 0).repeat(2, 1)
    assert share(subtractor.apply(camera.frame(light * camera.background))) > 0.7
    assert np.any(subtractor.tracker.coefficients_ != coefficients) == is_learned


def test_a_turning_camera_knows_its_places_again():
    cameras = [Camera(picture(seed)) for seed in (0, 7, 8, 9)]
    subtractor = started(cameras[0])
    events = []
    for camera in cameras[1:] + cameras:
        for number in range(21):
            result = subtractor.process(camera.frame())
            assert share(result.mask) < 0.02
            events += [(number, result.event)] if result.event else []
    assert events == [(0, "scene-change")] * 3 + [(0, "scene-return")] * 4
