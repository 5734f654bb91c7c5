"""How much around a moment is recorded."""

from __future__ import annotations

from dataclasses import dataclass

from bgsub.errors import ParameterError
from bgsub.events.motion import check_seconds


@dataclass(frozen=True)
class ClipRules:
    """How much around the moments with motion is recorded, and into how many files.

    Attributes
    ----------
    pre_roll, post_roll : float
        Seconds recorded before and after the motion. Moments whose clips would overlap share one.
    max_duration : float, optional
        Seconds after which a clip ends and the next one begins; by default never.
    merge : bool
        Whether all clips are joined into one more file at the end.

    Raises
    ------
    ParameterError
        If one of them is out of range.

    Examples
    --------
    >>> from bgsub.events import ClipRules
    >>> ClipRules(pre_roll=5)
    ClipRules(pre_roll=5, post_roll=3.0, max_duration=None, merge=False)
    """

    pre_roll: float = 2.0
    post_roll: float = 3.0
    max_duration: float | None = None
    merge: bool = False

    def __post_init__(self) -> None:
        for name in ("pre_roll", "post_roll"):
            check_seconds(name, getattr(self, name))
        if self.max_duration is not None and not self.max_duration > 0:
            raise ParameterError(
                f"max_duration must be a positive number of seconds or None, got {self.max_duration!r}"
            )
