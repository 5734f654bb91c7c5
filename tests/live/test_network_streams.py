"""Streams over TCP, RTSP and UDP, sent by the program ffmpeg over the loopback."""

from __future__ import annotations

import shutil
import subprocess
import threading
import time

import numpy as np
import pytest
from camera_servers import BASIC, RtspCamera
from live_fakes import free_port
from serve_camera import milliseconds, read_stamp, stamp
from serving import serving
from video_fakes import wait_first, write_video

from bgsub.video import CameraSource

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("ffmpeg") is None, reason="the program ffmpeg is missing"),
]
SIZE = (160, 120)


class Sender(threading.Thread):
    """Feeds ffmpeg with stamped pictures, 25 a second; starts ffmpeg again when it ends."""

    def __init__(self, *output: str) -> None:
        super().__init__()
        pictures = ("-f", "rawvideo", "-pix_fmt", "bgr24", "-s", f"{SIZE[0]}x{SIZE[1]}", "-r", "25", "-i", "-")
        self._command = ["ffmpeg", "-v", "quiet", *pictures, "-g", "5", *output]
        self._ended = threading.Event()
        self.process: subprocess.Popen | None = None

    def run(self) -> None:
        number = 0
        while not self._ended.wait(0.05):
            with subprocess.Popen(self._command, stdin=subprocess.PIPE) as self.process:
                due = time.monotonic()
                while not self._ended.wait(max(0.0, due - time.monotonic())):
                    picture = np.full((*SIZE[::-1], 3), 90, np.uint8)
                    stamp(picture, number, milliseconds())
                    try:
                        self.process.stdin.write(picture.tobytes())
                        self.process.stdin.flush()
                    except OSError:  # the receiver has closed the connection
                        break
                    due, number = due + 0.04, number + 1
                self.process.kill()
                self.process.communicate()

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_exception) -> None:
        self._ended.set()
        while self.is_alive():
            if self.process is not None:
                self.process.kill()
            self.join(0.1)


@pytest.fixture
def port():
    return free_port()


def connect(address, tries=20, **options):
    """Connect to ffmpeg, which listens some time after its start."""
    for _ in range(tries - 1):
        try:
            return CameraSource(address, **options)
        except OSError:
            threading.Event().wait(0.1)
    return CameraSource(address, **options)


def check(source, count):
    """Read some frames in order, of no known length."""
    assert (source.size, source.live, source.length) == (SIZE, True, None)
    frames = [frame for frame, _ in zip(source, range(count), strict=False)]
    assert [frame.image.shape for frame in frames] == [(*SIZE[::-1], 3)] * count
    assert np.diff([frame.index for frame in frames]).min() > 0
    assert np.diff([read_stamp(frame.image)[0] for frame in frames]).min() > 0


def test_interrupted_mpeg_over_tcp(port, monkeypatch):
    wait_first(monkeypatch, 0.1)
    address = f"tcp://127.0.0.1:{port}"
    with (
        Sender("-c:v", "mpeg2video", "-f", "mpegts", f"{address}?listen=1") as sender,
        connect(address, read_timeout=3) as source,
    ):
        check(source, 15)
        sender.process.kill()
        assert any(source.reconnections for _ in source)
        check(source, 5)


def test_rtsp(tmp_path):
    pictures = np.full((25, *SIZE[::-1], 3), 90, np.uint8)
    for number, picture in enumerate(pictures):
        stamp(picture, number, milliseconds())
    video = write_video(tmp_path / "a.ts", pictures, codec="MPG2").read_bytes()
    with serving(server := RtspCamera(video, BASIC)):
        address = f"rtsp://me:secret@127.0.0.1:{server.port}/live"
        with CameraSource(address, read_timeout=3, reconnect=False) as source:
            assert (source.name, source.size) == (f"stream 'rtsp://127.0.0.1:{server.port}/live'", SIZE)
            assert (source.live, source.length) == (True, None)
            frames = [frame for frame, _ in zip(source, range(15), strict=False)]
    assert np.diff([frame.index for frame in frames]).min() > 0
    assert len({read_stamp(frame.image)[0] for frame in frames}) > 5
