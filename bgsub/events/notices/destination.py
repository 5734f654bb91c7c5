"""Where notices go."""

from __future__ import annotations

from abc import ABC, abstractmethod

from bgsub.events.notices.notice import Notice


class DeliveryError(Exception):
    """A notice did not arrive; `final` where the same notice would fail again."""

    def __init__(self, message: str, final: bool = False) -> None:
        super().__init__(message)
        self.final = final


class Destination(ABC):
    """Takes notices, one at a time, in a thread that may wait for it.

    Attributes
    ----------
    name : str
        What messages call it; without anything secret.
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
