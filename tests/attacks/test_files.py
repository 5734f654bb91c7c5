"""Damaged and crafted files end in a result or one line, without a crash, a hang or much memory."""

import ast
import shutil
from pathlib import Path

import file_kit
import numpy as np
import pytest
from file_kit import continue_model, members_of, resume_job, save_models, write_members
from isolated_process import MEGABYTES, IsolatedProcess

import bgsub
from bgsub.cli import invoke

LITTLE = 200  # megabytes


@pytest.fixture(scope="module")
def process():
    with IsolatedProcess() as process:
        yield process


def test_invalid_models_are_refused_in_one_line(process, tmp_path, score):
    model = save_models(tmp_path)[1][0]
    images = str(file_kit.write_images(tmp_path / "frames"))
    command = ["run", images, "-o", str(tmp_path / "out"), "--overwrite", "--model"]
    assert process.call(invoke, [*command, str(model)]).code == 0

    def outcomes():
        for title, path in file_kit.crafted_models(model, tmp_path):
            outcome = process.call(invoke, [*command, str(path)])
            yield (title, outcome), outcome.is_clean and outcome.code == 2 and outcome.megabytes < LITTLE

    score("invalid model", outcomes())


def test_models_with_impossible_values_do_not_crash(process, tmp_path, tries, score):
    saved, codes = [(members_of(path), first) for path, first in save_models(tmp_path)], set()

    def outcomes():
        for seed in range(tries(30, 2000)):
            rng = np.random.default_rng(seed)
            members, first = saved[rng.integers(len(saved))]
            other, title = file_kit.with_damaged_array(members, rng)
            outcome = process.call(continue_model, write_members(tmp_path / "other.npz", other), first)
            codes.add(outcome.code)
            yield (seed, title, outcome), outcome.code in (0, 2) and outcome.megabytes < MEGABYTES

    score("model with impossible values", outcomes())
    assert {0, 2} <= codes


def test_damaged_inputs_end_in_one_line(process, tmp_path, tries, score):
    known = file_kit.readable_files(tmp_path)
    names = list(known)

    def outcomes():
        for seed in range(tries(len(names), 100 * len(names))):
            name = names[seed % len(names)]
            path, command = known[name]
            whole = path.read_bytes()
            path.write_bytes(file_kit.damaged(whole, np.random.default_rng(seed)))
            outcome = process.call(invoke, [*command, "--quiet"])
            path.write_bytes(whole)
            yield (seed, name, outcome), outcome.is_clean

    score("damaged input", outcomes())


def test_damaged_checkpoints_are_refused_or_resumed(process, tmp_path, tries, score):
    """Change bytes, or replace values of the header with correct checksums."""
    out, kept = file_kit.interrupt_job(tmp_path), tmp_path / "kept"
    shutil.copytree(out, kept)
    state = kept / ".resume" / "state"

    def outcomes():
        for seed in range(tries(8, 400)):
            shutil.rmtree(out)
            shutil.copytree(kept, out)
            rng = np.random.default_rng(seed)
            if seed % 4 == 0:
                (out / ".resume" / "state").write_bytes(file_kit.damaged(state.read_bytes(), rng))
            else:
                write_members(out / ".resume" / "state", file_kit.with_damaged_header(members_of(state), rng))
            outcome = process.call(resume_job, str(tmp_path))
            yield (seed, outcome), outcome.code in (0, 2) and outcome.megabytes < MEGABYTES

    score("damaged checkpoint", outcomes())


def test_the_library_never_unpickles():
    modules = {"pickle", "marshal", "shelve", "dill", "joblib", "cloudpickle"}
    for path in Path(bgsub.__path__[0]).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                names = [*(alias.name for alias in node.names), getattr(node, "module", None) or ""]
                assert not modules & {name.split(".")[0] for name in names}, path
            if isinstance(node, ast.keyword):
                assert node.arg != "allow_pickle" or node.value.value is False, path
            assert not (isinstance(node, ast.Call) and getattr(node.func, "id", "") in {"eval", "exec"}), path
