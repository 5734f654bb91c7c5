"""The queue between two stages."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bgsub.errors import ParameterError
from bgsub.video.concurrency import Channel


def in_thread(action):
    thread = threading.Thread(target=action)
    thread.start()
    return thread


@settings(deadline=None, max_examples=30)
@given(st.lists(st.integers()), st.integers(1, 4))
def test_everything_arrives_in_order(items, size):
    channel = Channel(size)

    def send():
        for item in items:
            channel.put(item)
        channel.close()

    thread = in_thread(send)
    assert list(channel) == items
    thread.join()
    assert channel.dropped == 0


@settings(deadline=None, max_examples=30)
@given(st.lists(st.integers()), st.integers(1, 4))
def test_the_oldest_are_dropped_and_counted(items, size):
    channel = Channel(size, drop_oldest=True)
    assert all(channel.put(item) for item in items)
    channel.close()
    assert list(channel) == items[-size:]
    assert channel.dropped == max(0, len(items) - size)


def full():
    """A channel without room, and who waits for some."""
    channel, answers = Channel(1), []
    channel.put(1)
    return channel, answers, in_thread(lambda: answers.append(channel.put(2)))


def test_put_waits_for_room():
    channel, answers, thread = full()
    thread.join(0.05)
    assert answers == []
    assert next(channel) == 1
    thread.join()
    assert answers == [True]
    assert next(channel) == 2


def test_failure_comes_after_what_was_sent():
    channel, error = Channel(3), ValueError("broken")
    channel.put(1)
    channel.fail(error)
    assert not channel.put(2)
    assert next(channel) == 1
    for _ in range(2):
        with pytest.raises(ValueError, match="broken") as caught:
            next(channel)
        assert caught.value is error


@pytest.mark.parametrize("error", [None, ValueError("broken")])
def test_cancel_forgets_everything(error):
    channel = Channel(3)
    channel.put(1)
    if error is not None:
        channel.fail(error)
    channel.cancel()
    assert not channel.put(2)
    assert list(channel) == []


def test_only_the_first_end_counts():
    channel = Channel(1)
    channel.close()
    channel.fail(ValueError())
    assert list(channel) == []


def test_cancel_wakes_a_waiting_sender():
    channel, answers, thread = full()
    channel.cancel()
    thread.join()
    assert answers == [False]


@pytest.mark.parametrize("end", ["close", "cancel"])
def test_end_wakes_a_waiting_receiver(end):
    channel, got = Channel(1), [0]
    thread = in_thread(lambda: got.extend(channel))
    getattr(channel, end)()
    thread.join()
    assert got == [0]


def test_size_must_be_positive():
    with pytest.raises(ParameterError, match=r"^the size of a queue must be at least 1, got 0$"):
        Channel(0)


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
