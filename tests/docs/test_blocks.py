"""Every code block of the documentation is run in order, or at least parsed."""

import contextlib
import doctest
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from functools import reduce
from pathlib import Path
from types import ModuleType
from unittest.mock import Mock

import numpy as np
import pytest
from pages import DOCS, PAGES, ROOT, blocks
from video_fakes import write_video

from bgsub import synthetic
from bgsub.cli import invoke, program

RUN = [page for page in PAGES if page not in ("home-automation.md", "security.md")]  # these have their own tests
_PROGRAMS = Path(sys.executable).parent
# The demo of the tutorials is shorter here.
_SHORTER = {"--duration 20s": "--duration 16s", "500 frames": "400 frames"}
_AS_PRINTED = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@pytest.fixture(scope="session")
def videos(tmp_path_factory):
    """Return a folder of short videos that replace the reader's files."""
    folder = tmp_path_factory.mktemp("videos")
    frames = np.stack([image for image, _ in synthetic.scene("street", size=(160, 120), length=120, seed=1)])
    for name, part in {"street": frames, "cam-1": frames[:60], "cam-2": frames[60:], "video": frames}.items():
        write_video(folder / f"{name}.mp4", part, codec="mp4v")
    return folder


@pytest.fixture
def desk(here, videos, monkeypatch):
    """Return the working folder of the code of a page."""
    (here / "datasets").symlink_to(ROOT / "datasets")
    for video in videos.iterdir():
        (here / video.name).symlink_to(video)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    module = ModuleType("IPython.display")  # replaces the notebook's display
    module.display = Mock()
    monkeypatch.setitem(sys.modules, "IPython", ModuleType("IPython"))
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    return here


def shorter(text):
    return reduce(lambda text, change: text.replace(*change), _SHORTER.items(), text)


def run_shell(code):
    """Run a block: the plain calls of bgsub in this process, which has loaded everything, and other lines by bash."""
    return "".join(map(run_line, code.replace("\\\n", " ").splitlines()))


def run_line(line):
    words = list(shlex.shlex(line, posix=True, punctuation_chars=True))
    if words[:1] == ["bgsub"] and not any(set(word) <= set("|<>;&") for word in words):
        printed, messages = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(messages):
            assert invoke(shlex.split(line, comments=True)[1:]) == 0, f"{line}\n{messages.getvalue()}"
        return printed.getvalue()
    if "ffmpeg" in words and shutil.which("ffmpeg") is None:  # an example; not a requirement
        return ""
    path = os.pathsep.join([str(_PROGRAMS), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)}
    command = ["bash", "-euo", "pipefail", "-c", line]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.mark.parametrize("page", RUN)
def test_code_blocks_run_and_print_the_shown_output(page, desk):
    names = {"__name__": "page"}
    for block in blocks(page):
        if block.reason:
            continue
        if block.language == "sh":
            printed = run_shell(shorter(block.code))
        elif block.language == "python":
            with contextlib.redirect_stdout(io.StringIO()) as file:
                exec(compile(block.code, "page", "exec"), names)
            printed = file.getvalue()
        else:
            assert block.language in {"toml", "text"}, f"unknown block language {block.language} on {page}"
            if block.language == "toml":
                tomllib.loads(block.code)
                Path("page.toml").write_text(block.code, encoding="utf-8")
                for command in ("run", "live"):
                    run_shell(f"env -u BGSUB_NO_CONFIG XDG_CONFIG_HOME=. bgsub --config page.toml config {command}")
            continue
        if block.printed is not None:
            expected = shorter(block.printed)
            assert doctest.OutputChecker().check_output(expected, printed, _AS_PRINTED), f"{block.code}\n{printed}"


def bgsub_commands(code):
    """Return the arguments of each bgsub call in shell code."""
    lines = code.replace("\\\n", " ").splitlines()
    parts = [part for line in lines for part in re.split(r"\s(?:&&|\|)\s", line)]
    words = [shlex.split(part, comments=True) for part in parts]
    return [part[1:] for part in words if part and Path(part[0]).name == "bgsub"]


def test_code_blocks_that_are_not_run_are_valid(desk):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for page, block in ((name, block) for name in RUN for block in blocks(name) if block.reason is not None):
        if block.language == "python":
            compile(block.code, page, "exec")
        for words in bgsub_commands(block.code) if block.language == "sh" else ():
            command = program.get_command(program.make_context("bgsub", [], resilient_parsing=True), words[0])
            assert command is not None, words
            command.make_context(f"bgsub {words[0]}", list(words[1:]))
        for extra in re.findall(r"pip install [^\n]*\[([\w,-]+)\]", block.code):
            assert set(extra.split(",")) <= set(project["optional-dependencies"])


def test_every_block_is_found():
    for page in PAGES:
        code = re.findall(r"^\s*```[a-z]", (DOCS / page).read_text(encoding="utf-8"), re.MULTILINE)
        found = sum(1 + (block.printed is not None) for block in blocks(page))
        assert len(code) == found, f"{page}: a block in a list, or unclosed?"
