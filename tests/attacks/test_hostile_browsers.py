"""Clients of the page that try to block its owner, to slow it down, or to read and control it without permission."""

import http.client
import socket
import threading
import time
from contextlib import ExitStack, contextmanager, suppress
from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest
from live_fakes import Saved, beside, wait_until
from scoring import scored
from test_hostile_results import NAMES, region_of
from test_server import Client
from video_fakes import make_frames, separate

from bgsub.jobs.controls import Controls
from bgsub.live.page_commands import RegionStore
from bgsub.live.server import LiveServer
from bgsub.video import Frame

TOKEN = "correct-horse"
OWNER = {"Authorization": f"Bearer {TOKEN}"}
CROWD = 96  # connections, three times the limit for strangers


class Page(Client):
    def __init__(self, token: str | None = TOKEN) -> None:
        self.controls = Controls()
        self.server = LiveServer(self.controls, port=0, token=token)
        super().__init__(self.server)
        self.show(make_frames(1)[0], 0)

    def show(self, image, index):
        self.server.broadcasts[0].write(Frame(index, str(index), None, image), separate(image))

    @property
    def connections(self):
        return len(self.server.connections)

    def connect(self):
        return socket.create_connection(("127.0.0.1", self.port), 10)

    def send(self, request: bytes, half: bool = False) -> bytes:
        """Send bytes and return the whole answer; `half` closes the connection for writing after them."""
        answer = b""
        with self.connect() as connection, suppress(OSError):
            connection.sendall(request)
            if half:
                connection.shutdown(socket.SHUT_WR)
            while data := connection.recv(1 << 16):
                answer += data
        return answer

    def serves_its_owner(self) -> bool:
        try:
            return self.status("/statistics", **OWNER) == 200
        except (OSError, http.client.HTTPException):
            return False


@contextmanager
def page(token: str | None = TOKEN):
    one = Page(token)
    with one.server:
        yield one


def post(token: str, body: bytes, length: int | None = None) -> bytes:
    head = f"POST /control HTTP/1.1\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\n"
    return head.encode() + b"Content-Length: %d\r\n\r\n" % (len(body) if length is None else length) + body


def silent(target, ended):
    with target.connect():
        ended.wait()


