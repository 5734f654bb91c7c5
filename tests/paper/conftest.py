"""Import path of the scripts of the paper, and a planted subspace for the trackers."""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts" / "paper"))


@pytest.fixture
def rng():
    return np.random.default_rng(11)


@pytest.fixture
def planted(rng):
    return np.linalg.qr(rng.standard_normal((100, 3)))[0]
