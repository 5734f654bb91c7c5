"""Run calls in another process, which may crash, hang, or take all memory; a lost process is replaced."""

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

SECONDS = 60  # of wall clock, on a busy machine
MEGABYTES = 500  # at the peak of a call
FUNCTION = "bgsub.cli:invoke"


class Outcome(NamedTuple):
    """Result, output and peak memory of a call in megabytes; or the reason why it was lost."""

    code: object
    text: str
    megabytes: float
    lost: str

    @property
    def is_told(self):
        """Whether the call succeeded, or failed with one line and an exit code."""
        if self.lost or self.megabytes > MEGABYTES:
            return False
        lines = [line for line in self.text.splitlines() if line.strip()]
        return self.code == 0 or (self.code in (1, 2) and len(lines) == 1 and "shows where" not in self.text)


class Doomed:
    """Calls functions in another process, `seconds` for each."""

    def __init__(self, seconds=SECONDS):
        self._seconds, self._child = seconds, None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._end()

    def call(self, *arguments, function=FUNCTION):
        """Return the outcome of a function, by default the command line; JSON must know the arguments."""
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
        """End the process; return its exit code."""
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
    """Reset the peak of memory; return the current use."""
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
