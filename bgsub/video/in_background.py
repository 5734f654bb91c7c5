"""What may take long, in a thread of its own, while the caller looks after other things or is interrupted."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")


def in_background(make: Callable[[], T], release: Callable[[T], None], attend: Callable[[], object] | None = None) -> T:
    """Return what `make` does, called in a thread of its own; `release` gets what comes when nobody waits any more.

    Meanwhile `attend` is called again and again, to take its time; what it raises, or Ctrl-C, ends the waiting.
    """
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
        while attend is not None and not answer.done():
            attend()
        made = answer.result()
    except BaseException:
        if not answer.cancel():  # it has come, or failed
            thread.join()
            if answer.exception() is None:
                release(answer.result())
        raise
    thread.join()
    return made
