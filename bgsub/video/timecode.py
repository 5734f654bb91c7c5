"""Places in a video as people write them: a frame number, seconds, or hours, minutes and seconds."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from fractions import Fraction

from bgsub.errors import ParameterError

SYNTAX = "a frame number (120), seconds (12.5 or 12s) or h:mm:ss (1:02:03.5)"

_DIGITS = r"[0-9]{1,12}"
_FRAME = re.compile(_DIGITS)
_SECONDS = re.compile(rf"(?:({_DIGITS}(?:\.[0-9]{{0,9}})?|\.[0-9]{{1,9}})s|({_DIGITS}\.[0-9]{{0,9}}|\.[0-9]{{1,9}}))")
_CLOCK = re.compile(rf"(?:({_DIGITS}):)?({_DIGITS}):([0-9]{{1,2}}(?:\.[0-9]{{0,9}})?)")


@dataclass(frozen=True)
class Timecode:
    """A place in a video, or a length: by frames or by seconds, one of the two.

    Attributes
    ----------
    frame : int or None
        Number of the frame, counted from 0.
    seconds : Fraction or None
        Seconds since the start.
    """

    frame: int | None = None
    seconds: Fraction | None = None

    @classmethod
    def parse(cls, value: Timecode | str | int | float | Fraction, name: str = "a time") -> Timecode:
        """Return the place that `value` stands for.

        Parameters
        ----------
        value : str, int, float, Fraction or Timecode
            ``"120"`` or an int: a frame number from 0. ``"12.5"``, ``"12s"`` or a float: seconds.
            ``"02:03"``, ``"1:02:03.5"``: minutes and seconds, with hours before them.
        name : str
            What a message calls the value.

        Raises
        ------
        ParameterError
            If it is none of these, or negative.
        """
        if isinstance(value, Timecode):
            return value
        if isinstance(value, str):
            parsed = _parse_text(value.strip())
        elif isinstance(value, bool) or not isinstance(value, (int, float, Fraction)):
            parsed = None
        elif isinstance(value, int):
            parsed = cls(frame=value) if value >= 0 else None
        else:
            parsed = cls(seconds=Fraction(value)) if 0 <= value < math.inf else None
        if parsed is None:
            raise ParameterError(f"{name} must be {SYNTAX}, got {value!r}")
        return parsed

    @property
    def amount(self) -> Fraction:
        """Frames or seconds as a number."""
        return self.seconds if self.seconds is not None else Fraction(self.frame or 0)

    def in_frames(self, fps: Fraction | None) -> int | None:
        """Return the number of the first frame at or after the place at that rate; None where it takes a rate."""
        if self.frame is not None:
            return self.frame
        return None if fps is None else math.ceil(self.amount * fps)

    def __str__(self) -> str:
        if self.frame is not None:
            return f"frame {self.frame}"
        return f"{float(self.amount):.9g} s"


def clock_text(seconds: float) -> str:
    """Return seconds, 0 or more, as ``01:02:03.456``."""
    minutes, milliseconds = divmod(round(1000 * seconds), 60_000)
    return f"{minutes // 60:02d}:{minutes % 60:02d}:{milliseconds // 1000:02d}.{milliseconds % 1000:03d}"


def _parse_text(text: str) -> Timecode | None:
    if _FRAME.fullmatch(text):
        return Timecode(frame=int(text))
    if match := _SECONDS.fullmatch(text):
        return Timecode(seconds=_decimal(match[1] or match[2]))
    if match := _CLOCK.fullmatch(text):
        hours, minutes, seconds = int(match[1] or 0), int(match[2]), _decimal(match[3])
        if seconds < 60 and (match[1] is None or minutes < 60):
            return Timecode(seconds=3600 * hours + 60 * minutes + seconds)
    return None


def _decimal(digits: str) -> Fraction:
    return Fraction(f"0{digits}" if digits.startswith(".") else digits.rstrip("."))
