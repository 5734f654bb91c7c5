"""Waiting for what must happen, without sleeping for luck."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


def wait_until(condition: Callable[[], object], timeout: float = 10.0) -> None:
    end = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.005)


def grabbing() -> list[threading.Thread]:
    """The threads that read a camera at this moment."""
    return [thread for thread in threading.enumerate() if thread.name == "bgsub-grab"]
