"""A run over time, as SVG in a page: each value a lane, all on one axis."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from html import escape

import numpy as np

from bgsub.events.summary.course import Clock
from bgsub.events.summary.timeline import Bar, Series, Timeline, longest, packed

# Where the number of a bar has no room, it goes, after a space of no width, to a line that nobody sees.
STYLE = """
.lane{margin:0 0 .7em}.lane figcaption{color:var(--faint)}
.plot{position:relative;margin-left:3em;background:var(--panel)}.plot svg{display:block;width:100%;height:100%}
.value{position:absolute;right:100%;transform:translateY(-50%);padding-right:.4em;color:var(--faint);
font-size:.75em;white-space:nowrap}
svg *{vector-effect:non-scaling-stroke}.grid{stroke:var(--line)}
.c0{--c:#3b82c4}.c1{--c:#d9722e}.c2{--c:#2a9d76}.c3{--c:#9467c9}.c4{--c:#b8860b}.c5{--c:#d0477f}.c6{--c:#7d7d7d}
.c7{--c:#1497ab}.light-change{--c:#c98a00}.covered{--c:#8a6d5b}.scene-change{--c:#d94a4a}.scene-return{--c:#2a9d76}
.mark{fill:var(--c,#7d7d7d);fill-opacity:.15;stroke:var(--c,#7d7d7d)}
.line{fill:none;stroke:var(--c)}.area{fill:var(--c);fill-opacity:.35;stroke:var(--c)}
.bar{position:absolute;min-width:2px;overflow:hidden;overflow-wrap:normal;background:var(--c,#7d7d7d);
color:#000;font-size:11px;text-align:center;text-decoration:none}
.bar:before{content:"\\200b"}
i{display:inline-block;width:.8em;height:.8em;background:var(--c,#7d7d7d);margin:0 .3em 0 .8em}
.axis{position:relative;height:1.4em;margin-left:3em;overflow:hidden;color:var(--faint)}
.axis span{position:absolute;border-left:1px solid;padding-left:.25em;font-size:.85em}
@media(max-width:640px){.axis span:nth-child(even){display:none}}
"""
_WIDTH = 1000.0  # of the axis, whatever the width of the page
_HIGH, _LOW = 90, 26  # heights of lanes, in pixels
_ROW, _MOST_ROWS = 14, 40  # of objects
_LAST_LABEL = 0.86  # of the axis: further to the right there is no room for one
_LAST_BAR = 0.998  # of the axis: a short one further to the right would stick out


@dataclass(frozen=True)
class _Scale:
    """The axis of values of a high lane."""

    bottom: float
    top: float
    percent: bool = False
    whole: bool = False  # whether there is nothing between the whole numbers

    def heights(self, values: np.ndarray) -> np.ndarray:
        """Return the places of values in the lane, in pixels from above."""
        return _HIGH - (_HIGH - 2) * (values - self.bottom) / ((self.top - self.bottom) or 1)

    def ticks(self) -> dict[float, str]:
        """Return the places of round values, five at most, and what they are called."""
        part = ((self.top - self.bottom) or 1) / 4
        power = 10.0 ** math.floor(math.log10(part))
        step = max(power * next(factor for factor in (1, 2, 5, 10) if factor * power >= part), float(self.whole))
        first, last = math.ceil(self.bottom / step - 1e-6), math.floor(self.top / step + 1e-6)
        values = np.arange(first, last + 1) * step
        texts = (f"{100 * value:g}%" if self.percent else f"{value:g}" for value in values)
        return dict(zip(self.heights(values).tolist(), texts, strict=True))


class Charts:
    """The lanes of a timeline; `cards` are the numbers of the moments that links may lead to."""

    def __init__(self, timeline: Timeline, clock: Clock, cards: Iterable[int]) -> None:
        self._timeline, self._clock, self._cards = timeline, clock, set(cards)
        self._bars = longest(timeline.bars)
        self._moments = longest(timeline.moments)

    def lanes(self, moments: int) -> Iterator[str]:
        """Yield what happened, of so many moments with motion, as HTML."""
        timeline = self._timeline
        top = float(np.nanmax(timeline.share.points()[2], initial=0))
        scale = _Scale(0, max(top, 1e-3), percent=True)
        yield self._graph(f"Foreground, up to {top:.1%} of the picture", scale, self._areas(timeline.share, scale))
        yield self._lane(f"Moments with motion: {_shown(moments, len(self._moments))}", self._moment_bars(), _LOW)
        if timeline.marks:
            kinds = dict.fromkeys(mark.kind for mark in timeline.marks)
            legend = "".join(f'<i class="{escape(kind)}"></i>{escape(words(kind))}' for kind in kinds)
            bars = "".join(self._bar(mark, 0, _LOW, mark.kind, words(mark.kind)) for mark in timeline.marks)
            yield self._lane(f"The whole frame: {legend}", bars, _LOW)
        yield self._objects()
        if timeline.names:
            top = float(np.nanmax(timeline.counts.points()[2], initial=1))
            scale = _Scale(0, top, whole=True)
            title = f"Objects in regions, up to {top:.0f}: {_legend(timeline.names)}"
            yield self._graph(title, scale, self._areas(timeline.counts, scale))
        yield self._axis()

    def coefficients(self) -> str:
        """Return the coefficients of the background as HTML; nothing where there are none."""
        series = self._timeline.coefficients
        if series is None:
            return ""
        _, low, high = series.points()
        scale = _Scale(float(np.nanmin(low, initial=0)), float(np.nanmax(high, initial=1e-6)))
        names = [f"y{column + 1}" for column in range(series.columns)]
        title = f"From {scale.bottom:.3g} to {scale.top:.3g}: {_legend(names)}"
        return self._graph(title, scale, self._lines(series, scale)) + self._axis()

    def _x(self, place: float) -> float:
        start, end = self._clock.start, self._clock.end
        return float(min(max((place - start) / ((end - start) or 1), 0), 1) * _WIDTH)

    def _graph(self, title: str, scale: _Scale, paths: str) -> str:
        """Return a lane with values; `title` is HTML."""
        ticks = scale.ticks()
        labels = "".join(f'<span class="value" style="top:{y:.0f}px">{text}</span>' for y, text in ticks.items())
        return self._lane(title, labels, _HIGH, paths, ticks)

    def _lane(self, title: str, inner: str, height: int, paths: str = "", ticks: Iterable[float] = ()) -> str:
        """Return a lane with bars or labels, in HTML, over what is drawn."""
        grid = [f"M{self._x(place):.1f} 0V{height}" for place in self._clock.ticks()]
        grid += [f"M0 {y:.1f}H{_WIDTH:.0f}" for y in ticks]
        return (
            f'<figure class="lane"><figcaption>{title}</figcaption><div class="plot" style="height:{height}px">'
            f'<svg viewBox="0 0 {_WIDTH:.0f} {height}" preserveAspectRatio="none">'
            f'<path class="grid" d="{"".join(grid)}"/>{self._marks(height)}{paths}</svg>{inner}</div></figure>\n'
        )

    def _marks(self, height: int) -> str:
        """Return the events of the whole frame through a lane: a line, or a band between two."""
        paths: dict[str, str] = {}
        for mark in self._timeline.marks:
            left, right = self._x(mark.start), self._x(mark.end)
            paths[mark.kind] = f"{paths.get(mark.kind, '')}M{left:.1f} 0V{height}H{right:.1f}V0Z"
        return "".join(f'<path class="mark {escape(kind)}" d="{path}"/>' for kind, path in paths.items())

    def _axis(self) -> str:
        places = [(self._x(place) / _WIDTH, place) for place in self._clock.ticks()]
        labels = [
            f'<span style="left:{100 * x:.2f}%">{escape(self._clock.at(place))}</span>'
            for x, place in places
            if x <= _LAST_LABEL
        ]
        return f'<div class="axis">{"".join(labels)}</div>\n'

    def _bar(self, bar: Bar, top: int, height: int, colour: str, name: str, number: str = "", link: str = "") -> str:
        left, right = self._x(bar.start) / _WIDTH, self._x(bar.end) / _WIDTH
        text = f"{name}: {self._clock.at(bar.start)} to {self._clock.at(bar.end)}"
        tag, target = ("a", f' href="{link}"') if link else ("span", "")
        return (
            f'<{tag}{target} class="bar {escape(colour)}" title="{escape(text)}" '
            f'style="left:{min(left, _LAST_BAR):.2%};width:{right - left:.2%};top:{top}px;'
            f'height:{height}px;line-height:{height}px">{number}</{tag}>'
        )

    def _moment_bars(self) -> str:
        links = {number: f"#moment-{number}" for number in self._cards}
        return "".join(
            self._bar(moment, 3, _LOW - 6, "c1", f"moment {moment.id}", f"{moment.id}", links.get(moment.id, ""))
            for moment in self._moments
        )

    def _objects(self) -> str:
        span = self._clock.end - self._clock.start
        rows = packed(self._bars, 0.003 * span)
        shown = [(bar, row) for bar, row in zip(self._bars, rows, strict=True) if row < _MOST_ROWS]
        height = _ROW * (max((row for _, row in shown), default=0) + 1)
        bars = "".join(
            self._bar(bar, _ROW * row + 1, _ROW - 2, f"c{bar.id % 8}", f"object {bar.id}", f"{bar.id}")
            for bar, row in shown
        )
        return self._lane(f"Objects: {_shown(self._timeline.objects, len(shown))}", bars, height)

    def _areas(self, series: Series, scale: _Scale) -> str:
        """Return the largest values of all columns of a series, each from 0 on."""
        times, _, high = series.points()
        paths = (self._path(times, one) for one in scale.heights(high.T))
        return "".join(f'<path class="area c{n % 8}" d="{path}V{_HIGH}H0Z"/>' for n, path in enumerate(paths) if path)

    def _lines(self, series: Series, scale: _Scale) -> str:
        """Return lines for all columns of a series, by its largest and, where these differ, its smallest values."""
        times, *edges = series.points()
        lines = []
        for column in range(series.columns):
            paths = dict.fromkeys(self._path(times, scale.heights(edge[:, column])) for edge in edges)
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