def slow(target, ended, head=b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: "):
    """Send one byte after the other, without end."""
    with target.connect() as connection:
        connection.sendall(head)
        while not ended.wait(0.2):
            connection.sendall(b"a")


def slow_command(target, ended):
    """Send the body of a command slowly, with a guessed token."""
    slow(target, ended, post("correct-hors", b"{", 60000))


def repeated_request(target, ended):
    while not ended.is_set():
        target.send(b"GET /snapshot.png HTTP/1.1\r\n\r\n")


def repeated_connection(target, ended):
    while not ended.is_set():
        target.connect().close()
        time.sleep(0.01)


CROWDS = [(silent, CROWD), (slow, CROWD), (slow_command, 8), (repeated_request, 8), (repeated_connection, 8)]


@pytest.mark.parametrize(("attack", "count"), CROWDS, ids=lambda value: getattr(value, "__name__", None))
def test_the_owner_is_served_under_attack(attack, count, tries, score):
    ended = threading.Event()

    def repeat():
        while not ended.is_set():
            with suppress(OSError):
                attack(target, ended)
            ended.wait(0.1)

    with page() as target, beside(*[repeat] * count):
        try:
            if count == CROWD:
                wait_until(lambda: target.connections >= 30)
            outcomes = [(number, target.serves_its_owner()) for number in range(tries(12, 200))]
            assert target.connections <= 100
        finally:
            ended.set()
    score(f"page: {attack.__name__.replace('_', ' ')}, {count} at a time", outcomes)


@pytest.mark.parametrize("head", [b"GET /", post(TOKEN, b"{", 60000)], ids=["head", "body"])
def test_a_whole_request_has_a_time_limit(monkeypatch, head):
    monkeypatch.setattr("bgsub.live.server.PATIENCE", 1.0)
    begin = time.monotonic()
    with page() as target, pytest.raises(OSError, match=r"pipe|reset|abort"):
        slow(target, threading.Event(), head)
    assert time.monotonic() - begin < 20


def test_clients_that_do_not_read_are_dropped(monkeypatch, score):
    monkeypatch.setattr("bgsub.live.server.LiveHandler.timeout", 1.0)
    noise = np.random.default_rng(0).integers(0, 255, (720, 1280, 3), dtype=np.uint8)
    with page() as target, ExitStack() as stack:
        for path in ("stream?view=input", "snapshot.png?view=input") * 8:
            connection = stack.enter_context(target.connect())
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.sendall(f"GET /{path} HTTP/1.1\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode())
        longest, end = 0.0, time.monotonic() + 20
        while target.connections and time.monotonic() < end:
            begin = time.monotonic()
            target.show(noise, 0)
            longest = max(longest, time.monotonic() - begin)
            time.sleep(0.05)
        outcomes = [(number, number >= target.connections) for number in range(16)]
        outcomes.append(("owner", target.serves_its_owner()))
    assert longest < 1
    score("page: clients that do not read", outcomes)


OTHER_SITES = [
    {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": mode, "Sec-Fetch-Dest": kind}
    for site in ("cross-site", "same-site")
    for mode, kind in (("no-cors", "image"), ("no-cors", "script"), ("navigate", "iframe"), ("cors", "empty"))
]
HEADERS = {"Cross-Origin-Resource-Policy": "same-origin", "X-Content-Type-Options": "nosniff"}
HEADERS |= {"Referrer-Policy": "no-referrer"}


@pytest.mark.parametrize("token", [None, TOKEN])
def test_other_sites_are_refused(token, score):
    link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    with page(token) as target:
        asked = product(("/", "/script.js", "/stream", "/picture.jpg", "/snapshot.png", "/statistics"), OTHER_SITES)
        outcomes = [((path, more), target.status(path, **OWNER, **more) == 403) for path, more in asked]
        for path in ("/", "/picture.jpg"):
            assert target.status(path, **OWNER, **link) == 200
        for path in ("/", "/picture.jpg", "/snapshot.png", "/statistics", "/nothing"):
            headers = target.ask(path, **OWNER)[1]  # for browsers without Sec-Fetch fields
            assert {name: headers[name] for name in HEADERS} == HEADERS
            assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
            assert not [name for name in headers if name.startswith("Access-Control")]
    score(f"page: requests of other pages, {'with' if token else 'without'} a token", outcomes)


KEY = f"Authorization: Bearer {TOKEN}\r\n".encode()
COMMAND = b"POST /control HTTP/1.1\r\n" + KEY + b"Content-Type: application/json\r\n"
PAUSE = b'{"paused": true}'
PAUSE_BODY = b"Content-Length: %d\r\n\r\n" % len(PAUSE) + PAUSE
INVALID = {
    "half a head": b"GET /statistics HTTP/1.1\r\nHost: a",
    "address of 1 MB": b"GET /" + b"a" * 1_000_000 + b" HTTP/1.1\r\n\r\n",
    "line without end": b"G" * 1_000_000,
    "10000 fields": b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 10_000 + KEY + b"\r\n",
    "field of 1 MB": b"GET / HTTP/1.1\r\nX: " + b"y" * 1_000_000 + b"\r\n" + KEY + b"\r\n",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500),
    "wrong token": b"GET / HTTP/1.1\r\nAuthorization: Bearer correct-hors\r\n\r\n",
    "binary token": b"GET / HTTP/1.1\r\nAuthorization: Bearer \xff\xfe\r\n\r\n",
    "cookie of another page": b"GET / HTTP/1.1\r\nCookie: token=correct-horse\r\n\r\n",
    "upgrade": b"GET /socket HTTP/1.1\r\n" + KEY + b"Upgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
    "command of 2 GB": COMMAND + b"Content-Length: 2147483647\r\n\r\n" + b" " * 1_000_000,
    "command in chunks": COMMAND + b"Transfer-Encoding: chunked\r\n\r\n10\r\n" + PAUSE + b"\r\n0\r\n\r\n",
    "half a command": COMMAND + b'Content-Length: 16\r\n\r\n{"paused": ',
    "deep command": COMMAND + b"Content-Length: 60000\r\n\r\n" + b"[" * 60_000,
    "command from elsewhere": COMMAND + b"Origin: http://a\r\n" + PAUSE_BODY,
    "command from a file without a host": COMMAND + b"Origin: null\r\n" + PAUSE_BODY,
    "command from a file": COMMAND + b"Host: 127.0.0.1\r\nOrigin: null\r\n" + PAUSE_BODY,
    "command of a link": COMMAND + b"Sec-Fetch-Site: cross-site\r\nSec-Fetch-Dest: document\r\n" + PAUSE_BODY,
    "command of a form": COMMAND.replace(b"application/json", b"text/plain") + PAUSE_BODY,
} | {
    line.decode("latin1"): line + b"\r\n" + KEY + b"\r\n"
    for line in (
        b"GET /\xff\xfe HTTP/1.1",
        b"GET /../../etc/passwd HTTP/1.1",
        b"GET /..\\..\\server.py HTTP/1.1",
        b"CONNECT 192.0.2.1:80 HTTP/1.1",
        b"GET /picture.jpg?view=%0d%0aSet-Cookie:%20a HTTP/1.1",
        b"GET /picture.jpg?camera=9999999999999 HTTP/1.1",
        b"DELETE / HTTP/1.1",
        b"GET /control?paused=true HTTP/1.1",
    )
}


@scored("page: invalid requests")
def test_invalid_requests_are_refused(tries, caplog):
    before = set(threading.enumerate())
    with page() as target:
        for name, data in list(INVALID.items()) * tries(1, 20):
            answer = target.send(data, half=True)
            status = answer.split(b"\r\n")[0].split(b" ")[1:2]
            is_refused = b"root:" not in answer and status != [b"200"] and b"\r\nSet-Cookie" not in answer
            yield (name, answer[:300]), is_refused and not target.controls.paused and target.serves_its_owner()
        wait_until(lambda: not target.connections)
    assert set(threading.enumerate()) == before
    assert TOKEN not in caplog.text


def test_a_pipelined_request_is_ignored(score):
    """Behind a proxy, it could come from another client."""
    with page() as target:
        outcomes = []
        for fields in (b"", b"Connection: keep-alive\r\n", b"Content-Length: 0\r\n"):
            answer = target.send(b"GET /statistics HTTP/1.1\r\n" + KEY + fields + b"\r\n" + COMMAND + PAUSE_BODY)
            outcomes.append((fields, answer.count(b"HTTP/1.") <= 1 and not target.controls.paused))
        assert target.command({"paused": True}, **OWNER)[0] == 200
        assert target.controls.paused
    score("page: a request behind another", outcomes)


@pytest.mark.browser
def test_names_on_the_page_are_texts(monkeypatch, score):
    """Names of cameras and regions, and paths in messages: no script, no element, no error, all signs."""
    pages = pytest.importorskip("test_page", reason="needs the package playwright")
    monkeypatch.setattr("bgsub.jobs.controls._NOTICE_SECONDS", 600)
    names = [name for name in NAMES if "\udcff" not in name]
    names += ["</textarea></style></title><svg/onload=alert(1)>", "${alert(1)}", "javascript:alert(1)//"]
    names += ["__proto__", "\0"]
    drawn = [name for name in map(region_of, names) if name.isprintable()]
    cameras = {name: Controls(view="input") for name in names}
    store = RegionStore({"roi": [f"{name}=10%,10%,20%,20%" for name in drawn]}, Saved().save)
    server = LiveServer(cameras, port=0, regions=store)
    image = make_frames(1)[0]

    def show(number):
        server.broadcasts[number].write(Frame(0, names[number], None, image), separate(image))

    for number, (name, controls) in enumerate(cameras.items()):
        controls.notice = name
        event = {"number": 1, "time": name, "seconds": 1.0, "objects": 1, "regions": [name], "clip": True}
        recent = SimpleNamespace(describe=lambda event=event: [event], picture=lambda _: None, clip=lambda _: None)
        server.broadcasts[number].recent = recent
        show(number)

    def texts(selector, key="textContent"):
        return page.evaluate("([s, k]) => [...document.querySelectorAll(s)].map((one) => one[k])", [selector, key])

    dialogs, foreign = [], "main :is(script, iframe, object, style, textarea, svg svg), [onload], [onerror]"
    try:
        with pages.browsing(refused=True) as page:
            page.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
            page.goto(server.address)
            page.wait_for_function("n => document.querySelectorAll('.event').length === n", arg=len(names))
            pages.wait_for(page, lambda: show(0) or page.evaluate("document.images[0].naturalWidth"))
            page.locator("summary").first.click()
            page.wait_for_function("n => document.querySelectorAll('svg text').length === n", arg=len(drawn))
            found = {
                "cameras": (texts("h2.name"), names),
                "alternatives": (texts("img.picture", "alt"), [f"Picture of {name}" for name in names]),
                "messages": (texts(".notice"), names),
                "events": (texts(".event span"), [f"{name}, 1 s, {name}" for name in names]),
                "regions": (texts("svg text"), drawn),
                "choices": (texts(".camera:first-child .which option"), drawn),
                "dialogs and elements": ((dialogs, texts(foreign)), ([], [])),
            }
    finally:
        server.close()
    score("hostile names on the page", [((what, *pair), pair[0] == pair[1]) for what, pair in found.items()])
