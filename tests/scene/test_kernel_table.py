"""The table of kernels against the kernels that streams call."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from numba import config
from table_of_kernels import in_the_notation_of_the_table

PROGRAM = Path(__file__).parents[1] / "table_of_kernels.py"
pytestmark = [pytest.mark.slow, pytest.mark.skipif(config.DISABLE_JIT, reason="nothing is compiled")]


@pytest.fixture(scope="module")
def reports():
    """Return the reports of two kinds of frames, which together show all types."""
    kinds = [("uint8", "3"), ("float32", "1")]
    path = os.pathsep.join([str(PROGRAM.parent), os.environ.get("PYTHONPATH", "")])
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "env": {**os.environ, "PYTHONPATH": path}}
    both = [subprocess.Popen([sys.executable, PROGRAM, *kind], text=True, **pipes) for kind in kinds]
    ended = [process.communicate(timeout=250) for process in both]
    assert [process.returncode for process in both] == [0, 0], ended
    return [json.loads(out) for out, _ in ended]


def test_all_called_kernels_are_in_the_table(reports):
    missing = in_the_notation_of_the_table(*(report["missing"] for report in reports))
    assert not missing, "\n".join(["rows to be put into the table:", *missing])


def test_all_rows_are_called(reports):
    colour, grey = (set(report["unused"]) for report in reports)
    assert not colour & grey, "\n".join(["rows that no stream calls:", *sorted(colour & grey)])


def test_other_memory_layouts_compile_nothing(reports):
    new = in_the_notation_of_the_table(*(report["new"] for report in reports))
    assert not new, "\n".join(["compiled anew:", *new])


def test_notation_of_missing_rows():
    colour = ["a.b: u1_2, f4, tuple3, i8", "a.c: u1_1, tuple3", "d.e: u1_1:readonly", "f.g: i8"]
    grey = ["a.b: f4_2, f4, tuple1, i8", "a.c: u1_1, tuple3", "d.e: f4_1:readonly"]
    assert in_the_notation_of_the_table(colour, grey) == [
        "a.b: P_2, f4, lanes, i8",
        "a.c: u1_1, cost",
        "d.e: P_1:readonly",
        "f.g: i8  (3 channels of uint8 only)",
    ]
