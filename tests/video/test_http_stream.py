"""HTTP cameras: passwords, redirections, recordings; the pixels are those of the file."""

from __future__ import annotations

import base64
import hashlib
import http.server
import re
import threading
from contextlib import contextmanager

import numpy as np
import pytest
from video_fakes import make_frames, read_video, write_video

from bgsub.errors import SourceError
from bgsub.video import CameraSource
from bgsub.video.sources.http_stream import HttpStream


class Handler(http.server.BaseHTTPRequestHandler):
    """Sends a file or parts of it, if the password is right."""

    def do_GET(self):
        self.server.asked.append((self.path, self.headers.get("Range")))
        target = self.server.elsewhere.get(self.path)
        if target is not None:
            self.tell(302, Location=target)
        elif self.server.ask and not self.knows_password():
            self.tell(401, WWW_Authenticate=self.server.ask)
        else:
            begin = int(((self.server.ranges and self.headers.get("Range")) or "bytes=0-")[6:-1])
            data = self.server.data[begin:]
            self.tell(206 if begin else 200, Content_Length=str(len(data)))
            self.wfile.write(data)

    def tell(self, status, **fields):
        self.send_response(status)
        for name, value in fields.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()

    def knows_password(self):
        given = self.headers.get("Authorization", "")
        if self.server.ask.startswith("Basic"):
            return given == "Basic " + base64.b64encode(b"me:se/cret").decode()
        fields = dict(re.findall(r'(\w+)="?([^",]*)"?', given))

        def md5(*parts):
            return hashlib.md5(":".join(parts).encode()).hexdigest()

        numbers = [fields.get(name, "") for name in ("nonce", "nc", "cnonce", "qop")]
        return fields.get("response") == md5(md5("me", "door", "se/cret"), *numbers, md5("GET", self.path))

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = False

    def handle_error(self, *_):
        """Ignore clients that close the connection."""


@contextmanager
def served(data, ask="", elsewhere=(), ranges=True):
    server = Server(("127.0.0.1", 0), Handler)
    server.data, server.ask, server.elsewhere, server.ranges = data, ask, dict(elsewhere), ranges
    server.asked, server.place = [], f"127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


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
        served(video.read_bytes(), ranges=False) as own,
        served(b"", elsewhere={"/video": "/other", "/other": f"http://{own.place}/last video?a=b c"}) as server,
    ):
        check(f"http://{server.place}/video", video)
        assert own.asked[0][0].startswith("/last%20video?a=b")


@pytest.mark.parametrize(
    ("name", "codec", "ranges"),
    [
        ("video.mp4", "mp4v", True),
        ("video.mp4", "mp4v", False),
        ("video.avi", "MJPG", True),
        ("video.ts", "MPG2", False),
    ],
)
def test_a_recording_is_complete_wherever_its_index_is(tmp_path, name, codec, ranges):
    video = write_video(tmp_path / name, make_frames(12, 48, 64), codec=codec)
    with served(video.read_bytes(), ranges=ranges) as server:
        check(f"http://{server.place}/video", video)


def test_bytes_from_any_place():
    data = np.random.default_rng(0).bytes(10_000)
    with served(data) as server:
        stream = HttpStream(f"http://{server.place}/", 10)
        assert stream.seek(-1, 2) == 9_999
        assert stream.seek(0) == 0
        assert stream.read(100) == data[:100]
        assert stream.seek(5_000) == 5_000
        assert stream.read(100) == data[5_000:5_100]
        assert stream.seek(20, 1) == 5_120
        assert stream.read(100) == data[5_120:5_220]
        assert stream.seek(10_001) == stream.seek(-1) == stream.seek(0, 7) == -1
        stream.close()
        assert [place for _, place in server.asked] == [None, "bytes=5000-", "bytes=5120-"]
    with served(data, ranges=False) as server:
        stream = HttpStream(f"http://{server.place}/", 10)
        assert stream.seek(5_000) == 5_000
        assert stream.read(100) == data[5_000:5_100]
        stream.close()


def test_wrong_addresses():
    for address in ("http://[::1", "http://127.0.0.1:port/", "http://127.0.0.1:1/", "http://", "http://a b/"):
        with pytest.raises(SourceError, match="cannot be opened: no answer"):
            CameraSource(address, open_timeout=5)
