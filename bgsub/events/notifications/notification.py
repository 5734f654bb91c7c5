"""A notification, the places it can be sent to, and the counts of deliveries."""

import json
from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

if TYPE_CHECKING:
    from bgsub.events.event import ObjectInFrame


NotificationType = Literal["start", "end", "snapshot", "clip"]
TYPES: tuple[NotificationType, ...] = get_args(NotificationType)
REQUEST = "request"  # event of a snapshot that was requested by a key or on the page
VERSION = 1  # version of the JSON; it changes if a field is removed or changes its meaning, not if one is added


@dataclass(frozen=True)
class Notification:
    """The start or end of an event, or its stored snapshot or clip.

    The JSON has these fields and ``version``; unknown values are null. All fields except `objects` are placeholders in
    commands, in which unknown values are empty and regions are joined by commas.

    Attributes
    ----------
    type : {"start", "end", "snapshot", "clip"}
        Type; the frame is the first, the last, that of the snapshot, or the last again (the clip is complete).
    event : str
        "motion", "light-change", "covered", "scene-change", "scene-return", or "request" for a snapshot requested by
        a key or on the page.
    number : int
        Number of the event, the same in all its notifications. Motion, requests and other events are counted
        separately, from 1 in each run.
    source : str
        Name of the camera or the file.
    time : datetime or None
        Date and time of the frame of a live source; in JSON ISO 8601 with the zone.
    seconds : float or None
        Time of the frame in the source, if known.
    frame : int
        Index of the frame in the source, from 0.
    duration : float or None
        Seconds from the first frame of the event to this one.
    regions : tuple of str
        Regions in which objects were seen so far, in the order of the first visit.
    snapshot : Path or None
        File of the snapshot, once it is stored.
    clip : Path or None
        File of the clip, once it is complete; the first one of several.
    objects : tuple of ObjectInFrame
        Objects in the first frame ("start") or in the frame with the most foreground. In JSON each has ``id``,
        ``box`` (left, top, width, height in pixels), ``area`` (pixels) and ``regions``.
    """

    type: NotificationType
    event: str
    number: int
    source: str
    time: datetime | None
    seconds: float | None
    frame: int
    duration: float | None
    regions: tuple[str, ...] = ()
    snapshot: Path | None = None
    clip: Path | None = None
    objects: "tuple[ObjectInFrame, ...]" = ()

    def to_json(self) -> bytes:
        """Return the notification as one line of JSON in UTF-8."""
        values = {name: _plain(getattr(self, name)) for name in PLACEHOLDERS}
        objects = [{"id": one.id, "box": one.box, "area": one.area, "regions": one.regions} for one in self.objects]
        record = {"version": VERSION, **values, "objects": objects}
        return json.dumps(record, ensure_ascii=False).encode("utf-8", "replace") + b"\n"

    def word(self, placeholder: str) -> str:
        """Return the text of a placeholder in a command."""
        value = _plain(getattr(self, placeholder))
        return "" if value is None else ",".join(value) if isinstance(value, list) else str(value)


PLACEHOLDERS = tuple(field.name for field in fields(Notification) if field.name != "objects")


def _plain(value: Any) -> Any:
    """Return a value as JSON types."""
    if isinstance(value, tuple):
        return list(value)
    if isinstance(value, datetime):
        return value.isoformat(timespec="milliseconds")
    if isinstance(value, Path):
        return str(value.absolute())
    return round(value, 3) if isinstance(value, float) else value


class DeliveryError(Exception):
    """A notification did not arrive; `final` is whether sending it again would fail too. The message is one line."""

    def __init__(self, message: str, final: bool = False) -> None:
        super().__init__(message)
        self.final = final


class Destination(ABC):
    """Receives notifications, one at a time, in a separate thread.

    Attributes
    ----------
    name : str
        Name in messages, without secrets.

    Examples
    --------
    >>> import bgsub
    >>> from bgsub.events import Destination, EventFeed, NotificationSink, ObjectLinker
    >>> class Keep(Destination):
    ...     name, kept = "a list", []
    ...     def send(self, notification):
    ...         self.kept.append(notification)
    ...     def cancel(self):
    ...         pass
    >>> sink = NotificationSink(EventFeed(ObjectLinker(fps=25)), [Keep()])
    >>> summary = bgsub.process_video("video.mp4", sink)
    >>> sorted({notification.type for notification in Keep.kept})
    ['end', 'start']
    """

    name: str

    def wants(self, notification: Notification) -> bool:
        """Whether this destination receives a notification."""
        return True

    @abstractmethod
    def send(self, notification: Notification) -> None:
        """Send a notification in limited time; raise DeliveryError if it did not arrive."""

    @abstractmethod
    def cancel(self) -> None:
        """End a `send` that is running in another thread."""


@dataclass(frozen=True)
class DeliveryCounts:
    """Numbers of notifications that arrived and that did not, and of further attempts, for all destinations."""

    delivered: int = 0
    lost: int = 0
    retried: int = 0

    def __add__(self, other: "DeliveryCounts") -> "DeliveryCounts":
        return DeliveryCounts(self.delivered + other.delivered, self.lost + other.lost, self.retried + other.retried)
