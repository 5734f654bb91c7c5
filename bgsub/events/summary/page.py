"""The summary of a run as a web page; ``templates/summary.html`` draws it."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np

from bgsub.events.event import Event
from bgsub.events.summary.highlights import COLOURS, HeatMap, Highlights, draw_heat_map
from bgsub.events.summary.timeline import Bar, RunFacts, Series, Timeline, longest, rows_of
from bgsub.video.timecode import clock_text
from bgsub.video.web_page import jpeg_of, render

_MAP_QUALITY = 88
_WIDTH = 1000.0  # of the time axis
_HIGH, _LOW = 90, 26  # heights of lanes in pixels
_ROW, _MOST_ROWS = 14, 40  # of objects
_LAST_BAR = 0.998  # of the axis: a short bar further to the right would stick out
_ROUND = [factor * 10**power for power in range(12) for factor in (1, 2, 5)]
_ROUND_SECONDS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200)


@dataclass
class Summary:
    """The contents of the page."""

    timeline: Timeline
    facts: RunFacts = field(default_factory=RunFacts)
    highlights: Highlights = field(default_factory=Highlights)
    heat: HeatMap = field(default_factory=HeatMap)
    background: np.ndarray | None = None  # (h, w) or (h, w, 3), uint8, of the size of the heat map


@dataclass(frozen=True)
class TimeAxis:
    """Names of the places on the time axis: time of day for a camera, time in the file, or frames."""

    start: float
    end: float
    timed: bool  # whether the axis has seconds
    began: datetime | None  # date and time at `start`

    def at(self, place: float) -> str:
        """Return the name of a place."""
        if not self.timed:
            return f"frame {place:.0f}"
        if self.began is None:
            return _whole(place)
        dates = [self.began + timedelta(seconds=at - self.start) for at in (place, self.start, self.end)]
        return f"{dates[0]:%H:%M:%S}" if dates[1].date() == dates[2].date() else f"{dates[0]:%m-%d %H:%M:%S}"

    def length(self, amount: float) -> str:
        """Return the name of a length."""
        if not self.timed:
            return f"{amount:.0f} frames"
        return f"{amount:.1f} s" if amount < 60 else _whole(amount)

    def ticks(self, most: int = 8) -> list[float]:
        """Return at most `most` round places on the axis."""
        steps = (*_ROUND_SECONDS, *(86400 * days for days in _ROUND)) if self.timed else _ROUND
        step = next(step for step in steps if (self.end - self.start) / step <= most - 1)
        zero = 0.0
        if self.began is not None:
            midnight = self.began.replace(hour=0, minute=0, second=0, microsecond=0)
            zero = self.start - (self.began - midnight).total_seconds()
        first = math.ceil((self.start - zero) / step - 1e-6)
        places = (zero + step * number for number in range(first, first + most))
        return [place for place in places if place <= self.end]

    def x(self, place: float) -> float:
        """Return the horizontal position of a place, from 0 to 1000."""
        return float(min(max((place - self.start) / ((self.end - self.start) or 1), 0), 1) * _WIDTH)


@dataclass
class _Lane:
    """A lane of the timeline, as the template draws it."""

    title: str
    height: int
    legend: list[tuple[str, str]] = field(default_factory=list)  # CSS classes and names
    paths: list[tuple[str, str]] = field(default_factory=list)  # CSS classes and SVG paths
    values: dict[float, str] = field(default_factory=dict)  # vertical positions and labels of round values
    bars: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True)
class _Scale:
    """The vertical axis of a lane with values."""

    bottom: float
    top: float
    percent: bool = False
    whole: bool = False  # whether only whole numbers have labels

    def heights(self, values: np.ndarray) -> np.ndarray:
        """Return the vertical positions of values, in pixels from above."""
        return _HIGH - (_HIGH - 2) * (values - self.bottom) / ((self.top - self.bottom) or 1)

    def ticks(self) -> dict[float, str]:
        """Return the positions and labels of at most five round values."""
        part = ((self.top - self.bottom) or 1) / 4
        power = 10.0 ** math.floor(math.log10(part))
        step = max(power * next(factor for factor in (1, 2, 5, 10) if factor * power >= part), float(self.whole))
        first, last = math.ceil(self.bottom / step - 1e-6), math.floor(self.top / step + 1e-6)
        values = np.arange(first, last + 1) * step
        texts = (f"{100 * value:g}%" if self.percent else f"{value:g}" for value in values)
        return dict(zip(self.heights(values).tolist(), texts, strict=True))


def summary_page(path: Path, title: str, summary: Summary, regions: list[list[Any]]) -> bytes:
    """Return the page; `path` is its file, `regions` are the rows of `RegionCounter`."""
    timeline, facts = summary.timeline, summary.facts
    began = None if facts.began is None else datetime.fromisoformat(facts.began)
    axis = TimeAxis(*timeline.span, timeline.timed, began)
    return render(
        "summary.html",
        title=title or "Summary",
        facts=facts,
        timeline=timeline,
        highlights=summary.highlights,
        axis=axis,
        lanes=list(_lanes(timeline, axis, summary.highlights)) if facts.frames else [],
        coefficients=None if timeline.coefficients is None else _coefficients(timeline.coefficients, axis),
        heat_map=_heat_map(summary.heat.share(), summary.background),
        regions=[[*map(_cell, row[:-1]), _percent(float(row[-1]))] for row in regions],
        count=_count,
        words=_words,
        clip_link=partial(_clip_link, path.parent),
    )


def _lanes(timeline: Timeline, axis: TimeAxis, highlights: Highlights) -> Iterator[_Lane]:
    top = float(np.nanmax(timeline.share.points()[2], initial=0))
    scale = _Scale(0, max(top, 1e-3), percent=True)
    yield _areas(f"Foreground, up to {top:.1%} of the picture", timeline.share, scale, axis)

    links = {one.event.id: f"#motion-{one.event.id}" for one in highlights.kept}
    motion = longest(timeline.motion)
    bars = [
        _bar(one, axis, 3, _LOW - 6, "c1", f"motion {one.id}", str(one.id), links.get(one.id, "")) for one in motion
    ]
    yield _Lane(f"Motion events: {_shown(highlights.count, len(motion))}", _LOW, bars=bars)

    if timeline.marks:
        kinds = dict.fromkeys(mark.kind for mark in timeline.marks)
        bars = [_bar(mark, axis, 0, _LOW, mark.kind, _words(mark.kind)) for mark in timeline.marks]
        yield _Lane("The whole frame:", _LOW, [(kind, _words(kind)) for kind in kinds], bars=bars)

    objects = longest(timeline.objects)
    rows = rows_of(objects, 0.003 * (axis.end - axis.start))
    shown = [(one, row) for one, row in zip(objects, rows, strict=True) if row < _MOST_ROWS]
    bars = [
        _bar(one, axis, _ROW * row + 1, _ROW - 2, f"c{one.id % 8}", f"object {one.id}", str(one.id))
        for one, row in shown
    ]
    height = _ROW * (max((row for _, row in shown), default=0) + 1)
    yield _Lane(f"Objects: {_shown(timeline.object_count, len(shown))}", height, bars=bars)

    if timeline.names:
        top = float(np.nanmax(timeline.counts.points()[2], initial=1))
        lane = _areas(f"Objects in regions, up to {top:.0f}:", timeline.counts, _Scale(0, top, whole=True), axis)
        lane.legend = _legend(timeline.names)
        yield lane


def _areas(title: str, series: Series, scale: _Scale, axis: TimeAxis) -> _Lane:
    """Return a lane with the largest values of each column as an area."""
    times, _, high = series.points()
    paths = [_path(times, one, axis) for one in scale.heights(high.T)]
    areas = [(f"area c{n % 8}", f"{path}V{_HIGH}H0Z") for n, path in enumerate(paths) if path]
    return _Lane(title, _HIGH, paths=areas, values=scale.ticks())


def _coefficients(series: Series, axis: TimeAxis) -> _Lane:
    """Return a lane with the smallest and the largest values of each column as lines."""
    times, low, high = series.points()
    scale = _Scale(float(np.nanmin(low, initial=0)), float(np.nanmax(high, initial=1e-6)))
    lines = []
    for column in range(series.columns):
        paths = dict.fromkeys(_path(times, scale.heights(edge[:, column]), axis) for edge in (low, high))
        lines += [(f"line c{column % 8}", path) for path in paths]
    legend = _legend([f"y{column + 1}" for column in range(series.columns)])
    return _Lane(f"From {scale.bottom:.3g} to {scale.top:.3g}:", _HIGH, legend, lines, scale.ticks())


def _path(times: np.ndarray, heights: np.ndarray, axis: TimeAxis) -> str:
    """Return a step function as an SVG path, with gaps at NaN."""
    path, drawing = [], False
    for place, y in zip(times, heights, strict=True):
        x = f"{axis.x(place):.1f}"
        if drawing:
            path.append(f"H{x}" if np.isnan(y) else f"H{x}V{y:.1f}")
        elif not np.isnan(y):
            path.append(f"M{x} {y:.1f}")
        drawing = not np.isnan(y)
    return "".join(path) + (f"H{_WIDTH:.0f}" if drawing else "")


def _bar(
    bar: Bar, axis: TimeAxis, top: int, height: int, colour: str, name: str, number: str = "", link: str = ""
) -> dict[str, Any]:
    left, right = axis.x(bar.start) / 10, axis.x(bar.end) / 10
    text = f"{name}: {axis.at(bar.start)} to {axis.at(bar.end)}"
    place = {"left": min(left, 100 * _LAST_BAR), "width": right - left, "top": top, "height": height}
    return {"colour": colour, "text": text, "number": number, "link": link, **place}


def _heat_map(share: np.ndarray | None, background: np.ndarray | None) -> dict[str, Any] | None:
    if share is None or background is None:
        return None
    top = float(share.max())
    y, x = (int(place) for place in np.unravel_index(int(share.argmax()), share.shape))
    where = f"{x / share.shape[1]:.0%} from the left and {y / share.shape[0]:.0%} from above"
    most = f"most, {_percent(top)}, at {where}" if top else "nothing moved"
    return {
        "text": f"Heat map of motion over the background: {most}",
        "jpeg": jpeg_of(draw_heat_map(share, background), _MAP_QUALITY),
        "stops": ["#{2:02x}{1:02x}{0:02x}".format(*COLOURS[round(place)]) for place in np.linspace(0, 255, 17)],
        "ends": [_percent(top * part**2) for part in (0, 0.25, 0.5, 0.75, 1)],
    }


def _clip_link(folder: Path, event: Event) -> str:
    """Return the link from a page in `folder` to the clip of an event; empty without a clip."""
    clip = "" if event.clip is None else Path(os.path.relpath(event.clip, folder)).as_posix()
    return quote(clip, errors="surrogateescape")


def _legend(names: Iterable[str]) -> list[tuple[str, str]]:
    return [(f"c{number % 8}", name) for number, name in enumerate(names)]


def _shown(number: int, shown: int) -> str:
    return f"{number}" + ("" if shown >= number else f", of which the {shown} longest are shown")


def _words(kind: str) -> str:
    return kind.replace("-", " ")


def _whole(seconds: float) -> str:
    """Return whole seconds as ``01:02:03``."""
    return clock_text(seconds).partition(".")[0]


def _percent(share: float) -> str:
    return f"{100 * share:.2g}%"


def _count(count: int, name: str) -> str:
    return f"{count} {name}{'' if count == 1 else 's'}"


def _cell(value: Any) -> str:
    return "" if value is None else f"{value:.1f}" if isinstance(value, float) else str(value)
