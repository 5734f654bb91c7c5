"""Import path of the scripts of the paper, and a planted subspace for the trackers."""

import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

collect_ignore_glob = [] if find_spec("matplotlib") else ["test_*.py"]  # the scripts draw with Matplotlib
sys.path.insert(0, str(Path(__file__).parents[2] / "scripts" / "paper"))


@pytest.fixture
def rng():
    return np.random.default_rng(11)


@pytest.fixture
def planted(rng):
    return np.linalg.qr(rng.standard_normal((100, 3)))[0]
