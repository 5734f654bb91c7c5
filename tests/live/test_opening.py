"""A camera that is waited for: what lives meanwhile, and what becomes of it when it comes too late."""

import threading

import pytest
from live_fakes import wait_until
from walking_square import WalkingSquare

from bgsub.errors import SourceError, StoppedError
from bgsub.live.opening import open_attended


def opening_threads():
    return [thread for thread in threading.enumerate() if thread.name == "bgsub-open-attended"]


def test_somebody_attends_until_the_camera_is_there():
    attended, source = threading.Event(), WalkingSquare("camera")

    def open_camera():
        attended.wait()
        return source

    assert open_attended(open_camera, lambda: attended.set() or False) is source
    assert attended.is_set()


def test_what_cannot_be_opened_is_told():
    def open_camera():
        raise SourceError("it is not there")

    with pytest.raises(SourceError, match=r"^it is not there$"):
        open_attended(open_camera, lambda: False)


@pytest.mark.parametrize("error", [KeyboardInterrupt, None])
@pytest.mark.parametrize("fails", [False, True])
def test_a_camera_that_comes_too_late_is_closed(error, fails):
    late, closed = threading.Event(), threading.Event()
    source = WalkingSquare("camera")
    source.close = closed.set

    def open_camera():
        late.wait()
        if fails:
            raise SourceError("it is not there")
        return source

    def attend():
        if error is not None:
            raise error
        return True

    with pytest.raises(error or StoppedError):
        open_attended(open_camera, attend)
    late.set()
    wait_until(lambda: not opening_threads())
    assert closed.is_set() is not fails
