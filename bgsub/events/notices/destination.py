"""Where notices go."""

from __future__ import annotations

from abc import ABC, abstractmethod

from bgsub.events.notices.notice import Notice


class DeliveryError(Exception):
    """A notice did not arrive.

    Parameters
    ----------
    message : str
        Why, in one line.
    final : bool
        Whether the same notice would fail again; an attribute as well.
    """

    def __init__(self, message: str, final: bool = False) -> None:
        super().__init__(message)
        self.final = final


class Destination(ABC):
    """Takes notices, one at a time, in a thread that may wait for it.

    Attributes
    ----------
    name : str
        What messages call it; without anything secret.

    Examples
    --------
    >>> import bgsub
    >>> from bgsub.events import Destination, EventFeed, NoticeSink, ObjectLinker
    >>> class Keep(Destination):
    ...     name, kept = "a list", []
    ...     def send(self, notice):
    ...         self.kept.append(notice)
    ...     def cancel(self):
    ...         pass
    >>> sink = NoticeSink(EventFeed(ObjectLinker(fps=25)), [Keep()])
    >>> summary = bgsub.process_video("video.mp4", sink)
    >>> sorted({notice.type for notice in Keep.kept})
    ['end', 'start']
    """

    name: str

    def wants(self, notice: Notice) -> bool:
        """Whether a notice is for it."""
        return True

    @abstractmethod
    def send(self, notice: Notice) -> None:
        """Bring a notice there, in a limited time; DeliveryError where it did not arrive."""

    @abstractmethod
    def cancel(self) -> None:
        """End a `send` that is under way in another thread."""
