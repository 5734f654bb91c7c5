"""Ctrl-C, SIGTERM and SIGHUP at any moment, alone or combined, to the program or to its process group."""

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import psutil
import pytest
from cli_inputs import PROGRAM, make_scene
from event_scenes import STORED
from live_fakes import wait_until
from scoring import scored
from video_fakes import write_video

from bgsub.jobs.checkpoints import saved_frames

pytestmark = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc to see signal handlers")

# A letter is a signal, a dot is a short pause, and with a hash all signals go to the process group.
PATTERNS = ["H", "IT", "T", "I", "TI", "II", "I.I", "T.T", "I.T", "T.I", "HT", "H.I", "#I", "#II", "#T", "#H"]
NUMBERS = {"I": signal.SIGINT, "T": signal.SIGTERM, "H": signal.SIGHUP}
WAIT, ANSWER = 60, 2  # seconds
ALLOWED = re.compile(r"bgsub: (\[\d|compiling)|^$")
# The longest delay of a signal in seconds, and the arguments.
RESUMED = {"run --resume", "batch"}  # their partial files stay
COMMANDS = {
    "run": (3.0, "run v0.avi -o out --start-frames 200"),
    "run --resume": (3.0, "run v0.avi -o out --resume --checkpoint-seconds 0.2"),
    "live": (3.0, "live v0.avi --no-window -o out"),
    "live two": (3.0, "live v0.avi v1.avi --no-window -o out"),
    "scan": (3.0, "scan v0.avi --record clips --csv found.csv"),
    "overview": (3.0, "overview {results} -o page.html"),
    "search": (3.0, "search {results} --region 0,0,96,64 --csv found.csv"),
    "decompose": (4.0, "decompose v0.avi -o out"),
    "batch": (7.0, "batch v*.avi -o out --workers 2"),
}


@pytest.fixture(scope="module")
def videos(tmp_path_factory):
    folder = tmp_path_factory.mktemp("videos")
    for number in range(2):
        write_video(folder / f"v{number}.avi", np.tile(make_scene(250), (2, 1, 1, 1)))
    crossing = {"frame": [*range(50)], "box": [[9, 9, 9, 9]] * 50, "time": [0.02 * number for number in range(50)]}
    event = {**STORED, "track": crossing, "frame_size": [96, 64]}
    (folder / "results").mkdir()
    (folder / "results/events.jsonl").write_text((json.dumps(event) + "\n") * 20_000)
    return folder


@contextmanager
def started(program, *words, folder):
    """Start a program in its own process group, and kill it at the end of the block."""
    pipes, command = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}, [sys.executable, "-c", program, *words]
    with subprocess.Popen(command, cwd=folder, start_new_session=True, text=True, **pipes) as process:
        try:
            yield process
        finally:
            process.kill()


