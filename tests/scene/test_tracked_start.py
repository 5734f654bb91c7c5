"""The fit to the start frames: objects become no direction, recurring changes do."""

import numpy as np
import pytest

from bgsub.parameters import SubtractorParameters
from bgsub.scene.background import StartBackground, TrackedBackground
from bgsub.scene.frame_format import FrameFormat
from bgsub.tracking.batch_start import result_of

F = np.float32
H, W, FRAMES = 24, 32, 40
EMPTY = np.random.default_rng(0).uniform(60, 180, (H, W, 3))
BOX = np.s_[6:18, 8:20]
LIMIT = np.full(H * W, 0.08, F)


def filmed(pictures, dtype="uint8"):
    rng = np.random.default_rng(1)
    frames = (np.array(pictures) + rng.standard_normal((len(pictures), H, W, 3))).clip(0, 255)
    return frames.round().astype(np.uint8) if dtype == "uint8" else (frames / 255).astype(dtype)


def started(frames, **parameters):
    """A background fitted to frames, the start it was fitted to, and the frames as that kept them."""
    form = FrameFormat.of(frames[0])
    start = StartBackground(form, len(frames), 1)
    for frame in frames:
        start.add(frame, None, np.zeros((H, W), F))
    background = TrackedBackground(form, SubtractorParameters(threads=1, start_frames=len(frames), **parameters), 1024)
    X = background.cleaned(start.buffer.frames, start.colours.background, LIMIT)
    result_of(background.fit(X))
    return background, start, X[:, 0 : H * W * 3].reshape(-1, H, W, 3)


def standing(first, last):
    """The empty scene, but with a box from one frame on up to another."""
    pictures = [EMPTY.copy() for _ in range(FRAMES)]
    for picture in pictures[first:last]:
        picture[BOX] = 230
    return pictures


def swaying():
    """The left half is moved by up to a pixel, to and fro."""
    moved, pictures = np.roll(EMPTY, 1, axis=1), []
    for i in range(FRAMES):
        t = 0.5 + 0.5 * np.sin(1.3 * i)
        pictures.append(EMPTY.copy())
        pictures[-1][:, : W // 2] = ((1 - t) * EMPTY + t * moved)[:, : W // 2]
    return pictures


def residual_of(background, picture):
    """Joint distance of a picture from what the subspace can explain of it, (h, w)."""
    U, x = background.tracker.components_.reshape(-1, H * W * 3), picture.reshape(-1) / 255
    return np.linalg.norm((x - U.T @ (U @ x)).reshape(H, W, 3), axis=2)


@pytest.mark.large
@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_standing_object_of_the_start_is_replaced(dtype):
    frames = filmed(standing(3, 16), dtype)
    background, start, kept = started(frames)
    full = 255 if dtype == "uint8" else 1
    np.testing.assert_array_equal(kept[16:], frames[16:])
    outside = np.ones((H, W), bool)
    outside[BOX] = False
    np.testing.assert_array_equal(kept[:, outside], frames[:, outside])
    colours = start.colours.background.reshape(H, W, 3)
    expected = (colours + 0.5).astype(np.uint8) if dtype == "uint8" else colours
    np.testing.assert_array_equal(kept[3:16][:, *BOX], np.broadcast_to(expected[BOX], (13, 12, 12, 3)))
    np.testing.assert_allclose(colours[BOX] / full, EMPTY[BOX] / 255, atol=3 / 255)
    assert residual_of(background, standing(0, 1)[0])[BOX].min() > 0.1  # still foreground
    assert residual_of(background, EMPTY).max() < 0.05


@pytest.mark.large
def test_recurring_changes_are_kept_and_explained():
    frames = filmed(swaying())
    background, _, kept = started(frames)
    np.testing.assert_array_equal(kept, frames)
    one, _, filled = started(frames, rank=1)
    assert (filled != frames).any()
    for picture in swaying()[:5]:
        left = residual_of(background, picture)[:, : W // 2].mean()
        assert left < 0.5 * residual_of(one, picture)[:, : W // 2].mean() + 0.005
