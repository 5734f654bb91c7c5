"""Damaged kernel caches: kernels are compiled again, with one warning."""

import os
import subprocess
import sys

import numpy as np
import pytest

# A process with a table of three small kernels, which counts the processes that it starts.
PROGRAM = """
import subprocess
import numpy as np
from bgsub.scene import _pixel_kernels, kernel_warmup
kernel_warmup.stages = lambda frames: [["scene._pixel_kernels.paint: u1_1, i8, u1_1"],
    ["scene._standing_objects_kernels.confirm: u1_1, u1, u1_1"], ["tracking._step_kernels.compose: f8_2, f8_2, f8_1"]]
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
_pixel_kernels.paint(np.ones(4, np.uint8), 7, flat)
print(flat.tolist() == [7] * 4, bool(started))
"""


@pytest.fixture
def run(tmp_path):
    """Return a function that runs the program on a cache: works, compiled in processes, messages."""

    def program():
        environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM], env=environment, check=False, capture_output=True, text=True
        )
        if done.returncode:
            return False, False, done.stderr.splitlines()
        works, compiled = (word == "True" for word in done.stdout.split())
        return works, compiled, done.stderr.splitlines()

    return program


def _random(path, rng):
    path.write_bytes(rng.bytes(path.stat().st_size))


def _cut(path, length):
    os.truncate(path, length)


DAMAGE = {
    "empty data": ("nbc", lambda path, _: _cut(path, 0)),
    "random data": ("nbc", _random),
    "empty index": ("nbi", lambda path, _: _cut(path, 0)),
    "50 bytes of index": ("nbi", lambda path, _: _cut(path, 50)),
    "50 bytes of data": ("nbc", lambda path, _: _cut(path, 50)),
    "random index": ("nbi", _random),
    "no data": ("nbc", lambda path, _: path.unlink()),
    "no index": ("nbi", lambda path, _: path.unlink()),
}


def test_damaged_kernels_are_compiled_again_with_one_warning(run, tmp_path, tries, score):
    assert run() == (True, True, [])
    count, survived = tries(2, len(DAMAGE)), 0
    for seed, (title, (ending, damage)) in enumerate([*DAMAGE.items()][:count]):
        for path in (tmp_path / "cache").rglob(f"*.{ending}"):
            damage(path, np.random.default_rng(seed))
        works, compiled, said = run()
        again = run()
        # Short or missing files are noticed at the start, others at the first call.
        good = works and len(said) == 1 and "damaged" in said[0] and compiled != title.startswith("random")
        good = good and again[0] and run() == (True, False, [])
        survived += good
        if not good:
            print(title, works, compiled, said, again)
    score("a damaged file of the kernels", count, survived)


@pytest.mark.skipif(os.name != "posix", reason="folders have no such mode")
def test_writable_cache_folder_gives_a_warning(run, tmp_path):
    assert run() == (True, True, [])
    folder = next((tmp_path / "cache").rglob("*.nbc")).parent
    folder.chmod(0o777)
    works, _, said = run()
    assert works
    assert len(said) == 1
    assert f"kernel cache '{folder}' is writable by other users" in said[0]
