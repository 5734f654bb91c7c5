"""Fixtures of the video tests."""

from __future__ import annotations

import pytest
from serving import serving
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
    with serving(server):
        yield server
