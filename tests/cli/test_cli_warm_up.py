"""``bgsub warm-up``: messages, cached kernels, and errors."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest
from numba import config

from bgsub.scene import kernel_warmup

# The command with a table of two quick kernels; it prints the number of processes.
PROGRAM = """
import subprocess, sys
from bgsub.scene import kernel_warmup
kernel_warmup.stages = lambda frames: [
    ["scene._pixel_kernels.paint: u1_1, i8, u1_1"], [], ["scene._illumination_kernels.contrast: P_1, i8_1, i8"]
]
plain, started = subprocess.Popen, []
kernel_warmup.subprocess.Popen = lambda *a, **k: [plain(*a, **k)][started.append(1) or 0]
from bgsub.cli import invoke
code = invoke(["warm-up"])
print(len(started))
sys.exit(code)
"""
jit = pytest.mark.skipif(config.DISABLE_JIT, reason="nothing is compiled")


def run(*words, **variables):
    command, environment = [sys.executable, *words], {**os.environ, **variables}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=200)


@pytest.mark.slow
@jit
def test_kernels_of_all_frame_formats_are_compiled_once(tmp_path):
    cache = tmp_path / "cache"
    first, second = (run("-c", PROGRAM, NUMBA_CACHE_DIR=str(cache)) for _ in range(2))
    stamps = sorted(cache.rglob("*.kernels"))
    (folder,) = {stamp.parent for stamp in stamps}
    message, count = first.stdout.splitlines()
    assert (first.returncode, message) == (0, f"all kernels are in {folder}")
    assert int(count) >= 4
    lines = re.sub(r"in \d+\.\d s", "in T s", first.stderr).splitlines()
    expected = ["bgsub: compiling kernels 0 of 2, once per installation", "bgsub: 2 kernels compiled in T s"]
    assert lines == expected * 4  # frame formats
    assert (second.returncode, second.stdout, second.stderr) == (0, f"{message}\n0\n", "")
    formats = [f"{dtype}-{channels}-3" for dtype in ("uint8", "float32") for channels in (1, 3)]
    assert {stamp.stem.split("-", 2)[2] for stamp in stamps} == {*formats, *(f"{one}-reduced" for one in formats)}


@jit
def test_cache_folder_that_cannot_be_written(cli, monkeypatch):
    monkeypatch.setattr(kernel_warmup, "_stamp", lambda frames: None)
    monkeypatch.setattr(kernel_warmup, "prepare", lambda frames: None)
    cli("warm-up").refused("no folder for them can be written (NUMBA_CACHE_DIR names one)")


@pytest.mark.slow
def test_kernels_in_plain_python():
    ended = run("-m", "bgsub", "warm-up", NUMBA_DISABLE_JIT="1")
    message = "bgsub: error: kernels are not compiled where NUMBA_DISABLE_JIT is set\n"
    assert (ended.returncode, ended.stdout, ended.stderr) == (2, "", message)
