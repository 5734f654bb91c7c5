"""Queues between stages, and waiting for a background task."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from live_fakes import wait_until

from bgsub.errors import ParameterError, SourceError, StoppedError
from bgsub.video.concurrency import Channel, in_background


def in_thread(action):
    thread = threading.Thread(target=action)
    thread.start()
    return thread


@settings(deadline=None, max_examples=20)
@given(st.lists(st.integers()), st.integers(1, 4), st.booleans())
def test_items_keep_their_order_and_the_oldest_may_be_dropped(items, size, drop_oldest):
    channel = Channel(size, drop_oldest=drop_oldest)

    def send():
        assert all(channel.put(item) for item in items)
        channel.close()

    thread = in_thread(send)
    if drop_oldest:
        thread.join()
    assert list(channel) == (items[-size:] if drop_oldest else items)
    thread.join()
    assert channel.dropped == (max(0, len(items) - size) if drop_oldest else 0)


def full():
    """Return a full channel, the answers of a waiting sender, and its thread."""
    channel, answers = Channel(1), []
    channel.put(1)
    return channel, answers, in_thread(lambda: answers.append(channel.put(2)))


def test_put_waits_for_room_until_a_cancellation():
    channel, answers, thread = full()
    thread.join(0.05)
    assert answers == []
    assert next(channel) == 1
    thread.join()
    assert answers == [True]
    assert next(channel) == 2
    channel, answers, thread = full()
    channel.cancel()
    thread.join()
    assert answers == [False]


def test_errors_come_after_the_items_and_only_the_first_end_counts():
    channel, error = Channel(3), ValueError("broken")
    channel.put(1)
    channel.fail(error)
    assert not channel.put(2)
    assert next(channel) == 1
    for _ in range(2):
        with pytest.raises(ValueError, match="broken") as caught:
            next(channel)
        assert caught.value is error
    channel = Channel(1)
    channel.close()
    channel.fail(ValueError())
    assert list(channel) == []


@pytest.mark.parametrize("error", [None, ValueError("broken")])
def test_cancel_drops_all_items(error):
    channel = Channel(3)
    channel.put(1)
    if error is not None:
        channel.fail(error)
    channel.cancel()
    assert not channel.put(2)
    assert list(channel) == []


@pytest.mark.parametrize("end", ["close", "cancel"])
def test_end_wakes_a_waiting_receiver(end):
    channel, got = Channel(1), [0]
    thread = in_thread(lambda: got.extend(channel))
    getattr(channel, end)()
    thread.join()
    assert got == [0]


def test_ready_waits_for_an_item_or_the_end():
    channel = Channel(2)
    assert not channel.ready(0.01)
    thread = in_thread(lambda: channel.put(1))
    assert channel.ready(5)
    thread.join()
    assert next(channel) == 1
    assert not channel.ready(0)
    thread = in_thread(channel.close)
    assert channel.ready(5)
    thread.join()
    assert list(channel) == []
    with pytest.raises(ParameterError, match="size of a queue must be at least 1, got 0"):
        Channel(0)


def test_attend_runs_until_the_task_ends():
    attended, found = threading.Event(), object()

    def make():
        attended.wait()
        return found

    assert in_background(make, pytest.fail, attended.set) is found


def test_errors_of_a_background_task_are_raised():
    def make():
        raise SourceError("it is not there")

    with pytest.raises(SourceError, match=r"^it is not there$"):
        in_background(make, pytest.fail)


@pytest.mark.parametrize(
    ("error", "fails", "is_late"),
    [
        (KeyboardInterrupt, False, True),
        (KeyboardInterrupt, True, False),
        (StoppedError, False, False),
        (StoppedError, True, True),
    ],
)
def test_unused_results_are_released(error, fails, is_late):
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
