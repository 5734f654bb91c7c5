"""`tune`: parameters that change while the subtractor runs, with the model left as it is."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from bgsub import BackgroundSubtractor, ParameterError
from bgsub.parameters import SUBTRACTOR, check_live

pytestmark = pytest.mark.large

START = 8
LIVE = {name for name, parameter in SUBTRACTOR.items() if parameter.live}
OTHER_VALUES = {
    "forgetting": 0.2,
    "threshold": 0.3,
    "noise_factor": 6.0,
    "median": 9,
    "neighbours": 0,
    "shadows": "merged",
    "min_area": 0.01,
    "light": False,
    "scene_changes": False,
    "ghosts": False,
    "absorb_after": 2.0,
}


def scene(count, first=0):
    """Frames of a still, noisy picture that squares of three contrasts cross, one of them tiny."""
    still = np.random.default_rng(1).integers(60, 120, (48, 64, 3))
    frames = []
    for index in range(first, first + count):
        frame = still + np.random.default_rng(index).integers(-3, 4, still.shape)
        if index >= START:
            left = 2 * (index - START) % 40
            frame[6:16, left : left + 12] += 110
            frame[20:30, left : left + 12] += 36
            frame[36:40, left : left + 5] += 110
        frames.append(np.clip(frame, 0, 255).astype(np.uint8))
    return frames


def run(subtractor, frames, fps=-1):
    return [subtractor.apply(frame, learningRate=fps) for frame in frames]


@pytest.fixture
def running():
    subtractor = BackgroundSubtractor(start_frames=START, fps=10)
    run(subtractor, scene(START + 6))
    assert subtractor.phase == "tracking"
    return subtractor


def state(subtractor):
    """All that was learned, as text; whole."""
    with np.printoptions(threshold=sys.maxsize, floatmode="unique"):
        return str(subtractor.snapshot()[1])


def test_every_live_parameter_is_tested():
    assert set(OTHER_VALUES) == LIVE
    assert all(OTHER_VALUES[name] != SUBTRACTOR[name].default for name in LIVE)


def test_the_model_stays_as_it_is(running):
    before = state(running)
    running.tune(**OTHER_VALUES)
    assert state(running) == before
    assert running.get_params() == {**BackgroundSubtractor(start_frames=START, fps=10).get_params(), **OTHER_VALUES}


@pytest.mark.parametrize("name", sorted(LIVE))
def test_tuned_before_the_first_frame_is_constructed_so(name):
    value = {name: OTHER_VALUES[name]}
    frames = scene(40)
    tuned = BackgroundSubtractor(start_frames=START, fps=10)
    tuned.tune(**value)
    constructed = BackgroundSubtractor(start_frames=START, fps=10, **value)
    np.testing.assert_array_equal(run(tuned, frames), run(constructed, frames))


@pytest.mark.parametrize("name", sorted(LIVE))
@pytest.mark.parametrize("seen", [4, START + 6])
def test_goes_on_as_a_saved_model_with_that_parameter(tmp_path, monkeypatch, name, seen):
    """The saved model is rebuilt from the new parameters: whatever depends on one is made anew there."""
    subtractor = BackgroundSubtractor(start_frames=START, fps=10, stabilise=False)
    run(subtractor, scene(seen))
    subtractor.tune(**{name: OTHER_VALUES[name]})
    subtractor.save(tmp_path / "model.npz")
    loaded = BackgroundSubtractor.load(tmp_path / "model.npz")
    assert loaded.get_params() == subtractor.get_params()
    assert loaded.get_params()[name] == OTHER_VALUES[name]
    frames = scene(30, first=seen)
    np.testing.assert_array_equal(run(subtractor, frames), run(loaded, frames))


@pytest.mark.parametrize(("name", "value"), [("threshold", 0.3), ("noise_factor", 30.0), ("min_area", 0.01)])
def test_what_is_stricter_finds_less(running, name, value):
    """Frozen, so that both look at the same frame with the same model."""
    frame = scene(1, first=START + 6)[0]
    before = running.apply(frame, learningRate=0)
    running.tune(**{name: value})
    after = running.apply(frame, learningRate=0)
    assert np.count_nonzero(after) < np.count_nonzero(before)
    assert not (after[before == 0] == 255).any()


def test_back_again_gives_the_same_mask(running):
    frame = scene(1, first=START + 6)[0]
    before = running.apply(frame, learningRate=0)
    usual = running.get_params()
    running.tune(
        **{name: value for name, value in OTHER_VALUES.items() if name not in ("light", "scene_changes", "ghosts")}
    )
    other = running.apply(frame, learningRate=0)
    running.tune(**{name: usual[name] for name in LIVE})
    np.testing.assert_array_equal(running.apply(frame, learningRate=0), before)
    assert (other != before).any()


def test_forgetting_reaches_the_tracker(running):
    running.tune(forgetting=0.3)
    assert running.tracker.forgetting == running.tracker.get_params()["forgetting"] == 0.3


def test_objects_keep_their_age_when_the_longest_one_needs_another_tick():
    frames = scene(START + 1)
    subtractor = BackgroundSubtractor(start_frames=START, fps=10, absorb_after=60)
    standing = frames[-1]
    run(subtractor, [*frames, *[standing] * 9])
    objects = subtractor._scenes.model.objects
    oldest = objects.age.max()
    assert oldest >= 8
    subtractor.tune(absorb_after=30_000)  # 300000 frames: five to the tick
    assert objects.age.max() == oldest // 5
    subtractor.tune(absorb_after=1)
    run(subtractor, [standing] * 12)
    assert (subtractor.apply(standing) == 0).all()


def test_scene_that_is_parked_follows_too():
    subtractor = BackgroundSubtractor(start_frames=START, fps=10)
    run(subtractor, scene(START + 2))
    assert subtractor.process(255 - scene(1)[0]).event == "scene-change"
    subtractor.tune(threshold=0.3)
    assert subtractor.process(scene(1)[0]).event == "scene-return"
    assert subtractor._scenes.model.segmenter.limits[0] == np.float32(0.3)


@pytest.mark.parametrize("name", sorted(set(SUBTRACTOR) - LIVE))
def test_fixed_parameters_are_refused(running, name):
    with pytest.raises(ParameterError) as caught:
        running.tune(**{name: SUBTRACTOR[name].default, "threshold": 0.5})
    text = str(caught.value)
    assert text.startswith(f"{name} cannot change while the subtractor runs; allowed are forgetting, threshold, ")
    assert running.get_params()["threshold"] == 0.08


def test_wrong_values_are_refused(running):
    with pytest.raises(ParameterError) as caught:
        running.tune(min_area=0.5, threshold=-1)
    assert str(caught.value) == "threshold must be a number in [1e-06, 2], got -1"
    assert running.get_params()["min_area"] == SUBTRACTOR["min_area"].default
    with pytest.raises(ParameterError, match=r"an unknown parameter 'treshold' .*; did you mean 'threshold'"):
        running.tune(treshold=1)


def test_check_live_converts():
    never = float("inf")
    assert check_live({"threshold": 1, "absorb_after": never}) == {"threshold": 1.0, "absorb_after": never}
    assert type(check_live({"threshold": 1})["threshold"]) is float
    assert check_live({}) == {}
