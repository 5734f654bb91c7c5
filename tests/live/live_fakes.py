"""Waiting for conditions, threads, servers, a moving square, a display."""

import socketserver
import threading
import time
from collections.abc import Callable
from contextlib import contextmanager

import numpy as np
from video_fakes import ThresholdSubtractor

from bgsub.errors import SinkError
from bgsub.video import Frame, FrameSource

WIDTH, HEIGHT = 320, 240
SQUARE = (90, 200, 240)  # blue, green, red
RATE = 25
_SECONDS = 120  # a test quits earlier


def wait_until(condition: Callable[[], object], timeout: float = 30.0) -> None:
    end = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.005)


@contextmanager
def beside(*works: Callable[[], object]):
    """Run functions, each in a thread, during the block."""
    threads = [threading.Thread(target=work) for work in works]
    for thread in threads:
        thread.start()
    yield
    for thread in threads:
        thread.join()


@contextmanager
def repeating(work: Callable[[], object]):
    """Call a function again and again in a thread until the end of the block."""
    ended = threading.Event()

    def repeat():
        while not ended.is_set():
            work()

    with beside(repeat):
        try:
            yield
        finally:
            ended.set()


class QuietServer:
    """A part of servers with threads: `serving` waits for the threads; errors of connections are ignored."""

    daemon_threads = False

    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)
        self.ended = threading.Event()

    def shutdown(self) -> None:
        self.ended.set()
        super().shutdown()

    def handle_error(self, *_: object) -> None:
        """Ignore clients that close the connection."""


@contextmanager
def serving(server: socketserver.BaseServer):
    """Serve during the block, then close the server."""
    with server, beside(lambda: server.serve_forever(0.01)):
        try:
            yield server
        finally:
            server.shutdown()


class Saved(list):
    """The regions that were saved; `error` makes saving fail."""

    def __init__(self, error: str = "") -> None:
        super().__init__()
        self.error = error

    def save(self, texts) -> str:
        if self.error:
            raise SinkError(self.error)
        self.append(texts)
        return "bgsub.toml"


class WalkingSquare(FrameSource):
    """A bright square that moves over a dim ramp, 25 times a second; no frames while `silent` is set."""

    live, size = True, (WIDTH, HEIGHT)

    def __init__(self, name: str = "test camera", fail_at: int | None = None) -> None:
        super().__init__(name)
        self.silent = threading.Event()
        self._fail_at = fail_at
        self._cancelled = threading.Event()

    def cancel(self) -> None:
        self._cancelled.set()

    def _frames(self):
        ramp = np.tile(np.linspace(20, 110, WIDTH).astype(np.uint8), (HEIGHT, 1))
        still = np.dstack([ramp, np.full_like(ramp, 60), ramp])
        index = 0
        while index < _SECONDS * RATE and not self._cancelled.wait(1 / RATE):
            if self.silent.is_set():
                continue
            if index == self._fail_at:
                raise RuntimeError(f"{self.name} broke")
            image = still.copy()
            left = 3 * index % (WIDTH - 60)
            image[90:150, left : left + 60] = SQUARE
            yield Frame(index, f"{index + 1:06d}", index / RATE, image)
            index += 1


class Tunable(ThresholdSubtractor):
    """Records changes of its parameters; waits in a frame while `late` is cleared."""

    def __init__(self) -> None:
        super().__init__()
        self.changes: dict[str, object] = {}
        self.late = threading.Event()
        self.late.set()

    def process(self, image, learningRate=-1):
        assert self.late.wait(60)
        return super().process(image, learningRate)

    def tune(self, **parameters) -> None:
        self.changes.update(parameters)


class FakeDisplay:
    """A display with a list of pressed keys; it is closed after `cross` polls."""

    def __init__(self, keys: str | list[int] = (), cross: int | None = None) -> None:
        self.keys = [ord(key) if isinstance(key, str) else key for key in keys]
        self.cross, self.looks = cross, 0
        self.shown: list[np.ndarray] = []
        self.titles: list[str] = []  # of all windows, and of those that were closed
        self.closed: list[str] = []
        self.threads: set[threading.Thread] = set()

    @property
    def is_open(self) -> bool:
        return len(self.titles) > len(self.closed)

    def open(self, title: str) -> None:
        self.titles.append(title)

    def show(self, title: str, image: np.ndarray) -> None:
        assert self.is_open
        self.threads.add(threading.current_thread())
        self.shown.append(image.copy())

    def key(self, milliseconds: int) -> int:
        self.looks += 1
        return self.keys.pop(0) if self.keys else -1

    def visible(self, title: str) -> bool:
        return self.cross is None or self.looks < self.cross

    def close(self, title: str) -> None:
        self.closed.append(title)
