"""Camera streams over the loopback with failures of the connection, and stamps in the pictures."""

import itertools
import logging
import socketserver
import time

import numpy as np
import pytest
from camera_servers import BASIC, RtspCamera
from live_fakes import beside, free_port, wait_until
from serve_camera import LoopbackCamera, age, milliseconds, read_stamp, stamp
from serving import serving
from video_fakes import make_frames, wait_first, write_video

from bgsub.live.viewer import encode_part
from bgsub.video import CameraSource

RATE = 50


@pytest.fixture
def camera():
    """Sends stamped pictures of 64x48, 50 a second."""
    with LoopbackCamera(make_frames(8, 48, 64), RATE, stamped=True) as served:
        yield served


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    wait_first(monkeypatch, 0.05)


def test_slow_receiver_gets_the_newest_frame(camera):
    latencies = []
    with CameraSource(camera.address) as source:
        for frame, _ in zip(source, range(8), strict=False):
            latencies.append(age(read_stamp(frame.image)[1]))
            time.sleep(0.1)  # five frames of the camera
    assert source.dropped >= 15
    # Without a thread that drains the stream it would be 0.7 s in the end.
    assert np.median(latencies) < 0.1
    wait_until(lambda: camera.clients == 0)


@pytest.mark.parametrize("kind", ["random", "zeros", "empty"])
def test_bad_pictures_are_skipped_and_counted(monkeypatch, caplog, kind):
    rng, numbers = np.random.default_rng(1), itertools.count()

    def spoil(jpeg):
        if next(numbers) % 4 != 3:
            return encode_part(jpeg)
        return encode_part({"random": rng.bytes(len(jpeg)), "zeros": bytes(len(jpeg)), "empty": b""}[kind])

    monkeypatch.setattr("serve_camera.encode_part", spoil)
    with LoopbackCamera(make_frames(8, 48, 64), RATE) as camera, CameraSource(camera.address) as source:
        for frame in source:
            assert frame.image.shape == (48, 64, 3)
            if source.skipped >= 4:
                break
    assert source.reconnections == 0
    # The first, the second and the fourth: a camera that sends many must not fill the log.
    assert 1 <= sum("cannot be read; skipped" in message for message in caplog.messages) <= 3


def test_lost_camera_ends_the_iteration_and_messages_hide_the_password(camera, caplog):
    address = camera.address.replace("//", "//me:secret@") + "?pwd=secret"
    with caplog.at_level(logging.DEBUG, "bgsub"), CameraSource(address, reconnect=0.2) as source:
        frames = iter(source)
        next(frames)
        camera.refuse(60)
        camera.cut()
        assert len(list(frames)) < 50
    assert " ended after " in caplog.messages[-1]
    assert "secret" not in caplog.text + source.name


def test_wait_for_a_missing_camera(caplog):
    port = free_port()
    late = []

    def come():
        wait_until(lambda: "trying again in 0.1 s" in caplog.text)
        late.append(LoopbackCamera(make_frames(8, 48, 64), RATE, port=port))
        late[0].start()

    with beside(come):
        source = CameraSource(f"http://127.0.0.1:{port}/", reconnect=20)
    with source:
        assert next(iter(source)).image.shape == (48, 64, 3)
    late[0].stop()
    assert "no answer, no access, or no video; trying again in 0.05 s" in caplog.text


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
    assert all(one.index < two.index for one, two in itertools.pairwise(frames))
    assert all(read_stamp(frame.image)[0] in range(25) for frame in frames)


def test_interrupted_mpeg_over_tcp(video):
    class Sender(socketserver.BaseRequestHandler):
        def handle(self):
            self.request.sendall(video)

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
