"""The script that measures the background picture, on a small scene."""

import runpy
from pathlib import Path

import numpy as np
import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "background_picture.py"


@pytest.fixture(scope="module")
def script():
    return runpy.run_path(str(SCRIPT))


def test_errors_of_a_picture(script):
    truth = np.full((10, 10, 3), 100, np.uint8)
    picture = truth.copy()
    picture[:2, :, 1] = 88
    picture[2:4] += 10
    error, wrong = script["errors"](picture, truth)
    assert error == pytest.approx((0.2 * 12 + 0.2 * 30) / 3)
    assert wrong == pytest.approx(0.2)


@pytest.mark.slow
@pytest.mark.large
def test_background_of_a_busy_start(script):
    found = {m: script["measure"](m, "busy street", (96, 72), 120, 1) for m in ("bgsub", "MOG2", "KNN")}
    assert (found["bgsub"] < found["MOG2"]).all()
    assert (found["bgsub"] < found["KNN"]).all()
    assert found["bgsub"][0] < 3
