"""Calls in a process that may die of them, hang, or take all memory: what each of them came to.

The process is used for one call after another, and replaced when it was lost.
"""

import contextlib
import faulthandler
import importlib
import io
import json
import os
import select
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

SECONDS = 60  # of wall clock, on a busy machine, after which a call hangs
MEGABYTES = 500  # that a call may take at its peak
FUNCTION = "bgsub.cli:invoke"


class Outcome(NamedTuple):
    """What a call came to: what it returned, what it said, and the megabytes at its peak; why it is lost, if it is."""

    code: object
    text: str
    megabytes: float
    lost: str

    @property
    def is_told(self):
        """Whether it is a run to the end, or one clear line and the exit code of wrong input or of a failure."""
        if self.lost or self.megabytes > MEGABYTES:
            return False
        lines = [line for line in self.text.splitlines() if line.strip()]
        return self.code == 0 or (self.code in (1, 2) and len(lines) == 1 and "shows where" not in self.text)


class Doomed:
    """Calls functions in a process of their own, `seconds` for each."""

    def __init__(self, seconds=SECONDS):
        self._seconds, self._child = seconds, None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._end()

    def call(self, *arguments, function=FUNCTION):
        """Return the outcome of a function, by default the command line, of arguments that JSON knows."""
        if self._child is None:
            pipe = subprocess.PIPE
            self._child = subprocess.Popen([sys.executable, __file__], stdin=pipe, stdout=pipe, text=True)
        self._child.stdin.write(json.dumps([function, arguments]) + "\n")
        self._child.stdin.flush()
        ready, _, _ = select.select([self._child.stdout], [], [], self._seconds)
        line = self._child.stdout.readline() if ready else ""
        if line:
            return Outcome(*json.loads(line), "")
        code = self._end() if ready else "hangs"
        self._end()
        return Outcome(None, "", 0, str(code))

    def _end(self):
        """End the process, and return what it has returned if it was gone."""
        child, self._child = self._child, None
        if child is None:
            return None
        child.stdin.close()
        try:
            code = child.wait(5)
        except subprocess.TimeoutExpired:
            child.kill()
            code = child.wait()
        child.stdout.close()
        return code


def _peak():
    return int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0]) / 1000


def _rest():
    """Begin to measure memory anew; return what is taken now."""
    Path("/proc/self/clear_refs").write_text("5")
    return _peak()


def _main():
    """Answer the calls on standard input."""
    faulthandler.enable()
    sys.path.insert(0, str(Path(__file__).parent))
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    os.dup2(1, 2)  # what libraries say
    for line in sys.stdin:
        function, arguments = json.loads(line)
        module, _, name = function.partition(":")
        said = io.StringIO()
        before = _rest()
        with contextlib.redirect_stderr(said):
            try:
                code = getattr(importlib.import_module(module), name)(*arguments)
            except BaseException as error:
                code, text = repr(error), f"{type(error).__name__} shows where"
                said.write(text)
        answers.write(json.dumps([code, said.getvalue()[-2000:], _peak() - before]) + "\n")
        answers.flush()


if __name__ == "__main__":
    _main()
