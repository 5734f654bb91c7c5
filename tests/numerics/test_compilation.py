"""What is known of kernels that are being compiled: how many, how long somebody has waited, the lines of the log."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
from numba.core import event
from numba.core.compiler_lock import global_compiler_lock

import bgsub.numerics.jit  # noqa: F401 - it begins to count
from bgsub.numerics import compilation, compilation_progress
from bgsub.numerics.compilation import Progress, listening, planned, progress, waited, waiting, working_time
from bgsub.numerics.compilation_progress import CompilationLog


@pytest.fixture
def now(monkeypatch):
    """A clock that the test turns, and nothing compiled yet."""
    now = [100.0]
    clock = SimpleNamespace(perf_counter=lambda: now[0], monotonic=lambda: now[0])
    monkeypatch.setattr(compilation, "_compilations", compilation._Compilations())
    monkeypatch.setattr(compilation, "time", clock)
    monkeypatch.setattr(compilation_progress, "time", clock)
    return now


@contextmanager
def compiling(module="bgsub.tracking._kernels"):
    dispatcher = SimpleNamespace(py_func=SimpleNamespace(__module__=module))
    with global_compiler_lock, event.trigger_event("numba:compile", data={"dispatcher": dispatcher}):
        yield


def test_progress_in_words():
    assert str(Progress(31, 62)) == "compiling kernels 31 of 62"
    assert [Progress(done, 62).is_complete for done in (0, 61, 62)] == [False, False, True]


def test_kernels_are_counted_until_no_more_come(now, monkeypatch):
    monkeypatch.setattr(compilation, "_SETTLED", 0.0)
    heard, settled = [], threading.Event()

    def listener(progress):
        heard.append(progress)
        if progress.is_complete:
            settled.set()

    assert progress() == Progress(0, 0)
    with listening(listener):
        with compiling(), compiling():  # a kernel for a kernel is part of it
            assert not progress().is_complete
        assert settled.wait(30)
    assert [of.done for of in heard] == [0, 1, 1]
    assert progress() == Progress(1, 1)
    with compiling():
        pass
    assert len(heard) == 3  # nobody listens any more


def test_functions_of_others_are_not_counted(now):
    with compiling("scipy.x"):
        assert progress().is_complete
    assert progress() == Progress(0, 0)


def test_a_clock_that_stands_still_while_kernels_are_waited_for(now):
    now[0] += 3
    assert (waited(), working_time()) == (0, 103)
    with compiling():
        now[0] += 4
        assert (waited(), working_time()) == (4, 103)
    now[0] += 1
    assert (waited(), working_time()) == (4, 104)


def test_who_finds_a_kernel_has_not_waited(now):
    with global_compiler_lock:
        now[0] += 4
    assert waited() == 0


def test_who_loads_kernels_beside_the_stream_does_not_wait_until_the_stream_needs_one(now, monkeypatch):
    loading, needed, going = threading.Event(), threading.Event(), threading.Event()
    plain = compilation._compilations.wait
    monkeypatch.setattr(compilation._compilations, "wait", lambda step: [plain(step), needed.set()])

    def load():
        with compiling():
            needed.clear()
            now[0] += 4
            loading.set()
            assert going.wait(30)

    def need():
        with global_compiler_lock:
            pass

    loader = threading.Thread(target=load, name="kernel-loader")
    loader.start()
    assert loading.wait(30)
    assert (waited(), progress().done) == (0, 0)
    stream = threading.Thread(target=need)
    stream.start()
    assert needed.wait(30)
    now[0] += 5
    assert waited() == 5
    going.set()
    loader.join()
    stream.join()
    assert (waited(), progress().done) == (5, 1)


def test_planned_kernels_are_told_one_by_one(now):
    heard = []
    with listening(heard.append), planned(3) as tell:
        tell()
        tell()
        assert progress() == Progress(2, 3)
    # nothing more comes, whatever became of the third
    assert heard == [Progress(0, 3), Progress(1, 3), Progress(2, 3), Progress(2, 2)]
    assert progress() == Progress(2, 2)
    with planned(5):
        assert progress() == Progress(0, 5)


def test_the_end_of_a_plan_is_told_though_it_fails(now):
    heard = []
    with listening(heard.append), pytest.raises(MemoryError), planned(3):
        raise MemoryError
    assert heard == [Progress(0, 3), Progress(0, 0)]
    assert progress().is_complete


def test_two_plans_are_one_until_both_have_ended(now):
    with planned(3) as first:
        first()
        with planned(2) as second:
            assert progress() == Progress(1, 5)
            second()
            second()
        assert progress() == Progress(3, 5)
        assert not progress().is_complete
    assert progress() == Progress(3, 3)


def test_threads_that_wait_at_the_same_time_count_once(now):
    waits, enough = threading.Event(), threading.Event()

    def wait():
        with waiting():
            waits.set()
            assert enough.wait(30)

    other = threading.Thread(target=wait)
    with planned(3):
        now[0] += 1  # nobody waits
        other.start()
        assert waits.wait(30)
        now[0] += 2  # one
        with waiting():
            now[0] += 3  # both
            enough.set()
            other.join()
            now[0] += 4  # the other one
        now[0] += 5
    assert (waited(), working_time()) == (9, 106)
    with waiting():  # for nothing that compiles
        now[0] += 6
    assert waited() == 9


def test_the_lines_of_the_log(now, caplog):
    log = CompilationLog()
    with caplog.at_level(logging.INFO, "bgsub"):
        for seconds, done in ((0, 2), (5, 20), (4.9, 30), (0.1, 31), (9, 60), (22.2, 62), (1, 62)):
            now[0] += seconds
            log(Progress(done, 62))
        log(Progress(62, 63))
        log(Progress(63, 63))
        log(Progress(0, 49))
        now[0] += 2
        log(Progress(0, 0))
    assert caplog.messages == [
        "compiling kernels 2 of 62, once per installation",
        "compiling kernels 31 of 62",
        "60 kernels compiled in 41.2 s",
        "compiling kernels 62 of 63, once per installation",
        "1 kernel compiled in 0.0 s",
        "compiling kernels 0 of 49, once per installation",
        "another process was done in 2.0 s",
    ]


@pytest.mark.large
def test_the_log_is_told_of_a_real_kernel_and_import_is_light(tmp_path):
    """In a process of its own, in which nothing is compiled yet; a program that configures logging sees the lines."""
    code = (
        "import logging, sys, bgsub.numerics.compilation as c; print('numba' in sys.modules)\n"
        "logging.basicConfig(level=logging.INFO, format='%(name)s %(message)s')\n"
        "from numba import njit; import bgsub.numerics.jit\n"
        "def f(x): return x + 1\n"
        "f.__module__ = 'bgsub.made_up'\n"
        "njit(f)(1); print(c.progress().done, c.waited() > 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.split() == ["False", "1", "True"]
    assert done.stderr.startswith("bgsub.kernels compiling kernels 0 of 1, once per installation\n")
