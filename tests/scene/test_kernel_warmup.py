"""The kernels of streams: their table, and compilation in other processes with failures, concurrency and exit."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from filelock import FileLock
from kernel_programs import BEGIN, WHOLE
from numba import config

TESTS = Path(__file__).parents[1]
PATH = os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])
pytestmark = [pytest.mark.slow, pytest.mark.skipif(config.DISABLE_JIT, reason="nothing is compiled")]


@pytest.fixture
def start(tmp_path):
    """Return a function that starts a program with its own kernel cache."""
    processes = []

    def program(code, **variables):
        known = {"PYTHONPATH": PATH, "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        options = {"env": {**os.environ, **known, **variables}, "text": True, "start_new_session": True}
        processes.append(subprocess.Popen([sys.executable, "-c", code], **options, **pipes))
        return processes[-1]

    yield program
    for process in processes:
        process.kill()
        process.communicate()


def answer(process, code=0):
    """Return the words that a program printed, after it ended without errors."""
    out, error = process.communicate(timeout=100)
    assert (process.returncode, error) == (code, "")
    return out.split()


def test_one_of_two_concurrent_processes_compiles(start):
    code = BEGIN + (
        "say(lock())\ninput()\nwarmup = kernel_warmup.prepare(FRAMES)\nsay(any(r.is_set() for r in warmup._ready))\n"
        "warmup.wait(TRACKING)\nwarmup.load()\nwarmup.join()\ntell()\n"
    )
    both = [start(code) for _ in range(2)]
    (file,) = {process.stdout.readline().strip() for process in both}
    lock = FileLock(file)
    lock.acquire()
    for process in both:  # which wait for a line
        process.stdin.write("\n")
        process.stdin.flush()
    assert [process.stdout.readline() for process in both] == ["False\n"] * 2
    lock.release()
    answers = [answer(process) for process in both]
    assert [words[1:] for words in answers] == [["0", "True", "True"]] * 2
    assert sorted(words[0] != "0" for words in answers) == [False, True]


@pytest.mark.parametrize("what", ["nothing", "says something else"])
def test_without_compilers_the_first_call_compiles(start, tmp_path, what):
    python = tmp_path / "python3"
    if what != "nothing":
        python.write_text("#!/bin/sh\nread row; echo hm\n")
        python.chmod(0o755)
    _, *rest = answer(start(WHOLE.replace("\nROWS", f"\nsys.executable = {str(python)!r}\nROWS")))
    assert rest == ["1", "False", "True"]


def test_without_a_cache_folder(start):
    refuse = (
        "from numba.core import caching\n"
        "def refuse(self):\n"
        "    raise PermissionError('read-only')\n"
        "for locator in [each for each in vars(caching).values() if hasattr(each, 'ensure_cache_path')]:\n"
        "    locator.ensure_cache_path = refuse\n"
    )
    assert answer(start(refuse + WHOLE)) == ["0", "1", "False", "True"]


MIDDLE = BEGIN + (
    "begun = threading.Event()\n"
    "plain = kernel_warmup._Compiler.compile\n"
    "def compile(self, row):\n"
    "    self._child.send_signal(19)\n"  # it never answers
    "    begun.set()\n"
    "    return plain(self, row)\n"
    "kernel_warmup._Compiler.compile = compile\n"
    "warmup = kernel_warmup.prepare(FRAMES)\n"
    "begun.wait()\n"
    "say(*started)\n"
)


@pytest.mark.parametrize("interrupted", [False, True, "in a thread"])
def test_exit_during_compilation_leaves_no_process(start, interrupted):
    take = "import signal; threading.Timer(0.1, signal.raise_signal, [2]).start()" * (interrupted == "in a thread")
    wait = f"try:\n    say(*started)\n    {take}\n    warmup.wait(FIRST_FRAME)\n"
    wait += "except KeyboardInterrupt:\n    say('stopped')\n"
    process = start(MIDDLE.replace("say(*started)\n", wait) if interrupted else MIDDLE)
    children = process.stdout.readline().split()
    if interrupted is True:
        os.killpg(process.pid, signal.SIGINT)
    assert answer(process) == ["stopped"] * bool(interrupted)
    assert children
    assert not any(psutil.pid_exists(int(child)) for child in children)


def test_disabled_jit_compiles_nothing(start):
    code = (
        "from bgsub.errors import SinkError\n"
        "from bgsub.scene import kernel_warmup as k\n"
        "print(k.prepare(k.Frames('uint8', 3, 3)))\n"
        "try:\n    k.warm_up_all()\nexcept SinkError as error:\n    print(error)\n"
    )
    words = answer(start(code, NUMBA_DISABLE_JIT="1"))
    assert " ".join(words) == "None kernels are not compiled where NUMBA_DISABLE_JIT is set"


@pytest.mark.timeout(280)
def test_cold_and_warm_processes_give_equal_masks(start):
    code = (
        "import hashlib, eventful_scene\n"
        "from bgsub import BackgroundSubtractor\n"
        "subtractor, digest = BackgroundSubtractor(rank=2, start_frames=8, fps=5, absorb_after=1), hashlib.sha256()\n"
        "for frame in eventful_scene.scene(1):\n"
        "    seen = subtractor.process(frame)\n"
        "    for array in (seen.mask, seen.background, seen.residual):\n"
        "        digest.update(array.tobytes())\n"
        "print(digest.hexdigest())\n"
    )
    cold, warm = (answer(start(code)) for _ in range(2))
    assert cold == warm


@pytest.fixture(scope="module")
def reports():
    """Return the reports of two kinds of frames, which together show all types."""
    kinds, program = [("uint8", "3"), ("float32", "1")], TESTS / "table_of_kernels.py"
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "env": {**os.environ, "PYTHONPATH": PATH}}
    both = [subprocess.Popen([sys.executable, program, *kind], text=True, **pipes) for kind in kinds]
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
