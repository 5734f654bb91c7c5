"""What became of notices, in numbers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Tally:
    """What became of the notices of a run; each counts once for each destination.

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

    def __add__(self, other: Tally) -> Tally:
        return Tally(self.delivered + other.delivered, self.lost + other.lost, self.retried + other.retried)


NONE = Tally()
"""Of a run without notices."""
