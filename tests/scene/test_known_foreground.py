"""Known foreground is neither a standing object nor confirmed background."""

import numpy as np

from bgsub import BackgroundSubtractor

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
