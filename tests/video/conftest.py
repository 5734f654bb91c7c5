"""Fixtures of the video tests."""

from __future__ import annotations

import threading

import pytest
from video_fakes import MjpegServer, ThresholdSubtractor, Writers, make_frames


@pytest.fixture
def frames():
    return make_frames()


@pytest.fixture
def subtractor():
    return ThresholdSubtractor()


@pytest.fixture
def written(tmp_path):
    """A function that returns a named pipe with the given bytes."""
    writers = Writers(tmp_path)
    yield writers
    writers.join()


@pytest.fixture
def mjpeg_server(frames):
    server = MjpegServer(frames)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()
