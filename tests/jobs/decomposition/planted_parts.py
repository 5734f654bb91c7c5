"""Matrices and pictures with a known low-rank and a known sparse part."""

import numpy as np

from bgsub.synthetic import low_rank_plus_sparse

X, LOW_RANK, *_ = low_rank_plus_sparse(40, 60, 2, 0.1, seed=0)


def make_pictures(n=24, height=27, width=35, channels=3, dtype=np.uint8) -> tuple[np.ndarray, np.ndarray]:
    """Frames of a still scene whose light changes, and the scene itself; a bright square crosses them.

    Both are (n, height, width, channels), without the last axis for one channel. Odd sizes on purpose.
    """
    rng = np.random.default_rng(6)
    top = np.iinfo(dtype).max
    light = np.linspace(0.6, 1.0, n)[:, None, None, None]
    scene = rng.uniform(0.2, 0.6, (height, width, channels)) * light
    frames = scene.copy()
    for index, frame in enumerate(frames):
        left = index % (width - 8)
        frame[8:16, left : left + 8] = 0.95
    pair = tuple(np.rint(part * top).astype(dtype) for part in (frames, scene))
    frames, scene = (part[..., 0] if channels == 1 else part for part in pair)
    return frames, scene


def relative_error(found: np.ndarray, truth: np.ndarray) -> float:
    return float(np.linalg.norm(found.astype(float) - truth) / np.linalg.norm(truth.astype(float)))
