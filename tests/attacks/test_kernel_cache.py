"""A damaged kernel cache is compiled again, with one warning; a cache that others can write gives a warning.

Versions of Numba that share a folder keep a cache each.
"""

import os
import subprocess
import sys

import numpy as np
import pytest
from scoring import scored

# A process with a table of two small kernels; it prints whether they work and whether they were compiled.
PROGRAM = """
import subprocess
import numpy as np
from bgsub.scene import _segment_kernels, kernel_warmup
kernel_warmup.stages = lambda frames: [["scene._segment_kernels.paint: u1_1, i8, u1_1, u1_1"],
    ["scene._frame_kernels.clear: u1_1, u1_1"], ["tracking._step_kernels.compose: f8_2, f8_2, f8_1"]]
started = []

class Counted(subprocess.Popen):
    def __init__(self, *arguments, **named):
        super().__init__(*arguments, **named)
        started.append(self.pid)

kernel_warmup.subprocess.Popen = Counted
warmup = kernel_warmup.prepare(kernel_warmup.Frames("uint8", 3, 3))
warmup.wait(kernel_warmup.TRACKING)
warmup.load()
warmup.join()
flat = np.zeros(4, np.uint8)
_segment_kernels.paint(np.ones(4, np.uint8), 7, flat, np.ones(1, np.uint8))
print(flat.tolist() == [7] * 4, bool(started))
"""
DAMAGES = {  # the ending of the files, and the bytes that are kept, or None for random bytes, or -1 for no file
    "50 bytes of index": ("nbi", 50),
    "random data": ("nbc", None),
    "empty data": ("nbc", 0),
    "random index": ("nbi", None),
    "no data": ("nbc", -1),
    "no index": ("nbi", -1),
}


@pytest.fixture
def run(tmp_path):
    """Return a function that runs the program and returns: works, compiled, messages."""

    def program(**variables):
        environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache"), **variables}
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM], env=environment, check=False, capture_output=True, text=True
        )
        return *(word == "True" for word in (done.stdout or "False False").split()), done.stderr.splitlines()

    return program


@scored("damaged kernel cache")
def test_a_damaged_cache_is_compiled_again_with_one_warning(run, tmp_path, tries):
    assert run() == (True, True, [])
    for title, (ending, kept) in list(DAMAGES.items())[: tries(3, None)]:
        for path in (tmp_path / "cache").rglob(f"*.{ending}"):
            if kept is None:
                path.write_bytes(np.random.default_rng(0).bytes(path.stat().st_size))
            elif kept < 0:
                path.unlink()
            else:
                os.truncate(path, kept)
        works, compiled, messages = run()
        # Damage to the index and missing data are found at the start, random data at the first call.
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
