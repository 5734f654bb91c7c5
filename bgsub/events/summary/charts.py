"""A run over time, as SVG in a page: each value a lane, all on one axis."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape

import numpy as np

from bgsub.events.series import Series
from bgsub.events.summary.course import Clock
from bgsub.events.timeline import Bar, Timeline, longest, packed

STYLE = """
svg{display:block;width:100%;background:var(--panel)}.lane{margin:0 0 .7em}.lane figcaption{color:var(--faint)}
svg *{vector-effect:non-scaling-stroke}.grid{stroke:var(--line)}
.c0{--c:#3b82c4}.c1{--c:#d9722e}.c2{--c:#2a9d76}.c3{--c:#9467c9}.c4{--c:#b8860b}.c5{--c:#d0477f}.c6{--c:#7d7d7d}
.c7{--c:#1497ab}.light-change{--c:#c98a00}.covered{--c:#8a6d5b}.scene-change{--c:#d94a4a}.scene-return{--c:#2a9d76}
.fill{fill:var(--c,#7d7d7d)}.line{fill:none;stroke:var(--c)}.area{fill:var(--c);fill-opacity:.35;
stroke:var(--c)}i{display:inline-block;width:.8em;height:.8em;
background:var(--c,#7d7d7d);margin:0 .3em 0 .8em}.axis{position:relative;height:1.6em;overflow:hidden;
color:var(--faint);font-size:.85em}.axis span{position:absolute;border-left:1px solid;padding-left:.25em}
@media(max-width:640px){.axis span:nth-child(even){display:none}}
"""
_WIDTH = 1000.0  # of the axis, whatever the width of the page
_HIGH, _LOW = 90, 26  # heights of lanes, in pixels
_ROW, _MOST_ROWS = 9, 40  # of objects
_LAST_LABEL = 0.86  # of the axis: further to the right there is no room for one


class Charts:
    """The lanes of a timeline; `cards` are the numbers of the moments that links may lead to."""

    def __init__(self, timeline: Timeline, clock: Clock, cards: Iterable[int]) -> None:
        self._timeline, self._clock, self._cards = timeline, clock, set(cards)
        self._bars = longest(timeline.bars)
        self._moments = longest(timeline.moments)

    def lanes(self, moments: int) -> Iterator[str]:
        """Yield what happened, of so many moments with motion, as HTML."""
        timeline = self._timeline
        top = float(np.nanmax(timeline.share.points()[2], initial=1e-6))
        yield self._lane(f"Foreground, up to {top:.1%} of the picture", self._areas(timeline.share, top))
        yield self._lane(f"Moments with motion: {_shown(moments, len(self._moments))}", self._moment_bars(), _LOW)
        if timeline.marks:
            kinds = dict.fromkeys(mark.kind for mark in timeline.marks)
            legend = "".join(f'<i class="{escape(kind)}"></i>{escape(words(kind))}' for kind in kinds)
            bars = "".join(self._bar(mark, 0, _LOW, mark.kind, words(mark.kind)) for mark in timeline.marks)
            yield self._lane(f"The whole frame: {legend}", bars, _LOW)
        yield self._objects()
        if timeline.names:
            top = float(np.nanmax(timeline.counts.points()[2], initial=1))
            areas = self._areas(timeline.counts, top)
            yield self._lane(f"Objects in regions, up to {top:.0f}: {_legend(timeline.names)}", areas)
        yield self._axis()

    def coefficients(self) -> str:
        """Return the coefficients of the background as HTML; nothing where there are none."""
        series = self._timeline.coefficients
        if series is None:
            return ""
        _, low, high = series.points()
        bottom, top = float(np.nanmin(low, initial=0)), float(np.nanmax(high, initial=1e-6))
        names = [f"y{column + 1}" for column in range(series.columns)]
        title = f"From {bottom:.3g} to {top:.3g}: {_legend(names)}"
        return self._lane(title, self._lines(series, bottom, top)) + self._axis()

    def _x(self, place: float) -> float:
        start, end = self._clock.start, self._clock.end
        return float(min(max((place - start) / ((end - start) or 1), 0), 1) * _WIDTH)

    def _lane(self, title: str, inner: str, height: int = _HIGH) -> str:
        """Return a lane; `title` is HTML."""
        grid = "".join(f"M{self._x(place):.1f} 0V{height}" for place in self._clock.ticks())
        return (
            f'<figure class="lane"><figcaption>{title}</figcaption><svg viewBox="0 0 {_WIDTH:.0f} {height}" '
            f'height="{height}" preserveAspectRatio="none"><path class="grid" d="{grid}"/>{inner}</svg></figure>\n'
        )

    def _axis(self) -> str:
        places = [(self._x(place) / _WIDTH, place) for place in self._clock.ticks()]
        labels = [
            f'<span style="left:{100 * x:.2f}%">{escape(self._clock.at(place))}</span>'
            for x, place in places
            if x <= _LAST_LABEL
        ]
        return f'<div class="axis">{"".join(labels)}</div>\n'

    def _bar(self, bar: Bar, top: float, height: float, kind: str, name: str) -> str:
        left = self._x(bar.start)
        width = max(self._x(bar.end) - left, 2)
        text = f"{name}: {self._clock.at(bar.start)} to {self._clock.at(bar.end)}"
        return (
            f'<rect class="fill {escape(kind)}" x="{min(left, _WIDTH - width):.1f}" y="{top:g}" width="{width:.1f}" '
            f'height="{height:g}"><title>{escape(text)}</title></rect>'
        )

    def _moment_bars(self) -> str:
        bars = []
        for moment in self._moments:
            bar = self._bar(moment, 3, _LOW - 6, "c1", f"moment {moment.id}")
            bars.append(f'<a href="#moment-{moment.id}">{bar}</a>' if moment.id in self._cards else bar)
        return "".join(bars)

    def _objects(self) -> str:
        span = self._clock.end - self._clock.start
        rows = packed(self._bars, 0.003 * span)
        shown = [(bar, row) for bar, row in zip(self._bars, rows, strict=True) if row < _MOST_ROWS]
        height = _ROW * (max((row for _, row in shown), default=0) + 1)
        bars = (self._bar(bar, _ROW * row + 1, _ROW - 2, f"c{bar.id % 8}", f"object {bar.id}") for bar, row in shown)
        return self._lane(f"Objects: {_shown(self._timeline.objects, len(shown))}", "".join(bars), height)

    def _areas(self, series: Series, top: float) -> str:
        """Return the largest values of all columns of a series, each from 0 on."""
        times, _, high = series.points()
        heights = _HIGH - (_HIGH - 2) / top * high.T
        paths = (self._path(times, one) for one in heights)
        return "".join(f'<path class="area c{n % 8}" d="{path}V{_HIGH}H0Z"/>' for n, path in enumerate(paths) if path)

    def _lines(self, series: Series, bottom: float, top: float) -> str:
        """Return lines for all columns of a series, by its largest and, where these differ, its smallest values."""
        times, *edges = series.points()
        scale = 1 / ((top - bottom) or 1)
        lines = []
        for column in range(series.columns):
            heights = [_HIGH - (_HIGH - 2) * scale * (edge[:, column] - bottom) for edge in edges]
            paths = dict.fromkeys(self._path(times, height) for height in heights)
            lines += [f'<path class="line c{column % 8}" d="{path}"/>' for path in paths]
        return "".join(lines)

    def _path(self, times: np.ndarray, heights: np.ndarray) -> str:
        """Return steps: each value holds until the next one; there is nothing where one is NaN."""
        path, drawing = [], False
        for place, y in zip(times, heights, strict=True):
            x = f"{self._x(place):.1f}"
            if drawing:
                path.append(f"H{x}" if np.isnan(y) else f"H{x}V{y:.1f}")
            elif not np.isnan(y):
                path.append(f"M{x} {y:.1f}")
            drawing = not np.isnan(y)
        return "".join(path) + (f"H{_WIDTH:.0f}" if drawing else "")


def words(kind: str) -> str:
    """Return the name of an event as one writes it."""
    return kind.replace("-", " ")


def _shown(number: int, shown: int) -> str:
    return f"{number}" + ("" if shown >= number else f", of which the {shown} longest are shown")


def _legend(names: Iterable[str]) -> str:
    return "".join(f'<i class="c{number % 8}"></i>{escape(name)}' for number, name in enumerate(names))
