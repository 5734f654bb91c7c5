"""Camera streams over HTTP with failures of the connection, from the loopback camera with its stamps."""

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
from live_fakes import beside, free_port, taken_port, wait_until
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


@pytest.fixture
def read(camera):
    """A source of the camera and its iterator, after the first frame."""
    with CameraSource(camera.address, read_timeout=1) as source:
        frames = iter(source)
        next(frames)
        yield source, frames


def test_frames_arrive_in_order(camera):
    with CameraSource(camera.address) as source:
        assert source.size == (64, 48)
        got = [frame for frame, _ in zip(source, range(20), strict=False)]
    numbers = [read_stamp(frame.image)[0] for frame in got]
    assert numbers == sorted(set(numbers))
    # The numbers of the source grow with those of the camera, which leaves out late pictures.
    pairs = [(frame.index - got[0].index, number - numbers[0]) for frame, number in zip(got, numbers, strict=True)]
    assert all(index <= number for index, number in pairs)
    wait_until(lambda: camera.clients == 0)


def test_slow_receiver_gets_the_newest_frame(camera):
    latencies = []
    with CameraSource(camera.address) as source:
        for frame, _ in zip(source, range(8), strict=False):
            latencies.append(age(read_stamp(frame.image)[1]))
            time.sleep(0.1)  # five frames of the camera
    assert source.dropped >= 15
    # Without a thread that drains the stream it would be 0.7 s in the end.
    assert np.median(latencies) < 0.1


@pytest.mark.parametrize("kind", ["random", "zeros", "empty"])
def test_bad_pictures_are_skipped_and_counted(monkeypatch, caplog, kind):
    rng, numbers = np.random.default_rng(1), itertools.count()

    def spoil(jpeg):
        if next(numbers) % 4 != 3:
            return encode_part(jpeg)
        return encode_part({"random": rng.bytes(len(jpeg)), "zeros": bytes(len(jpeg)), "empty": b""}[kind])

    monkeypatch.setattr("bgsub.live.loopback_camera.encode_part", spoil)
    with LoopbackCamera(make_frames(8, 48, 64), RATE) as camera, CameraSource(camera.address) as source:
        for frame in source:
            assert frame.image.shape == (48, 64, 3)
            if source.skipped >= 4:
                break
    assert source.reconnections == 0
    # The first, the second and the fourth: a camera that sends many must not fill the log.
    assert 1 <= sum("cannot be read; skipped" in message for message in caplog.messages) <= 3


def test_undecodable_pictures_at_the_start_are_not_counted(monkeypatch):
    numbers = itertools.count()
    monkeypatch.setattr("bgsub.video.sources.camera_connection._RETRIES", 0)
    with LoopbackCamera(make_frames(8, 48, 64), RATE) as camera, CameraSource(camera.address) as source:
        decode = source._capture._container.decode

        def late(packet):  # as before the first keyframe
            return decode(packet) if next(numbers) >= 8 else [None]

        monkeypatch.setattr(source._capture._container, "decode", late)
        assert next(iter(source)).index == 0
    assert (source.skipped, source.reconnections) == (0, 0)


def test_reconnect_after_a_dropped_connection(camera, caplog):
    got = []
    with CameraSource(camera.address) as source:
        for frame in source:
            got.append(read_stamp(frame.image)[0])
            if len(got) in (5, 10):
                camera.cut()
            if source.reconnections == 2 and len(got) > 15:
                break
    assert got == sorted(set(got))
    assert len(caplog.messages) == 4
    assert "lost: it sends no more frames; trying again in 0.05 s (attempt 1)" in caplog.messages[0]
    assert f"stream '{camera.address}' is back after 0." in caplog.messages[1]


def test_reconnect_backs_off(camera, caplog, read):
    source, frames = read
    camera.refuse(60)
    camera.cut()
    with beside(lambda: (wait_until(lambda: len(caplog.messages) >= 4), camera.refuse(0))):
        assert any(source.reconnections for _ in frames)
    waits = [message.split("again in ")[1].split(" s")[0] for message in caplog.messages if "again" in message]
    assert waits[:4] == ["0.05", "0.1", "0.2", "0.4"]
    wait_until(lambda: "is back after" in caplog.messages[-1])


def test_reconnect_after_a_stall(camera, caplog, read):
    source, frames = read
    camera.stall(1.5)
    assert any(source.reconnections for _ in frames)
    assert "lost: no frame for 1" in caplog.messages[0]


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


class Idler(Sink):
    """Silences the camera and quits once nothing comes."""

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
    source = CameraSource(camera.address, read_timeout=1.5)
    summary = Pipeline(source, ThresholdSubtractor(), [sink], controls=controls).run()
    assert sink.asked
    assert time.monotonic() - sink.asked < 1
    assert (summary.stopped, sink.closed) == ("user", True)
    # The thread ends after its timeout.
    wait_until(lambda: not [thread for thread in threading.enumerate() if thread.name == "bgsub-grab"], 5)


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


