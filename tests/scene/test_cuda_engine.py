"""The engine for a GPU, in Numba's simulator; `cuda_programs.py` also runs on a GPU."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from bgsub import BackgroundSubtractor
from bgsub.errors import DependencyError, ParameterError

PROGRAMS = Path(__file__).parents[1] / "cuda_programs.py"


@pytest.mark.slow
@pytest.mark.parametrize(("program", "last"), [("twin", "same (5, 13) 1 float32 2"), ("stream", "same masks")])
def test_passes_in_the_simulator_equal_those_of_the_cpu(program, last):
    environment = {**os.environ, "NUMBA_ENABLE_CUDASIM": "1"}
    done = subprocess.run(
        [sys.executable, PROGRAMS, program], env=environment, check=False, capture_output=True, text=True
    )
    assert done.stdout.splitlines()[-1:] == [last], done.stderr


def test_a_missing_gpu_is_said_at_once(monkeypatch, caplog):
    from numba import cuda  # noqa: PLC0415 - only here

    monkeypatch.setattr(cuda, "is_available", lambda: False)
    with pytest.raises(DependencyError, match=r"^device 'cuda' needs an NVIDIA GPU.*pip install 'bgsub\[cuda\]'$"):
        BackgroundSubtractor(device="cuda")
    with pytest.raises(ParameterError, match=r"^device 'cuda' needs the surrogate 'atan', got 'lp'$"):
        BackgroundSubtractor(device="cuda", surrogate="lp")
    subtractor = BackgroundSubtractor()
    subtractor.apply(np.zeros((8, 8), np.uint8))
    header, state = subtractor.snapshot()
    header["parameters"]["device"] = "cuda"
    assert BackgroundSubtractor.from_snapshot(header, state).get_params()["device"] == "cpu"
    assert "needs an NVIDIA GPU" in caplog.text
