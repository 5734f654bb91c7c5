"""Local cameras, simulated; addresses; streams over the loopback with failures, and stamps in the pictures."""

import base64
import hashlib
import itertools
import logging
import re
import socketserver
import threading
import time
from contextlib import contextmanager

import numpy as np
import pytest
from camera_servers import BASIC, HttpCamera, RtspCamera
from hypothesis import given, settings
from hypothesis import strategies as st
from live_fakes import beside, serving, wait_until
from receiver import unused_address
from serve_camera import LoopbackCamera, age, milliseconds, read_stamp, stamp
from video_fakes import FakeCapture, ListSink, ThresholdSubtractor, make_frames, read_video, wait_first, write_video

from bgsub._opencv import cv2
from bgsub.errors import ParameterError, SourceError
from bgsub.jobs.pipeline import Pipeline
from bgsub.live.viewer import encode_part
from bgsub.video import CameraSource
from bgsub.video.sources.camera_address import SCHEMES, is_camera, parse_camera, without_password


@pytest.fixture
def plug(monkeypatch):
    """A function that gives each opening of a camera the next capture; None fails."""

    def put(*captures):
        left, openings = list(captures), []

        def opened(device):
            openings.append(device)
            return (left.pop(0) if left else None) or FakeCapture([], opened=False)

        monkeypatch.setattr(cv2, "VideoCapture", opened)
        wait_first(monkeypatch, 0.01)
        return openings

    return put


def test_a_camera_that_was_lost_continues(plug, monkeypatch, caplog, frames):
    monkeypatch.setattr("bgsub.video.sources.camera.LONGEST_WAIT", 0.02)
    plug(FakeCapture(frames[:4]), None, FakeCapture([]), FakeCapture(frames[4:]))
    with caplog.at_level(logging.WARNING, "bgsub"), CameraSource(0, reconnect=0.5) as source:
        got = list(source)
    assert [frame.index for frame in got] == sorted({frame.index for frame in got})
    assert got[-1].index == len(frames) - 1
    assert len(got) + source.dropped == len(frames)
    np.testing.assert_array_equal(got[-1].image, frames[-1])
    assert source.reconnections == 1
    assert caplog.messages[:3] == [
        "camera 0 lost: it sends no more frames; trying again in 0.01 s (attempt 1)",
        "camera 0 lost: cannot be opened: it is not there, in use or not permitted; trying again in 0.02 s (attempt 2)",
        "camera 0 lost: it sends no frame; trying again in 0.02 s (attempt 3)",
    ]
    assert caplog.messages[3].startswith("camera 0 is back after 0.")
    assert caplog.messages[-1] == "camera 0 ended after 12 frames"


@pytest.mark.parametrize("reconnect", [0.1, None, 0])
def test_reconnection_ends(plug, caplog, frames, reconnect):
    openings = plug(FakeCapture(frames))
    with caplog.at_level(logging.WARNING, "bgsub"), CameraSource(0, reconnect=reconnect) as source:
        assert list(source)[-1].index == 11
    # After 0.01, 0.02, 0.04 s and the rest of 0.1 s.
    assert len(openings) >= 3 if reconnect else len(openings) == 1
    assert caplog.messages[-1] == "camera 0 ended after 12 frames"


def test_frames_of_another_size_are_resized_to_the_first(plug, frames, caplog):
    plug(FakeCapture(frames), FakeCapture(make_frames(3, 16, 24)), FakeCapture(frames))
    with CameraSource(0, reconnect=True) as source:
        for frame in source:
            assert frame.image.shape == (32, 48, 3)
            if "the frames of camera 0 are 48x32 again" in caplog.messages:
                break
    resized = "the frames of camera 0 are 24x16 now; they are resized to 48x32, the size at the start"
    assert caplog.messages.count(resized) == 1


def test_times_of_arrival_and_dropped_frames(plug):
    frames = make_frames(40)
    plug(FakeCapture(frames), FakeCapture(frames))
    with CameraSource(0) as source:
        got = list(source)
    assert got[0].time == 0
    assert [frame.received - got[0].received for frame in got] == [frame.time for frame in got]
    sink = ListSink()
    summary = Pipeline(CameraSource(0), ThresholdSubtractor(), [sink]).run()
    assert summary.frames + summary.dropped == 40
    assert sink.frames[-1].index == 39


