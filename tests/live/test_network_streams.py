"""Streams that are no HTTP, sent by the program ffmpeg over the loopback."""

from __future__ import annotations

import shutil
import subprocess
import threading
import time

import numpy as np
import pytest
from live_fakes import free_port
from video_fakes import wait_first

from bgsub.live.loopback_camera import age, milliseconds, read_stamp, stamp
from bgsub.video import CameraSource
from bgsub.video.sources import camera_connection

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("ffmpeg") is None, reason="the program ffmpeg is missing"),
]

PICTURES = ("-re", "-f", "lavfi", "-i", "testsrc=size=64x48:rate=25", "-g", "5")


class Sender:
    """Runs ffmpeg, again when it ends, as when nobody listens yet or the receiver has gone."""

    def __init__(self, *output: str) -> None:
        self._command = ["ffmpeg", "-v", "quiet", *PICTURES, *output]
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.process: subprocess.Popen | None = None

    def _run(self) -> None:
        while not self._ended.wait(0.05):
            with subprocess.Popen(self._command, stdin=subprocess.DEVNULL) as self.process:
                self.process.wait()

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_exception) -> None:
        self._ended.set()
        while self._thread.is_alive():
            if self.process is not None:
                self.process.kill()
            self._thread.join(0.1)


@pytest.fixture
def port():
    return free_port()


def connect(address, tries=20, **options):
    """ffmpeg listens a moment after it has started."""
    for _ in range(tries - 1):
        try:
            return CameraSource(address, **options)
        except OSError:
            threading.Event().wait(0.1)
    return CameraSource(address, **options)


def check(source, count):
    """Read some frames: a test picture, in order, of no known length."""
    assert (source.size, source.live, source.length) == ((64, 48), True, None)
    indices = []
    for frame in source:
        indices.append(frame.index)
        assert frame.image.shape == (48, 64, 3)
        assert frame.image.std() > 30
        if len(indices) == count:
            break
    assert indices == sorted(set(indices))
    assert len(indices) == count


def test_interrupted_mpeg_over_tcp(port, monkeypatch):
    wait_first(monkeypatch, 0.1)
    address = f"tcp://127.0.0.1:{port}"
    with (
        Sender("-c:v", "mpeg2video", "-f", "mpegts", f"{address}?listen=1") as sender,
        connect(address, read_timeout=3) as source,
    ):
        check(source, 15)
        sender.process.kill()
        for _ in source:
            if source.reconnections:
                break
        check(source, 5)


def test_rtsp(port, monkeypatch):
    # ffmpeg can send to an RTSP server only, so that the source is made one.
    monkeypatch.setattr(camera_connection, "_NETWORK_OPTIONS", {"rtsp_flags": "listen", "listen_timeout": "10"})
    address = f"rtsp://127.0.0.1:{port}/live"
    push = ("-c:v", "mpeg4", "-f", "rtsp", "-rtsp_transport", "tcp", address)
    with Sender(*push), CameraSource(address, read_timeout=3, reconnect=False) as source:
        check(source, 15)


def test_udp(port):
    address = f"udp://127.0.0.1:{port}"
    with (
        Sender("-c:v", "mpeg2video", "-f", "mpegts", address),
        CameraSource(address, read_timeout=3, reconnect=False) as source,
    ):
        check(source, 15)


class StampedSender(threading.Thread):
    """Feeds an ffmpeg of its own with pictures of 160x120 that tell their time, 25 a second."""

    def __init__(self, *output: str) -> None:
        super().__init__()
        pictures = ("-f", "rawvideo", "-pix_fmt", "bgr24", "-s", "160x120", "-r", "25", "-i", "-")
        self.process = subprocess.Popen(["ffmpeg", "-v", "quiet", *pictures, *output], stdin=subprocess.PIPE)
        self._ended = threading.Event()

    def run(self) -> None:
        due, number = time.monotonic(), 0
        while not self._ended.wait(max(0.0, due - time.monotonic())):
            picture = np.full((120, 160, 3), 90, np.uint8)
            stamp(picture, number, milliseconds())
            try:
                self.process.stdin.write(picture.tobytes())
                self.process.stdin.flush()
            except OSError:  # the receiver has gone
                return
            due, number = due + 0.04, number + 1

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_exception) -> None:
        self._ended.set()
        self.process.kill()
        self.join()
        self.process.communicate()


def test_h264_is_decoded_without_delay(port):
    encoders = subprocess.run(["ffmpeg", "-v", "quiet", "-encoders"], capture_output=True, check=True).stdout
    if b"libx264" not in encoders:
        pytest.skip("this ffmpeg has no encoder for H.264")
    codec = ("-c:v", "libx264", "-preset", "ultrafast", "-tune", "zerolatency", "-g", "5", "-f", "mpegts")
    latencies = []
    with (
        StampedSender(*codec, "-flush_packets", "1", f"tcp://127.0.0.1:{port}?listen=1"),
        connect(f"tcp://127.0.0.1:{port}", read_timeout=3, reconnect=False) as source,
    ):
        for frame in source:
            moment = read_stamp(frame.image)
            latencies.append(age(moment[1]) if moment else np.inf)
            if len(latencies) >= 30:
                break
            time.sleep(0.06)  # slower than the stream
    assert source.dropped
    # The encoder takes a frame of 40 ms and MPEG-TS another one; what the receiver leaves out costs nothing.
    assert np.median(latencies[-10:]) < 0.25
