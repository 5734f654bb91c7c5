"""Opening a camera on the network while windows are served and the end of the run may be asked for."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future

from bgsub.errors import StoppedError
from bgsub.video.sources.base import FrameSource


def open_attended(open_camera: Callable[[], FrameSource], attend: Callable[[], bool]) -> FrameSource:
    """Return what `open_camera` does, called in a thread of its own; a camera that comes too late is closed.

    `attend` is called again and again meanwhile, to take its time; StoppedError where it returns that the camera is to
    be given up, and what `open_camera` raises.
    """
    answer: Future[FrameSource] = Future()

    def work() -> None:
        try:
            source = open_camera()
        except BaseException as error:
            if answer.set_running_or_notify_cancel():
                answer.set_exception(error)
            return
        if answer.set_running_or_notify_cancel():
            answer.set_result(source)
        else:
            source.close()

    thread = threading.Thread(target=work, name="bgsub-open-attended", daemon=True)
    thread.start()
    try:
        while not answer.done():
            if attend() and answer.cancel():
                raise StoppedError("stopped by the user before the camera answered")
    except BaseException:
        answer.cancel()
        raise
    thread.join()
    return answer.result()
