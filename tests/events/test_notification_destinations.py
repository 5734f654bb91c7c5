"""Notifications by commands, and by webhooks to a local server."""

import base64
import json
import os
import shlex
import socket
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
from live_fakes import wait_until
from receiver import HANG, TRICKLE, receiving, unused_address

from bgsub.errors import ParameterError
from bgsub.events.event import ObjectInFrame
from bgsub.events.notifications import destinations as command_module
from bgsub.events.notifications.destinations import CommandNotifier, WebhookNotifier
from bgsub.events.notifications.notification import DeliveryError, Notification

ONE = ObjectInFrame(7, 12, 1.25, (1, 2, 3, 4), (2.0, 3.0), 9, np.ones((4, 3), bool), ("gate",))
NOTIFICATION = Notification(
    "snapshot", "motion", 3, "front door", datetime(2026, 1, 31, 12, 0, 0, 5000, UTC), 1.25, 12, 0.4567,
    ("gate", "way"), Path("/tmp/a picture.jpg"), None, (ONE,),
)  # fmt: skip


def python(code):
    return f"{shlex.quote(sys.executable)} -c {shlex.quote(code)}"


def send(command, **options):
    CommandNotifier(command, **options).send(NOTIFICATION)


def failure_of(command, **options):
    with pytest.raises(DeliveryError) as failed:
        send(command, **options)
    assert not failed.value.final
    return str(failed.value)


def test_json_on_standard_input(tmp_path):
    for kind, wanted in (("start:", False), (" snapshot: ", True), ("", True)):
        assert CommandNotifier(f"{kind}true {{event}}").wants(NOTIFICATION) is wanted
    send(f"sh -c 'cat > {tmp_path}/got; echo \"$1\" >> {tmp_path}/got' sh {{source}}")
    text, argument = (tmp_path / "got").read_text(encoding="utf-8").splitlines()
    assert argument == "front door"
    assert json.loads(text) == {
        "version": 1, "type": "snapshot", "event": "motion", "number": 3, "source": "front door",
        "time": "2026-01-31T12:00:00.005+00:00", "seconds": 1.25, "frame": 12, "duration": 0.457,
        "regions": ["gate", "way"], "snapshot": "/tmp/a picture.jpg", "clip": None,
        "objects": [{"id": 7, "box": [1, 2, 3, 4], "area": 9, "regions": ["gate"]}],
    }  # fmt: skip


def test_placeholders_stay_within_their_words(tmp_path):
    code = f"import sys; open({str(tmp_path / 'got')!r}, 'w').write(repr(sys.argv[1:]))"
    words = '{source} "{snapshot}" x{number}{clip} {regions} \'{"state": "{type}", "on": {}}\' $HOME `id` * {time}'
    send(f"{python(code)} {words}")
    assert (tmp_path / "got").read_text() == repr([
        "front door", "/tmp/a picture.jpg", "x3", "gate,way", '{"state": "snapshot", "on": {}}', "$HOME", "`id`", "*",
        "2026-01-31T12:00:00.005+00:00",
    ])  # fmt: skip


def test_failures_have_the_last_line_of_the_output(capfd):
    assert failure_of("false") == "ended with exit code 1"
    flood = "import sys; print('x' * 9_000_000); print('x' * 1_000_000, file=sys.stderr); sys.exit('no broker\\n\\n')"
    assert failure_of(python(flood)) == "ended with exit code 1: no broker"
    assert failure_of("sh -c 'kill -TERM $$'") == "was killed by signal 15"
    assert capfd.readouterr() == ("", "")


def pid_in(path):
    """Return the number that a command writes into a file."""
    wait_until(lambda: path.exists() and path.read_text().endswith("\n"), 60)
    return int(path.read_text())


