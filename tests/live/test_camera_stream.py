"""Camera streams over HTTP with failures of the connection, on the loopback camera and its stamps."""

from __future__ import annotations

import itertools
import logging
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from live_fakes import beside, free_port, grabbing, taken_port, wait_until
from saying import says
from video_fakes import ListSink, ThresholdSubtractor, make_frames, wait_first

from bgsub._opencv import cv2
from bgsub.errors import ParameterError, SourceError
from bgsub.jobs.controls import Controls
from bgsub.jobs.pipeline import Pipeline
from bgsub.live.broadcast import encode_part
from bgsub.live.loopback_camera import LoopbackCamera, age, milliseconds, read_stamp, stamp
from bgsub.video import ArraySource, CameraSource, Sink

RATE = 50


@pytest.fixture
def camera():
    """Sends stamped pictures of 64x48, 50 a second."""
    with LoopbackCamera(make_frames(8, 48, 64), RATE, stamped=True) as served:
        yield served


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    wait_first(monkeypatch, 0.05)


def come_back(source, frames):
    """Read until the camera is connected again."""
    assert any(source.reconnections for _ in frames)


def test_frames_arrive_in_order_without_delay(camera):
    with CameraSource(camera.address) as source:
        assert source.size == (64, 48)
        got = [frame for frame, _ in zip(source, range(20), strict=False)]
    stamps = [read_stamp(frame.image) for frame in got]
    numbers = [number for number, _ in stamps]
    assert numbers == sorted(set(numbers))
    # The numbers of the source grow with those of the camera, which leaves out what would come late.
    pairs = [(frame.index - got[0].index, number - numbers[0]) for frame, number in zip(got, numbers, strict=True)]
    assert all(index <= number for index, number in pairs)
    wait_until(lambda: camera.clients == 0)


def test_slow_receiver_gets_the_newest_frame(camera):
    latencies = []
    with CameraSource(camera.address) as source:
        for frame, _ in zip(source, range(8), strict=False):
            latencies.append(age(read_stamp(frame.image)[1]))
            time.sleep(0.2)  # ten frames of the camera
    assert source.dropped >= 30
    # Without a thread that drains the stream it would be 1.4 s in the end.
    assert np.median(latencies) < 0.1


@pytest.mark.parametrize("kind", ["random", "zeros", "empty"])
def test_bad_pictures_are_skipped_and_counted(monkeypatch, caplog, kind):
    rng, numbers = np.random.default_rng(1), itertools.count()

    def spoil(jpeg):
        if next(numbers) % 10 != 9:
            return encode_part(jpeg)
        return encode_part({"random": rng.bytes(len(jpeg)), "zeros": bytes(len(jpeg)), "empty": b""}[kind])

    monkeypatch.setattr("bgsub.live.loopback_camera.encode_part", spoil)
    with LoopbackCamera(make_frames(8, 48, 64), RATE) as camera, CameraSource(camera.address) as source:
        for frame in source:
            assert frame.image.shape == (48, 64, 3)
            if source.skipped >= 4:
                break
    # The first, the second and the fourth: a camera that sends many must not fill the log.
    assert 1 <= sum("cannot be read; skipped" in message for message in caplog.messages) <= 3


def test_reconnect_after_a_dropped_connection(camera, caplog):
    got = []
    with caplog.at_level(logging.WARNING, "bgsub"), CameraSource(camera.address) as source:
        for frame in source:
            got.append(read_stamp(frame.image)[0])
            if len(got) in (5, 10):
                camera.cut()
            if source.reconnections == 2 and len(got) > 15:
                break
    assert got == sorted(set(got))
    assert caplog.messages[0] == (
        f"stream '{camera.address}' lost: it sends no more frames; trying again in 0.05 s (attempt 1)"
    )
    assert caplog.messages[1].startswith(f"stream '{camera.address}' is back after 0.")
    assert len(caplog.messages) == 4


def test_reconnect_backs_off(camera, caplog):
    with caplog.at_level(logging.WARNING, "bgsub"), CameraSource(camera.address) as source:
        frames = iter(source)
        next(frames)
        camera.refuse(60)
        camera.cut()
        with beside(lambda: (wait_until(lambda: len(caplog.messages) >= 4), camera.refuse(0))):
            come_back(source, frames)
    waits = [message.split("again in ")[1].split(" s")[0] for message in caplog.messages if "again" in message]
    assert waits[:4] == ["0.05", "0.1", "0.2", "0.4"]
    assert "is back after" in caplog.messages[-1]