def test_missing_camera_is_refused_at_once_or_after_some_time():
    with taken_port(listening=False) as (_, port):
        with pytest.raises(SourceError, match=r"^stream 'http://127.0.0.1:\d+/' cannot be opened: no answer"):
            CameraSource(f"http://me:secret@127.0.0.1:{port}/")
        begin = time.monotonic()
        with pytest.raises(SourceError, match="no answer, no access"):
            CameraSource(f"http://127.0.0.1:{port}/", reconnect=0.3)
    assert 0.3 <= time.monotonic() - begin < 10


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


_CLOSING = """
source = CameraSource(sys.argv[1], read_timeout=30)
next(iter(source))
print("reading", flush=True)
sys.stdin.readline()
source.close()
print("closed", flush=True)
"""
_WAITING = """
print("waiting", flush=True)
try:
    CameraSource(sys.argv[1], open_timeout=30)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


def start(script, address):
    command = [sys.executable, "-c", f"import sys\nfrom bgsub.video import CameraSource\n{script}", address]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


@pytest.mark.slow
def test_process_ends_during_a_camera_call(camera):
    with start(_CLOSING, camera.address) as process:
        assert process.stdout.readline() == b"reading\n"
        camera.stall(60)
        begin = time.monotonic()
        assert process.communicate(b"\n")[0] == b"closed\n"
        assert process.returncode == 0
    assert time.monotonic() - begin < 5


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGINT for one process")
def test_interrupt_during_connect():
    with taken_port() as (mute, port), start(_WAITING, f"http://127.0.0.1:{port}/") as process:
        assert process.stdout.readline() == b"waiting\n"
        connection, _ = mute.accept()
        with connection:
            begin = time.monotonic()
            process.send_signal(2)
            assert process.communicate()[0] == b"interrupted\n"
            assert process.returncode == 0
    assert time.monotonic() - begin < 5


# The camera itself


def test_several_clients_get_the_same_frames(camera):
    numbers = {}

    def run(place):
        with CameraSource(camera.address) as source:
            numbers[place] = {read_stamp(frame.image)[0] for frame, _ in zip(source, range(10), strict=False)}

    with beside(lambda: run(1)):
        run(0)
    assert [len(numbers[place]) for place in (0, 1)] == [10, 10]
    assert numbers[0] & numbers[1]


def test_scene_source_or_iterator_is_served(caplog):
    with LoopbackCamera("lobby", RATE, size=(64, 48)) as camera, CameraSource(camera.address) as source:
        assert next(iter(source)).image.std() > 5
    with LoopbackCamera(ArraySource(make_frames(3, 48, 64)), RATE) as camera, CameraSource(camera.address) as source:
        assert next(iter(source)).image.shape == (48, 64, 3)
    once = iter(make_frames(20))
    with LoopbackCamera(once, RATE) as camera, CameraSource(camera.address, reconnect=False) as source:
        assert list(source)
    assert "ended after" in caplog.text


def test_loopback_camera_errors():
    with pytest.raises(ParameterError, match=r"fps must be a positive .* got 0"):
        LoopbackCamera(make_frames(1), 0)
    with pytest.raises(ParameterError, match="scene must be one of lobby, street, got 'beach'"):
        LoopbackCamera("beach")
    with taken_port() as (_, port), pytest.raises(SourceError, match=rf"no camera can be served at 127.0.0.1:{port}: "):
        LoopbackCamera(make_frames(1), port=port)
    LoopbackCamera(make_frames(1)).stop()  # was never started


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


@settings(deadline=None, max_examples=25)
@given(WORDS, WORDS, st.sampled_from([(32, 48), (24, 64), (8, 160), (240, 320)]))
def test_stamp_survives_jpeg(number, moment, shape):
    image = np.random.default_rng(number).integers(0, 256, (*shape, 3), dtype=np.uint8)
    stamp(image, number, moment)
    assert read_stamp(image) == (number, moment)
    jpeg = cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, 80])[1]
    assert read_stamp(cv2.imdecode(jpeg, cv2.IMREAD_COLOR)) == (number, moment)


def test_pictures_without_a_stamp():
    for level in (0, 60, 127, 128, 255):
        assert read_stamp(np.full((64, 64, 3), level, np.uint8)) is None
    small = np.zeros((16, 16), np.uint8)
    assert read_stamp(small) is None
    with pytest.raises(ParameterError, match=r"72 squares of 4 pixels, got shape \(16, 16\)"):
        stamp(small, 1, 2)


def test_age_of_a_stamp():
    begin = time.monotonic()
    moment = milliseconds()
    assert -0.001 <= age(moment) <= time.monotonic() - begin + 0.002
    assert age((moment - 5000) % 2**32) == pytest.approx(5, abs=0.5)
    assert age((moment + 5000) % 2**32) == pytest.approx(-5, abs=0.5)
