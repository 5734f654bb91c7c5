"""The table of kernels against the kernels that streams call."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from numba import config

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
    missing = [row for report in reports for row in report["missing"]]
    assert not missing, "\n".join(["rows to be put into the table:", *missing])


def test_all_rows_are_called(reports):
    colour, grey = (set(report["unused"]) for report in reports)
    assert not colour & grey, "\n".join(["rows that no stream calls:", *sorted(colour & grey)])


def test_other_memory_layouts_compile_nothing(reports):
    new = [row for report in reports for row in report["new"]]
    assert not new, "\n".join(["compiled anew:", *new])
