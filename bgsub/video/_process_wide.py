"""Settings of the whole process that hold for a while."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

T = TypeVar("T")


class ProcessWide(Generic[T]):
    """A setting that is changed by the first block and given back by the last; blocks nest, also across threads.

    `change` returns what `restore` needs.
    """

    def __init__(self, change: Callable[[], T], restore: Callable[[T], None]) -> None:
        self._change, self._restore = change, restore
        self._lock = threading.Lock()
        self._depth = 0

    @contextmanager
    def held(self) -> Iterator[None]:
        """Have the setting changed inside the block."""
        with self._lock:
            if self._depth == 0:
                self._previous = self._change()
            self._depth += 1
        try:
            yield
        finally:
            with self._lock:
                self._depth -= 1
                if self._depth == 0:
                    self._restore(self._previous)