def test_reconnect_after_a_stall(camera, caplog):
    with caplog.at_level(logging.WARNING, "bgsub"), CameraSource(camera.address, read_timeout=0.3) as source:
        frames = iter(source)
        next(frames)
        camera.stall(0.6)
        come_back(source, frames)
    assert "lost: no frame for 0.3" in caplog.messages[0]


def test_lost_camera_ends_the_iteration(caplog):
    with LoopbackCamera(make_frames(4), RATE) as camera, CameraSource(camera.address, reconnect=0.3) as source:
        frames = iter(source)
        next(frames)
        camera.refuse(60)
        camera.cut()
        assert len(list(frames)) < 50
    assert caplog.messages[-1].startswith(f"stream '{camera.address}' ended after ")


class Idler(Sink):
    """Asks for the end once the camera is silent."""

    def __init__(self, camera, controls) -> None:
        self.camera, self.controls, self.asked = camera, controls, 0.0

    def write(self, _frame, _separation) -> None:
        self.camera.stall(60)

    def idle(self) -> None:
        if not self.asked and time.monotonic() < self.camera.silent_until:
            self.asked = time.monotonic()
            self.controls.quit()

    def close(self) -> None:
        self.closed = True


def test_quit_during_a_stall_is_fast(camera):
    controls = Controls()
    sink = Idler(camera, controls)
    source = CameraSource(camera.address, read_timeout=3)
    summary = Pipeline(source, ThresholdSubtractor(), [sink], controls=controls).run()
    assert sink.asked
    assert time.monotonic() - sink.asked < 1
    assert (summary.stopped, sink.closed) == ("user", True)
    # OpenCV still waits, but no longer than it was told to.
    wait_until(lambda: not grabbing(), 5)


def test_pipeline_counts_dropped_frames(camera):
    controls, sink = Controls(), ListSink()

    def slow(_frame, _separation):
        time.sleep(0.1)
        if len(sink.frames) == 6:
            controls.quit()

    source = CameraSource(camera.address)
    summary = Pipeline(source, ThresholdSubtractor(), [sink], progress=slow, controls=controls).run()
    assert summary.frames == 6
    assert summary.dropped >= sink.frames[-1].index + 1 - 6 >= 10


def test_wrong_address_is_refused():
    with taken_port(listening=False) as (_, port):
        address = f"http://me:secret@127.0.0.1:{port}/"
        with pytest.raises(SourceError, match=r"^stream 'http://127.0.0.1:\d+/' cannot be opened: no answer"):
            CameraSource(address)


def test_messages_hide_the_password(camera, caplog):
    address = camera.address.replace("//", "//me:secret@") + "?pwd=secret"
    with caplog.at_level(logging.DEBUG, "bgsub"), CameraSource(address, reconnect=0.2) as source:
        frames = iter(source)
        next(frames)
        camera.refuse(60)
        camera.cut()
        list(frames)
    assert len(caplog.messages) >= 2
    assert "secret" not in caplog.text + source.name


_SCRIPT = """
import sys, threading, time
from bgsub.video import CameraSource
frames = iter(source := CameraSource(sys.argv[1], read_timeout=30))
next(frames)
time.sleep(0.3)
source.close()
print("closed", flush=True)
"""

