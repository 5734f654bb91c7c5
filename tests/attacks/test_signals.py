"""Ctrl-C and SIGTERM at any time, alone, together, twice, to the program or to all its processes."""

import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from cli_inputs import make_scene
from video_fakes import write_video

psutil = pytest.importorskip("psutil")
pytestmark = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="/proc tells when signals are taken")

# Letters are signals, a dot is a short pause, a hash sends them to the whole process group.
PATTERNS = ["IT", "TI", "II", "I.I", "T.T", "I.T", "T.I", "I", "T", "#I", "#II", "#T"]
SPANS = {"run": 3.0, "run --resume": 3.0, "camera": 2.0, "live": 3.0, "live two": 3.0, "decompose": 4.0, "batch": 7.0}
WAIT = 60  # seconds
PROGRAM = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); from bgsub.__main__ import main\n"
PROGRAM += "if __name__ == '__main__': main()"
ALLOWED = re.compile(r"bgsub: (\[\d|compiling|.* of memory$)|^$")


@pytest.fixture(scope="module")
def videos(tmp_path_factory):
    folder = tmp_path_factory.mktemp("videos")
    for number in range(2):
        write_video(folder / f"v{number}.avi", np.tile(make_scene(250), (2, 1, 1, 1)))
    return folder


def words_of(name, videos):
    first, second = sorted(videos.iterdir())
    return {
        "run": ["run", first, "-o", "out", "--start-frames", "200"],
        "run --resume": ["run", first, "-o", "out", "--resume", "--checkpoint-seconds", "0.2"],
        "camera": ["camera"],
        "live": ["live", first, "--no-window", "-o", "out"],
        "live two": ["live", first, second, "--no-window", "-o", "out"],
        "decompose": ["decompose", first, "-o", "out"],
        "batch": ["batch", videos, "-o", "out", "--workers", "2"],
    }[name]


def takes_signals(pid):
    """Return whether a process handles SIGTERM; before that Python is starting."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return True
    return bool(int(re.search(r"SigCgt:\s*(\w+)", status)[1], 16) >> (signal.SIGTERM - 1) & 1)


def until(condition, seconds=WAIT):
    deadline = time.monotonic() + seconds
    while not (held := condition()) and time.monotonic() < deadline:
        time.sleep(0.005)
    return held


def attack(words, folder, pattern, delay, pause):
    """Start the program, send it signals, and return what was wrong about its end; empty if nothing was."""
    folder.mkdir()
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *map(str, words)],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        assert until(lambda: takes_signals(process.pid))
        time.sleep(delay)
        if process.poll() is not None:
            return ""
        children = psutil.Process(process.pid).children(recursive=True)
        send = os.killpg if pattern.startswith("#") else os.kill
        for letter in pattern.removeprefix("#"):
            if letter == ".":
                time.sleep(pause)
            elif process.poll() is None:
                send(process.pid, signal.SIGINT if letter == "I" else signal.SIGTERM)
        try:
            _, err = process.communicate(timeout=WAIT)
        except subprocess.TimeoutExpired:
            return "hangs"
    finally:
        process.kill()
        process.communicate()
    said = [line for line in err.splitlines() if not ALLOWED.match(line)]
    if process.returncode not in (0, 130, 143) or len(said) > 1 or "Traceback" in err:
        return f"exit code {process.returncode}, {said}"
    left = [child for child in children if not until(lambda child=child: not is_alive(child), 10)]
    return f"{len(left)} processes left" if left else ""


def is_alive(child):
    return child.is_running() and child.status() != psutil.STATUS_ZOMBIE


@pytest.mark.parametrize("name", SPANS)
def test_signals_at_any_time(videos, tmp_path, tries, score, name):
    count = tries({"camera": 2, "run": 1, "live two": 1}.get(name, 0), 30)
    if not count:
        pytest.skip("only with --long")
    rng, survived = random.Random(name), 0
    for number in range(count):
        pattern = PATTERNS[number % len(PATTERNS)]
        folder = tmp_path / str(number)
        delay, pause = rng.random() ** 1.5 * SPANS[name], rng.random() * 0.3
        wrong = attack(words_of(name, videos), folder, pattern, delay, pause)
        survived += not wrong
        if wrong:
            print(f"{name} {pattern} after {delay:.2f} s: {wrong}")
        shutil.rmtree(folder)
    score(f"signals: {name}", count, survived)


def test_later_signal_ends_the_process_at_once(tmp_path):
    """The exception of the first one is lost in cleanup that hangs."""
    program = (
        "import time, bgsub.cli as cli\n"
        "from bgsub.jobs.run import make_subtractor\n"
        "def stubborn(*_, **__):\n"
        "    try:\n"
        "        open('begun', 'w').close(); time.sleep(600)\n"
        "    finally:\n"
        "        open('asked', 'w').close(); time.sleep(600)\n"
        "import bgsub.jobs.run as run; run.make_subtractor = stubborn\n"
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "cli.main()\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program, "run", "x.avi", "-o", "out"], cwd=tmp_path, stderr=subprocess.PIPE, text=True
    )
    try:
        assert until((tmp_path / "begun").exists)
        process.send_signal(signal.SIGINT)
        assert until((tmp_path / "asked").exists)
        process.send_signal(signal.SIGTERM)  # together with the first
        time.sleep(1.1)  # a test of this very time
        assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=WAIT)
    finally:
        process.kill()
        process.communicate()
    assert (process.returncode, err) == (143, "\nbgsub: error: stopped by SIGTERM\n")
