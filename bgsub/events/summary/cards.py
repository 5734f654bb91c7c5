"""The moments with motion, with a picture of each."""

from __future__ import annotations

import base64
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from bgsub._opencv import cv2
from bgsub.events._pack import pack, unpack
from bgsub.events.event import Event
from bgsub.events.feed import Step
from bgsub.separation import Separation
from bgsub.video.views import to_bgr8
from bgsub.video.web_page import THUMBNAIL, jpeg_of, shrunk

MOST_CARDS = 200
"""Moments of which a picture is kept: those with the most motion."""

_QUALITY = 75
_BOX = (0, 170, 255)  # blue first


@dataclass
class Card:
    """A moment that is over."""

    event: Event
    share: float  # of the frame that was foreground at its peak
    objects: int  # how many were seen in it
    regions: list[str]  # in which they were
    jpeg: bytes  # the frame at its peak

    @property
    def amount(self) -> int:
        """How much motion it had: frames times pixels."""
        return self.event.frames * self.event.peak_area

    def state(self) -> dict[str, Any]:
        """Return what `restored` needs, as types that JSON knows."""
        return {**vars(self), "event": asdict(self.event), "jpeg": base64.b64encode(self.jpeg).decode("ascii")}

    @classmethod
    def restored(cls, state: dict[str, Any]) -> Card:
        """Return the card that `state` described."""
        return cls(**{**state, "event": Event.from_state(state["event"]), "jpeg": base64.b64decode(state["jpeg"])})


@dataclass
class _Growing:
    """The moment at hand."""

    start: int  # its first frame
    picture: np.ndarray  # the frame at its peak so far, with boxes around the objects that are known in it
    scale: float = 1.0  # of the picture
    share: float = 0.0
    objects: int = 0
    present: list[int] = field(default_factory=list)  # those of the objects that are not over yet
    regions: list[str] = field(default_factory=list)


class Cards:
    """Keeps a card of each moment, in bounded memory."""

    def __init__(self) -> None:
        self.kept: list[Card] = []  # in the order of their ends
        self.count = 0  # number of moments, also of those without a card
        self._growing: _Growing | None = None

    def add(self, step: Step, separation: Separation) -> None:
        """Take one frame."""
        self.finish(step.motion.ended)
        moment, growing = step.motion.lasting, self._growing
        if moment is None:
            self._growing = None
            return
        if growing is None or growing.start != moment.start_frame:
            growing = self._growing = _Growing(moment.start_frame, np.zeros((1, 1, 3), np.uint8))
        if moment.peak_frame == step.frame:
            image = to_bgr8(separation.frame)
            growing.picture = shrunk(image, THUMBNAIL).copy()
            growing.scale = growing.picture.shape[1] / image.shape[1]
            growing.share = step.motion.share
        self._add_objects(growing, moment, step)

    def finish(self, ended: list[Event]) -> None:
        """Take the moments that are over."""
        for event in ended:
            growing, self._growing = self._growing, None
            assert growing is not None  # it was there with the first frame of the moment
            jpeg = jpeg_of(growing.picture, _QUALITY)
            self.kept.append(Card(event, growing.share, growing.objects, growing.regions, jpeg))
            self.count += 1
            if len(self.kept) > MOST_CARDS:
                self.kept.remove(min(self.kept, key=lambda card: card.amount))

    def state(self) -> dict[str, Any]:
        """Return what `set_state` needs, as types that JSON knows."""
        growing = None if self._growing is None else {**vars(self._growing), "picture": pack(self._growing.picture)}
        return {"count": self.count, "kept": [card.state() for card in self.kept], "growing": growing}

    def set_state(self, state: dict[str, Any]) -> None:
        """Go on where `state` was called."""
        self.count, self.kept = state["count"], [Card.restored(card) for card in state["kept"]]
        growing = state["growing"]
        self._growing = None if growing is None else _Growing(**{**growing, "picture": unpack(growing["picture"])})

    @staticmethod
    def _add_objects(growing: _Growing, moment: Event, step: Step) -> None:
        for one in step.objects:
            if not moment.start_frame <= one.frame <= moment.end_frame:
                continue
            if one.id not in growing.present:
                growing.present.append(one.id)
                growing.objects += 1
            growing.regions += [name for name in one.regions if name not in growing.regions]
            if one.frame == moment.peak_frame:
                x, y, w, h = (round(growing.scale * value) for value in one.box)
                cv2.rectangle(growing.picture, (x - 1, y - 1), (x + w, y + h), _BOX, 1)
        over = {event.id for event in step.finished}
        growing.present = [number for number in growing.present if number not in over]
