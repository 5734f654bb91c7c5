"""Progress of the compilation of kernels, waiting time, and the lines of the log."""

import logging
import subprocess
import sys
import threading
from contextlib import contextmanager, suppress
from types import SimpleNamespace

import pytest
from numba.core import event
from numba.core.compiler_lock import global_compiler_lock

import bgsub.numerics.jit  # noqa: F401 - it starts counting
from bgsub.numerics import compilation
from bgsub.numerics.compilation import CompilationLog, Progress, planned, progress, waited, waiting, working_time


@pytest.fixture
def now(monkeypatch):
    """Return a clock that the test sets, in a process without compiled kernels."""
    now = [100.0]
    monkeypatch.setattr(compilation, "time", SimpleNamespace(perf_counter=lambda: now[0]))
    compilation._compilations.reset()
    yield now
    compilation._compilations.reset()


@contextmanager
def compiling(module="bgsub.tracking._kernels"):
    dispatcher = SimpleNamespace(py_func=SimpleNamespace(__module__=module))
    with global_compiler_lock, event.trigger_event("numba:compile", data={"dispatcher": dispatcher}):
        yield


def test_kernels_are_counted_until_no_more_follow(now, monkeypatch):
    monkeypatch.setattr(compilation, "_SETTLED", 0.0)
    heard, settled = [], threading.Event()

    def listener(progress):
        heard.append(progress)
        if progress.is_complete:
            settled.set()

    monkeypatch.setattr(compilation._compilations, "log", listener)
    assert progress() == Progress(0, 0)
    with compiling(), compiling():  # a nested kernel is not counted
        assert not progress().is_complete
    assert settled.wait(30)
    assert [of.done for of in heard] == [0, 1, 1]
    assert progress() == Progress(1, 1)


def test_the_clock_stops_while_a_kernel_is_compiled_and_not_for_other_locks(now):
    for module in ("scipy.x", None):  # None: the function was made by `exec`
        with compiling(module):
            assert progress().is_complete
    with global_compiler_lock:
        now[0] += 3
    assert (waited(), working_time()) == (0, 103)
    with compiling():
        now[0] += 4
        assert (waited(), working_time()) == (4, 103)
    now[0] += 1
    assert (waited(), working_time()) == (4, 104)


def test_the_kernel_loader_does_not_wait_until_the_stream_needs_a_kernel(now, monkeypatch):
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


def test_planned_kernels_are_reported_one_by_one_and_complete_after_a_failure(now, monkeypatch):
    heard = []
    monkeypatch.setattr(compilation._compilations, "log", heard.append)
    with planned(3) as report:
        report()
        report()
        assert progress() == Progress(2, 3)
    assert heard == [Progress(0, 3), Progress(1, 3), Progress(2, 3), Progress(2, 2)]
    with suppress(MemoryError), planned(5):
        assert progress() == Progress(0, 5)
        raise MemoryError
    assert progress().is_complete
    with planned(3) as first:
        first()
        with planned(2) as second:
            assert progress() == Progress(1, 5)
            second()
            second()
        assert progress() == Progress(3, 5)
        assert not progress().is_complete
    assert progress() == Progress(3, 3)


def test_simultaneous_waits_count_once(now):
    waits, enough = threading.Event(), threading.Event()

    def wait():
        with waiting():
            waits.set()
            assert enough.wait(30)

    other = threading.Thread(target=wait)
    with planned(3):
        now[0] += 1
        other.start()
        assert waits.wait(30)
        now[0] += 2
        with waiting():
            now[0] += 3
            enough.set()
            other.join()
            now[0] += 4
        now[0] += 5
    assert (waited(), working_time()) == (9, 106)
    with waiting():  # while nothing is compiled
        now[0] += 6
    assert waited() == 9


def test_log_lines(now, caplog):
    log = CompilationLog()
    with caplog.at_level(logging.INFO, "bgsub"):
        for seconds, done, total in ((0, 2, 62), (9.9, 30, 62), (0.2, 31, 62), (31, 62, 62), (0, 0, 49), (2, 0, 0)):
            now[0] += seconds
            log(Progress(done, total))
    assert [message.split(",")[0] for message in caplog.messages] == [
        "compiling kernels 2 of 62",
        "compiling kernels 31 of 62",
        "60 kernels compiled in 41.1 s",
        "compiling kernels 0 of 49",
        "another process compiled the kernels in 2.0 s",
    ]


@pytest.mark.large
@pytest.mark.slow
def test_a_real_kernel_is_logged_and_the_import_is_light():
    """In a separate process, in which nothing is compiled yet."""
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
