"""Notifications by webhooks to a local server."""

import base64
import json
import socket
import time
from unittest.mock import Mock

import pytest
from receiver import HANG, TRICKLE, receiving, unused_address

from bgsub.errors import ParameterError
from bgsub.events.notifications.destinations import WebhookNotifier
from bgsub.events.notifications.notification import DeliveryError, Notification

NOTIFICATION = Notification("start", "motion", 1, "camera 0", None, 1.25, 12, 0.0)


def failure_of(address, **options):
    """Return message and `final` of a failed delivery."""
    with pytest.raises(DeliveryError) as failed:
        WebhookNotifier(address, **options).send(NOTIFICATION)
    return str(failed.value), failed.value.final


def test_json_is_posted():
    with receiving() as server:
        WebhookNotifier(f"{server.address}/api/webhook/gate?x=1&name=Küche 1").send(NOTIFICATION)
        path, headers, body = server.requests.get(timeout=60)
    assert path == "/api/webhook/gate?x=1&name=K%C3%BCche%201"
    assert (headers["Content-Type"], headers.get("Authorization")) == ("application/json", None)
    assert json.loads(body) == json.loads(NOTIFICATION.to_json())
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
def test_failures(answer, message, final):
    timeout, begin = 0.3 if answer in (HANG, TRICKLE) else 60, time.monotonic()
    with receiving([answer]) as server:
        came, is_final = failure_of(server.address, timeout=timeout)
        assert server.requests.qsize() == 1  # redirects are not followed
    assert came.startswith(message)
    assert is_final is final
    assert time.monotonic() - begin < 20


def test_servers_that_cannot_be_reached(monkeypatch):
    assert failure_of(unused_address()) == ("no answer: Connection refused", False)
    with receiving() as server:  # it has no TLS
        message, final = failure_of(server.address.replace("http://", "https://"))
        assert server.requests.empty()
    assert message.startswith("no answer: [SSL")
    assert not final
    monkeypatch.setattr(socket, "getaddrinfo", Mock(side_effect=socket.gaierror(-2, "Name or service not known")))
    assert failure_of("http://nowhere.invalid/x")[0] == "no answer: Name or service not known"


@pytest.mark.parametrize("address", ["", "ftp://host/x", "http:///path", "https://host:port/", "http://h/\nx"])
def test_invalid_addresses(address):
    with pytest.raises(ParameterError, match="a webhook is an address http"):
        WebhookNotifier(address)
