"""Fixtures of the tests of the command line: a command in this process, tiny inputs and cameras."""

from __future__ import annotations

import os
import re
import threading
from dataclasses import dataclass

import pytest
from cli_inputs import make_scene
from serve_camera import LoopbackCamera
from video_fakes import write_images, write_video

from bgsub.cli import invoke
from bgsub.jobs.job import Statistics
from bgsub.numerics.compilation import logger as kernel_logger

_TIME = re.compile(r" in \d+\.\d s(, \d+\.\d of them for kernels)? \([\d.]+ frames/s\)")


@dataclass
class Answer:
    """Exit code and texts of one command; `out` without the running time."""

    code: int
    out: str
    err: str

    def ok(self) -> Answer:
        assert self.code == 0, self.err
        return self

    def clean(self) -> Answer:
        """The command succeeded without messages."""
        assert (self.code, self.err) == (0, "")
        return self

    def refused(self, *words: str, code: int = 2) -> None:
        """The command printed one line of error with all these words, and no result."""
        assert (self.code, self.out, self.err.count("\n")) == (code, "", 1), self.err
        assert self.err.startswith("bgsub: error: ")
        for word in words:
            assert word in self.err


@pytest.fixture(autouse=True)
def no_thread_of_bgsub_left():
    before = set(threading.enumerate())  # of other tests
    yield
    assert not [one for one in threading.enumerate() if one.name.startswith("bgsub") and one not in before]


@pytest.fixture(autouse=True)
def no_messages_about_kernels(request, monkeypatch):
    """Messages about compilation depend on the order of the tests."""
    if "compiled" not in request.fixturenames:
        monkeypatch.setattr(kernel_logger, "disabled", True)


@pytest.fixture
def cli(capsys):
    """A function that runs a command line, given word by word, in this process."""

    def call(*words) -> Answer:
        code = invoke([str(word) for word in words])
        captured = capsys.readouterr()
        return Answer(code, _TIME.sub("", captured.out), captured.err)

    return call


@pytest.fixture
def settings(here, monkeypatch):
    """The working folder, where settings files are read; the user's file is config/bgsub/config.toml."""
    monkeypatch.delenv("BGSUB_NO_CONFIG")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(here / "config"))
    return here


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
def after_frames(monkeypatch):
    """A function that makes this process get a signal, or calls a function, after that many frames of a run."""

    def send(frames, number):
        plain = Statistics.__call__

        def count(self, frame, separation):  # called once a frame is written
            plain(self, frame, separation)
            if self.frames == frames:
                monkeypatch.setattr(Statistics, "__call__", plain)
                number() if callable(number) else os.kill(os.getpid(), number)

        monkeypatch.setattr(Statistics, "__call__", count)

    return send


@pytest.fixture
def endless_stream(frames):
    """A network camera that repeats the thirty frames."""
    with LoopbackCamera(list(frames), 200) as camera:
        yield camera
