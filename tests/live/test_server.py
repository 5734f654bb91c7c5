"""The page of a live run over HTTP: pictures, statistics, commands, and access control."""

import json
import logging
import re
import socket
import threading
import time
from contextlib import closing, contextmanager
from dataclasses import replace
from http.client import HTTPConnection, parse_headers

import numpy as np
import pytest
from live_fakes import wait_until
from video_fakes import make_frames, separate

from bgsub._opencv import cv2
from bgsub.events import EventFeed, MotionRules, ObjectLinker
from bgsub.jobs.controls import LIVE_VIEWS, Controls
from bgsub.live.access import Access, is_loopback
from bgsub.live.server import LiveServer
from bgsub.live.viewer import RecentEvents
from bgsub.video import Frame

TOKEN = "correct-horse"


class Client:
    def __init__(self, server):
        self.port = int(server.address.split(":")[2].split("/")[0])

    def ask(self, path, method="GET", body=None, **headers):
        """Return status, header fields and body."""
        fields = {name.replace("_", "-"): headers[name] for name in headers}
        with closing(HTTPConnection("127.0.0.1", self.port, timeout=10)) as connection:
            connection.request(method, path, body, fields)
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read()

    def status(self, path, **headers):
        return self.ask(path, **headers)[0]

    def command(self, content, **headers):
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        status, _, answer = self.ask("/control", "POST", body, **{"Content_Type": "application/json", **headers})
        return status, json.loads(answer)

    def refusal(self, path, **headers):
        status, _, body = self.ask(path, **headers)
        content = json.loads(body)
        assert list(content) == ["error"]
        return status, content["error"]

    def cameras(self, **headers):
        return json.loads(self.ask("/statistics", **headers)[2])["cameras"]

    @contextmanager
    def watch(self, path):
        """Yield a function that returns the next picture of a stream."""
        with closing(HTTPConnection("127.0.0.1", self.port, timeout=10)) as connection:
            connection.request("GET", path)
            with connection.getresponse() as stream:
                assert stream.status == 200

                def picture():
                    while not stream.readline().startswith(b"--"):
                        assert not stream.isclosed(), "the stream has ended"
                    return decode(stream.read(int(parse_headers(stream)["Content-Length"])))

                yield picture


@pytest.fixture
def server(controls):
    with LiveServer(controls, port=0) as server:
        yield server


@pytest.fixture
def client(server):
    return Client(server)


def decode(data):
    return cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR)


def put(server, camera=0, index=0):
    image = make_frames(index + 1)[index]
    frame, separation = Frame(index, f"{index + 1:06d}", None, image), separate(image)
    server.broadcasts[camera].controls.statistics.update(frame, separation, 3)
    server.broadcasts[camera].write(frame, separation)
    return separation


