"""The fit to the first frames: what it keeps, its spread over the next frames, and light that changes meanwhile."""

import numpy as np
import pytest
from test_snapshot import parts

from bgsub import BackgroundSubtractor
from bgsub.parameters import SubtractorParameters
from bgsub.scene.background import StartBackground, TrackedBackground
from bgsub.scene.frame_format import FrameFormat
from bgsub.separation import FOREGROUND, FrameEvent
from bgsub.tracking.batch_start import result_of

H, W = 48, 64
SCENE = np.random.default_rng(0).uniform(60, 140, (H // 4, W // 4, 3)).repeat(4, 0).repeat(4, 1)
START, PARTS = 20, 6


@pytest.fixture
def small_parts(monkeypatch):
    """The fit needs one frame per step."""
    monkeypatch.setattr("bgsub.scene.background._FIT_WORK", 1)


def filmed(gain, i, box=None, still=SCENE):
    """Frame i of a still picture under a light, with an object at a column or without."""
    picture = still * gain + np.random.default_rng(i).standard_normal(SCENE.shape)
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


def fitted(frames, **parameters):
    """A background fitted to frames, the start it was fitted to, and the frames as that kept them."""
    form = FrameFormat.of(frames[0])
    start = StartBackground(form, len(frames), 1)
    for frame in frames:
        start.add(frame, None, np.zeros((H, W), np.float32))
    background = TrackedBackground(form, SubtractorParameters(threads=1, start_frames=len(frames), **parameters), 1024)
    X = background.cleaned(start.buffer.frames, start.colours.background, np.full(H * W, 0.08, np.float32))
    result_of(background.fit(X))
    return background, start, X[:, 0 : H * W * 3].reshape(-1, H, W, 3)


def residual_of(background, picture):
    """Joint distance of a picture from what the subspace can explain of it, (h, w)."""
    U, x = background.tracker.components_.reshape(-1, H * W * 3), picture.reshape(-1) / 255
    return np.linalg.norm((x - U.T @ (U @ x)).reshape(H, W, 3), axis=2)


@pytest.mark.large
@pytest.mark.parametrize(("dtype", "full"), [("uint8", 255), ("float32", 1)])
def test_standing_object_of_the_start_is_replaced(dtype, full):
    frames = np.array([filmed(1.0, i, box=20 if 3 <= i < 16 else None) for i in range(40)])
    frames = frames if full > 1 else (frames / 255).astype(dtype)
    background, start, kept = fitted(frames)
    np.testing.assert_array_equal(kept[16:], frames[16:])
    box, outside = np.s_[10:30, 20:30], np.ones((H, W), bool)
    outside[box] = False
    np.testing.assert_array_equal(kept[:, outside], frames[:, outside])
    colours = start.colours.background.reshape(H, W, 3)
    expected = (colours + 0.5).astype(np.uint8) if full > 1 else colours
    np.testing.assert_array_equal(kept[3:16][:, *box], np.broadcast_to(expected[box], (13, 20, 10, 3)))
    np.testing.assert_allclose(colours[box] / full, SCENE[box] / 255, atol=3 / 255)
    assert residual_of(background, filmed(1.0, 0, box=20))[box].min() > 0.1  # still foreground
    assert residual_of(background, SCENE).max() < 0.05


@pytest.mark.large
def test_recurring_changes_are_kept_and_explained():
    """The left half is moved by up to a pixel, to and fro."""
    still, left = np.random.default_rng(0).uniform(60, 180, SCENE.shape), np.arange(W)[:, np.newaxis] < W // 2
    shares = left * (0.5 + 0.5 * np.sin(1.3 * np.arange(40)))[:, np.newaxis, np.newaxis, np.newaxis]
    swaying = (1 - shares) * still + shares * np.roll(still, 1, axis=1)
    frames = np.array([filmed(1.0, i, still=picture) for i, picture in enumerate(swaying)])
    background, _, kept = fitted(frames)
    np.testing.assert_array_equal(kept, frames)
    one, _, filled = fitted(frames, rank=1)
    assert (filled != frames).any()
    for picture in swaying[:5]:
        rest, more = (residual_of(found, picture)[:, : W // 2].mean() for found in (background, one))
        assert rest < 0.5 * more + 0.005
