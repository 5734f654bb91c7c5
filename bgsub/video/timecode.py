"""Places and parts of a video, by frame number or time."""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeVar

from bgsub.errors import ParameterError, SourceError

T = TypeVar("T")

SYNTAX = "a number of frames (120), seconds (12.5 or 12s) or h:mm:ss (1:02:03.5)"

_DIGITS = r"[0-9]{1,12}"
_FRAME = re.compile(_DIGITS)
_SECONDS = re.compile(rf"(?:({_DIGITS}(?:\.[0-9]{{0,9}})?|\.[0-9]{{1,9}})s|({_DIGITS}\.[0-9]{{0,9}}|\.[0-9]{{1,9}}))")
_CLOCK = re.compile(rf"(?:({_DIGITS}):)?({_DIGITS}):([0-9]{{1,2}}(?:\.[0-9]{{0,9}})?)")


@dataclass(frozen=True)
class Timecode:
    """A place in a video, or a length, in frames or in seconds."""

    frame: int | None = None  # counted from 0
    seconds: Fraction | None = None  # since the start

    @classmethod
    def parse(cls, value: "Timecode | str | int | float | Fraction", name: str = "a time") -> "Timecode":
        """Parse a place: 120 is a frame, ``12.5``, ``12s`` and ``1:02:03.5`` are times; ParameterError with `name`."""
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
        """Return the number of the first frame at or after the place; None if `fps` is needed but unknown."""
        if self.frame is not None:
            return self.frame
        return None if fps is None else math.ceil(self.amount * fps)

    def __str__(self) -> str:
        if self.frame is not None:
            return f"frame {self.frame}"
        return f"{float(self.amount):.9g} s"


def clock_text(seconds: float, *, whole: bool = False) -> str:
    """Return seconds, negative ones as 0, as ``01:02:03.456``; `whole` ones without the rest."""
    minutes, milliseconds = divmod(round(1000 * max(seconds, 0.0)), 60_000)
    text = f"{minutes // 60:02d}:{minutes % 60:02d}:{milliseconds // 1000:02d}"
    return text if whole else f"{text}.{milliseconds % 1000:03d}"


def _parse_text(text: str) -> Timecode | None:
    if _FRAME.fullmatch(text):
        return Timecode(frame=int(text))
    if match := _SECONDS.fullmatch(text):
        return Timecode(seconds=Fraction(match[1] or match[2]))
    if match := _CLOCK.fullmatch(text):
        hours, minutes, seconds = int(match[1] or 0), int(match[2]), Fraction(match[3])
        if seconds < 60 and (match[1] is None or minutes < 60):
            return Timecode(seconds=3600 * hours + 60 * minutes + seconds)
    return None


#: Times this close, in seconds, are equal: most are rounded multiples or sums of the time between two frames.
CLOSE = 1e-6

Place = Timecode | str | int | float
NumberAt = Callable[[Timecode], int | None]  # returns the number of the first frame at or after a place


