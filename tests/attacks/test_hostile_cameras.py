"""Cameras that send too much, too little, too late or a redirect: the connection is closed and opened again."""

from __future__ import annotations

import gc
import gzip
import logging
import math
import socketserver
import struct
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import chain, repeat

import psutil
import pytest
from camera_servers import RtspCamera
from live_fakes import QuietServer, repeating, serving
from scoring import failure_of, scored
from video_fakes import make_frames, wait_first, write_video

from bgsub._opencv import cv2
from bgsub.errors import SourceError
from bgsub.video import CameraSource
from bgsub.video.sources.opening import open_source

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: "
MULTIPART = HEAD + b"multipart/x-mixed-replace; boundary=frame\r\n\r\n"
JPEGS = [bytes(cv2.imencode(".jpg", frame)[1]) for frame in make_frames(8, 48, 64)]


def part(jpeg: bytes, length: int | None = None) -> bytes:
    """Return a part of the stream with its length, or with a false one."""
    announced = len(jpeg) if length is None else length
    return b"--frame\r\nContent-Type: image/jpeg\r\nContent-Length: %d\r\n\r\n" % announced + jpeg + b"\r\n"


def of_size(jpeg: bytes, side: int) -> bytes:
    """Return a JPEG file with a square of another size in its header."""
    size = jpeg.index(b"\xff\xc0") + 5
    return jpeg[:size] + struct.pack(">HH", side, side) + jpeg[size + 4 :]


