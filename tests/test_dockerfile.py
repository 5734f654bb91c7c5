"""The image, as far as testable without Docker: files, commands, installation."""

import os
import re
import shutil
import sys
from fnmatch import fnmatch

import pytest
from environments import ROOT, fresh_environment, index_is_there, succeeds

LINES = [line for line in (ROOT / "Dockerfile").read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
STEPS = [step.split(maxsplit=1) for step in "\n".join(LINES).replace("\\\n", " ").splitlines() if step]
COPIES = [rest.split() for name, rest in STEPS if name == "COPY"]
RUNS = [rest for name, rest in STEPS if name == "RUN"]


@pytest.mark.parametrize("name", [name for *names, _ in COPIES for name in names])
def test_copied_files_exist_and_are_not_ignored(name):
    assert (ROOT / name).exists()
    sent = False
    for pattern in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines():
        if fnmatch(name, pattern.removeprefix("!")):
            sent = pattern.startswith("!")
    assert sent


@pytest.fixture
def sources(tmp_path):
    """Copy the sources of the image below `tmp_path`."""
    for *names, target in COPIES:
        for name in names:
            place = tmp_path / target.strip("/")
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, place, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                place.mkdir(exist_ok=True)
                shutil.copy(ROOT / name, place)
    return tmp_path / "src"


@pytest.mark.slow
def test_installs_bgsub_with_headless_opencv(tmp_path, sources):
    programs = fresh_environment(tmp_path / "environment")
    if not index_is_there(programs / "python", tmp_path):
        pytest.skip("no index of packages can be reached")
    (programs / "pip").write_text(f'#!/bin/sh\nexec "{programs / "python"}" -m pip "$@"\n', encoding="utf-8")
    (programs / "pip").chmod(0o755)
    (step,) = (run for run in RUNS if "pip install" in run)
    path = f"{programs}:{os.environ['PATH']}"
    succeeds("sh", "-euc", step.replace("/src", str(sources)), cwd=tmp_path, PATH=path)
    code = "import bgsub, cv2, os; print(cv2.getBuildInformation(), os.path.getmtime(bgsub.__file__) % 1)"
    answer = succeeds(programs / "python", "-I", "-c", code, cwd=tmp_path)
    assert re.search(r"GUI: +NONE", answer)
    assert answer.endswith(" 0.0\n")
    assert succeeds(programs / "bgsub", "--help", cwd=tmp_path).startswith("Usage: bgsub ")


@pytest.mark.slow
def test_kernels_are_portable(tmp_path):
    (settings,) = (rest for name, rest in STEPS if name == "ENV")
    (processor,) = (rest.partition("=")[2] for name, rest in STEPS if name == "ARG")
    values = dict(pair.split("=") for pair in settings.replace('""', "").replace("$CPU", processor).split())
    code = "from numba.core.registry import cpu_target as t; print(t.target_context.codegen().magic_tuple()[1:])"
    assert values.keys() == {"NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES", "NUMBA_CACHE_DIR"}
    assert succeeds(sys.executable, "-c", code, cwd=tmp_path, **values) == f"{(processor, '')}\n"
