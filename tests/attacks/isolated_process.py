"""Calls in a separate process, which may crash, hang or use too much memory."""

import contextlib
import io
from concurrent import futures
from concurrent.futures.process import BrokenProcessPool, ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

SECONDS = 60  # time limit of a call
MEGABYTES = 500  # memory limit of a call


class Outcome(NamedTuple):
    """The result of a call, its messages, its peak memory in megabytes, and whether it raised, crashed or hung."""

    code: object
    text: str
    megabytes: float
    failure: str = ""

    @property
    def is_clean(self):
        """Whether the exit code is 0, or 1 or 2 with a message of one line."""
        if self.failure or self.megabytes > MEGABYTES:
            return False
        lines = [line for line in self.text.splitlines() if line.strip()]
        return self.code == 0 or (self.code in (1, 2) and len(lines) == 1 and "shows where" not in self.text)


class IsolatedProcess:
    """A process that runs one call after another, and is replaced after a crash or a hang."""

    def __init__(self):
        self._executor = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self._executor is not None:
            self._executor.shutdown()

    def call(self, function, *arguments):
        if self._executor is None:
            self._executor = ProcessPoolExecutor(1, get_context("spawn"))
        try:
            return self._executor.submit(_measured, function, *arguments).result(SECONDS)
        except (BrokenProcessPool, futures.TimeoutError) as error:
            for process in list(self._executor._processes.values()):
                process.kill()
            self._executor.shutdown()
            self._executor = None
            return Outcome(None, "", 0, type(error).__name__)


def _peak():
    return int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0]) / 1000


def _measured(function, *arguments):
    """Call a function, and return its outcome."""
    Path("/proc/self/clear_refs").write_text("5")  # reset the peak
    before, code, failure, messages = _peak(), None, "", io.StringIO()
    with contextlib.redirect_stderr(messages), contextlib.redirect_stdout(io.StringIO()):
        try:
            code = function(*arguments)
        except BaseException as error:
            failure = repr(error)
    return Outcome(code, messages.getvalue()[-2000:], _peak() - before, failure)
