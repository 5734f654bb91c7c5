"""A run at a glance, as one page of HTML."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np

from bgsub.events.event import EventKind
from bgsub.events.summary import charts
from bgsub.events.summary.cards import Card, Cards
from bgsub.events.summary.course import Clock, Course
from bgsub.events.summary.heat_map import COLOURS, HeatMap, drawn
from bgsub.events.summary.timeline import MOST_MARKS, Timeline
from bgsub.video.web_page import jpeg_of, page, picture

_STYLE = """
dl{display:grid;grid-template-columns:max-content 1fr;gap:.1em 1em;margin:0}dt{color:var(--faint)}dd{margin:0}
a{color:inherit}.cards{display:grid;grid-template-columns:repeat(auto-fill,minmax(15em,1fr));gap:1em}
.card{margin:0;background:var(--panel);border-radius:6px;overflow:hidden}.card img{width:100%}
.card figcaption{padding:.5em .7em}.card b{font-size:1.1em}.card:target{outline:3px solid #d9722e}
.map{max-width:45em}.map img{width:100%}.scale{height:1em;margin-top:.4em}.ends{display:flex;
justify-content:space-between;font-size:.85em}table{border-collapse:collapse}td,th{padding:.2em .8em .2em 0;
text-align:right;border-bottom:1px solid var(--line)}td:first-child,th:first-child{text-align:left}
@media(max-width:640px){.cards{grid-template-columns:1fr 1fr;gap:.6em}}
.wide{overflow-x:auto}.wide td,.wide th{white-space:nowrap}
"""
_MAP_QUALITY = 88
_COUNTS = ("region", "objects", "entries", "most at a time", "frames with one", "seconds with one", "foreground")


@dataclass
class Summary:
    """What the page is made of."""

    path: Path  # of the page: links to clips are relative to it
    course: Course
    timeline: Timeline
    cards: Cards
    heat: HeatMap
    background: np.ndarray | None  # (h, w) or (h, w, 3), uint8, of the size of the heat map
    regions: list[list[Any]]  # rows of `RegionCounter`

    def page(self) -> bytes:
        """Return the page."""
        title = self.timeline.title or "Summary"
        return page(title, "".join(self._body()), charts.STYLE + _STYLE)

    @cached_property
    def _clock(self) -> Clock:
        return Clock.of(self.timeline, self.course.began)

    def _body(self) -> Iterator[str]:
        yield from self._facts()
        if not self.course.frames:
            return
        lanes = charts.Charts(self.timeline, self._clock, (card.event.id for card in self.cards.kept))
        yield "<h2>Timeline</h2>\n"
        yield from lanes.lanes(self.cards.count)
        yield from self._marks()
        if coefficients := lanes.coefficients():
            yield f"<details><summary>Coefficients of the background</summary>\n{coefficients}</details>\n"
        yield from self._heat_map()
        if self.regions:
            rows = [[*row[:-1], _percent(float(row[-1]))] for row in self.regions]
            yield f'<h2>Regions</h2>\n<div class="wide">{_table(_COUNTS, rows)}</div>\n'
        yield from self._moments()

    def _facts(self) -> Iterator[str]:
        course, clock = self.course, self._clock
        facts = {"Frames": f"{course.frames}, {course.width} x {course.height} pixels" if course.frames else "none"}
        if course.frames:
            facts["Length"] = clock.length(clock.end - clock.start)
            facts["Foreground"] = f"{course.share:.2%} of the picture on average"
            moments, objects = _number(self.cards.count, "moment"), _number(self.timeline.objects, "object")
            facts["Found"] = f"{moments} with motion, {objects}"
        if clock.began is not None:
            facts = {"Began": f"{clock.began:%Y-%m-%d %H:%M:%S %z}", **facts}
        rows = "".join(f"<dt>{name}</dt><dd>{escape(value)}</dd>" for name, value in facts.items())
        yield f"<dl>{rows}</dl>\n"
        problems = "".join(f"<li>{problem}</li>" for problem in self._problems())
        yield f"<h2>Problems</h2>\n<ul>{problems}</ul>\n" if problems else ""

    def _problems(self) -> Iterator[str]:
        course = self.course
        if course.missing:
            yield f"{_number(course.missing, 'frame')} missing: dropped, or not to be read."
        if course.pauses:
            longest = self._clock.length(course.longest_pause)
            yield f"{_number(course.pauses, 'long pause')} without a frame, at most {longest}."
        if covered := course.whole.get(EventKind.COVERED, 0):
            yield f"The camera was covered: {_number(covered, 'time')}."
        if course.frames and not course.tracked:
            yield "The run ended in its start phase, in which nothing is taken for motion."

    def _marks(self) -> Iterator[str]:
        marks, clock = self.timeline.marks, self._clock
        if not marks:
            return
        rows = [(charts.words(mark.kind), clock.at(mark.start), clock.at(mark.end)) for mark in marks]
        first = f"the first {MOST_MARKS} of " if len(marks) < sum(self.course.whole.values()) else ""
        title = f"Events of the whole frame: {first}{sum(self.course.whole.values())}"
        yield f"<details><summary>{title}</summary>{_table(('event', 'from', 'to'), rows)}</details>\n"

    def _heat_map(self) -> Iterator[str]:
        share = self.heat.share()
        if share is None or self.background is None:
            return
        top = float(share.max())
        y, x = (int(place) for place in np.unravel_index(int(share.argmax()), share.shape))
        where = f"{x / share.shape[1]:.0%} from the left and {y / share.shape[0]:.0%} from above"
        most = f"most, {_percent(top)}, at {where}" if top else "nothing moved"
        text = f"Heat map of motion over the background: {most}"
        stops = ",".join("#{2:02x}{1:02x}{0:02x}".format(*COLOURS[round(place)]) for place in np.linspace(0, 255, 17))
        ends = "".join(f"<span>{_percent(top * part**2)}</span>" for part in (0, 0.25, 0.5, 0.75, 1))
        yield (
            f'<h2>Where things moved</h2>\n<figure class="map">'
            f"<figcaption>Share of the frames in which a place was foreground</figcaption>"
            f"{picture(jpeg_of(drawn(share, self.background), _MAP_QUALITY), text)}"
            f'<div class="scale" style="background:linear-gradient(90deg,{stops})"></div>'
            f'<div class="ends">{ends}</div></figure>\n'
        )

    def _moments(self) -> Iterator[str]:
        kept, left_out = self.cards.kept, self.cards.count - len(self.cards.kept)
        yield f"<h2>Moments with motion: {self.cards.count}</h2>\n"
        if left_out:
            yield f"<p>{left_out} with less motion are not shown.</p>\n"
        if kept:
            yield f'<div class="cards">\n{"".join(map(self._card, kept))}</div>\n'

    def _card(self, card: Card) -> str:
        event, clock = card.event, self._clock
        start, end = self.timeline.places(event)
        peak = f"Frame {event.peak_frame}, the one with most motion in moment {event.id}"
        what = f"{_number(card.objects, 'object')}, at most {card.share:.1%} of the picture"
        lines = [f"{clock.length(end - start)}, {what}"]
        if card.regions:
            lines.append(f"in {', '.join(map(escape, card.regions))}")
        if event.clip is not None:
            lines.append(f'<a href="{self._link(event.clip)}" aria-label="clip of moment {event.id}">clip</a>')
        return (
            f'<figure class="card" id="moment-{event.id}">{picture(card.jpeg, peak)}'
            f"<figcaption><b>{escape(clock.at(start))}</b><br>{'<br>'.join(lines)}</figcaption></figure>\n"
        )

    def _link(self, clip: str | Path) -> str:
        """Return the address of a file beside the page, or as near to it as may be."""
        relative = os.path.relpath(clip, self.path.parent)
        return escape(quote(Path(relative).as_posix(), errors="surrogateescape"))


def _percent(share: float) -> str:
    return f"{100 * share:.2g}%"


def _number(count: int, name: str) -> str:
    return f"{count} {name}{'' if count == 1 else 's'}"


def _table(head: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    def row(cells: Iterable[Any], tag: str) -> str:
        return f"<tr>{''.join(f'<{tag}>{escape(_cell(cell))}</{tag}>' for cell in cells)}</tr>"

    return f"<table>{row(head, 'th')}{''.join(row(cells, 'td') for cells in rows)}</table>"


def _cell(value: Any) -> str:
    return "" if value is None else f"{value:.1f}" if isinstance(value, float) else str(value)