@dataclass(frozen=True)
class Selection:
    """A part of a source: the first of each `every` frames from `start` to the last before `end`."""

    start: Timecode | None = None
    end: Timecode | None = None
    duration: Timecode | None = None  # instead of `end`
    every: int = 1

    @classmethod
    def parse(
        cls,
        start: Place | None,
        end: Place | None,
        duration: Place | None,
        every: int,
        names: Sequence[str] = ("start", "end", "duration"),
    ) -> "Selection":
        """Parse the places with `Timecode.parse`, and check their order and `every`; errors have the `names`."""
        if isinstance(every, bool) or not isinstance(every, int) or every < 1:
            raise ParameterError(f"every must be a whole number of 1 or more, got {every!r}")
        places = zip((start, end, duration), names, strict=True)
        first, last, length = (None if value is None else Timecode.parse(value, name) for value, name in places)
        start_name, end_name, length_name = names
        if last is not None and length is not None:
            got = f"got {end_name} {last} and {length_name} {length}"
            raise ParameterError(f"use either {end_name} or {length_name}, {got}")
        if length is not None and length.amount <= 0:
            raise ParameterError(f"{length_name} must be more than 0, got {length}")
        if last is not None:
            begin = first or (Timecode(frame=0) if last.frame is not None else Timecode(seconds=Fraction(0)))
            if (begin.frame is None) == (last.frame is None) and last.amount <= begin.amount:
                raise ParameterError(f"{end_name} must come after {start_name} ({begin}), got {last}")
        return cls(first, last, length, every)

    def count(self, number_at: NumberAt, length: int | None) -> int | None:
        """Return the number of frames of the part in a source of `length` frames; None if unknown."""
        first = 0 if self.start is None else number_at(self.start)
        if first is None:
            return None
        ends = [length, number_at(self.end) if self.end else None]
        if self.duration is not None:
            begin = self.start.seconds if self.start is not None and self.duration.seconds is not None else None
            if begin is not None:
                ends.append(number_at(Timecode(seconds=begin + self.duration.amount)))
            elif (count := number_at(self.duration)) is not None:
                ends.append(first + count)
        known = [end for end in ends if end is not None]
        return -(-max(min(known) - first, 0) // self.every) if known else None


ALL = Selection()


class Part:
    """Decides for one frame after the other whether it belongs to the part; `name` is the source in messages."""

    def __init__(self, selection: Selection = ALL, name: str = "the source") -> None:
        self.start = selection.start
        self._end, self._duration, self._every = selection.end, selection.duration, selection.every
        self._name = name
        self._first: int | None = None
        self._last: tuple[int, float | None] | None = None
        self._ended = False

    def wants(self, index: int, time: float | None) -> bool | None:
        """Return whether the frame at `index` and `time` seconds is in the part; None after its end."""
        self._last = index, time
        if self._end is not None and self._reached(self._end, index, time):
            self._ended = True
            return None
        if self._first is None:
            if self.start is not None and not self._reached(self.start, index, time):
                return False
            self._first = index
            self._end = self._end or self._end_after(index, time)
            if self._end is not None and self._reached(self._end, index, time):
                self._first, self._ended = None, True  # the duration is shorter than one frame
                return None
        return (index - self._first) % self._every == 0

    def select(self, items: Iterable[tuple[int, float | None, T]]) -> Iterator[tuple[int, float | None, T]]:
        """Yield the index, time and item of those in the part; stop at its end."""
        for index, time, item in items:
            wanted = self.wants(index, time)
            if wanted is None:
                return
            if wanted:
                yield index, time, item

    def left(self, time: float | None) -> float | None:
        """Return the seconds from a time to the end of the part; None without an end in seconds."""
        return (
            None if time is None or self._end is None or self._end.seconds is None else float(self._end.seconds) - time
        )

    def check(self) -> None:
        """Raise SourceError if there were frames, but none in the part."""
        if self._first is not None or self._last is None:
            return
        index, time = self._last
        place = f"frame {index}" if time is None else f"{time:.3f} s (frame {index})"
        verb = "is" if self._ended else "ends"
        between = f"{self.start or 'the start'} and {self._end or 'the end'}"
        raise SourceError(f"nothing between {between}: {self._name} {verb} at {place}")

    def _end_after(self, index: int, time: float | None) -> Timecode | None:
        if self._duration is None:
            return None
        if self._duration.frame is not None:
            return Timecode(frame=index + self._duration.frame)
        if self.start is not None and self.start.seconds is not None:
            return Timecode(seconds=self.start.seconds + self._duration.amount)
        return Timecode(seconds=self._duration.amount + Timecode.parse(self._known(time, self._duration)).amount)

    def _reached(self, place: Timecode, index: int, time: float | None) -> bool:
        if place.frame is not None:
            return index >= place.frame
        return self._known(time, place) + CLOSE >= place.amount

    def _known(self, time: float | None, place: Timecode) -> float:
        if time is None:
            raise ParameterError(f"{self._name} has no frame rate: {place} takes one, or give a frame number")
        return time