def grey_jpeg(side: int) -> bytes:
    """Return a valid JPEG file of `side` x `side` equal pixels: 0.75 bits for 64 of them."""
    small = of_size(bytes(cv2.imencode(".jpg", make_frames(1, 16, 16)[0, :, :, 0])[1]), side)
    scan = small.index(b"\xff\xda") + 2
    head = small[: scan + int.from_bytes(small[scan : scan + 2], "big")]
    return head + b"\x28\xa2\x8a" * ((side // 8) ** 2 // 4 + 1) + b"\xff\xd9"  # no change, end of block


class HostileCamera(QuietServer, socketserver.ThreadingTCPServer):
    """Call `attack` with the first `attacks` connections; the others get 50 pictures a second.

    `requests` contains the first line of each request.
    """

    request_queue_size = 64

    def __init__(self, attack: Callable[[Line], object], attacks: float = 1) -> None:
        super().__init__(("127.0.0.1", 0), Line)
        self.attack, self.attacks = attack, attacks
        self.requests: list[bytes] = []
        self.lock = threading.Lock()
        self.port = self.server_address[1]
        self.place = f"127.0.0.1:{self.port}/video"
        self.address = f"http://{self.place}"


def hostile_camera(attack: Callable[[Line], object], attacks: float = 1):
    return serving(HostileCamera(attack, attacks))


class Line(socketserver.BaseRequestHandler):
    """A connection to a client of the camera."""

    def handle(self) -> None:
        self.request.settimeout(0.2)
        with suppress(OSError):
            first = self.request.recv(1 << 16).partition(b"\r\n")[0]
            with self.server.lock:
                self.server.requests.append(first)
                number = len(self.server.requests)
            self.server.attack(self) if number <= self.server.attacks else self.send_pictures()

    def send(self, data: bytes, then: bytes = b"", drip: bytes = b"", wait: bool = False) -> None:
        """Send data, then a block again and again, or bytes one by one, or nothing until the client leaves."""
        self._send(data)
        while then:
            self._send(then)
        for byte in drip:
            self._send(bytes([byte]))
            self.server.ended.wait(0.1)
        while (drip or wait) and not self.server.ended.is_set():
            with suppress(TimeoutError):
                if not self.request.recv(1 << 16):
                    return

    def _send(self, data: bytes) -> None:
        left = memoryview(data)
        while left:
            if self.server.ended.is_set():
                raise OSError("the camera has ended")
            with suppress(TimeoutError):
                left = left[self.request.send(left) :]

    def send_pictures(self) -> None:
        self._send(MULTIPART)
        number = 0
        while not self.server.ended.wait(0.02):
            self._send(part(JPEGS[number % len(JPEGS)]))
            number += 1


@contextmanager
def peak_memory() -> Iterator[Callable[[], float]]:
    """Yield a function that returns the peak of the additional memory of this process in megabytes."""
    process = psutil.Process()
    begin, most = process.memory_info().rss, [0]

    def watch() -> None:
        most[0] = max(most[0], process.memory_info().rss - begin)
        time.sleep(0.005)

    with repeating(watch):
        yield lambda: most[0] / 1e6


OK = b"HTTP/1.1 200 OK\r\n"
GOOD = MULTIPART + b"".join(map(part, JPEGS[:3]))
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
REDIRECT = b"HTTP/1.1 302 F\r\nLocation: "
MP4 = HEAD + b"video/mp4\r\nAccept-Ranges: bytes\r\nContent-Length: 9223372036854775807\r\n\r\n"
ZEROS, ONES = bytes(1 << 20), b"\1" * (1 << 20)
MOST_MEMORY = 300  # additional MB
PATIENCE = 30  # seconds


def gzip_bomb():
    """Return 300 MB of zeros behind a JPEG file, compressed."""
    packer = zlib.compressobj(1, wbits=31)
    return b"".join(map(packer.compress, [JPEGS[0], *[bytes(1_000_000)] * 300])) + packer.flush()


# The answer, and a block that is sent after it again and again as fast as the client reads.
FLOODS = {
    "part of 2 GB, sent": (GOOD + part(JPEGS[0], 2**31 - 1), ZEROS),
    "part of -1 bytes": (GOOD + part(JPEGS[0], -1), ZEROS),
    "part without end": (GOOD + b"--frame\r\nContent-Type: image/jpeg\r\n\r\n" + JPEGS[0][:-2], ONES),
    "part header without end": (GOOD + b"--frame\r\n", b"X: y\r\n" * 10000),
    "JPEG without end": (HEAD + b"image/jpeg\r\n\r\n" + JPEGS[0] + JPEGS[1][:-2], ONES),
    "recording of 8 EB": (MP4 + struct.pack(">I4s", 2**31, b"ftyp") + b"isom", ZEROS),
    "chunk of 2^60": (CHUNKED + b"1000000000000000\r\n", ONES),
    "status without end": (b"HTTP/1.1 200 ", b"O" * (1 << 20)),
    "header without end": (OK, b"X-Field: value\r\n" * 10000),
    "part of 0 bytes": (GOOD, part(b"") * 10000),
    "part of x bytes": (GOOD + b"--frame\r\nContent-Type: image/jpeg\r\nContent-Length: x\r\n\r\n", ONES),
    "boundaries only": (GOOD, b"--frame\r\n" * 10000),
    "gzip pictures": (HEAD + b"image/jpeg\r\nContent-Encoding: gzip\r\n\r\n" + gzip.compress(JPEGS[0]) * 100,),
    "redirect to other paths": (REDIRECT + b"x/\r\nContent-Length: 0\r\n\r\n",),
    "redirect to itself": (REDIRECT + b"/video\r\nContent-Length: 0\r\n\r\n",),
    "invalid redirect": (REDIRECT + b"http://[\r\n\r\n",),
    "gzip bomb": (HEAD + b"image/jpeg\r\nContent-Encoding: gzip\r\n\r\n" + gzip_bomb(),),
    "zeros": (b"", ZEROS),
    "TLS": (b"", b"\x16\x03\x01\x00\xa5\x01" * 1000),
}
# The answer, and what is sent after it byte by byte before the silence.
SILENCES = {
    "part of 2 GB, not sent": (GOOD + part(JPEGS[0], 2**31 - 1),),
    "negative length": (OK + b"Content-Length: -5\r\n\r\n",),
    "slow chunk size": (CHUNKED, b"1" * 99),
    "silence": (b"",),
    "silence after the header": (MULTIPART,),
    "slow boundaries": (GOOD, b"--frame\r\n\r\n" * 20),
    "slow pictures": (GOOD + part(JPEGS[0])[:200], JPEGS[0][200:]),
    "JPEG with a false size of 60000x60000": (MULTIPART + part(of_size(JPEGS[0], 60000)) * 3,),
    "JPEG of 14000x14000": (MULTIPART + part(grey_jpeg(14000)) * 2,),
}


REPLY = b"RTSP/1.0 200 OK\r\nCSEQ\r\n"
SDP = REPLY + b"Content-Type: application/sdp\r\nContent-Length: 2147483646\r\n\r\n"
PACKETS = b"".join(b"$\0\5\x30\x80\x21" + struct.pack(">H", 7919 * n % 65536) + bytes(1324) for n in range(99))
#: The method of RTSP, its answer, and a block that is sent after it again and again as fast as the client reads.
RTSP_FLOODS = {
    "header without end": ("OPTIONS", REPLY, b"X-Field: value\r\n" * 10000),
    "body of 2 GB": ("OPTIONS", REPLY + b"Content-Length: 2147483647\r\n\r\n", ZEROS),
    "packets only": ("OPTIONS", b"", b"$\0\xff\xff" + bytes(65535)),
    "requests only": ("OPTIONS", b"", b"OPTIONS * RTSP/1.0\r\nCSeq: 1\r\n\r\n" * 1000),
    "half a status": ("OPTIONS", b"", b"RTSP/" * 200_000),
    "description of 2 GB": ("DESCRIBE", SDP, b"m=video 0 RTP/AVP 33\r\n" * 10000),
    "line of 2 GB": ("DESCRIBE", SDP, b"x" * 100_000),
    "zeros": ("PLAY", REPLY + b"\r\n", ZEROS),
    "packets out of order": ("PLAY", REPLY + b"\r\n", PACKETS),
    "reports only": ("PLAY", REPLY + b"\r\n", b"$\1\0\x1c\x80\xc8\0\6" + bytes(24)),
}


@pytest.mark.parametrize("name", RTSP_FLOODS)
@scored("camera over RTSP: {name}")
def test_a_hostile_rtsp_camera_is_given_up(name, tries):
    method, head, block = RTSP_FLOODS[name]
    timeout = 10 if "description" in name else 1.5
    for _ in range(tries(1, 10)):
        begin = time.monotonic()
        server = RtspCamera(b"", answer=lambda asked: chain([head], repeat(block)) if asked == method else None)
        address = f"rtsp://127.0.0.1:{server.port}/x"
        with serving(server), peak_memory() as peak:
            error = failure_of(CameraSource, address, open_timeout=timeout, read_timeout=1)
        seconds, is_clear = time.monotonic() - begin, error and "\n" not in error
        yield (error, seconds, peak()), is_clear and seconds < timeout + 6 and peak() < MOST_MEMORY / 2


def problem_of(attack, timeout, caplog, attacks):
    """Return what is wrong if no good pictures follow an attack in time and within the memory."""
    begin = time.monotonic()
    with hostile_camera(attack, attacks) as camera, peak_memory() as peak:
        try:
            with CameraSource(camera.address, open_timeout=timeout, read_timeout=timeout, reconnect=PATIENCE) as source:
                for frames, _ in enumerate(source):
                    if len(camera.requests) > 1 and frames > 10:
                        break
        except SourceError as error:
            return f"given up: {error}"
        if time.monotonic() - begin > PATIENCE:
            return f"it took {time.monotonic() - begin:.0f} s"
        if peak() > MOST_MEMORY:
            return f"it took {peak():.0f} MB"
    return "" if "again in" in caplog.text else "no log message"


@pytest.mark.parametrize("name", [*FLOODS, *SILENCES])
@scored("camera: {name}")
def test_a_hostile_camera_is_reconnected(name, caplog, monkeypatch, tries):
    wait_first(monkeypatch, 0.05)
    if name in FLOODS:
        (data, *then), timeout = FLOODS[name], 6
        attack = lambda line: line.send(data, *then)  # noqa: E731
    else:
        (data, *drip), timeout = SILENCES[name], 0.8
        attack = lambda line: line.send(data, b"", *drip, wait=True)  # noqa: E731
    for _ in range(tries(1, 10)):
        caplog.clear()
        with caplog.at_level(logging.WARNING, "bgsub"):
            problem = problem_of(attack, timeout, caplog, 11 if name.startswith("redirect to") else 1)
        yield problem, not problem


@scored("camera: comes and goes")
def test_a_camera_that_comes_and_goes_leaks_nothing(caplog, monkeypatch, tries):
    wait_first(monkeypatch, 0.01)
    caplog.set_level(logging.ERROR, "bgsub")  # pytest keeps all messages
    process, states, step = psutil.Process(), [], tries(10, 500)  # reconnections between two states
    most = {"descriptors": 4, "threads": 2, "objects": 100, "MB": 16}
    attack = lambda line: line.send(MULTIPART + 3 * part(JPEGS[0]))  # noqa: E731
    with hostile_camera(attack, math.inf) as camera, CameraSource(camera.address) as source:
        for _ in source:
            if source.reconnections >= (len(states) + 1) * step:
                gc.collect()
                memory, objects = process.memory_info().rss / 1e6, len(gc.get_objects())
                states.append((process.num_fds(), process.num_threads(), objects, memory))
            if len(states) == 6:
                break
    for state in states[2:]:
        grown = {name: now - before for name, now, before in zip(most, state, states[1], strict=True)}
        yield grown, all(grown[name] <= limit for name, limit in most.items())


def hls(place: str) -> bytes:
    return b"#EXTM3U\n#EXT-X-TARGETDURATION:2\n#EXTINF:2,\n" + place.encode() + b"\n#EXT-X-ENDLIST\n"


def playlists(place: str) -> dict[str, bytes]:
    """Return playlists that refer to another place, by content type."""
    start = '<?xml version="1.0"?><MPD xmlns="urn:mpeg:dash:schema:mpd:2011" type="static" '
    kind = 'mediaPresentationDuration="PT2S" profiles="urn:mpeg:dash:profile:isoff-live:2011"><Period>'
    where = f'<Representation id="1" bandwidth="1000"><BaseURL>{place}</BaseURL></Representation>'
    dash = f'{start}{kind}<AdaptationSet mimeType="video/mp4">{where}</AdaptationSet></Period></MPD>'
    sdp = "v=0\r\no=- 0 0 IN IP4 127.0.0.1\r\ns=x\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\nm=video 5999 RTP/AVP 26\r\n"
    concat = f"ffconcat version 1.0\nfile '{place}'\n"
    texts = {"text/plain": concat, "application/dash+xml": dash, "application/sdp": sdp}
    return {"application/vnd.apple.mpegurl": hls(place), **{kind: text.encode() for kind, text in texts.items()}}


def send_secret(line):
    line.send(HEAD + b"video/mp2t\r\n\r\nnothing for cameras")


@pytest.mark.parametrize("kind", ["network", "file", "tcp", "ftp"])
def test_references_of_a_camera_are_not_followed(tmp_path, kind, score):
    video = write_video(tmp_path / "other.avi", make_frames(8, 48, 64), codec="MJPG")

    def is_refused(answer):
        with hostile_camera(lambda line: line.send(answer), math.inf) as camera:
            error = failure_of(CameraSource, camera.address, open_timeout=5, read_timeout=5)
            return error and not other.requests

    with hostile_camera(send_secret) as other:
        # The name of this machine counts as another host than its number.
        places = {"network": f"http://localhost:{other.port}/other.ts", "file": video.as_uri()}
        place = places.get(kind, f"{kind}://127.0.0.1:{other.port}/other.ts")
        answers = [b"HTTP/1.1 %d F\r\nLocation: %s\r\n\r\n" % (code, place.encode()) for code in (301, 307)]
        answers += [HEAD + name.encode() + b"\r\n\r\n" + text for name, text in playlists(place).items()]
        answers += [HEAD + b"image/jpeg\r\n\r\n" + hls(place)]
        answers += [HEAD + b"video/mp4\r\n\r\nID3\3\0\0\0\0\0\7" + bytes(7) + hls(place)]  # behind a tag
        score(f"camera that refers to another place: {kind}", [(answer, is_refused(answer)) for answer in answers])


@scored("file that refers to another place")
def test_references_of_a_file_are_not_followed(tmp_path):
    write_video(tmp_path / "near.avi", make_frames(8, 48, 64), codec="MJPG")
    with hostile_camera(send_secret, math.inf) as other:
        for place in (f"http://127.0.0.1:{other.port}/other.ts", str(tmp_path / "near.avi"), "near.avi"):
            for number, content in enumerate(playlists(place).values()):
                for ending in ("avi", "mp4", "ts", "m3u8", "ffconcat", "mpd", "sdp"):
                    path = tmp_path / f"stranger{number}.{ending}"
                    path.write_bytes(content)
                    frames = None
                    with suppress(SourceError), open_source(path) as source:
                        frames = sum(1 for _ in source)
                    yield (path.name, place), frames is None
        assert other.requests == []


def test_an_rtsp_camera_that_redirects_to_itself_is_given_up():
    def answer(line):
        line.send(b"RTSP/1.0 302 F\r\nCSeq: 1\r\nLocation: rtsp://%s\r\n\r\n" % line.server.place.encode())

    with hostile_camera(answer, math.inf) as camera:
        with pytest.raises(SourceError, match=r"cannot be opened: it redirects to another address"):
            CameraSource(f"rtsp://{camera.place}", open_timeout=1, read_timeout=1)
        assert len(camera.requests) == 1
