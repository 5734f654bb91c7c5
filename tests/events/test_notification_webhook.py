"""Notifications by webhooks to a local server."""

import base64
import json
import socket
import time

import pytest
from receiver import HANG, MIDWAY, TRICKLE, address_of_nobody, receiving
from saying import says

from bgsub.errors import ParameterError
from bgsub.events.notifications.notification import DeliveryError, Notification
from bgsub.events.notifications.webhook import WebhookNotifier

NOTIFICATION = Notification("start", "motion", 1, "camera 0", None, 1.25, 12, 0.0)


def failure_of(address, **options):
    """Return message, `final` and duration of a failed delivery."""
    begin = time.monotonic()
    with pytest.raises(DeliveryError) as failed:
        WebhookNotifier(address, **options).send(NOTIFICATION)
    return str(failed.value), failed.value.final, time.monotonic() - begin


def test_json_is_posted():
    with receiving() as server:
        WebhookNotifier(f"{server.address}/api/webhook/gate?x=1&name=Küche 1").send(NOTIFICATION)
        path, headers, body = server.requests.get(timeout=60)
    assert path == "/api/webhook/gate?x=1&name=K%C3%BCche%201"
    assert headers["Content-Type"] == "application/json"
    assert "Authorization" not in headers
    assert json.loads(body) == {
        "version": 1, "type": "start", "event": "motion", "number": 1, "source": "camera 0", "time": None,
        "seconds": 1.25, "frame": 12, "duration": 0.0, "regions": [], "snapshot": None, "clip": None, "objects": [],
    }  # fmt: skip


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


@pytest.mark.parametrize(("status", "final"), [(500, False), (429, False), (404, True)])
def test_error_statuses(status, final):
    with receiving([status]) as server:
        message, is_final, _ = failure_of(server.address)
    assert message.startswith(f"answers {status} ")
    assert is_final is final


@pytest.mark.parametrize("status", [301, 308])
def test_redirects_are_not_followed(status):
    with receiving([status]) as server:
        message, final, _ = failure_of(server.address)
        assert server.requests.qsize() == 1
    assert message == f"answers {status}: it is at another address, which must be given instead"
    assert final


@pytest.mark.parametrize("answer", [HANG, TRICKLE])
def test_hanging_servers(answer):
    with receiving([answer]) as server:
        message, final, seconds = failure_of(server.address, timeout=0.3)
    assert (message, final) == ("no answer within 0.3 s", False)
    assert 0.3 <= seconds < 20


def test_a_connection_closed_midway():
    with receiving([MIDWAY]) as server:
        message, final, _ = failure_of(server.address)
    assert (message, final) == ("no answer: HTTP/1.1 2", False)


def test_refused_connection():
    message, final, _ = failure_of(address_of_nobody())
    assert (message, final) == ("no answer: Connection refused", False)


def test_unknown_host(monkeypatch):
    def fail(*_, **__):
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", fail)
    assert failure_of("http://nowhere.invalid/x")[0] == "no answer: Name or service not known"


def test_https_is_encrypted():
    with receiving() as server:
        message, final, _ = failure_of(server.address.replace("http://", "https://"))
        assert server.requests.empty()
    assert message.startswith("no answer: [SSL")
    assert not final


@pytest.mark.parametrize(
    "address",
    ["", "ftp://host/x", "http:///path", "https://host:port/", "http://h/\nx"],
)
def test_invalid_addresses(address):
    with says(ParameterError, f"a webhook is an address http://HOST/... or https://HOST/..., got '{address}'"):
        WebhookNotifier(address)


def test_messages_do_not_show_the_password():
    with pytest.raises(ParameterError) as error:
        WebhookNotifier("mqtt://me:secret@host/x")
    assert str(error.value).endswith("got 'mqtt://host/x'")


@pytest.mark.parametrize(("address", "name"), [("https://[::1]/x", "https://[::1]"), ("http://h:81/x", "http://h:81")])
def test_names_have_no_path(address, name):
    assert WebhookNotifier(address).name == f"webhook {name}"