def test_errors_of_the_driver_are_raised(plug):
    capture = FakeCapture([])
    capture.read = lambda: (_ for _ in ()).throw(cv2.error("the driver crashed"))
    plug(capture)
    with CameraSource(0, reconnect=True) as source, pytest.raises(cv2.error, match="the driver crashed"):
        list(source)
    assert capture.released


def test_close_ends_a_wait_for_a_silent_camera(plug, frames):
    silent, end = threading.Event(), threading.Event()

    class MuteCapture(FakeCapture):
        def read(self):
            if not self.frames:
                silent.set()
                end.wait(20)
            return super().read()

    plug(capture := MuteCapture(frames[:3]))
    source, got = CameraSource(0), []
    with beside(lambda: got.extend(frame.index for frame in source)):
        wait_until(lambda: 2 in got)
        assert silent.wait(5)
        begin = time.monotonic()
        source.close()
    assert time.monotonic() - begin < 2
    end.set()
    wait_until(lambda: "bgsub-grab" not in [thread.name for thread in threading.enumerate()])
    assert capture.released


def test_wrong_parameters_and_addresses():
    for address in ("http://[::1", "http://127.0.0.1:port/", "http://127.0.0.1:1/", "http://", "http://a b/"):
        with pytest.raises(SourceError, match="cannot be opened: no answer"):
            CameraSource(address, open_timeout=5)
    wrong = [("reconnect", -1), ("reconnect", float("nan")), ("read_timeout", 0)]
    for name, value in [*wrong, ("open_timeout", float("inf"))]:
        with pytest.raises(ParameterError, match=rf"^{name} must be .*, got {value}$"):
            CameraSource(0, **{name: value})


def test_refused_playlists_are_called_so():
    with served(b"") as server:
        for kind in ("application/vnd.apple.mpegurl", "audio/x-mpegURL; charset=utf-8", "application/dash+xml"):
            server.answer = lambda _path, kind=kind: (200, {"Content-Type": kind, "body": b"#EXTM3U\n"})
            with pytest.raises(SourceError, match=r"it is a playlist, and its address does not end in \.m3u8 or \.mpd"):
                CameraSource(f"http://{server.place}/live")


def test_without_password():
    expected = {
        "rtsp://host/stream": "rtsp://host/stream",
        "rtsp://user:secret@host:554/stream": "rtsp://host:554/stream",
        "rtsp://user@host/stream": "rtsp://host/stream",
        "rtsp://user:se@cret@host/stream": "rtsp://host/stream",
        "rtsp://user:secret/1@host/stream": "rtsp://host/stream",
        "rtsp://user:secret/@/2@host:554/stream": "rtsp://host:554/stream",
        "rtsp://host:554/cam@1": "rtsp://host:554/cam@1",
        "rtsp://host/cam@1": "rtsp://host/cam@1",
        "rtsp://[::1]:554/cam@1": "rtsp://[::1]:554/cam@1",
        "http://host/video?user=admin&pwd=secret&size=2": "http://host/video?user=admin&pwd=***&size=2",
        "http://host/video?Password=secret": "http://host/video?Password=***",
        "rtsp://host/user=admin_password=secret_channel=1": "rtsp://host/user=admin_password=***",
        "srt://host:9000?passphrase=secret": "srt://host:9000?passphrase=***",
    }
    assert {address: without_password(address) for address in expected} == expected


@settings(max_examples=40)
@given(st.text(st.characters(codec="ascii", exclude_characters="/@"), min_size=1), st.sampled_from(SCHEMES))
def test_no_password_is_ever_shown(password, scheme):
    address = f"{scheme}://user:<<{password}>>@host:80/stream"
    assert without_password(address) == f"{scheme}://host:80/stream"


def test_cameras():
    assert [is_camera(text) for text in ("0", "rtsp://a", "0.avi", "a/b")] == [True, True, False, False]
    assert parse_camera("7") == 7
    assert parse_camera("RTSP://host/1") == "RTSP://host/1"
    with pytest.raises(ParameterError, match="index of a camera must be 0 or more, got -2"):
        parse_camera(-2)
    with pytest.raises(SourceError, match=r"got 'gopher://host'$"):
        parse_camera("gopher://me:secret@host")


def is_right(secret, path):
    """Whether a password is that of the addresses below."""
    if secret.startswith("Basic"):
        return secret == "Basic " + base64.b64encode(b"me:se/cret").decode()
    fields = dict(re.findall(r'(\w+)="?([^",]*)"?', secret))

    def md5(*parts):
        return hashlib.md5(":".join(parts).encode()).hexdigest()

    numbers = [fields.get(name, "") for name in ("nonce", "nc", "cnonce", "qop")]
    return fields.get("response") == md5(md5("me", "door", "se/cret"), *numbers, md5("GET", path))


