"""What the tests of the command line share: a terminal without a screen, tiny inputs, and the answer of a run."""

from __future__ import annotations

import logging
import os
import re
import threading
from dataclasses import dataclass

import pytest
from batch_fakes import FakeWorkers
from cli_inputs import Endless, make_scene, served
from video_fakes import write_images, write_video

from bgsub._opencv import cv2
from bgsub.cli import invoke
from bgsub.jobs.job import Statistics
from bgsub.numerics.compilation import logger as kernel_logger

_PACE = re.compile(r" in \d+\.\d s(, \d+\.\d of them for kernels)? \(\d+ frames/s\)")


@dataclass
class Answer:
    """Exit code and texts of one command; `out` without the time it took."""

    code: int
    out: str
    err: str

    def ok(self) -> Answer:
        assert self.code == 0, self.err
        return self

    def clean(self) -> Answer:
        """It went well, and nothing was said beside the result."""
        assert (self.code, self.err) == (0, "")
        return self

    def refused(self, message: str, code: int = 2) -> None:
        assert (self.code, self.out, self.err) == (code, "", f"bgsub: error: {message}\n")

    def refused_with(self, start: str, end: str = "\n") -> None:
        """One line, of which begin and end are looked at."""
        assert (self.code, self.out, self.err.count("\n")) == (2, "", 1)
        assert self.err.startswith(f"bgsub: error: {start}")
        assert self.err.endswith(end)


@pytest.fixture(autouse=True)
def surroundings():
    yield
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("bgsub")]
    logger = logging.getLogger("bgsub")
    logger.handlers.clear()
    logger.setLevel(logging.NOTSET)


@pytest.fixture(autouse=True)
def no_word_of_kernels(request, monkeypatch):
    """Unless a test is about it, nothing is said of kernels that it happens to be the first to need."""
    if "compiled" not in request.fixturenames:
        monkeypatch.setattr(kernel_logger, "disabled", True)


@pytest.fixture
def cli(capsys):
    """A function that runs a command line, given word by word, in this process."""

    def call(*words) -> Answer:
        code = invoke([str(word) for word in words])
        captured = capsys.readouterr()
        return Answer(code, _PACE.sub("", captured.out), captured.err)

    return call


@pytest.fixture
def frames():
    """Thirty frames of 48x32; a square crosses them from frame 13 on."""
    return make_scene(30, empty=12)


@pytest.fixture
def folder(tmp_path, frames):
    return write_images(tmp_path / "frames", frames)


@pytest.fixture
def video(tmp_path, frames):
    return write_video(tmp_path / "video.avi", frames)


@pytest.fixture
def jpegs(frames):
    return [cv2.imencode(".jpg", frame)[1].tobytes() for frame in frames]


@pytest.fixture
def signal_after(monkeypatch):
    """A function that sends this process a signal, once, after so many frames of a run."""

    def send(frames, number):
        plain = Statistics.__call__

        def count(self, frame, separation):  # called once a frame is written
            plain(self, frame, separation)
            if self.frames == frames:
                monkeypatch.setattr(Statistics, "__call__", plain)
                os.kill(os.getpid(), number)

        monkeypatch.setattr(Statistics, "__call__", count)

    return send


@pytest.fixture
def mjpeg_server(jpegs):
    """A network camera that sends thirty frames and goes away."""
    with served(jpegs) as server:
        yield server


@pytest.fixture
def endless_stream(jpegs):
    """A network camera that sends the thirty frames again and again."""
    images = Endless(jpegs)
    with served(images) as server:
        yield server
        images.ended.set()


@pytest.fixture
def serial(monkeypatch):
    """One task after another in this process."""
    monkeypatch.setattr("bgsub.jobs.batch.run.make_workers", lambda *_options: FakeWorkers(slots=1))
    # Tests share this process: a worker has one for itself.
    monkeypatch.setattr("bgsub.jobs.batch.task._share_cores", lambda _jobs: None)
