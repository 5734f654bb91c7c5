"""A full disk: one line that names the output, exit code 1, and no partial output with a final name.

A limit of the file size (RLIMIT_FSIZE) fails in the middle of any write, like a full disk.
"""

import os
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager

import numpy as np
import pytest
from batch_fakes import FakeWorkers
from cli_inputs import make_scene, write_sequence
from video_fakes import content, write_images, write_video

from bgsub.cli import invoke
from bgsub.cli.logs import Reporting, log_to_screen, logged, logger

resource = pytest.importorskip("resource", reason="no limits on the size of files here")
needs_full = pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")

VIEWS = [
    "mask.mkv",
    "panel.mp4",
    "mask.avi",
    "overlay.webm",
    "cutout.mov",
    "residual.npz",
    "background-image",
    "mask.png",
]
RUN = ("--start-frames", 10, "--quiet")
COMMANDS = {
    **{view: ("run", "video.avi", "-o", "out", "--save", view, *RUN) for view in VIEWS},
    "events": ("run", "video.avi", "-o", "out", "--save", "mask.npz", "--event-formats", "csv,jsonl,coco,html", *RUN),
    "model": ("run", "video.avi", "-o", "out", "--save", "mask.npz", "--save-model", "out/m.npz", *RUN),
    "resume": ("run", "video.avi", "-o", "out", "--save", "mask.npz,panel.mp4", "--resume", *RUN),
    "clips": ("run", "video.avi", "--record", "out/clips", *RUN),
    "live": ("live", "video.avi", "--no-window", "--fast", "-o", "out", "--save", "panel.mp4", *RUN),
    "videos of a decomposition": ("decompose", "video.avi", "-o", "out", "--iterations", 1, "--quiet"),
    "images of a decomposition": ("decompose", "frames", "-o", "out", "--iterations", 1, "--quiet"),
    "arrays of a decomposition": ("decompose", "m.npy", "-o", "out", "--iterations", 1, "--save-arrays", "--quiet"),
    "masks of an evaluation": ("evaluate", "sequence", "--masks", "out", *RUN),
    "sheet of an evaluation": ("evaluate", "sequence", "--sheet", "out/sheet.html", *RUN),
    "scores of an evaluation": ("evaluate", "sequence", "--csv", "out/scores.csv", *RUN),
    "settings": ("config", "--init", "out/settings.toml"),
    "batch": ("batch", "video.avi", "-o", "out", "--save", "mask.npz", "--retries", 0, *RUN),
}
OTHERS = (".partial", ".resume", "manifest", ".lock")  # than outputs under their names


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    """A noisy scene in all forms, of which no output is small."""
    folder = tmp_path_factory.mktemp("inputs")
    frames = make_scene(30, 64, 96, empty=12)
    frames = (frames + np.random.default_rng(0).integers(0, 40, frames.shape)).clip(0, 255).astype(np.uint8)
    write_video(folder / "video.avi", frames)
    write_images(folder / "frames", frames)
    write_sequence(folder / "sequence", make_scene(30, empty=12), "11 30")
    np.save(folder / "m.npy", np.random.default_rng(0).random((30, 2000)))
    return folder


@pytest.fixture
def place(inputs, tmp_path, monkeypatch):
    for path in inputs.iterdir():
        (tmp_path / path.name).symlink_to(path)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "out").mkdir()
    return tmp_path


@contextmanager
def full_after(size):
    """No file grows beyond so many bytes inside the block."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


def is_reported(code, err, output):
    """Whether one line names an output that cannot be written; of others warnings may tell."""
    lines = [line for line in err.splitlines() if line.startswith(("bgsub: error: ", "failed: "))]
    return code == 1 and len(lines) == 1 and output in lines[0] and "File too large" in lines[0]


@pytest.mark.parametrize("what", COMMANDS)
def test_full_disk(what, place, capsys, monkeypatch, tries, score):
    if what == "batch":  # in this process
        monkeypatch.setattr("bgsub.jobs.batch.run.make_workers", lambda *_options: FakeWorkers(slots=1))
        monkeypatch.setattr("bgsub.jobs.batch.task._share_cores", lambda _jobs: None)
    words = [str(word) for word in COMMANDS[what]]
    assert invoke(words) == 0, capsys.readouterr().err
    whole = content(place / "out")
    largest = max(map(len, whole.values()))
    sizes = [largest * share // 100 for share in tries([50], [0, 1, 2, 5, 10, 20, 30, 40, 50, 60, 70, 80, 90, 95])]
    survived = 0
    for number, size in enumerate(sizes):
        output = place / f"out{number}"
        output.mkdir()
        with full_after(size):
            capsys.readouterr()
            code = invoke([word.replace("out", output.name, 1) if word.startswith("out") else word for word in words])
        made = {name: data for name, data in content(output).items() if not any(part in name for part in OTHERS)}
        half = [name for name, data in made.items() if data != whole.get(name)]
        left = [thread.name for thread in threading.enumerate() if thread.name.startswith("bgsub")]
        survived += is_reported(code, capsys.readouterr().err, output.name) and not half and not left
    score(f"a disk that is full: {what}", len(sizes), survived)


def start(*words, **files):
    command = [sys.executable, "-m", "bgsub", *map(str, words)]
    process = subprocess.run(command, timeout=120, stdin=subprocess.DEVNULL, **files, check=False)
    return process.returncode, (process.stderr or b"").decode()


@needs_full
def test_standard_output_on_a_full_disk(place, score):
    """A failed print is an error; without standard error only the exit code is left."""
    printed = (1, "bgsub: error: standard output cannot be written: No space left on device\n")
    with open("/dev/full", "w") as full:
        answers = [
            start("run", "--help", stdout=full, stderr=subprocess.PIPE) == printed,
            start("run", "video.avi", "-o", "out", *RUN, "--json", stdout=full, stderr=subprocess.PIPE) == printed,
            start("run", "gone.avi", "-o", "out", stderr=full)[0] == 2,
            start("run", "gone.avi", "-o", "out", preexec_fn=lambda: os.close(2))[0] == 2,
        ]
    assert os.listdir("out") == ["mask.mkv"]
    score("a terminal or a pipe that is full or closed", len(answers), answers.count(True))


@needs_full
def test_log_on_a_full_disk(place, capsys, score):
    """The run continues, with one warning."""
    words = [str(word) for word in (*COMMANDS["residual.npz"], "--log", "/dev/full", "-v")]
    code = invoke(words)
    warnings = [line for line in capsys.readouterr().err.splitlines() if "log cannot be written" in line]
    expected = ["bgsub: the log cannot be written to '/dev/full': No space left on device"]
    score("a log on a full disk", 1, int((code, warnings, os.listdir("out")) == (0, expected, ["residual.npz"])))


def test_log_continues_when_there_is_room_again(place, capsys, monkeypatch):
    """One warning each time that the disk is full."""
    with full_after(0):
        log_to_screen(False)
        with logged(Reporting(log=place / "out" / "log")):
            logger.warning("lost")
            logger.warning("lost, too")
            resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
            logger.warning("kept")
    lines = capsys.readouterr().err.splitlines()
    missing = f"bgsub: the log cannot be written to '{place / 'out' / 'log'}': File too large"
    assert lines == ["bgsub: lost", missing, "bgsub: lost, too", "bgsub: kept"]
    assert [line.split(" ", 2)[2] for line in (place / "out" / "log").read_text().splitlines()] == ["WARNING kept"]
