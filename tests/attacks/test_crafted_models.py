"""A model of a stranger: refused in one line, at once and in little memory, or one that gives finite frames."""

import ast
from pathlib import Path

import numpy as np
from crafted_models import containers, goes_on, members_of, save_images, save_some, with_other_array, write_members
from doomed import Doomed

import bgsub

LITTLE = 200  # megabytes


def test_invalid_models_are_refused_in_one_line(tmp_path, score):
    model = save_some(tmp_path)[1][0]
    frames, count, survived = str(save_images(tmp_path / "frames")), 0, 0
    command = ["run", frames, "-o", str(tmp_path / "out"), "--overwrite", "--model"]
    with Doomed() as process:
        assert process.call([*command, str(model)]).code == 0
        for title, path in containers(model, tmp_path):
            outcome = process.call([*command, str(path)])
            count += 1
            good = outcome.is_told and outcome.code == 2 and outcome.megabytes < LITTLE
            survived += good
            if not good:
                print(title, outcome)
    score("a file that is no model", count, survived)


def test_impossible_arrays_do_not_crash(tmp_path, tries, score):
    saved = [(members_of(path), first) for path, first in save_some(tmp_path)]
    count, survived, codes = tries(40, 2000), 0, set()
    with Doomed() as process:
        for seed in range(count):
            rng = np.random.default_rng(seed)
            members, first = saved[rng.integers(len(saved))]
            other, title = with_other_array(members, rng)
            path = write_members(tmp_path / "other.npz", other)
            outcome = process.call(str(path), first, function=f"crafted_models:{goes_on.__name__}")
            good = outcome.is_told or outcome.code in (0, 2)
            codes.add(outcome.code)
            survived += good
            if not good:
                print(seed, title, outcome)
    assert {0, 2} <= codes
    score("a model with other numbers", count, survived)


def test_library_never_unpickles():
    """No pickle is read anywhere in the library, nor what NumPy would make of one."""
    modules = {"pickle", "marshal", "shelve", "dill", "joblib", "cloudpickle"}
    for path in Path(bgsub.__path__[0]).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                names = [*(alias.name for alias in node.names), getattr(node, "module", None) or ""]
                assert not modules & {name.split(".")[0] for name in names}, path
            if isinstance(node, ast.keyword):
                assert node.arg != "allow_pickle" or node.value.value is False, path
            assert not (isinstance(node, ast.Call) and getattr(node.func, "id", "") in {"eval", "exec"}), path
