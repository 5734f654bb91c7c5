"""Delivery of notifications: order, further attempts, counts, log, and the end of a run."""

import logging
import threading
import time

import pytest
from receiver import HANG, receiving, unused_address

from bgsub.events.notifications.command import CommandNotifier
from bgsub.events.notifications.delivery import Delivery, finish_all
from bgsub.events.notifications.notification import DeliveryCounts, DeliveryError, Destination, Notification
from bgsub.events.notifications.webhook import WebhookNotifier

AWAY = DeliveryError("is away")


def notification(number=1):
    return Notification("start", "motion", number, "camera 0", None, None, number, None)


@pytest.fixture(autouse=True)
def no_thread_is_left():
    before = set(threading.enumerate())
    yield
    assert set(threading.enumerate()) <= before


class Answering(Destination):
    """Raises `failures`, then succeeds; blocks until `open` is set."""

    name = "destination"

    def __init__(self, *failures):
        self.failures, self.got, self.open, self.came = list(failures), [], threading.Event(), threading.Event()
        self.open.set()

    def send(self, notification):
        self.came.set()
        assert self.open.wait(60)
        if self.failures and (failure := self.failures.pop(0)) is not None:
            raise failure
        self.got.append(notification.number)

    def cancel(self):
        self.open.set()


def deliver(destination, count=1, linger=60, **options):
    """Deliver notifications; return the counts."""
    delivery = Delivery(destination, **{"pause": 0.001, **options})
    for number in range(count):
        delivery.put(notification(number))
    finish_all([delivery], linger)
    return delivery.counts


def test_failures_are_retried_in_order_and_logged_once(caplog):
    destination = Answering(None, AWAY, AWAY, OSError("no files left"))
    assert deliver(destination, 20) == DeliveryCounts(20, 0, 3)
    assert destination.got == list(range(20))
    assert caplog.messages == [
        "destination: is away; notifications are tried again for 60 s",
        "destination works again; notifications lost meanwhile: 0",
    ]
    assert {record.levelno for record in caplog.records} == {logging.WARNING}


def test_final_failures_are_not_retried(caplog):
    destination = Answering(DeliveryError("answers 404 Not Found", final=True), None, DeliveryError("off", final=True))
    assert deliver(destination, 4) == DeliveryCounts(2, 2, 0)
    assert destination.got == [1, 3]
    works = "destination works again; notifications lost meanwhile: 1"
    lost = [f"destination: {why}; a notification is lost" for why in ("answers 404 Not Found", "off")]
    assert caplog.messages == [lost[0], works, lost[1], works]


def test_retries_end_after_the_patience():
    counts = deliver(Answering(*[AWAY] * 1000), 1, patience=0.05)
    assert (counts.delivered, counts.lost) == (0, 1)
    assert counts.retried > 1


def test_a_flood_loses_the_oldest(caplog):
    destination = Answering(AWAY)
    destination.open.clear()
    delivery = Delivery(destination, pause=0.001)
    delivery.put(notification(0))
    assert destination.came.wait(60)
    for number in range(1, 1001):
        delivery.put(notification(number))
    destination.open.set()
    finish_all([delivery], 60)
    assert destination.got == [0, *range(1001 - 64, 1001)]
    assert delivery.counts == DeliveryCounts(65, 936, 1)
    assert caplog.messages[-1] == "destination works again; notifications lost meanwhile: 936"


def test_only_wanted_notifications_before_the_end_count():
    assert deliver(CommandNotifier("end: false"), 3) == DeliveryCounts()
    delivery = Delivery(Answering())
    finish_all([delivery])
    delivery.put(notification())
    finish_all([delivery])
    assert delivery.counts == DeliveryCounts()


def test_temporary_server_errors():
    with receiving([500, b"HTTP/1.1 2", 503]) as server:
        assert deliver(WebhookNotifier(server.address), 2) == DeliveryCounts(2, 0, 3)
        assert [one["number"] for one in server.notifications()] == [0, 0, 0, 0, 1]


def test_the_end_does_not_wait_for_hanging_servers(caplog):
    with receiving(always=HANG) as server:
        deliveries = [Delivery(WebhookNotifier(server.address)) for _ in range(3)]
        for number in range(10):
            for delivery in deliveries:
                delivery.put(notification(number))
        for _ in deliveries:
            server.notification()
        begin = time.monotonic()
        finish_all(deliveries, 0.2)
        assert 0.2 <= time.monotonic() - begin < 8  # an answer may take 10 s
    assert [delivery.counts for delivery in deliveries] == [DeliveryCounts(0, 10, 0)] * 3
    late = f"webhook {server.address}: no answer before the end of the run; a notification is lost"
    assert caplog.messages == [late] * 3


def test_the_end_waits_neither_for_hanging_commands_nor_for_pauses():
    begin = time.monotonic()
    assert deliver(CommandNotifier("sleep 1000"), 5, linger=0.2) == DeliveryCounts(0, 5, 0)
    assert deliver(WebhookNotifier(unused_address()), 3, linger=0.2, pause=1000, patience=1e6).lost == 3
    assert time.monotonic() - begin < 20
