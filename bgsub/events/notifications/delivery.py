"""Delivery of notifications: a queue and a thread for each destination."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence

from bgsub.events.notifications.notification import DeliveryCounts, DeliveryError, Destination, Notification
from bgsub.video.concurrency import Channel

logger = logging.getLogger("bgsub")

PATIENCE = 60.0
"""Seconds in which a failed notification is sent again."""
PAUSE = 1.0
"""Seconds before the second attempt."""
LINGER = 5.0
"""Seconds that the end of a run waits for deliveries."""

_WAITING = 64  # length of the queue; the oldest one is dropped for a new one
_LONGEST_PAUSE = 15.0  # seconds between two attempts
_GRACE = 1.0  # seconds in which a thread must end


class Delivery:
    """Send notifications to one destination, in order, in a separate thread.

    A failed notification is sent again for `patience` seconds, with pauses that grow from `pause` to 15 s. Up to 64
    notifications wait; if there are more, the oldest are lost. The log has one line when a destination begins to fail
    and one when it works again.
    """

    def __init__(self, destination: Destination, *, patience: float = PATIENCE, pause: float = PAUSE) -> None:
        self._destination, self._patience, self._pause = destination, patience, pause
        self._queue: Channel[Notification] = Channel(_WAITING, drop_oldest=True)
        self._lock = threading.Lock()  # for `put`
        self._over = threading.Event()  # no further attempts
        self._taken = self._delivered = self._given_up = self._retried = 0
        self._logged = 0  # lost notifications that were logged
        self._fails = False
        self._thread = threading.Thread(target=self._work, name="bgsub-notifications", daemon=True)
        self._thread.start()

    def put(self, notification: Notification) -> None:
        """Queue a notification if the destination wants it; never waits."""
        with self._lock:
            if self._destination.wants(notification) and self._queue.put(notification):
                self._taken += 1

    @property
    def counts(self) -> DeliveryCounts:
        """Counts so far; after the end, every notification that did not arrive is lost."""
        lost = self._given_up + self._queue.dropped if self._thread.is_alive() else self._taken - self._delivered
        return DeliveryCounts(self._delivered, lost, self._retried)

    def finish(self) -> None:
        """Accept no more notifications."""
        self._queue.close()

    def join(self, until: float) -> None:
        """Wait for the deliveries until `until` (`time.monotonic`); call `finish` before."""
        self._thread.join(max(until - time.monotonic(), 0.0))

    def give_up(self) -> None:
        """Stop the deliveries that are running."""
        if self._thread.is_alive():
            self._over.set()
            self._queue.cancel()
            self._destination.cancel()

    def _work(self) -> None:
        for notification in self._queue:
            self._deliver(notification)

    def _deliver(self, notification: Notification) -> None:
        begin, pause = time.monotonic(), self._pause
        while True:
            try:
                self._destination.send(notification)
            except Exception as error:  # the next notification may arrive
                late = time.monotonic() + pause - begin > self._patience
                final = late or self._over.is_set() or (isinstance(error, DeliveryError) and error.final)
                self._log_failure(error, final)
                if final or self._over.wait(pause):
                    self._given_up += 1
                    return
                self._retried += 1
                pause = min(2 * pause, _LONGEST_PAUSE)
            else:
                self._delivered += 1
                self._log_success()
                return

    def _log_failure(self, error: Exception, final: bool) -> None:
        if not self._fails:
            what = "no answer before the end of the run" if self._over.is_set() else error
            becomes = "a notification is lost" if final else f"notifications are tried again for {self._patience:g} s"
            logger.warning("%s: %s; %s", self._destination.name, what, becomes)
        self._fails = True

    def _log_success(self) -> None:
        if self._fails:
            lost = self._given_up + self._queue.dropped
            logger.warning(
                "%s works again; notifications lost meanwhile: %d", self._destination.name, lost - self._logged
            )
            self._logged = lost
        self._fails = False


def finish_all(deliveries: Sequence[Delivery], linger: float = LINGER) -> None:
    """End all deliveries of a run within `linger` seconds and a second to stop the rest."""
    for delivery in deliveries:
        delivery.finish()
    until = time.monotonic() + linger
    for delivery in deliveries:
        delivery.join(until)
    for delivery in deliveries:
        delivery.give_up()
    for delivery in deliveries:
        delivery.join(until + _GRACE)
