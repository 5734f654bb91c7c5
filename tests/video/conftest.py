"""Fixtures of the video tests: no thread may be left, and no screen is ever touched."""

from __future__ import annotations

import threading

import pytest
from video_fakes import MjpegServer, ThresholdSubtractor, make_frames


@pytest.fixture(autouse=True)
def no_thread_left():
    before = set(threading.enumerate())
    yield
    # The loader and the pool of the kernels belong to the process, whichever test was the first to need them.
    assert {thread for thread in threading.enumerate() if not thread.name.startswith("kernel-")} <= before


@pytest.fixture(autouse=True)
def headless(monkeypatch):
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)


@pytest.fixture
def frames():
    return make_frames()


@pytest.fixture
def subtractor():
    return ThresholdSubtractor()


@pytest.fixture
def mjpeg_server(frames):
    server = MjpegServer(frames)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()
