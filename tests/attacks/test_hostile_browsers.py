"""Browsers, and what pretends to be one, that would keep the owner of a page out, slow it down or learn from it."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from contextlib import ExitStack, contextmanager, suppress

import numpy as np
import pytest
from live_fakes import wait_until
from video_fakes import make_frames, separate

from bgsub.jobs.controls import Controls
from bgsub.live.server import LiveServer
from bgsub.video import Frame

TOKEN = "correct-horse"
OWNER = {"Authorization": f"Bearer {TOKEN}"}
CROWD = 96  # connections, three times as many strangers as there may be


class Page:
    """A page with a picture, and what may be asked of it."""

    def __init__(self, token: str | None = TOKEN) -> None:
        self.controls = Controls()
        self.server = LiveServer(self.controls, port=0, token=token)
        self.port = int(self.server.address.split(":")[2].split("/")[0])
        image = make_frames(1)[0]
        self.server.sink().write(Frame(0, "1", None, image), separate(image))

    def connect(self):
        return socket.create_connection(("127.0.0.1", self.port), 10)

    def send(self, request: bytes, half: bool = False) -> bytes:
        """All that is answered to some bytes; `half` closes the way there first."""
        answer = b""
        with self.connect() as connection, suppress(OSError):
            connection.sendall(request)
            if half:
                connection.shutdown(socket.SHUT_WR)
            while data := connection.recv(1 << 16):
                answer += data
        return answer

    def ask(self, path: str = "/statistics", fields: dict[str, str] = OWNER, method: str = "GET", body=None):
        """Status, header fields and body."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            connection.request(method, path, body, fields)
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read()
        finally:
            connection.close()

    def serves_its_owner(self) -> bool:
        try:
            return self.ask()[0] == 200
        except (OSError, http.client.HTTPException):
            return False


@contextmanager
def page(token: str | None = TOKEN):
    one = Page(token)
    with one.server:
        yield one


def stay_away(_page, ended):
    """Connect, and say nothing."""
    with _page.connect():
        ended.wait()


