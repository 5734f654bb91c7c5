"""The sink that sends notifications, with a queue and a thread for each destination."""

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from bgsub.errors import SinkError, logger
from bgsub.events.clips import ClipNames
from bgsub.events.event import MOTION, OBJECT, Event, ObjectInFrame, Step
from bgsub.events.feed import EventFeed
from bgsub.events.notifications.notification import (
    REQUEST,
    DeliveryCounts,
    DeliveryError,
    Destination,
    Notification,
    NotificationType,
)
from bgsub.separation import Separation
from bgsub.video.concurrency import Channel
from bgsub.video.sinks.base import Sink, prepare_folder
from bgsub.video.sinks.images import write_image
from bgsub.video.sources.base import Frame

PATIENCE = 60.0  # seconds in which a failed notification is sent again
PAUSE = 1.0  # seconds before the second attempt
LINGER = 5.0  # seconds that the end of a run waits for deliveries

_WAITING = 64  # length of the queue; the oldest one is dropped for a new one
_LONGEST_PAUSE = 15.0  # seconds between two attempts
_GRACE = 1.0  # seconds in which a thread must end


class Delivery:
    """Sends notifications to one destination in a thread, in order; up to 64 wait, failed ones are sent again."""

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
        """Queue a notification if the destination receives its type; never wait."""
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
        """Wait for the deliveries until `until` (`time.monotonic`), then stop the rest; call `finish` before."""
        self._thread.join(max(until - time.monotonic(), 0.0))
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
                if self._fails:
                    lost = self._given_up + self._queue.dropped - self._logged
                    logger.warning("%s works again; notifications lost meanwhile: %d", self._destination.name, lost)
                    self._logged += lost
                self._fails = False
                return

    def _log_failure(self, error: Exception, final: bool) -> None:
        if not self._fails:
            what = "no answer before the end of the run" if self._over.is_set() else error
            becomes = "a notification is lost" if final else f"notifications are tried again for {self._patience:g} s"
            logger.warning("%s: %s; %s", self._destination.name, what, becomes)
        self._fails = True


def finish_all(deliveries: Sequence[Delivery], linger: float = LINGER) -> None:
    """End all deliveries of a run within `linger` seconds and a second to stop the rest."""
    for delivery in deliveries:
        delivery.finish()
    until = time.monotonic() + linger
    for end in (until, until + _GRACE):
        for delivery in deliveries:
            delivery.join(end)


SNAPSHOT_AFTER = 2.0  # seconds of a motion event from which the snapshot is taken: the frame with the most foreground


@dataclass
class _Lasting:
    """An event that lasts, and the values of its notifications."""

    event: Event
    number: int
    begun: float  # `Step.clock` at which it was certain
    objects: tuple[ObjectInFrame, ...]  # in the frame with the most foreground so far
    picture: tuple[int, float | None, np.ndarray] | None  # index, time, image of that frame, not yet stored
    regions: dict[str, None] = field(default_factory=dict)  # an ordered set
    snapshot: Path | None = None
    is_over: bool = False  # its end was sent

    def see(self, step: Step, objects: tuple[ObjectInFrame, ...], image: np.ndarray) -> None:
        self.regions |= dict.fromkeys(name for one in objects for name in one.regions)
        if self.event.kind == MOTION and self.event.peak_frame == step.frame:
            self.objects = objects
            if self.picture is not None:
                self.picture = (step.frame, step.time, image)


