"""Delivery of notifications: order, further attempts, counts, log, and the end of a run."""

import logging
import threading
import time

import pytest
from receiver import HANG, MIDWAY, address_of_nobody, receiving

from bgsub.events.notifications.command import CommandNotifier
from bgsub.events.notifications.delivery import Delivery, finish_all
from bgsub.events.notifications.notification import DeliveryCounts, DeliveryError, Destination, Notification
from bgsub.events.notifications.webhook import WebhookNotifier


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


def test_notifications_arrive_in_order():
    destination = Answering()
    assert deliver(destination, 20) == DeliveryCounts(20, 0, 0)
    assert destination.got == list(range(20))


def test_failures_are_retried_and_logged_once(caplog):
    destination = Answering(None, DeliveryError("is away"), DeliveryError("is away"), OSError("no files left"))
    assert deliver(destination, 3) == DeliveryCounts(3, 0, 3)
    assert destination.got == [0, 1, 2]
    assert caplog.messages == [
        "destination: is away; notifications are tried again for 60 s",
        "destination works again; notifications lost meanwhile: 0",
    ]
    assert {record.levelno for record in caplog.records} == {logging.WARNING}


def test_final_failures_are_not_retried(caplog):
    destination = Answering(DeliveryError("answers 404 Not Found", final=True), None, DeliveryError("off", final=True))
    assert deliver(destination, 4) == DeliveryCounts(2, 2, 0)
    assert destination.got == [1, 3]
    assert caplog.messages == [
        "destination: answers 404 Not Found; a notification is lost",
        "destination works again; notifications lost meanwhile: 1",
        "destination: off; a notification is lost",
        "destination works again; notifications lost meanwhile: 1",
    ]


def test_retries_end_after_the_patience():
    destination = Answering(*[DeliveryError("is away")] * 1000)
    counts = deliver(destination, 1, patience=0.05)
    assert (counts.delivered, counts.lost) == (0, 1)
    assert counts.retried > 1


def test_a_flood_loses_the_oldest(caplog):
    destination = Answering(DeliveryError("is away"))
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


def test_unwanted_notifications_do_not_count():
    destination = CommandNotifier("end: false")
    assert deliver(destination, 3) == DeliveryCounts()


def test_temporary_server_errors():
    with receiving([500, MIDWAY, 503]) as server:
        assert deliver(WebhookNotifier(server.address), 2) == DeliveryCounts(2, 0, 3)
        assert [one["number"] for one in server.notifications()] == [0, 0, 0, 0, 1]


def test_the_end_does_not_wait_for_hanging_servers(caplog):
    with receiving(always=HANG) as server:
        begin = time.monotonic()
        webhooks = [WebhookNotifier(server.address) for _ in range(3)]
        deliveries = [Delivery(webhook) for webhook in webhooks]
        for number in range(10):
            for delivery in deliveries:
                delivery.put(notification(number))
        for _ in webhooks:
            server.notification()
        taken = time.monotonic() - begin
        begin = time.monotonic()
        finish_all(deliveries, 0.5)
        assert 0.5 <= time.monotonic() - begin < 30
    assert taken < 30
    assert [delivery.counts for delivery in deliveries] == [DeliveryCounts(0, 10, 0)] * 3
    assert (
        caplog.messages
        == [f"webhook {server.address}: no answer before the end of the run; a notification is lost"] * 3
    )


def test_the_end_does_not_wait_for_hanging_commands():
    begin = time.monotonic()
    assert deliver(CommandNotifier("sleep 1000"), 5, linger=0.5) == DeliveryCounts(0, 5, 0)
    assert time.monotonic() - begin < 20


def test_the_end_does_not_wait_for_a_pause():
    assert deliver(WebhookNotifier(address_of_nobody()), 3, linger=0.2, pause=1000, patience=1e6).lost == 3


def test_nothing_is_accepted_after_the_end():
    delivery = Delivery(Answering())
    finish_all([delivery])
    delivery.put(notification())
    finish_all([delivery])
    assert delivery.counts == DeliveryCounts()
