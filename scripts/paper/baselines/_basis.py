"""Where the trackers begin."""

from __future__ import annotations

import numpy as np


def first_basis(rank: int, dimension: int, seed: int, U: np.ndarray | None) -> np.ndarray:
    """Return a random orthonormal basis, (dimension, rank), or an orthonormal one of the span of `U`.

    The stream of the seed is its own: data made from the same seed must not have the same first factor, or the
    tracker would begin at the solution.
    """
    if U is None:
        generator = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(0x67A55,)))
        U = generator.standard_normal((dimension, rank))
    return np.linalg.qr(U)[0]
