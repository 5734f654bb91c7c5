"""What other programs are told: one notification, as JSON and as words in a command."""

from __future__ import annotations

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
REQUEST = "request"
"""The event of a picture that somebody has asked for, by a key or on the page."""
VERSION = 1
"""Of the form of the JSON: another one where a field goes or means something else; new fields may come any time."""


@dataclass(frozen=True)
class Notification:
    """Something has begun or ended, or a picture or a clip of it was stored.

    As JSON it has these fields under these names, and ``version``; what is not known is null. The fields but `objects`
    are placeholders of commands, too, where null is empty and the regions are joined by commas.

    Attributes
    ----------
    type : {"start", "end", "snapshot", "clip"}
        What this is about: the first frame, the last one, that of the picture, or again the last one, when the
        recording is complete.
    event : str
        "motion", or what befalls the whole frame: "light-change", "covered", "scene-change", "scene-return"; "request"
        for a snapshot that somebody has asked for, by a key or on the page.
    number : int
        Number of the event, the same in all its notifications. Motion, requests and other events are counted
        separately, from 1 in each run.
    source : str
        Name of the camera or the file.
    time : datetime or None
        Date and time of the frame, where the source is live; in JSON ISO 8601 with the zone.
    seconds : float or None
        Time of the frame in the source, where it is known.
    frame : int
        Its index in the source, from 0.
    duration : float or None
        Seconds from the first frame of the event to this one.
    regions : tuple of str
        Regions in which objects were seen from the start to this notification, in the order of the first visit.
    snapshot : Path or None
        File of the picture, once there is one.
    clip : Path or None
        File of the recording, once it is complete; the first one, where there are several.
    objects : tuple of ObjectInFrame
        Those in the picture: at the start what is in view, of a snapshot what it shows, at the end what the frame
        with the most foreground showed. In JSON each has ``id``, ``box`` (left, top, width, height in pixels), ``area``
        (pixels) and ``regions``.
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
    objects: tuple[ObjectInFrame, ...] = ()

    def to_json(self) -> bytes:
        """Return the notification as one line of JSON in UTF-8."""
        values = {name: _plain(getattr(self, name)) for name in (*PLACEHOLDERS, "objects")}
        return json.dumps({"version": VERSION, **values}, ensure_ascii=False).encode("utf-8", "replace") + b"\n"

    def word(self, placeholder: str) -> str:
        """Return what stands for a placeholder in a command."""
        value = _plain(getattr(self, placeholder))
        return "" if value is None else ",".join(value) if isinstance(value, list) else str(value)


PLACEHOLDERS = tuple(field.name for field in fields(Notification) if field.name != "objects")


def _plain(value: Any) -> Any:
    """Return a value in types that JSON knows."""
    from bgsub.events.event import ObjectInFrame  # noqa: PLC0415 - it imports NumPy

    if isinstance(value, ObjectInFrame):
        return {"id": value.id, "box": list(value.box), "area": value.area, "regions": list(value.regions)}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if isinstance(value, datetime):
        return value.isoformat(timespec="milliseconds")
    if isinstance(value, Path):
        return str(value.absolute())
    return round(value, 3) if isinstance(value, float) else value


class DeliveryError(Exception):
    """A notification did not arrive.

    Parameters
    ----------
    message : str
        Why, in one line.
    final : bool
        Whether the same notification would fail again; an attribute as well.
    """

    def __init__(self, message: str, final: bool = False) -> None:
        super().__init__(message)
        self.final = final


class Destination(ABC):
    """Takes notifications, one at a time, in a thread that may wait for it.

    Attributes
    ----------
    name : str
        What messages call it; without anything secret.

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
        """Whether a notification is for it."""
        return True

    @abstractmethod
    def send(self, notification: Notification) -> None:
        """Bring a notification there, in a limited time; DeliveryError where it did not arrive."""

    @abstractmethod
    def cancel(self) -> None:
        """End a `send` that is under way in another thread."""


@dataclass(frozen=True)
class DeliveryCounts:
    """What became of the notifications of a run; each counts once for each destination.

    Attributes
    ----------
    delivered, lost : int
        How many arrived, and how many did not.
    retried : int
        How often one was tried again.
    """

    delivered: int = 0
    lost: int = 0
    retried: int = 0

    def __add__(self, other: DeliveryCounts) -> DeliveryCounts:
        return DeliveryCounts(self.delivered + other.delivered, self.lost + other.lost, self.retried + other.retried)
