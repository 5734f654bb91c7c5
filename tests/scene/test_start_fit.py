"""The fit to the first frames, spread over the next ones, and light that changes meanwhile."""

import numpy as np
import pytest
from test_snapshot import parts

from bgsub import BackgroundSubtractor
from bgsub.separation import FOREGROUND, FrameEvent

H, W = 48, 64
SCENE = np.random.default_rng(0).uniform(60, 140, (H // 4, W // 4, 3)).repeat(4, 0).repeat(4, 1)
START, PARTS = 20, 6


@pytest.fixture
def small_parts(monkeypatch):
    """The fit needs one frame per step."""
    monkeypatch.setattr("bgsub.scene.background._FIT_WORK", 1)


def filmed(gain, i, box=None):
    """Frame i under a light, with an object at a column or without."""
    picture = SCENE * gain + np.random.default_rng(i).standard_normal(SCENE.shape)
    if box is not None:
        picture[10:30, box : box + 10] = 230
    return picture.clip(0, 255).round().astype(np.uint8)


def gain_at(i):
    """The light changes twice in the start and once during the fit."""
    return 1.0 if i < 8 else 1.35 if i < 14 else 1.1 if i < START + 3 else 1.3


def test_the_first_background_serves_until_the_fit_is_done(small_parts):
    subtractor = BackgroundSubtractor(start_frames=START, rank=2)
    phases = [subtractor.process(filmed(1.0, i)).phase for i in range(START + 20)]
    assert phases[: START + PARTS - 1] == ["start"] * (START + PARTS - 1)
    assert phases[-5:] == ["tracking"] * 5


@pytest.mark.large
@pytest.mark.parametrize("i", [0, 10, START, START + 2, START + 4, START + 7])
def test_a_stream_continues_bit_for_bit_in_the_middle_of_the_fit(small_parts, tmp_path, i):
    subtractor = BackgroundSubtractor(start_frames=START, rank=2)
    frames = [filmed(gain_at(n), n, box=(2 * n) % (W - 10)) for n in range(START + 30)]
    for frame in frames[: i + 1]:
        subtractor.apply(frame)
    subtractor.save(tmp_path / "model.npz")
    other = BackgroundSubtractor.load(tmp_path / "model.npz")
    for frame in frames[i + 1 :]:
        assert parts(subtractor.process(frame)) == parts(other.process(frame))
    assert subtractor.phase == "tracking"


@pytest.mark.usefixtures("small_parts")
def test_light_that_changes_in_the_start_and_during_the_fit_is_explained():
    subtractor = BackgroundSubtractor(start_frames=START, rank=2)
    events = []
    for i in range(START + 25):
        result = subtractor.process(filmed(gain_at(i), i))
        events += [i] if result.event == FrameEvent.LIGHT_CHANGE else []
        assert np.mean(result.mask == FOREGROUND) < 0.02, i
        assert np.abs(result.background.astype(float) - gain_at(i) * SCENE).mean() < 4, i
    assert events == [8, 14, START + 3]
    assert result.phase == "tracking"


@pytest.mark.large
def test_a_light_change_is_explained_by_the_last_frame_while_most_of_the_background_is_hidden():
    subtractor = BackgroundSubtractor()
    hidden, where = np.random.default_rng(1).uniform(20, 200, SCENE.shape), np.s_[:, : 3 * W // 4]
    for i in range(40):
        picture = SCENE.copy()
        picture[where] = hidden[where] if i >= 20 else SCENE[where]  # before that, only the background is shown
        noise = np.random.default_rng(i).standard_normal(SCENE.shape)
        frame = (picture * (1.0 if i < 26 else 1.3) + noise).clip(0, 255)
        mask = subtractor.apply(frame.astype(np.uint8))
        assert np.mean(mask[:, 3 * W // 4 + 2 :] == FOREGROUND) < 0.05, i


@pytest.mark.large
def test_an_exposure_that_drifts_in_the_start_is_followed():
    subtractor = BackgroundSubtractor()
    for i in range(60):
        gain = 1.0 if i < 25 else min(1.0 + 0.03 * (i - 24), 1.5)
        assert np.mean(subtractor.apply(filmed(gain, i, box=i % 50)) == FOREGROUND) < 0.15, i


def test_a_pixel_released_during_the_fit_stays_background(small_parts):
    subtractor = BackgroundSubtractor(start_frames=START, rank=2)
    for i in range(START + 2):
        subtractor.apply(filmed(1.0, i))
    model = subtractor._scenes.model
    where = np.zeros((H, W), bool)
    where[10:30, 20:30] = True
    assert model.start is not None
    model.start.colours.put(filmed(1.0, 99, box=20), where)
    for i in range(START + 2, START + 20):
        mask = subtractor.apply(filmed(1.0, i, box=20))
        assert not mask[12:28, 22:28].any(), i
    assert subtractor.phase == "tracking"
