"""A damaged kernel cache is compiled again, with one warning; a cache that others can write gives a warning."""

import os
import subprocess
import sys

import numpy as np
import pytest
from kernel_programs import WHOLE
from scoring import scored

DAMAGES = {"50 bytes": 50, "random bytes": None, "empty": 0, "no file": -1}  # bytes that are kept of each file


@pytest.fixture
def run(tmp_path):
    """Return a function that runs the program and returns: works, compiled, messages."""

    def program(**variables):
        environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache"), **variables}
        command = [sys.executable, "-c", WHOLE]
        done = subprocess.run(command, env=environment, check=False, capture_output=True, text=True)
        children, *_, works = done.stdout.split() or ("0", "")
        return works == "True", children != "0", done.stderr.splitlines()

    return program


@scored("damaged kernel cache")
def test_a_damaged_cache_is_compiled_again_with_one_warning(run, tmp_path, tries):
    assert run() == (True, True, [])
    for title, kept in list(DAMAGES.items())[: tries(2, None)]:
        for path in (tmp_path / "cache").rglob("*.nbc"):
            if kept is None:
                path.write_bytes(np.random.default_rng(0).bytes(path.stat().st_size))
            elif kept < 0:
                path.unlink()
            else:
                os.truncate(path, kept)
        works, compiled, messages = run()
        # Short and missing files are found at the start, random bytes at the first call.
        is_warned = len(messages) == 1 and "damaged" in messages[0] and compiled != title.startswith("random")
        again = not title.startswith("random") or run()[0]  # random data is compiled again by the second run
        yield (title, messages, again), works and is_warned and again and run() == (True, False, [])
    folder = next((tmp_path / "cache").rglob("*.nbc")).parent
    folder.chmod(0o777)
    works, _, messages = run()
    assert works
    assert len(messages) == (os.name == "posix")
    assert all(f"kernel cache '{folder}' is writable by other users" in message for message in messages)


def test_versions_of_numba_keep_each_others_kernels(run, tmp_path):
    # of this process and of those that compile
    (tmp_path / "sitecustomize.py").write_text("import os, numba\nnumba.__version__ = os.environ['NUMBA_VERSION']\n")
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    kept: dict[str, bytes] = {}
    for version in ("0.59.0", "0.59.1", "0.59.0"):
        is_first = not any(version in name for name in kept)
        assert run(NUMBA_VERSION=version, PYTHONPATH=path) == (True, is_first, [])
        files = {path.name: path.read_bytes() for path in (tmp_path / "cache").rglob("*.nb?")}
        assert {name: files[name] for name in kept} == kept
        kept = files