_WAITING_SCRIPT = """
import sys
from bgsub.video import CameraSource
print("waiting", flush=True)
try:
    CameraSource(sys.argv[1], open_timeout=30)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


def test_process_ends_during_a_camera_call(camera):
    process = subprocess.Popen([sys.executable, "-c", _SCRIPT, camera.address], stdout=subprocess.PIPE)
    with process:
        wait_until(lambda: camera.clients == 1)
        time.sleep(0.1)
        camera.stall(60)
        begin = time.monotonic()
        assert process.stdout.readline() == b"closed\n"
        assert process.wait(10) == 0
    assert time.monotonic() - begin < 5


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGINT for one process")
def test_interrupt_during_connect():
    with taken_port() as (mute, port):
        address = f"http://127.0.0.1:{port}/"
        process = subprocess.Popen([sys.executable, "-c", _WAITING_SCRIPT, address], stdout=subprocess.PIPE)
        with process:
            assert process.stdout.readline() == b"waiting\n"
            connection, _ = mute.accept()
            with connection:
                begin = time.monotonic()
                process.send_signal(2)
                assert process.stdout.readline() == b"interrupted\n"
                assert process.wait(10) == 0
        assert time.monotonic() - begin < 5


# The camera itself


def test_several_clients_get_the_same_frames():
    with LoopbackCamera(make_frames(4, 48, 64), RATE, stamped=True) as camera:
        sources = [CameraSource(camera.address) for _ in range(2)]
        numbers = {}

        def read(place):
            with sources[place] as source:
                numbers[place] = [read_stamp(frame.image)[0] for frame, _ in zip(source, range(10), strict=False)]

        with beside(lambda: read(1)):
            read(0)
    assert all(len(seen) == 10 for seen in numbers.values())
    assert set(numbers[0]) & set(numbers[1])


def test_scene_or_source_is_served():
    with LoopbackCamera("lobby", RATE, size=(64, 48)) as camera, CameraSource(camera.address) as source:
        assert next(iter(source)).image.std() > 5
    with LoopbackCamera(ArraySource(make_frames(3, 48, 64)), RATE) as camera, CameraSource(camera.address) as source:
        assert next(iter(source)).image.shape == (48, 64, 3)


def test_stream_ends_with_its_pictures(caplog):
    once = iter(make_frames(30))
    with LoopbackCamera(once, RATE) as camera, CameraSource(camera.address, reconnect=False) as source:
        assert list(source)
    assert "ended after" in caplog.text


def test_loopback_camera_errors():
    with says(ParameterError, "fps must be a positive number of frames per second, got 0"):
        LoopbackCamera("lobby", 0)
    with says(ParameterError, "scene must be one of lobby, street, got 'beach'"):
        LoopbackCamera("beach")
    with (
        taken_port() as (_, port),
        pytest.raises(SourceError, match=rf"^no camera can be served at 127.0.0.1:{port}: "),
    ):
        LoopbackCamera("lobby", port=port)
    LoopbackCamera(make_frames(1)).stop()  # though it was never started


def test_wait_for_a_missing_camera(caplog):
    port = free_port()
    cameras = []

    def come():
        cameras.append(LoopbackCamera(make_frames(8, 48, 64), RATE, port=port))
        cameras[0].start()

    starting = threading.Timer(0.6, come)
    starting.start()
    try:
        with (
            caplog.at_level(logging.WARNING, "bgsub"),
            CameraSource(f"http://127.0.0.1:{port}/", reconnect=20) as source,
        ):
            assert next(iter(source)).image.shape == (48, 64, 3)
    finally:
        starting.join()
        cameras[0].stop()
    assert "no answer, no access, or no video; trying again in 0.05 s" in caplog.text


def test_wait_for_a_camera_times_out():
    begin = time.monotonic()
    with pytest.raises(SourceError, match="no answer, no access"):
        CameraSource(f"http://127.0.0.1:{free_port()}/", reconnect=0.3)
    assert 0.3 <= time.monotonic() - begin < 10


def test_other_size_after_reconnect_is_resized(caplog):
    port = free_port()
    with LoopbackCamera(make_frames(8, 48, 64), RATE, port=port) as camera:
        source = CameraSource(camera.address)
        frames = iter(source)
        next(frames)
    with LoopbackCamera(make_frames(8, 32, 64), RATE, port=port), source:
        for frame in frames:
            assert frame.image.shape == (48, 64, 3)
            if "are 64x32 now; they are resized to 64x48" in caplog.text:
                break
        else:
            pytest.fail("the camera did not come back")


WORDS = st.integers(0, 2**32 - 1)


@settings(deadline=None, max_examples=40)
@given(WORDS, WORDS, st.sampled_from([(32, 48), (24, 64), (8, 160), (240, 320)]))
def test_stamp_survives_jpeg(number, moment, shape):
    image = np.random.default_rng(number).integers(0, 256, (*shape, 3), dtype=np.uint8)
    stamp(image, number, moment)
    assert read_stamp(image) == (number, moment)
    jpeg = cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, 80])[1]
    assert read_stamp(cv2.imdecode(jpeg, cv2.IMREAD_COLOR)) == (number, moment)


@pytest.mark.parametrize("level", [0, 60, 127, 128, 255])
def test_plain_picture_has_no_stamp(level):
    assert read_stamp(np.full((64, 64, 3), level, np.uint8)) is None


def test_small_picture_has_no_room_for_a_stamp():
    image = np.zeros((16, 16), np.uint8)
    assert read_stamp(image) is None
    with pytest.raises(ParameterError, match=r"^a stamp needs room for 72 squares of 4 pixels, got shape \(16, 16\)$"):
        stamp(image, 1, 2)


def test_age_of_a_stamp():
    begin = time.monotonic()
    moment = milliseconds()
    assert -0.001 <= age(moment) <= time.monotonic() - begin + 0.002
    assert age((moment - 5000) % 2**32) == pytest.approx(5, abs=0.5)
    assert age((moment + 5000) % 2**32) == pytest.approx(-5, abs=0.5)