def is_alive(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


needs_proc = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are looked up in /proc")


@needs_proc  # where files may have holes, too
def test_a_flood_of_output_does_not_fill_the_disk(monkeypatch):
    last_line, sizes = command_module._last_line, []

    def look(said):
        sizes.append(os.fstat(said.fileno()))
        return last_line(said)

    monkeypatch.setattr(command_module, "_last_line", look)
    flood = "import os\nos.write(2, b'x' * 20_000_000)\nwhile os.fstat(2).st_size: pass\n"
    flood += "os.write(2, b'the end'); os._exit(3)"
    assert failure_of(python(flood)) == "ended with exit code 3: the end"
    assert sizes[0].st_size > 20_000_000 > 100 * 512 * sizes[0].st_blocks


@needs_proc
def test_a_hanging_command_is_killed_with_its_children(tmp_path):
    command = f"sh -c 'echo waiting >&2; sleep 1000 & echo $! > {tmp_path}/pid; wait'"
    assert failure_of(command, timeout=0.3) == "was killed after 0.3 s: waiting"
    child = pid_in(tmp_path / "pid")
    wait_until(lambda: not is_alive(child), 60)


@needs_proc
def test_a_command_is_cancelled_from_another_thread(tmp_path):
    command = CommandNotifier(f"sh -c 'echo $$ > {tmp_path}/pid; exec sleep 1000'")
    with ThreadPoolExecutor(1) as pool:
        sent = pool.submit(command.send, NOTIFICATION)
        pid = pid_in(tmp_path / "pid")
        command.cancel()
        with pytest.raises(DeliveryError, match="was killed by signal 9"):
            sent.result(60)
    assert not is_alive(pid)


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("", "a program and its arguments, got ''"),
        ("echo 'x", "words as in a shell, .*: No closing quotation"),
        ("nobody-has-this x", "no program 'nobody-has-this'"),
        ("echo {kind}", r"placeholders {type}, {event}, .*, {clip}, got {kind}$"),
        ("echo {Type}", "did you mean 'type'"),
        ("echo x | cat", r"without a shell, which \| needs: sh -c"),
    ],
)
def test_invalid_commands(command, message):
    with pytest.raises(ParameterError, match=message):
        CommandNotifier(command)


def refusal_of(address, **options):
    """Return message and `final` of a failed delivery."""
    with pytest.raises(DeliveryError) as failed:
        WebhookNotifier(address, **options).send(NOTIFICATION)
    return str(failed.value), failed.value.final


def test_json_is_posted():
    untimed = replace(NOTIFICATION, time=None)
    with receiving() as server:
        WebhookNotifier(f"{server.address}/api/webhook/gate?x=1&name=Küche 1").send(untimed)
        path, headers, body = server.requests.get(timeout=60)
    assert path == "/api/webhook/gate?x=1&name=K%C3%BCche%201"
    assert (headers["Content-Type"], headers.get("Authorization")) == ("application/json", None)
    assert json.loads(body) == json.loads(untimed.to_json())
    assert json.loads(body)["time"] is None


def test_the_password_is_in_the_header_only():
    with receiving([404]) as server:
        webhook = WebhookNotifier(server.address.replace("://", "://me:s%20cret@") + "/hook-secret")
        with pytest.raises(DeliveryError) as failed:
            webhook.send(NOTIFICATION)
        path, headers, _ = server.requests.get(timeout=60)
    assert path == "/hook-secret"
    assert base64.b64decode(headers["Authorization"].removeprefix("Basic ")) == b"me:s cret"
    assert headers["Host"] == server.address.removeprefix("http://")
    assert webhook.name == f"webhook {server.address}"
    assert "cret" not in str(failed.value)
    with pytest.raises(ParameterError, match=r"got 'mqtt://host/x'$"):
        WebhookNotifier("mqtt://me:secret@host/x")


@pytest.mark.parametrize(
    ("answer", "message", "final"),
    [
        (500, "answers 500 ", False),
        (404, "answers 404 ", True),
        (308, "answers 308: it is at another address", True),
        (HANG, "no answer within 0.3 s", False),
        (TRICKLE, "no answer within 0.3 s", False),
        (b"HTTP/1.1 2", "no answer: HTTP/1.1 2", False),
        (b"", "ends the connection without an answer", False),
    ],
)
def test_failures_of_servers(answer, message, final):
    timeout, begin = 0.3 if answer in (HANG, TRICKLE) else 60, time.monotonic()
    with receiving([answer]) as server:
        came, is_final = refusal_of(server.address, timeout=timeout)
        assert server.requests.qsize() == 1  # redirects are not followed
    assert came.startswith(message)
    assert is_final is final
    assert time.monotonic() - begin < 20


def test_servers_that_cannot_be_reached(monkeypatch):
    assert refusal_of(unused_address()) == ("no answer: Connection refused", False)
    with receiving() as server:  # it has no TLS
        message, final = refusal_of(server.address.replace("http://", "https://"))
        assert server.requests.empty()
    assert message.startswith("no answer: [SSL")
    assert not final
    monkeypatch.setattr(socket, "getaddrinfo", Mock(side_effect=socket.gaierror(-2, "Name or service not known")))
    assert refusal_of("http://nowhere.invalid/x")[0] == "no answer: Name or service not known"


@pytest.mark.parametrize("address", ["", "ftp://host/x", "http:///path", "https://host:port/", "http://h/\nx"])
def test_invalid_addresses(address):
    with pytest.raises(ParameterError, match="a webhook is an address http"):
        WebhookNotifier(address)