def drip(_page, ended, head=b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: "):
    """Send a byte now and then, for ever."""
    with _page.connect() as connection:
        connection.sendall(head)
        while not ended.wait(0.2):
            connection.sendall(b"a")


def drip_a_command(_page, ended):
    """Send the body of a command a byte now and then, with a token that was guessed."""
    head = b"POST /control HTTP/1.1\r\nAuthorization: Bearer correct-hors\r\nContent-Type: application/json\r\n"
    drip(_page, ended, head + b"Content-Length: 60000\r\n\r\n{")


def come_and_go(_page, ended):
    """Ask without the token, as often as it is answered."""
    while not ended.is_set():
        _page.send(b"GET /snapshot.png HTTP/1.1\r\n\r\n")


def hang_up(_page, ended):
    """Connect and go."""
    while not ended.is_set():
        _page.connect().close()
        time.sleep(0.01)


CROWDS = [(stay_away, CROWD), (drip, CROWD), (drip_a_command, 8), (come_and_go, 8), (hang_up, 8)]


@pytest.mark.parametrize(("attack", "count"), CROWDS, ids=lambda value: getattr(value, "__name__", None))
def test_owner_is_served_under_attack(attack, count, tries, score):
    ended = threading.Event()

    def again_and_again():
        while not ended.is_set():
            with suppress(OSError):
                attack(here, ended)
            ended.wait(0.1)

    with page() as here:
        crowd = [threading.Thread(target=again_and_again) for _ in range(count)]
        for one in crowd:
            one.start()
        try:
            if count == CROWD:
                wait_until(lambda: len(here.server._server.connections) >= 30)
            often = tries(12, 200)
            served = sum(here.serves_its_owner() for _ in range(often))
            assert len(here.server._server.connections) <= 100
        finally:
            ended.set()
            for one in crowd:
                one.join()
    score(f"page: {attack.__name__.replace('_', ' ')}, {count} at a time", often, served)


@pytest.mark.parametrize("body", [False, True])
def test_whole_request_has_a_time_limit(monkeypatch, body):
    monkeypatch.setattr("bgsub.live.server.PATIENCE", 1.0)
    ended, begin = threading.Event(), time.monotonic()
    head = b"POST /control HTTP/1.1\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\n" % TOKEN.encode()
    with page() as here, pytest.raises(OSError, match=r"pipe|reset|abort"):
        drip(here, ended, head + b"Content-Length: 60000\r\n\r\n{" if body else b"GET /")
    assert time.monotonic() - begin < 20


def test_clients_that_do_not_read_are_dropped(monkeypatch, score):
    monkeypatch.setattr("bgsub.live.handler.LiveHandler.timeout", 1.0)
    noise = np.random.default_rng(0).integers(0, 255, (720, 1280, 3), dtype=np.uint8)
    frame, separation = Frame(0, "0", None, noise), separate(noise)
    with page() as here, ExitStack() as stack:
        for path in ("stream?view=input", "snapshot.png?view=input") * 8:
            connection = stack.enter_context(here.connect())
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.sendall(f"GET /{path} HTTP/1.1\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode())
        longest = served = 0.0
        end = time.monotonic() + 20
        while len(here.server._server.connections) and time.monotonic() < end:
            begin = time.monotonic()
            here.server.sink().write(frame, separation)
            longest = max(longest, time.monotonic() - begin)
            time.sleep(0.05)
        left = len(here.server._server.connections)
        served = here.serves_its_owner()
    assert longest < 1
    score("page: readers who do not read", 17, 16 - left + served)


def test_snapshot_is_encoded_once_for_all_clients(monkeypatch):
    made, going_on = [], threading.Event()
    with page() as here:
        broadcast = here.server.broadcasts[0]
        view = broadcast._png.viewer.view

        def slow(*arguments):
            made.append(arguments)
            going_on.wait(10)
            return view(*arguments)

        monkeypatch.setattr(broadcast._png.viewer, "view", slow)
        answers = []
        askers = [threading.Thread(target=lambda: answers.append(here.ask("/snapshot.png"))) for _ in range(20)]
        for asker in askers:
            asker.start()
        wait_until(lambda: len(here.server._server.connections) == 20)
        going_on.set()
        for asker in askers:
            asker.join()
        assert len(made) == 1
        assert len({body for status, _, body in answers if status == 200}) == 1
        image = make_frames(2)[1]
        here.server.sink().write(Frame(1, "2", None, image), separate(image))
        assert here.ask("/snapshot.png")[2] != answers[0][2]
        assert len(made) == 2


ELSEWHERE = [
    {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": mode, "Sec-Fetch-Dest": kind}
    for site in ("cross-site", "same-site")
    for mode, kind in (("no-cors", "image"), ("no-cors", "script"), ("navigate", "iframe"), ("cors", "empty"))
]


@pytest.mark.parametrize("token", [None, TOKEN])
def test_other_sites_get_nothing(token, score):
    paths = ("/", "/script.js", "/stream", "/picture.jpg", "/snapshot.png", "/statistics")
    link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    kept = 0
    with page(token) as here:
        for fields in ELSEWHERE:
            kept += sum(here.ask(path, {**OWNER, **fields})[0] == 403 for path in paths)
        for path in ("/", "/picture.jpg"):  # a link may lead here
            assert here.ask(path, {**OWNER, **link})[0] == 200
        # Of a browser that does not tell who asks, the answer says who may see it.
        for path in ("/", "/picture.jpg", "/snapshot.png", "/statistics", "/nothing"):
            _, headers, _ = here.ask(path)
            assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
            assert headers["X-Content-Type-Options"] == "nosniff"
            assert headers["Referrer-Policy"] == "no-referrer"
            assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
            assert not [name for name in headers if name.startswith("Access-Control")]
    count = len(ELSEWHERE) * len(paths)
    score(f"page: asked for by other pages, {'with' if token else 'without'} a token", count, kept)


KEY = f"Authorization: Bearer {TOKEN}\r\n".encode()
COMMAND = b"POST /control HTTP/1.1\r\n" + KEY + b"Content-Type: application/json\r\n"
# What is no request, or none that is answered with 200.
NONSENSE = {
    "nothing": b"",
    "blank lines": b"\r\n" * 500,
    "half a line": b"GET /stat",
    "half a head": b"GET /statistics HTTP/1.1\r\nHost: a",
    "address of 1 MB": b"GET /" + b"a" * 1_000_000 + b" HTTP/1.1\r\n\r\n",
    "line without end": b"G" * 1_000_000,
    "10000 fields": b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 10_000 + KEY + b"\r\n",
    "field of 1 MB": b"GET / HTTP/1.1\r\nX: " + b"y" * 1_000_000 + b"\r\n" + KEY + b"\r\n",
    "bytes that are no text": b"GET /\xff\xfe HTTP/1.1\r\n" + KEY + b"\r\n",
    "zeros": bytes(10_000),
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500),
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "HTTP/9.9": b"GET / HTTP/9.9\r\n" + KEY + b"\r\n",
    "an upgrade": b"GET /socket HTTP/1.1\r\n" + KEY + b"Upgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
    "a way up": b"GET /../../etc/passwd HTTP/1.1\r\n" + KEY + b"\r\n",
    "a hidden way up": b"GET /%2e%2e/%2e%2e/etc/passwd HTTP/1.1\r\n" + KEY + b"\r\n",
    "a way back": b"GET /..\\..\\server.py HTTP/1.1\r\n" + KEY + b"\r\n",
    "a file of this machine": b"GET file:///etc/passwd HTTP/1.1\r\n" + KEY + b"\r\n",
    "a page elsewhere": b"GET http://192.0.2.1/ HTTP/1.1\r\n\r\n",
    "a tunnel": b"CONNECT 192.0.2.1:80 HTTP/1.1\r\n" + KEY + b"\r\n",
    "a wrong token": b"GET / HTTP/1.1\r\nAuthorization: Bearer correct-hors\r\n\r\n",
    "a token that is no text": b"GET / HTTP/1.1\r\nAuthorization: Bearer \xff\xfe\r\n\r\n",
    "a token in the cookie of another": b"GET / HTTP/1.1\r\nCookie: token=correct-horse\r\n\r\n",
    "a broken cookie": b"GET / HTTP/1.1\r\nCookie: \xff=\x01;;;=\r\n\r\n",
    "a new line in the query": b"GET /picture.jpg?view=%0d%0aSet-Cookie:%20a HTTP/1.1\r\n" + KEY + b"\r\n",
    "no such view": b"GET /picture.jpg?view=%00 HTTP/1.1\r\n" + KEY + b"\r\n",
    "no such camera": b"GET /picture.jpg?camera=9999999999999 HTTP/1.1\r\n" + KEY + b"\r\n",
    "no such method": b"DELETE / HTTP/1.1\r\n" + KEY + b"\r\n",
    "a command by address": b"GET /control?paused=true HTTP/1.1\r\n" + KEY + b"\r\n",
    "a command of 2 GB": COMMAND + b"Content-Length: 2147483647\r\n\r\n" + b" " * 1_000_000,
    "a command of -1": COMMAND + b"Content-Length: -1\r\n\r\n",
    "a command in pieces": COMMAND + b'Transfer-Encoding: chunked\r\n\r\n10\r\n{"paused": true}\r\n0\r\n\r\n',
    "half a command": COMMAND + b'Content-Length: 16\r\n\r\n{"paused": ',
    "a deep command": COMMAND + b"Content-Length: 60000\r\n\r\n" + b"[" * 60_000,
    "a command as a form": COMMAND.replace(b"application/json", b"text/plain")
    + b'Content-Length: 16\r\n\r\n{"paused": true}',
    "a command from elsewhere": COMMAND + b'Origin: http://a\r\nContent-Length: 16\r\n\r\n{"paused": true}',
}


def test_invalid_requests_are_refused(tries, score, caplog):
    survived, count = 0, tries(1, 20)
    before = set(threading.enumerate())
    with page() as here:
        for name, request in list(NONSENSE.items()) * count:
            answer = here.send(request, half=True)
            status = answer.split(b"\r\n")[0].split(b" ")[1:2]
            refused = b"root:" not in answer and status != [b"200"] and b"\r\nSet-Cookie" not in answer
            good = refused and not here.controls.paused and here.serves_its_owner()
            survived += good
            assert good or print(name, answer[:300]) is None
        wait_until(lambda: not here.server._server.connections)
    assert set(threading.enumerate()) == before
    assert TOKEN not in caplog.text
    score("page: nonsense", len(NONSENSE) * count, survived)


def test_pipelined_request_is_ignored(score):
    """A second request behind the first would be that of somebody else, where a proxy stands between."""
    command = json.dumps({"paused": True}).encode()
    second = COMMAND + b"Content-Length: %d\r\n\r\n" % len(command) + command
    with page() as here:
        for fields in (b"", b"Connection: keep-alive\r\n", b"Content-Length: 0\r\n"):
            answer = here.send(b"GET /statistics HTTP/1.1\r\n" + KEY + fields + b"\r\n" + second)
            assert answer.count(b"HTTP/1.") <= 1
        survived = not here.controls.paused
        assert here.ask("/control", {**OWNER, "Content-Type": "application/json"}, "POST", command)[0] == 200
        assert here.controls.paused
    score("page: a request behind another", 3, 3 * survived)
