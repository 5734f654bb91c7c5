"""Known foreground is neither a standing object nor confirmed background."""

import cv2
import numpy as np
import pytest

from bgsub import BackgroundSubtractor
from bgsub.scene.scene_manager import SceneManager
from bgsub.tracking.subspace import Subspace

H, W, FPS = 48, 64, 10
GONE, KNOWN = np.s_[14:30, 12:28], np.s_[14:30, 29:44]  # object of the start; known object beside it


def street():
    coarse = np.random.default_rng(0).integers(60, 180, (H // 4, W // 4, 3))
    return np.kron(coarse, np.ones((4, 4, 1))).astype(np.uint8)


def test_known_foreground_beside_a_ghost_is_not_released():
    subtractor = BackgroundSubtractor(fps=FPS, start_frames=8, rank=1, stabilise=False, light=False, threads=1)
    empty, known = street(), np.zeros((H, W), bool)
    known[KNOWN] = True
    start, frame = empty.copy(), empty.copy()
    start[GONE], frame[KNOWN] = 5, 250
    for _ in range(10):
        subtractor.apply(start)
    seen = subtractor._scenes.model.objects.support[KNOWN].copy()
    for _ in range(2 * FPS):
        mask = subtractor.apply(frame, knownForegroundMask=np.where(known, np.uint8(255), np.uint8(0)))
    assert (mask[GONE] == 0).mean() > 0.9  # released
    background = subtractor.getBackgroundImage().astype(int)
    assert (np.abs(background[KNOWN] - empty[KNOWN]) < 10).all()
    np.testing.assert_array_equal(subtractor._scenes.model.objects.support[KNOWN], seen)


def test_known_foreground_in_any_order_of_memory():
    turned = cv2.getRotationMatrix2D((W / 2, H / 2), 1, 1)
    masks = []
    for order in ("C", "F"):
        subtractor, known = BackgroundSubtractor(start_frames=8, threads=1), np.zeros((H, W), np.uint8, order)
        known[KNOWN] = 1
        for i in range(16):
            frame = cv2.warpAffine(street(), turned, (W, H), borderMode=cv2.BORDER_REFLECT) if i > 9 else street()
            masks.append(subtractor.apply(frame, knownForegroundMask=known))
    np.testing.assert_array_equal(masks[:16], masks[16:])


def test_known_foreground_at_cuts_lies_as_the_background(monkeypatch):
    subtractor, given, is_new = BackgroundSubtractor(start_frames=8, threads=1), [], SceneManager._is_new
    monkeypatch.setattr(SceneManager, "_is_new", lambda self, *args: (given.append(args[1]), is_new(self, *args))[1])
    frame, known = street(), np.zeros((H, W), np.uint8)
    for _ in range(12):
        subtractor.apply(frame)
    frame[KNOWN], known[KNOWN] = 250, 1
    frame, moved = (np.roll(image, (3, 5), axis=(0, 1)) for image in (frame, known))  # the camera
    for _ in range(6):
        subtractor.apply(frame, knownForegroundMask=moved)
    np.testing.assert_array_equal(given[-1], known)


def test_an_object_before_black_is_absorbed():
    subtractor = BackgroundSubtractor(absorb_after=1.0, ghosts=False, threads=1)
    frame, place = np.zeros((120, 160, 3), np.uint8), np.s_[40:80, 50:90]
    for _ in range(60):
        subtractor.apply(frame)
    frame[place] = 200, 180, 160
    masks = [subtractor.apply(frame) for _ in range(75)]
    assert (masks[0][place] == 255).mean() > 0.9
    assert not masks[-1].any()


@pytest.mark.slow
def test_the_background_behind_an_object_that_stays_does_not_fade():
    rng = np.random.default_rng(0)
    wall = cv2.GaussianBlur(rng.integers(0, 255, (120, 160, 3)).astype(np.uint8), (0, 0), 3)
    wall = cv2.normalize(wall, None, 5, 220, cv2.NORM_MINMAX)
    parked, place = wall.copy(), np.s_[10:40, 10:30]
    parked[place] = 30, 30, 200
    noise = rng.normal(0, 1.5, (50, *wall.shape))
    empty, full = (np.clip(picture + noise, 0, 255).astype(np.uint8) for picture in (wall, parked))
    subtractor = BackgroundSubtractor(absorb_after=np.inf, threads=1)
    for i in range(6000):
        mask = subtractor.apply((empty if i < 100 else full)[i % 50])
    assert (mask[place] == 255).mean() > 0.95
    assert np.abs(subtractor.getBackgroundImage()[place].astype(float) - wall[place]).mean() < 4


@pytest.mark.parametrize("seconds", [0.01, 0.1, 1.0])
def test_only_rows_that_no_step_has_seen_are_restored(seconds, monkeypatch):
    """One object stands from the first update on, another one comes shortly before the background is restored."""
    restored = []
    monkeypatch.setattr(Subspace, "restore", lambda _, where: restored.append(where.copy()))
    options = {"absorb_after": np.inf, "ghosts": False, "stabilise": False, "light": False, "scene_changes": False}
    subtractor = BackgroundSubtractor(fps=FPS, start_frames=8, rank=1, threads=1, **options)
    frame, since = street(), 0
    for number in range(700):
        since += subtractor.phase == "tracking"
        if since == 3:
            frame[GONE] = 250
        if since == 2 * 256 - 60:
            frame[KNOWN] = 250
        subtractor.set_time(number * seconds)
        subtractor.apply(frame)
        if since == 300:  # a restored model continues
            subtractor = BackgroundSubtractor.from_snapshot(*subtractor.snapshot())
    where = restored[1].reshape(H, W, 3) != 0
    assert where[GONE][2:-2, 2:-2].all() or seconds < 1 / FPS  # ages hardly grow then
    assert not where[KNOWN].any()