class NotificationSink(Sink):
    """Notifies other programs of motion events and events of the whole frame.

    There is a notification at the start and at the end of each event; for motion also when its snapshot (the frame
    with the most foreground of its first two seconds) is stored and when its clip is complete. Events end with the
    run. A snapshot that cannot be stored is logged. A thread for each destination sends the notifications, tries again
    for a minute, and drops the oldest if more than 64 wait. After `resume`, notifications since the checkpoint are sent
    again.

    Parameters
    ----------
    feed : EventFeed
        Shared with the other sinks of the run; a recorder must come before this sink.
    destinations : sequence of Destination
        Receivers, such as `CommandNotifier` and `WebhookNotifier`.
    source : str
        Name of the source.
    snapshots : Path, optional
        Folder of the snapshots, created if missing; by default none are stored. An attribute as well.
    clips : bool
        Whether a recorder writes clips.

    Raises
    ------
    SinkError
        If the folder cannot be written.

    Examples
    --------
    >>> import bgsub
    >>> from bgsub.events import CommandNotifier, EventFeed, NotificationSink, ObjectLinker
    >>> feed = EventFeed(ObjectLinker(fps=25))
    >>> summary = bgsub.process_video("video.mp4", NotificationSink(feed, [CommandNotifier("echo {event} {type}")]))
    """

    def __init__(
        self,
        feed: EventFeed,
        destinations: Sequence[Destination],
        *,
        source: str = "video",
        snapshots: Path | None = None,
        clips: bool = False,
    ) -> None:
        self._feed, self._source, self.snapshots = feed, source, snapshots
        self._names = None if snapshots is None else ClipNames(snapshots, f"{source}-snapshot", ".jpg")
        self.claims = [] if self._names is None else [self._names.claim]
        if snapshots is not None:
            prepare_folder(snapshots)
        self._lasting: list[_Lasting] = []
        self._records, self._recorded = clips, list[_Lasting]()  # ended events whose clips are not complete
        self._count = self._requests = 0  # events of the whole frame, requested snapshots
        self._arrived: datetime | None = None  # date of the newest frame of a camera
        self._received: float | None = None  # the same on the clock `time.monotonic`
        self._deliveries = [Delivery(destination) for destination in destinations]

    @property
    def counts(self) -> DeliveryCounts:
        """Numbers of delivered, lost and retried notifications."""
        return sum((delivery.counts for delivery in self._deliveries), DeliveryCounts())

    def write(self, frame: Frame, separation: Separation) -> None:
        step = self._feed.step(frame, separation)
        self._arrived, self._received = frame.arrived, frame.received
        objects = tuple(one for one in step.objects if one.frame == step.frame)
        for event in (*step.finished, *step.motion.ended):
            self._end(event)
        self._notify_clips()
        for event in (*step.begun, *step.motion.begun):
            self._begin(event, step, objects, separation.frame)
        for lasting in self._lasting:
            lasting.see(step, objects, separation.frame)
            if lasting.is_over and lasting.event.end_frame == step.frame:  # frames were only late
                lasting.is_over = False
                self._notify("start", lasting, lasting.event.start_frame, lasting.event.start_time)
            if step.clock - lasting.begun >= SNAPSHOT_AFTER:
                self._store(lasting)

    def idle(self) -> None:
        """Notify of the end of motion in front of a camera that is lost, instead of when it is back."""
        if self._lasting and self._received is not None and self._feed.is_silent(time.monotonic() - self._received):
            for lasting in self._lasting:
                if lasting.event.kind == MOTION:
                    self._notify_end(lasting)

    def close(self) -> None:
        if self._done:
            return
        self._done = True
        for event in (*self._feed.finish(), *self._feed.finish_motion()):
            self._end(event)
        self._notify_clips()
        finish_all(self._deliveries)

    def notify_snapshot(self, frame: Frame, path: Path) -> None:
        """Send a notification of a requested snapshot, from any thread."""
        self._requests += 1
        place = (self._source, frame.arrived, frame.time, frame.index)
        self._send(Notification("snapshot", REQUEST, self._requests, *place, None, snapshot=path))

    def checkpoint(self) -> dict[str, Any]:
        return {"feed": self._feed.checkpoint(self), "count": self._count}

    def resume(self, state: dict[str, Any]) -> None:
        """Restore what `checkpoint` returned; events that lasted then have only an end notification."""
        self._feed.resume(state["feed"])
        self._count = state["count"]

    def _begin(self, event: Event, step: Step, objects: tuple[ObjectInFrame, ...], image: np.ndarray) -> None:
        self._count += event.kind != MOTION
        has_picture = event.kind == MOTION and self._names is not None
        picture = (step.frame, step.time, image) if has_picture else None
        lasting = _Lasting(event, event.id or self._count, step.clock, objects, picture)
        lasting.see(step, objects, image)
        self._lasting.append(lasting)
        self._notify("start", lasting, event.start_frame, event.start_time)

    def _end(self, event: Event) -> None:
        """Notify of the end of an event, unless it is an object."""
        if event.kind == OBJECT:
            return
        begun = [one for one in self._lasting if one.event is event]
        # After `resume` the start is unknown.
        lasting = begun[0] if begun else _Lasting(event, event.id or self._count, 0.0, (), None)
        self._notify_end(lasting)
        self._lasting = [one for one in self._lasting if one is not lasting]
        if self._records and event.kind == MOTION:
            self._recorded.append(lasting)

    def _notify_end(self, lasting: _Lasting) -> None:
        if not lasting.is_over:
            lasting.is_over = True
            self._store(lasting)
            self._notify("end", lasting, lasting.event.end_frame, lasting.event.end_time)

    def _notify_clips(self) -> None:
        done = [one for one in self._recorded if one.event.clip is not None]
        self._recorded = [one for one in self._recorded if one.event.clip is None]
        for lasting in done:
            self._notify("clip", lasting, lasting.event.end_frame, lasting.event.end_time)

    def _store(self, lasting: _Lasting) -> None:
        """Store the snapshot of an event unless it was stored."""
        if lasting.picture is None or self._names is None:
            return
        (frame, seconds, image), lasting.picture = lasting.picture, None
        path = self._names.next(self._feed.date_at(seconds) or self._arrived)
        try:
            write_image(path, image)
        except SinkError as error:
            logger.warning("no snapshot: %s", error)
            return
        lasting.snapshot, lasting.event.picture = path, str(path)
        self._notify("snapshot", lasting, frame, seconds)

    def _notify(self, kind: NotificationType, lasting: _Lasting, frame: int, seconds: float | None) -> None:
        event = lasting.event
        duration = None if seconds is None or event.start_time is None else seconds - event.start_time
        place = (self._source, self._feed.date_at(seconds) or self._arrived, seconds, frame)
        clip = None if event.clip is None else Path(event.clip)
        seen = (tuple(lasting.regions), lasting.snapshot, clip, lasting.objects)
        self._send(Notification(kind, str(event.kind), lasting.number, *place, duration, *seen))

    def _send(self, notification: Notification) -> None:
        for delivery in self._deliveries:
            delivery.put(notification)