def test_page_is_self_contained(client):
    status, headers, body = client.ask("/")
    assert (status, headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    assert b"<title>bgsub live</title>" in body
    assert "default-src 'self'" in headers["Content-Security-Policy"]
    assert b"http" not in body.replace(b"http-equiv", b"")
    for name in ("style.css", "script.js"):
        status, _, part = client.ask(f"/{name}")
        assert name.encode() in body
        assert status == 200
        assert b"https:" not in part
    for path in ("/nothing", "/../server.py", "/page/../../server.py", "/%2e%2e/server.py", "//etc/passwd", "/control"):
        assert client.refusal(path)[0] == 404


def test_stream_shows_the_view_of_each_newest_frame(server, client):
    with client.watch("/stream") as picture:  # before the first frame
        assert picture().shape == (360, 640, 3)
    separation = put(server)
    with client.watch("/stream?view=mask") as picture:
        for _ in range(2):  # Chromium shows a picture when the next one comes
            np.testing.assert_allclose(picture()[..., 0], separation.mask, atol=40)
        separation = put(server, index=5)
        np.testing.assert_allclose(picture()[..., 0], separation.mask, atol=40)
        with client.watch("/stream?view=panel") as other:
            assert other().shape == (64, 96, 3)
    wait_until(lambda: not server.connections)


def test_one_picture_and_snapshot_in_full_size(server, client):
    separation = put(server)
    status, headers, body = client.ask("/picture.jpg?view=mask")
    assert (status, headers["Content-Type"]) == (200, "image/jpeg")
    np.testing.assert_allclose(decode(body)[..., 0], separation.mask, atol=40)
    image = np.zeros((750, 1000, 3), np.uint8)
    server.broadcasts[0].write(Frame(0, "1", None, image), separate(image))
    with client.watch("/stream?view=panel") as picture:
        assert picture().shape == (960, 1280, 3)
    status, headers, body = client.ask("/snapshot.png?view=input")
    assert headers["Content-Disposition"] == 'attachment; filename="snapshot-input.png"'
    assert decode(body).shape == image.shape


def test_pictures_are_encoded_once_and_only_for_watchers(server, client):
    for index in range(5):
        put(server, index=index)
    broadcast = server.broadcasts[0]
    assert broadcast.count == 0
    with client.watch("/stream?view=mask") as first, client.watch("/stream?view=mask") as second:
        for picture in (first, first, second, second):  # each picture comes twice if none follows
            picture()
        assert broadcast.count == 1
        put(server, index=6)
        first(), second()
        assert broadcast.count == 2
    wait_until(lambda: not server.connections)
    put(server, index=7)
    assert broadcast.count == 2


def test_statistics(server, client, controls):
    separation = put(server)
    content = json.loads(client.ask("/statistics")[2])
    assert content["views"] == list(LIVE_VIEWS)
    assert {setting["name"] for setting in content["settings"]} == {"threshold", "noise_factor", "min_area"}
    (camera,) = content["cameras"]
    assert camera["foreground"] == pytest.approx((separation.mask == 255).mean(), abs=1e-5)
    assert (camera["frames"], camera["dropped"], camera["width"], camera["height"]) == (1, 3, 48, 32)
    assert (camera["name"], camera["view"], camera["paused"], camera["frozen"]) == ("camera", "panel", False, False)
    controls.tune(threshold=0.3, absorb_after=float("inf"))
    assert client.cameras()[0]["parameters"] == {"threshold": 0.3, "noise_factor": 2, "min_area": 0.0002}


def test_commands(client, controls):
    parameters = {"threshold": 0.2, "absorb_after": "inf"}
    status, answer = client.command({"paused": True, "frozen": True, "view": "mask", "parameters": parameters})
    assert status == 200
    assert answer["cameras"][0]["parameters"]["threshold"] == 0.2
    assert (controls.paused, controls.frozen, controls.view) == (True, True, "mask")
    assert controls.parameters["absorb_after"] == float("inf")
    assert client.command({"reset": True, "snapshot": True})[0] == 200
    assert controls.take_learning_rate() == 1
    assert controls.take_snapshot_request()


def test_wrong_commands_are_refused_as_a_whole(client, controls):
    for body in (
        *(b"", b"[1]", b"{", b"\xff", b"[" * 3000),
        *({"paused": 1}, {"paused": True, "explode": True}, {"view": "nothing"}, {"view": ["mask"]}, {"reset": False}),
        *({"parameters": {"rank": 2}}, {"parameters": {"threshold": "high"}}),
        {"parameters": {"threshold": -1}, "paused": True},
        *({"camera": 1, "paused": True}, {"camera": True, "paused": True}),
        {"regions": {"roi": [], "ignore": [], "privacy": []}},  # this server cannot store them
    ):
        status, answer = client.command(body)
        assert (status, list(answer)) == (400, ["error"])
        assert "\n" not in answer["error"]
    assert client.command(b" " * 70_000)[0] == 413
    assert client.ask("/control", "POST", None, Content_Type="application/json", Content_Length="x")[0] == 411
    assert client.ask("/control", "PUT", b"{}")[0] == 501
    assert not controls.paused
    assert controls.parameters == Controls().parameters


def test_only_local_host_names_are_accepted(client):
    for host in ("evil.example", "evil.example:8765", "127.0.0.1.evil.example", ""):
        assert client.status("/statistics", Host=host) == 403
    for host in ("localhost", "LOCALHOST:1", "127.0.0.1:99", "[::1]:5"):
        assert client.status("/statistics", Host=host) == 200
    for path, host in (("/statistics", "[::1"), ("http://[/", "localhost")):
        assert client.refusal(path, Host=host)[0] == 400


def test_wrong_queries(client):
    for query in ("view=nothing", "camera=1", "camera=-1", "camera=x", "camera=" + "9" * 5000):
        for path in ("/stream", "/snapshot.png"):
            status, message = client.refusal(f"{path}?{query}")
            assert status == 400
            assert "must be" in message


def test_token(controls, caplog):
    with caplog.at_level(logging.DEBUG, "bgsub"), LiveServer(controls, port=0, token=TOKEN) as server:
        client = Client(server)
        assert server.address == f"http://127.0.0.1:{client.port}/?token={TOKEN}"
        for path in ("", "statistics", "stream", "snapshot.png", "nothing", "statistics?token=wrong-horse", "?token="):
            assert client.status(f"/{path}") == 403
        assert client.command({"paused": True})[0] == 403
        assert not controls.paused
        assert client.status(f"/statistics?token={TOKEN}", Host="any.example") == 200
        assert client.status("/statistics", Authorization=f"Bearer {TOKEN}") == 200
        status, headers, _ = client.ask(f"/?token={TOKEN}")
        assert (status, headers["Location"]) == (303, "/")
        assert "HttpOnly" in headers["Set-Cookie"]
        cookie = headers["Set-Cookie"].split(";")[0]
        assert client.status("/", Cookie=cookie) == 200
        assert client.command({"paused": True}, Cookie=cookie)[0] == 200
        assert client.status("/", Cookie=cookie[:-1]) == 403
    with LiveServer(controls, port=0) as server:
        status, headers, _ = Client(server).ask("/?token=anything")  # not needed
        assert (status, headers["Set-Cookie"]) == (200, None)
    assert any("/statistics 200" in message for message in caplog.messages)
    assert not any(TOKEN in message for message in caplog.messages)


def test_other_hosts_always_have_a_token():
    with LiveServer(Controls(), "0.0.0.0", 0) as first, LiveServer(Controls(), "0.0.0.0", 0) as second:
        tokens = {server.access.token for server in (first, second)}
        assert len(tokens) == 2
        assert min(map(len, tokens)) >= 20
        assert first.access.token in first.address
        assert Client(first).status("/statistics") == 403
    for host in ("127.0.0.1", "127.8.8.8", "::1", "localhost", "0.0.0.0", "example.org", ""):
        local = host not in ("0.0.0.0", "example.org", "")
        assert is_loopback(host) is local
        assert (Access(host).token is None) is local


def test_several_cameras():
    first, second = Controls(), Controls()
    with LiveServer({"door": first, "yard": second}, port=0) as server:
        client = Client(server)
        put(server, camera=1)
        assert [(camera["name"], camera["frames"]) for camera in client.cameras()] == [("door", 0), ("yard", 1)]
        with client.watch("/stream?camera=1&view=input") as picture:
            assert picture().shape == (32, 48, 3)
        assert client.command({"camera": 1, "paused": True})[0] == 200
        assert (first.paused, second.paused) == (False, True)
        assert client.command({"frozen": True})[0] == 200
        assert (first.frozen, second.frozen) == (True, True)


def test_streams_and_connections_are_limited(server, client, monkeypatch):
    server.streams = threading.Semaphore(2)
    put(server)
    with client.watch("/stream") as first, client.watch("/stream") as second:
        first(), second()
        assert client.refusal("/stream")[0] == 503
        assert client.status("/statistics") == 200
        monkeypatch.setattr("bgsub.live.access._MAX_AUTHENTICATED", 2)
        assert client.refusal("/statistics")[0] == 503
    wait_until(lambda: not server.connections)
    monkeypatch.setattr("bgsub.live.access._MAX_PENDING", 1)
    with socket.create_connection(("127.0.0.1", client.port), 10) as idle:
        wait_until(lambda: server.connections)
        assert client.status("/statistics") == 200
        assert idle.recv(1) == b""


def test_close_leaves_no_thread(controls):
    before = set(threading.enumerate())
    server = LiveServer(controls, port=0)
    client = Client(server)
    with client.watch("/stream") as picture, socket.create_connection(("127.0.0.1", client.port), 10):
        picture()
        wait_until(lambda: len(server.connections) == 2)
        server.close()
        assert set(threading.enumerate()) == before
    server.close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", client.port), 1)


def test_failed_view_is_logged_and_does_not_end_the_stream(server, client, monkeypatch, caplog):
    viewer = server.broadcasts[0]._reduced
    with monkeypatch.context() as patch, client.watch("/stream?view=mask") as picture:
        patch.setattr(viewer, "view", lambda *_: 1 / 0)
        for _ in range(2):
            assert picture().shape == (360, 640, 3)
        put(server)
        wait_until(lambda: "the view mask cannot be shown" in caplog.text)
        assert client.refusal("/picture.jpg") == (503, "camera has no picture")
        patch.setattr(cv2, "imencode", lambda *_: (False, None))
        assert client.refusal("/snapshot.png?view=mask") == (400, "a picture of (32, 48, 3) cannot be encoded as .png")
        patch.undo()
        put(server)
        assert picture().shape == (32, 48, 3)


def test_the_last_events_with_pictures_and_clips(server, client, tmp_path):
    rate, shape = 10, (48, 64)
    feed = EventFeed(ObjectLinker(rate), MotionRules(min_duration=0.1, max_gap=0.2))
    recent = server.broadcasts[0].recent = RecentEvents(feed)
    clip = tmp_path / "a.mp4"
    clip.write_bytes(b"film")
    for index in range(14 * 20):
        mask = np.zeros(shape, np.uint8)
        mask[10:20, 10:30] = 255 * (index % 20 < 8)
        image = np.dstack([mask] * 3)
        frame = Frame(index, "", index / rate, image, time.monotonic() - 100 + index / rate)
        feed.step(frame, separated := replace(separate(image), mask=mask, phase="tracking"))
        recent.write(frame, separated)
    events = client.cameras()[0]["events"]
    assert [one["number"] for one in events] == list(range(14, 2, -1))  # the last twelve
    assert re.fullmatch(r"\d\d:\d\d:\d\d", events[0].pop("time"))  # of a camera
    assert events[0] == {"number": 14, "seconds": 0.7, "objects": 1, "regions": [], "clip": False}
    status, fields, data = client.ask("/event.jpg?camera=0&number=14")
    assert (status, fields["Content-Type"]) == (200, "image/jpeg")
    assert decode(data).shape == (*shape, 3)
    recent.find(14).event.clip = str(clip)
    assert client.cameras()[0]["events"][0]["clip"]
    status, fields, data = client.ask("/clip?camera=0&number=14")
    assert (status, fields["Content-Type"], data) == (200, "video/mp4", b"film")
    status, fields, data = client.ask("/clip?number=14", Range="bytes=1-2")
    assert (status, fields["Content-Range"], data) == (206, "bytes 1-2/4", b"il")
    assert client.ask("/clip?number=14", Range="bytes=2-")[::2] == (206, b"lm")
    assert client.ask("/clip?number=14", Range="bytes=9-")[::2] == (200, b"film")
    clip.unlink()
    assert client.refusal("/clip?number=14") == (404, "the clip does not exist")
    assert [client.status(path) for path in ("/clip?number=13", "/event.jpg?number=1")] == [404, 404]
    for path in ("/clip", "/event.jpg?number=../../etc/passwd", "/clip?number=-1"):
        status, message = client.refusal(path)
        assert (status, message.startswith("number must be the number of an event")) == (400, True)
    server.broadcasts[0].forget()
    recent.close()
    assert client.cameras()[0]["events"] == []
    server.broadcasts[0].recent = None
    assert client.cameras()[0]["events"] == []
    assert client.status("/event.jpg?number=14") == 404
