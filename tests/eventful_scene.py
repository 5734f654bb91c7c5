"""A small scene of 52 frames that calls every kernel."""

import numpy as np

_SIDE, _FRAMES = 64, 52


def scene(channels: int) -> list[np.ndarray]:
    """Return frames, (h, w, c) uint8: an object in the first frame only, camera shake, a shadow, a lamp."""
    rng = np.random.default_rng(0)
    coarse = np.kron(rng.integers(40, 160, (10, 10, channels)), np.ones((8, 8, 1)))[:80, :80]
    background = (coarse + rng.integers(0, 20, coarse.shape)).astype(np.uint8)
    frames = []
    for i in range(_FRAMES):
        shift = i % 3 if 14 <= i < 20 else 0
        frame = background[4 + shift : 4 + shift + _SIDE, 4 : 4 + _SIDE].copy()
        if i < 1 or 22 <= i < 36:
            frame[20:44, 16:40] = 230
            frame[12:52, 40:46] //= 5
        if i >= 40:
            frame = (frame * np.linspace(0.8, 1.6, _SIDE)[:, np.newaxis]).clip(0, 255).astype(np.uint8)
        frames.append(frame)
    return frames