def takes_signals(pid):
    """Return whether a process has set its handler of SIGTERM; before, Python is starting."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return True
    return bool(int(re.search(r"SigCgt:\s*(\w+)", status)[1], 16) >> (signal.SIGTERM - 1) & 1)


def starting_workers(pid):
    """Return the status files of the workers of a batch that have begun to start."""
    with suppress(psutil.NoSuchProcess, FileNotFoundError, ProcessLookupError):
        children = psutil.Process(pid).children()
        workers = [child.pid for child in children if any("spawn_main" in word for word in child.cmdline())]
        return [Path(f"/proc/{worker}/status").read_text() for worker in workers]
    return []


def attack(words, folder, pattern, delay, pause, begun=takes_signals, within=WAIT):
    """Start the program, send it signals, and return what was wrong about its end, or an empty text."""
    with started(PROGRAM, *words, folder=folder) as process:
        wait_until(lambda: begun(process.pid) or process.poll() is not None, WAIT)
        time.sleep(delay)
        if process.poll() is not None:
            return ""
        children = psutil.Process(process.pid).children(recursive=True)
        send = os.killpg if pattern.startswith("#") else os.kill
        for letter in pattern.removeprefix("#"):
            if letter == ".":
                time.sleep(pause)
            elif process.poll() is None:
                send(process.pid, NUMBERS[letter])
        try:
            _, err = process.communicate(timeout=within)
        except subprocess.TimeoutExpired:
            return "hangs"
    lines = [line for line in err.splitlines() if not ALLOWED.match(line)]
    codes = (0, *(128 + NUMBERS[letter] for letter in pattern if letter in NUMBERS))
    if process.returncode not in codes or len(lines) > 1 or "Traceback" in err:
        return f"exit code {process.returncode}, {lines}"
    _, left = psutil.wait_procs(children, 10)
    return "processes left" if any(child.status() != psutil.STATUS_ZOMBIE for child in left) else ""


@pytest.mark.parametrize("name", COMMANDS)
@scored("signals: {name}")
def test_signals_at_any_moment_end_the_program(videos, tmp_path, tries, name):
    count, rng = tries({"run": 1, "scan": 3, "search": 3}.get(name, 0), 30), random.Random(name)
    if not count:
        pytest.skip("only with --long")
    span, words = COMMANDS[name]
    words = [str(videos / word) if word.endswith(".avi") else word for word in words.split()]
    words = [word.format(results=videos / "results") for word in words]
    for number in range(count):
        pattern, folder = PATTERNS[number % len(PATTERNS)], tmp_path / str(number)
        folder.mkdir()
        delay = rng.random() ** 1.5 * span
        problem = attack(words, folder, pattern, delay, rng.random() * 0.3)
        left = [] if RESUMED & {name} else [path.name for path in folder.rglob("*.partial*")]
        yield f"{pattern} after {delay:.2f} s: {problem}, {left}", not problem and not left


@scored("signals to the group: workers start")
def test_signals_to_the_group_while_the_workers_of_a_batch_start(videos, tmp_path, tries):
    rng = random.Random(0)
    words = ["batch", *map(str, sorted(videos.glob("*.avi"))), "-o", "out", "--workers", "2"]
    every = sum(1 << (number - 1) for number in NUMBERS.values())
    for number in range(tries(2, 200)):
        folder, pattern = tmp_path / str(number), ("#TI", "#H", "#I", "#T", "#T.T", "#I.T")[number % 6]
        folder.mkdir()
        blocked = []

        def begun(pid, blocked=blocked):
            blocked += [int(re.search(r"SigBlk:\s*(\w+)", one)[1], 16) & every for one in starting_workers(pid)]
            return blocked

        delay = rng.random() ** 2 * 4
        problem = attack(words, folder, pattern, delay, rng.random() * 0.3, begun, ANSWER)
        yield f"{pattern} {delay:.2f} s later, blocked {blocked}: {problem}", not problem and blocked[0] == every


@pytest.mark.parametrize("send", [os.kill, os.killpg])
def test_a_stopped_batch_writes_checkpoints_at_once(tmp_path, send):
    write_video(tmp_path / "v.avi", np.tile(make_scene(250), (20, 1, 1, 1)), codec="mp4v")
    words = ("batch", "v.avi", "-o", "out", "--workers", "1")
    with started(PROGRAM, *words, folder=tmp_path) as process:
        wait_until(lambda: any(path.stat().st_size for path in tmp_path.glob("out/.v.attempt-*/*.partial")), WAIT)
        send(process.pid, signal.SIGTERM)
        _, err = process.communicate(timeout=WAIT)
    (left,) = tmp_path.glob("out/.v.attempt-*")
    frames = saved_frames(left)
    assert (process.returncode, 0 < frames < 5000, "Traceback" in err) == (143, True, False)
    with started(PROGRAM, *words, folder=tmp_path) as process:
        process.communicate(timeout=WAIT)
    assert json.loads((tmp_path / "out/manifest.jsonl").read_text().splitlines()[-1])["result"]["resumed"] == frames


@pytest.mark.parametrize("more", [[], ["--record", "clips"]])
def test_a_batch_does_the_file_of_a_stopped_worker_again(tmp_path, more):
    write_video(tmp_path / "v.avi", np.tile(make_scene(250), (20, 1, 1, 1)), codec="mp4v")
    with started(PROGRAM, "batch", "v.avi", "-o", "out", "--workers", "1", *more, folder=tmp_path) as process:
        wait_until(lambda: [*tmp_path.glob("out/.v.attempt-*")], WAIT)
        time.sleep(1)
        for child in psutil.Process(process.pid).children():
            child.terminate()
        process.communicate(timeout=WAIT)
    entry = json.loads((tmp_path / "out/manifest.jsonl").read_text().splitlines()[-1])
    assert (entry["state"], entry["attempts"], entry["result"]["frames"]) == ("done", 2, 5000)


def test_a_second_signal_after_a_second_ends_the_program_at_once(tmp_path):
    """A signal that follows within a second belongs to the first one."""
    program = (
        "import time, bgsub.jobs.run as run\n"
        "def stubborn(*_, **__):\n"
        "    try:\n"
        "        open('begun', 'w').close(); time.sleep(600)\n"
        "    finally:\n"
        "        open('interrupted', 'w').close(); time.sleep(600)\n"
        "run.make_subtractor = stubborn\n"
    )
    with started(program + PROGRAM, "run", "x.avi", "-o", "out", folder=tmp_path) as process:
        wait_until((tmp_path / "begun").exists, WAIT)
        process.send_signal(signal.SIGINT)
        wait_until((tmp_path / "interrupted").exists, WAIT)
        process.send_signal(signal.SIGTERM)
        time.sleep(1.1)
        assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=WAIT)
    assert process.returncode == 143
    assert err.strip() == "bgsub: error: stopped by SIGTERM"
