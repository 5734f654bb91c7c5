"""What is waited for in the background: what lives meanwhile, and what becomes of it when it comes too late."""

import threading

import pytest
from live_fakes import wait_until

from bgsub.errors import SourceError, StoppedError
from bgsub.video.concurrency import in_background


def test_somebody_attends_until_it_is_there():
    attended, found = threading.Event(), object()

    def make():
        attended.wait()
        return found

    assert in_background(make, pytest.fail, attended.set) is found


def test_what_cannot_be_made_is_told():
    def make():
        raise SourceError("it is not there")

    with pytest.raises(SourceError, match=r"^it is not there$"):
        in_background(make, pytest.fail)


@pytest.mark.parametrize("error", [KeyboardInterrupt, StoppedError])
@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("is_late", [True, False])
def test_what_nobody_waits_for_is_released(error, fails, is_late):
    begin, ended, released = threading.Event(), threading.Event(), []

    def make():
        begin.wait()
        ended.set()
        if fails:
            raise SourceError("it is not there")
        return "camera"

    def attend():
        if not is_late:
            begin.set()
            ended.wait()
        raise error

    with pytest.raises(error):
        in_background(make, released.append, attend)
    begin.set()
    wait_until(lambda: not [thread for thread in threading.enumerate() if thread.name == "bgsub-open"])
    assert released == ([] if fails else ["camera"])
