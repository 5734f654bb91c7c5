"""A bounded queue between threads, and calls that run in a thread of their own."""

import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from typing import Generic, Self, TypeVar

#: Longest wait of the main thread for a lock: another thread may take two signals at once, which ends no wait.
SIGNAL_SECONDS = 0.5

T = TypeVar("T")


class Channel(Generic[T]):
    """A bounded queue; with `drop_oldest` a new item replaces the oldest of `size`, otherwise the sender waits."""

    def __init__(self, size: int, *, drop_oldest: bool = False) -> None:
        self.dropped = 0
        self._items: deque[T] = deque()
        self._size = size
        self._drop_oldest = drop_oldest
        self._open = True
        self._error: BaseException | None = None
        self._changed = threading.Condition()

    def put(self, item: T) -> bool:
        """Append an item, waiting for room or dropping the oldest; False once the channel has ended."""
        with self._changed:
            while self._open and len(self._items) >= self._size:
                if self._drop_oldest:
                    self._items.popleft()
                    self.dropped += 1
                else:
                    self._changed.wait()
            if self._open:
                self._items.append(item)
                self._changed.notify_all()
            return self._open

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> T:
        """Wait for the oldest item and remove it; after the last, stop or raise the exception of `close`."""
        with self._changed:
            while self._open and not self._items:
                self._changed.wait()
            if self._items:
                item = self._items.popleft()
                self._changed.notify_all()
                return item
            if self._error is not None:
                raise self._error
            raise StopIteration

    def newest(self) -> T | None:
        """Return the newest item without removing it; None if there is none."""
        with self._changed:
            return self._items[-1] if self._items else None

    def ready(self, timeout: float) -> bool:
        """Wait up to `timeout` seconds for an item or the end; return whether there is one."""
        with self._changed:
            return self._changed.wait_for(lambda: bool(self._items) or not self._open, timeout)

    def close(self, error: BaseException | None = None) -> None:
        """End the channel after its items; then the receiver gets the exception, if there is one."""
        with self._changed:
            if self._open:
                self._open, self._error = False, error
            self._changed.notify_all()

    def cancel(self) -> None:
        """End the channel at once, drop its items and wake both ends."""
        with self._changed:
            self._open, self._error = False, None
            self._items.clear()
            self._changed.notify_all()


def in_background(make: Callable[[], T], release: Callable[[T], None], attend: Callable[[], object] | None = None) -> T:
    """Return the result of `make` in a thread; `release` gets it if Ctrl-C, or an error of `attend`, ends the wait."""
    answer: Future[T] = Future()

    def work() -> None:
        try:
            made = make()
        except BaseException as error:
            if answer.set_running_or_notify_cancel():
                answer.set_exception(error)
            return
        if answer.set_running_or_notify_cancel():
            answer.set_result(made)
        else:
            release(made)

    thread = threading.Thread(target=work, name="bgsub-open", daemon=True)
    thread.start()
    try:
        while not answer.done():
            attend() if attend is not None else wait([answer], SIGNAL_SECONDS)
        made = answer.result()
    except BaseException:
        if not answer.cancel():  # it has come, or failed
            thread.join()
            if answer.exception() is None:
                release(answer.result())
        raise
    thread.join()
    return made


@contextmanager
def after_seconds(seconds: float, act: Callable[[], object]) -> Iterator[None]:
    """Call `act` in a thread after some time, unless the block ends before; it has ended after the block."""
    timer = threading.Timer(seconds, act)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
