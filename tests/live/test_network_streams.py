"""Streams over TCP and RTSP, sent over the loopback."""

from __future__ import annotations

import socketserver
from itertools import pairwise

import numpy as np
import pytest
from camera_servers import BASIC, RtspCamera
from serve_camera import milliseconds, read_stamp, stamp
from serving import serving
from video_fakes import wait_first, write_video

from bgsub.video import CameraSource

SIZE = (160, 120)


@pytest.fixture
def video(tmp_path):
    """Return 25 numbered pictures as the bytes of an MPEG transport stream."""
    pictures = np.full((25, *SIZE[::-1], 3), 90, np.uint8)
    for number, picture in enumerate(pictures):
        stamp(picture, number, milliseconds())
    return write_video(tmp_path / "a.ts", pictures, codec="MPG2").read_bytes()


def check(source, count):
    """Read some frames in order, of no known length."""
    assert (source.size, source.live, source.length) == (SIZE, True, None)
    frames = [frame for frame, _ in zip(source, range(count), strict=False)]
    assert all(one.index < two.index for one, two in pairwise(frames))
    assert all(read_stamp(frame.image)[0] in range(25) for frame in frames)


def test_interrupted_mpeg_over_tcp(video, monkeypatch):
    class Sender(socketserver.BaseRequestHandler):
        def handle(self):
            self.request.sendall(video)

    wait_first(monkeypatch, 0.1)
    with (
        serving(server := socketserver.ThreadingTCPServer(("127.0.0.1", 0), Sender)),
        CameraSource(f"tcp://127.0.0.1:{server.server_address[1]}", read_timeout=3) as source,
    ):
        check(source, 3)
        assert any(source.reconnections for _ in source)
        check(source, 3)


def test_rtsp(video):
    with serving(server := RtspCamera(video, BASIC)):
        address = f"rtsp://me:secret@127.0.0.1:{server.port}/live"
        with CameraSource(address, read_timeout=3, reconnect=False) as source:
            assert source.name == f"stream 'rtsp://127.0.0.1:{server.port}/live'"
            check(source, 15)
