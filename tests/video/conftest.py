"""A network camera of the video tests."""

import pytest
from serving import serving
from video_fakes import MjpegServer


@pytest.fixture
def mjpeg_server(frames):
    server = MjpegServer(frames)
    with serving(server):
        yield server
