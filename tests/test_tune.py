"""`tune`: parameters change between frames and the model is kept."""

import pickle

import eventful_scene
import numpy as np
import pytest

from bgsub import BackgroundSubtractor, ParameterError
from bgsub.parameters import SUBTRACTOR

pytestmark = pytest.mark.large
START = 8
LIVE = {name for name, parameter in SUBTRACTOR.items() if parameter.live}
OTHER_VALUES = {"forgetting": 0.2, "threshold": 0.3, "noise_factor": 6.0, "median": 9, "neighbours": 0}
OTHER_VALUES |= {"shadows": "merged", "min_area": 0.01, "absorb_after": 2.0}
OTHER_VALUES |= {"light": False, "scene_changes": False, "ghosts": False}
FRAMES = np.roll(eventful_scene.scene(3), -13, axis=0)  # most parameters change some of their masks


def run(subtractor, frames):
    return [subtractor.apply(frame) for frame in frames]


@pytest.fixture
def running():
    subtractor = BackgroundSubtractor(start_frames=START, fps=10)
    run(subtractor, FRAMES[: START + 6])
    assert subtractor.phase == "tracking"
    return subtractor


def test_tune_keeps_the_model(running):
    assert set(OTHER_VALUES) == LIVE
    before = pickle.dumps(running.snapshot()[1])
    running.tune(**OTHER_VALUES)
    assert pickle.dumps(running.snapshot()[1]) == before
    assert running.get_params() == {**BackgroundSubtractor(start_frames=START, fps=10).get_params(), **OTHER_VALUES}


@pytest.mark.parametrize(("name", "seen"), [*zip(sorted(LIVE), [4, START + 6] * 6, strict=False)])
def test_tuned_model_equals_a_restored_one(tmp_path, monkeypatch, name, seen):
    """A restored model is built from the new parameters."""
    subtractor = BackgroundSubtractor(start_frames=START, fps=10, stabilise=False)
    run(subtractor, FRAMES[:seen])
    subtractor.tune(**{name: OTHER_VALUES[name]})
    subtractor.save(tmp_path / "model.npz")
    loaded = BackgroundSubtractor.load(tmp_path / "model.npz")
    assert (loaded.get_params(), loaded.get_params()[name]) == (subtractor.get_params(), OTHER_VALUES[name])
    frames = FRAMES[seen : seen + 30]
    np.testing.assert_array_equal(run(subtractor, frames), run(loaded, frames))


def test_parked_scene_is_tuned():
    subtractor = BackgroundSubtractor(start_frames=START, fps=10)
    run(subtractor, FRAMES[: START + 2])
    assert subtractor.process(255 - FRAMES[0]).event == "scene-change"
    subtractor.tune(threshold=0.3)
    assert subtractor.process(FRAMES[0]).event == "scene-return"
    segmenter = subtractor._scenes.model.segmenter
    assert segmenter.limits[0] == pytest.approx(0.8 * 0.3 * segmenter.scene.exposure)  # a coloured scene


def test_fixed_parameters_and_invalid_values_are_refused(running):
    for name in sorted(set(SUBTRACTOR) - LIVE):
        with pytest.raises(ParameterError, match=f"^{name} cannot change while the subtractor runs; allowed are "):
            running.tune(**{name: SUBTRACTOR[name].default, "threshold": 0.5})
    with pytest.raises(ParameterError, match=r"^threshold must be .*, got -1$"):
        running.tune(min_area=0.5, threshold=-1)
    with pytest.raises(ParameterError, match=r"^history is OpenCV's name: setHistory\(\) changes it while"):
        running.tune(history=100)
    with pytest.raises(ParameterError, match=r"an unknown parameter 'treshold' .*; did you mean 'threshold'"):
        running.tune(treshold=1)
    values = running.get_params()
    assert (values["threshold"], values["min_area"]) == (0.08, SUBTRACTOR["min_area"].default)
