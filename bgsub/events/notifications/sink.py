"""What happens in a video, told to other programs while it happens."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from bgsub.errors import SinkError
from bgsub.events.clips import ClipNames
from bgsub.events.event import Event, EventKind, ObjectInFrame
from bgsub.events.feed import EventFeed, Step
from bgsub.events.notifications.command import CommandNotifier
from bgsub.events.notifications.delivery import Delivery, finish_all
from bgsub.events.notifications.notification import (
    REQUEST,
    DeliveryCounts,
    Destination,
    Notification,
    NotificationType,
)
from bgsub.events.notifications.webhook import WebhookNotifier
from bgsub.separation import Separation
from bgsub.video.sinks.base import Sink, prepare_folder
from bgsub.video.sinks.images import write_image
from bgsub.video.sources.base import Frame

logger = logging.getLogger("bgsub")

SNAPSHOT_AFTER = 2.0
"""Seconds of motion of which the frame with the most foreground is the snapshot."""


@dataclass
class _Lasting:
    """An event that lasts, and what is told of it."""

    event: Event
    number: int
    begun: float  # on the clock of the steps, when it was certain
    objects: tuple[ObjectInFrame, ...]  # in the frame with the most foreground so far
    picture: tuple[int, float | None, np.ndarray] | None  # index, time and image of that frame, until it is stored
    regions: dict[str, None] = field(default_factory=dict)  # as a set that keeps its order
    snapshot: Path | None = None

    def see(self, step: Step, objects: tuple[ObjectInFrame, ...], image: np.ndarray) -> None:
        """Take a frame into account."""
        self.regions |= dict.fromkeys(name for one in objects for name in one.regions)
        if self.event.kind == EventKind.MOTION and self.event.peak_frame == step.frame:
            self.objects = objects
            if self.picture is not None:
                self.picture = (step.frame, step.time, image)


class NotificationSink(Sink):
    """Tells other programs when motion begins and ends, and when something befalls the whole frame.

    Notifications go out at the start and at the end, once the snapshot of a motion is stored, the frame with the most
    foreground of its first two seconds, and once its clip is complete. What still lasts at the end of the run ends
    with it. A snapshot that cannot be stored is logged. A thread for each destination sends the notifications, tries
    again for a minute, and drops the oldest if more than 64 wait. After `resume`, notifications since the checkpoint
    are sent again.

    Parameters
    ----------
    feed : EventFeed
        Shared with the other outputs of the run; a recorder among them must come first, so that its clips are known.
    destinations : sequence of Destination
        Where notifications go, such as a `CommandNotifier` or a `WebhookNotifier`.
    source : str
        Name of the source.
    snapshots : Path, optional
        Folder of the snapshots, created if missing; without it there are none.
    clips : bool
        Whether motion is recorded.

    Raises
    ------
    SinkError
        If that folder cannot be written.

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
        self._feed, self._source = feed, source
        self._names = None if snapshots is None else ClipNames(snapshots, None, f"{source}-snapshot", ".jpg")
        self.claims = [] if self._names is None else [self._names.claim]
        if snapshots is not None:
            prepare_folder(snapshots)
        self._lasting: list[_Lasting] = []
        self._records, self._recorded = clips, list[_Lasting]()  # those that have ended, and whose clip is awaited
        self._count = self._requests = 0  # of what befell the whole frame, and of pictures that were asked for
        self._newest: tuple[float | None, datetime | None] = (None, None)  # its time in the source, and in the world
        self._deliveries = [Delivery(destination) for destination in destinations]
        self._done = False

    @property
    def counts(self) -> DeliveryCounts:
        """What became of the notifications."""
        return sum((delivery.counts for delivery in self._deliveries), DeliveryCounts())

    def write(self, frame: Frame, separation: Separation) -> None:
        step = self._feed.step(frame, separation)
        self._newest = step.time, frame.arrived
        objects = tuple(one for one in step.objects if one.frame == step.frame)
        for event in (*step.finished, *step.motion.ended):
            self._end(event)
        self._tell_clips()
        for event in (*step.begun, *step.motion.begun):
            self._begin(event, step, objects, separation.frame)
        for lasting in self._lasting:
            lasting.see(step, objects, separation.frame)
            if step.clock - lasting.begun >= SNAPSHOT_AFTER:
                self._store(lasting)

    def close(self) -> None:
        if self._done:
            return
        self._done = True
        for event in (*self._feed.finish(), *self._feed.finish_motion()):
            self._end(event)
        self._tell_clips()
        finish_all(self._deliveries)

    def tell_picture(self, frame: Frame, path: Path) -> None:
        """Tell of a picture that somebody has asked for; from any thread."""
        self._requests += 1
        place = (self._source, frame.arrived, frame.time, frame.index)
        self._send(Notification("snapshot", REQUEST, self._requests, *place, None, snapshot=path))

    def checkpoint(self) -> dict[str, Any]:
        return {"feed": self._feed.checkpoint(self), "count": self._count}

    def resume(self, state: dict[str, Any]) -> None:
        """Go on where `checkpoint` returned `state`: of what lasted then only the end is told."""
        if state:
            self._feed.resume(state["feed"])
            self._count = state["count"]

    def _begin(self, event: Event, step: Step, objects: tuple[ObjectInFrame, ...], image: np.ndarray) -> None:
        self._count += event.kind != EventKind.MOTION
        has_picture = event.kind == EventKind.MOTION and self._names is not None
        picture = (step.frame, step.time, image) if has_picture else None
        lasting = _Lasting(event, event.id or self._count, step.clock, objects, picture)
        lasting.see(step, objects, image)
        self._lasting.append(lasting)
        self._tell("start", lasting, event.start_frame, event.start_time, objects)

    def _end(self, event: Event) -> None:
        """Tell the end of an event; the way of an object is none here."""
        if event.kind == EventKind.OBJECT:
            return
        begun = [one for one in self._lasting if one.event is event]
        # After `resume` nothing is known of the start.
        lasting = begun[0] if begun else _Lasting(event, event.id or self._count, 0.0, (), None)
        self._store(lasting)
        self._tell("end", lasting, event.end_frame, event.end_time, lasting.objects)
        self._lasting = [one for one in self._lasting if one is not lasting]
        if self._records and event.kind == EventKind.MOTION:
            self._recorded.append(lasting)

    def _tell_clips(self) -> None:
        """Tell of the recordings that are complete by now."""
        done = [one for one in self._recorded if one.event.clip is not None]
        self._recorded = [one for one in self._recorded if one.event.clip is None]
        for lasting in done:
            self._tell("clip", lasting, lasting.event.end_frame, lasting.event.end_time, lasting.objects)

    def _store(self, lasting: _Lasting) -> None:
        """Store the snapshot of an event if that is still to be done."""
        if lasting.picture is None or self._names is None:
            return
        (frame, seconds, image), lasting.picture = lasting.picture, None
        path = self._names.next(seconds or 0.0, self._date(seconds))
        try:
            write_image(path, image)
        except SinkError as error:
            logger.warning("no snapshot: %s", error)
            return
        lasting.snapshot = path
        self._tell("snapshot", lasting, frame, seconds, lasting.objects)

    def _tell(
        self,
        kind: NotificationType,
        lasting: _Lasting,
        frame: int,
        seconds: float | None,
        objects: tuple[ObjectInFrame, ...],
    ) -> None:
        event = lasting.event
        duration = None if seconds is None or event.start_time is None else seconds - event.start_time
        notification = Notification(
            kind,
            str(event.kind),
            lasting.number,
            self._source,
            self._date(seconds),
            seconds,
            frame,
            duration,
            tuple(lasting.regions),
            lasting.snapshot,
            None if event.clip is None else Path(event.clip),
            objects,
        )
        self._send(notification)

    def _send(self, notification: Notification) -> None:
        for delivery in self._deliveries:
            delivery.put(notification)

    def _date(self, seconds: float | None) -> datetime | None:
        """Return the date and time of a frame of the source by its seconds, where the source is live."""
        newest, date = self._newest
        if seconds is None or newest is None or date is None:
            return date
        return date - timedelta(seconds=newest - seconds)


def make_notifications(
    commands: Sequence[str],
    webhooks: Sequence[str],
    snapshots: Path | None,
    feed: EventFeed,
    source: str,
    clips: Path | None = None,
) -> NotificationSink:
    """Return what tells the events of a feed to commands and web addresses; errors are those of the three classes.

    `snapshots` and `clips` are the folders of what is recorded.
    """
    missing = [name for name, folder in (("snapshot", snapshots), ("clip", clips)) if folder is None]
    destinations = [
        *(CommandNotifier(command, missing=missing) for command in commands),
        *(WebhookNotifier(address) for address in webhooks),
    ]
    return NotificationSink(feed, destinations, source=source, snapshots=snapshots, clips=clips is not None)
