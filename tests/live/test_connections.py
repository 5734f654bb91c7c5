"""Who may stay connected to the page, and who goes when others come."""

from __future__ import annotations

import socket
from contextlib import ExitStack

import pytest

from bgsub.live.access import Connections


@pytest.fixture
def connect():
    """A function that makes a connection: both of its ends."""
    with ExitStack() as stack:
        yield lambda: [stack.enter_context(end) for end in socket.socketpair()]


def is_closed(client):
    client.setblocking(False)
    try:
        return client.recv(1) == b""
    except BlockingIOError:
        return False


@pytest.fixture(autouse=True)
def few(monkeypatch):
    monkeypatch.setattr("bgsub.live.access._MAX_PENDING", 4)
    monkeypatch.setattr("bgsub.live.access._MAX_AUTHENTICATED", 2)


def test_a_crowd_from_one_address_pushes_out_its_own(connect):
    connections, clients = Connections(10), []
    for address in ("owner", "crowd", "crowd", "other", "crowd", "crowd"):
        server, client = connect()
        connections.add(server, address)
        clients.append(client)
    assert [is_closed(client) for client in clients] == [False, True, True, False, False, False]
    assert len(connections) == 4


def test_the_oldest_goes_where_each_has_an_address_of_its_own(connect):
    connections, clients = Connections(10), []
    for address in range(6):
        server, client = connect()
        connections.add(server, str(address))
        clients.append(client)
    assert [is_closed(client) for client in clients] == [True, True, False, False, False, False]


def test_the_welcome_are_not_pushed_out_and_have_time(connect):
    connections = Connections(0)
    ends = [connect() for _ in range(4)]
    for server, _ in ends:
        connections.add(server, "a")
    assert [connections.authenticate(server) for server, _ in ends[:3]] == [True, True, False]
    connections.close_expired()
    assert [is_closed(client) for _, client in ends] == [False, False, True, True]
    assert not connections.authenticate(ends[3][0])
    for server, _ in ends:
        connections.remove(server)
    assert len(connections) == 0
