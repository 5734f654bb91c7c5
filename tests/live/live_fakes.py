"""Waiting for what must happen, without sleeping for luck."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from contextlib import contextmanager


def wait_until(condition: Callable[[], object], timeout: float = 30.0) -> None:
    end = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.005)


@contextmanager
def taken_port(listening: bool = True):
    """A port of this machine at which nobody answers; without `listening` who comes is refused."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        if listening:
            taken.listen()
        yield taken, taken.getsockname()[1]


def free_port() -> int:
    with taken_port(listening=False) as (_, port):
        return port


@contextmanager
def beside(work: Callable[[], object]):
    """Run something in a thread while the block goes on."""
    thread = threading.Thread(target=work)
    thread.start()
    yield
    thread.join()


def grabbing() -> list[threading.Thread]:
    """The threads that read a camera at this moment."""
    return [thread for thread in threading.enumerate() if thread.name == "bgsub-grab"]
