"""Fixtures and hooks of all tests: settings, markers, kernels that are compiled once."""

import logging
import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import pytest
from batch_fakes import FakeWorkers
from hypothesis import settings
from numba import config
from video_fakes import ThresholdSubtractor, make_frames

from bgsub.jobs.controls import Controls
from bgsub.numerics.threads import cores

settings.register_profile("tests", max_examples=15, deadline=None)
settings.register_profile("ci", settings.get_profile("tests"), derandomize=True)  # reproducible in CI
settings.load_profile("ci" if os.environ.get("CI") else "tests")
for name, handler in (("SIGINT", signal.default_int_handler), ("SIGHUP", signal.SIG_DFL)):
    if hasattr(signal, name):
        signal.signal(getattr(signal, name), handler)  # nohup and background shells ignore them, for all children

ROOT = Path(__file__).parent
STREAMS = "attacks cli docs/test_blocks.py jobs/batch jobs/test_jobs.py live test_readme.py"
WHOLE_FRAMES = [ROOT / name for name in STREAMS.split()]
MARKED = {"attacks": "hostile", "docs": "docs", "paper": "slow"}
"""The marker of all tests of a folder."""
THREADED = [ROOT / name for name in ("events", "jobs", "live", "video")]
# The kernels of all streams: compile them once, not in every process.
COMPILE = """
from bgsub.scene.kernel_table import TRACKING, Frames, compile_kernel, stages
from bgsub.scene.kernel_warmup import prepare
kinds = [prepare(Frames("uint8", channels, 3)) for channels in (3, 1)]
tested = Frames("float32", 3, 3)
for row in sum(stages(tested), []):
    if row.split(":")[0].endswith(("_shadows", "find_matching", "remember")):
        compile_kernel(row, tested)
for warmup in kinds:
    warmup.wait(TRACKING)
"""


@pytest.fixture(autouse=True)
def no_settings_and_screen(monkeypatch):
    for variable in [name for name in os.environ if name.startswith(("BGSUB_", "DISPLAY", "WAYLAND_DISPLAY"))]:
        monkeypatch.delenv(variable)
    monkeypatch.setenv("BGSUB_NO_CONFIG", "1")


@pytest.fixture(autouse=True)
def no_log_left():
    """Undo what a command line did to the loggers: messages of later tests would depend on the order."""
    yield
    for name, logger in logging.root.manager.loggerDict.items():
        if name.split(".")[0] == "bgsub" and isinstance(logger, logging.Logger):
            logger.handlers.clear()
            logger.setLevel(logging.NOTSET)


@pytest.fixture(autouse=True)
def no_thread_left(request):
    """Check that sources, pipelines and servers end their threads."""
    before = set(threading.enumerate())
    yield
    if request.path.parent in THREADED:
        # The threads that load and run kernels belong to the process.
        assert {thread for thread in threading.enumerate() if not thread.name.startswith("kernel-")} <= before


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def frames():
    return make_frames()


@pytest.fixture
def subtractor():
    return ThresholdSubtractor()


@pytest.fixture
def controls():
    return Controls()


@pytest.fixture
def serial(monkeypatch):
    """Batch tasks run one after another in this process."""
    monkeypatch.setattr("bgsub.jobs.batch.run.make_workers", lambda *_options: FakeWorkers(slots=1))
    monkeypatch.setattr("bgsub.jobs.batch.task._share_cores", lambda _jobs: None)


@pytest.fixture
def written(tmp_path):
    """A function that returns a named pipe and writes bytes into it from a thread."""
    threads = {}

    def write(path, data):
        with suppress(BrokenPipeError):
            path.write_bytes(data)

    def start(data):
        path = tmp_path / f"fifo{len(threads)}"
        os.mkfifo(path)
        threads[path] = threading.Thread(target=write, args=(path, data))
        threads[path].start()
        return path

    yield start
    for path, thread in threads.items():
        end = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # in case a thread still waits for a reader
        while thread.is_alive():
            thread.join(0.05)
            with suppress(BlockingIOError):
                os.read(end, 1 << 20)
        os.close(end)


def pytest_configure(config):
    # Subprocesses import the package under test, not one in the working folder.
    os.environ["PYTHONSAFEPATH"] = "1"
    # Workers share the cores: limit the threads of the BLAS.
    if config.option.numprocesses:
        os.environ.setdefault("OPENBLAS_NUM_THREADS", str(max(cores() // config.option.numprocesses, 1)))


def pytest_sessionstart(session):
    """Start to compile the kernels while the workers collect the tests."""
    is_worker = hasattr(session.config, "workerinput")
    if not (is_worker or session.config.option.collectonly or config.DISABLE_JIT):
        session.compiling = subprocess.Popen([sys.executable, "-c", COMPILE])


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session):
    compiling = getattr(session, "compiling", None)
    if compiling is not None and compiling.wait():
        pytest.exit("the kernels cannot be compiled", compiling.returncode)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    for item in items:
        folder = item.path.relative_to(ROOT).parts[0]
        if folder in MARKED:
            item.add_marker(MARKED[folder])
    if not config.DISABLE_JIT:
        return
    skip = pytest.mark.skip(reason="too large for kernels in plain Python; run without NUMBA_DISABLE_JIT")
    for item in items:
        whole = any(item.path.is_relative_to(path) for path in WHOLE_FRAMES)
        if whole or item.get_closest_marker("large"):
            item.add_marker(skip)