@contextmanager
def served(data, ask="", elsewhere=()):
    moved = dict(elsewhere)
    server = HttpCamera(ask, lambda path: (302, {"Location": moved[path]}) if path in moved else (200, {}), is_right)
    server.body, server.place = data, f"127.0.0.1:{server.port}"
    with serving(server):
        yield server


@pytest.fixture
def video(tmp_path):
    return write_video(tmp_path / "video.avi", make_frames(12, 48, 64), codec="MJPG")


def check(address, video):
    with CameraSource(address, open_timeout=10, read_timeout=10, reconnect=False) as source:
        frames = [frame.image for frame in source]
    np.testing.assert_array_equal(frames, read_video(video))


@pytest.mark.parametrize("ask", ['Basic realm="door"', 'Digest realm="door", qop="auth", nonce="abc", opaque="x"'])
def test_basic_and_digest_passwords(video, ask):
    with served(video.read_bytes(), ask) as server:
        check(f"http://me:se%2Fcret@{server.place}/video", video)
        with pytest.raises(SourceError, match="no access"):
            CameraSource(f"http://me:wrong@{server.place}/video")
        with pytest.raises(SourceError, match="no access"):
            CameraSource(f"http://{server.place}/video")


def test_redirections_to_the_same_host(video):
    with (
        served(video.read_bytes()) as own,
        served(b"", elsewhere={"/video": "/other", "/other": f"http://{own.place}/last video?a=b c"}) as server,
    ):
        check(f"http://{server.place}/video", video)
        assert own.requests[0].startswith("/last%20video?a=b")


@pytest.mark.parametrize(("name", "codec"), [("video.mkv", "mp4v"), ("video.avi", "MJPG"), ("video.ts", "MPG2")])
def test_a_recording_is_complete(tmp_path, name, codec):
    video = write_video(tmp_path / name, make_frames(12, 48, 64), codec=codec)
    with served(video.read_bytes()) as server:
        check(f"http://{server.place}/video", video)


RATE, SIZE = 50, (160, 120)


@pytest.fixture
def camera(quick):
    """Sends stamped pictures of 64x48, 50 a second."""
    with LoopbackCamera(make_frames(8, 48, 64), RATE, stamped=True) as served:
        yield served


@pytest.fixture
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
def test_bad_pictures_are_skipped_and_counted(monkeypatch, caplog, quick, kind):
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


def test_wait_for_a_missing_camera(caplog, quick):
    port, late = int(unused_address().rpartition(":")[2]), []

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


@pytest.fixture
def stream(tmp_path):
    """Return 25 numbered pictures as the bytes of an MPEG transport stream."""
    pictures = np.full((25, *SIZE[::-1], 3), 90, np.uint8)
    for number, picture in enumerate(pictures):
        stamp(picture, number, milliseconds())
    return write_video(tmp_path / "a.ts", pictures, codec="MPG2").read_bytes()


def check_order(source, count):
    """Read some frames in order, of no known length."""
    assert (source.size, source.live, source.length) == (SIZE, True, None)
    frames = [frame for frame, _ in zip(source, range(count), strict=False)]
    assert all(one.index < two.index for one, two in itertools.pairwise(frames))
    assert all(read_stamp(frame.image)[0] in range(25) for frame in frames)


def test_interrupted_mpeg_over_tcp(stream, quick):
    class Sender(socketserver.BaseRequestHandler):
        def handle(self):
            self.request.sendall(stream)

    with (
        serving(server := socketserver.ThreadingTCPServer(("127.0.0.1", 0), Sender)),
        CameraSource(f"tcp://127.0.0.1:{server.server_address[1]}", read_timeout=3) as source,
    ):
        check_order(source, 3)
        assert any(source.reconnections for _ in source)
        check_order(source, 3)


def test_rtsp(stream, quick):
    with serving(server := RtspCamera(stream, BASIC)):
        address = f"rtsp://me:secret@127.0.0.1:{server.port}/live"
        with CameraSource(address, read_timeout=3, reconnect=False) as source:
            assert source.name == f"stream 'rtsp://127.0.0.1:{server.port}/live'"
            check_order(source, 15)
