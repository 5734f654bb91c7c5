"""The engine calls its kernels on all blocks and keeps the background before; the one for a GPU in a simulator."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import reference_sweep as dense
from reference_tracking import SURROGATES, F, arguments

from bgsub import BackgroundSubtractor
from bgsub.errors import DependencyError, ParameterError
from bgsub.scene._frame_kernels import LearnParams
from bgsub.scene.engine import SweepEngine
from bgsub.scene.frame_format import FrameFormat
from bgsub.tracking.basis import Cost, Visit
from bgsub.tracking.subspace import Sweep

PROGRAMS = Path(__file__).parents[1] / "cuda_programs.py"
SHAPE, K, PERIOD = (24, 31), 4, 3


@pytest.mark.parametrize(("threads", "everywhere"), [(1, True), (2, False)])
def test_passes_of_the_engine_equal_their_twins(threads, everywhere, monkeypatch):
    dense.small_blocks(monkeypatch, PERIOD)
    sigma = np.full(SHAPE, 0.02, F)
    engine = SweepEngine(FrameFormat((*SHAPE, 3), "uint8", 255.0), K, threads, sigma)
    case = dense.Case(sigma.size, engine.block, 3, np.uint8, K, PERIOD, 1, SURROGATES[0], everywhere, hides=True)
    expected, flat = case.expected(), engine.picture.reshape(-1)
    engine.set_limits(*dense.LIMITS)
    for count in (1, 2):
        engine.begin(case.pixels.reshape(*SHAPE, 3))
        assert engine.before is (None if count == 1 else engine.picture)
    flat[:] = case.before
    visit = Visit(case.stack, case.G, case.c, PERIOD, case.turn)
    result = engine.sweep(Sweep(visit, Cost(*arguments(SURROGATES[0])), None, 0, None), case.hidden, everywhere)
    np.testing.assert_allclose([*result.products, result.cost], expected.products, rtol=1e-4, atol=2e-3)
    np.testing.assert_allclose(flat, expected.picture, atol=0.5 + 2e-3)
    assert result.candidates == np.count_nonzero(engine.over) > 0
    np.testing.assert_array_equal(engine.before.reshape(-1), case.before if everywhere else flat)
    shown = flat.copy()
    assert engine.compare(np.zeros(flat.size, F)) == np.count_nonzero(engine.over)
    assert not flat.any()
    np.testing.assert_array_equal(engine.before.reshape(-1), case.before if everywhere else shown)
    distances = dense.distances(case.pixels, flat, case.look)
    np.testing.assert_allclose(engine.residual().reshape(-1), distances, atol=1e-6)
    number, moved = dense.numbers(sigma.size, engine.block, PERIOD), np.full(sigma.size, 0.02)
    for turn in range(PERIOD):
        engine.learn(np.zeros(SHAPE, np.uint8), LearnParams(F(0.1), F(0.25), F(1e-3)), (PERIOD, turn))
        moved = np.where(number == turn, moved + 0.1 * (np.minimum(distances, 0.25) - moved), moved)
        np.testing.assert_allclose(sigma.reshape(-1), moved, atol=1e-6)
    engine.begin(engine.picture)
    assert engine.before is engine.picture


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
