"""The picture of a timeline."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from bgsub.events.series import Series
from bgsub.events.timeline import Timeline, packed
from bgsub.separation import FrameEvent

_WIDTH, _DPI = 12.0, 110
_COLOURS = ("#1f77b4", "#d95f02", "#1b9e77", "#7b4fa3", "#b8860b", "#c2185b", "#4d4d4d", "#0097a7")
_MARKS: dict[str, str] = {
    FrameEvent.LIGHT_CHANGE: "#e6a100",
    FrameEvent.COVERED: "#444444",
    FrameEvent.SCENE_CHANGE: "#c62828",
    FrameEvent.SCENE_RETURN: "#2e7d32",
}
_OTHER_MARK = "#888888"
_MOST_ROWS = 40
_TITLE = 60  # characters that leave room for the names of the marks
_TEXT_WIDTH = 0.011  # of the axis, for one digit in a bar


def draw(timeline: Timeline, path: Path) -> None:
    """Draw a timeline into a PNG file; OSError where it cannot be written."""
    rows = packed(timeline.bars, 0.003 * (timeline.span[1] - timeline.span[0]))
    shown = min(max(rows, default=0) + 1, _MOST_ROWS)
    panels: list[tuple[float, Any]] = [(1.5, _foreground)]
    if timeline.coefficients is not None:
        panels.append((1.7, _coefficients))
    panels.append((max(0.8, 0.35 + 0.17 * shown), lambda axes, line: _objects(axes, line, rows)))
    if timeline.names:
        panels.append((1.5, _regions))
    figure = Figure(figsize=(_WIDTH, sum(height for height, _ in panels) + 1.5), dpi=_DPI, layout="constrained")
    FigureCanvasAgg(figure)
    heights = [height for height, _ in panels]
    grid = figure.subplots(len(panels), 1, sharex=True, squeeze=False, gridspec_kw={"height_ratios": heights})[:, 0]
    for axes, (_, panel) in zip(grid, panels, strict=True):
        panel(axes, timeline)
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="x", color="#e4e4e4", linewidth=0.6)
        axes.set_axisbelow(True)
        axes.yaxis.label.set_size(9)
        axes.tick_params(labelsize=8)
        _mark(axes, timeline)
    figure.align_ylabels(list(grid))
    grid[-1].set_xlim(*timeline.span)
    grid[-1].set_xlabel("time in seconds" if timeline.timed else "frame", fontsize=9)
    _head(figure, timeline)
    figure.savefig(path, format="png", metadata={"Software": None})


def _head(figure: Any, timeline: Timeline) -> None:
    """Write the title, and what the marks mean, above the panels."""
    title = timeline.title if len(timeline.title) <= _TITLE else f"{timeline.title[: _TITLE - 3]}..."
    figure.suptitle(title, fontsize=12, x=0.01, ha="left")
    handles, labels = [], []
    for kind in dict.fromkeys(mark.kind for mark in timeline.marks):
        count = sum(mark.kind == kind for mark in timeline.marks)
        handles.append(figure.axes[0].plot([], [], color=_MARKS.get(kind, _OTHER_MARK), linewidth=1.5)[0])
        labels.append(f"{kind.replace('-', ' ')} ({count})")
    if handles:
        figure.legend(handles, labels, loc="outside upper right", ncols=len(handles), fontsize=8, frameon=False)


def _mark(axes: Any, timeline: Timeline) -> None:
    """Draw the events of the whole frame through a panel."""
    for mark in timeline.marks:
        colour = _MARKS.get(mark.kind, _OTHER_MARK)
        if mark.end > mark.start:
            axes.axvspan(mark.start, mark.end, color=colour, alpha=0.12, linewidth=0)
        axes.axvline(mark.start, color=colour, linewidth=0.9, alpha=0.8, zorder=1.5)


def _band(axes: Any, series: Series, column: int, colour: str, label: str | None = None) -> None:
    """Draw one value: a line where each stretch is one frame, and the range of the others filled."""
    times, low, high = series.points()
    axes.plot(times, high[:, column], color=colour, linewidth=0.9, label=label)
    if not np.array_equal(low[:, column], high[:, column], equal_nan=True):
        axes.plot(times, low[:, column], color=colour, linewidth=0.5)
        axes.fill_between(times, low[:, column], high[:, column], color=colour, alpha=0.45, linewidth=0)


def _foreground(axes: Any, timeline: Timeline) -> None:
    times, _, high = timeline.share.points()
    axes.fill_between(times, 0, high[:, 0], color=_COLOURS[0], alpha=0.25, linewidth=0)
    _band(axes, timeline.share, 0, _COLOURS[0])
    axes.set_ylim(0, max(1.08 * float(np.nanmax(high)), 1e-4))
    axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    axes.yaxis.set_major_locator(MaxNLocator(4))
    axes.set_ylabel("foreground")


def _coefficients(axes: Any, timeline: Timeline) -> None:
    series = timeline.coefficients
    assert series is not None
    for column in range(series.columns):
        _band(axes, series, column, _COLOURS[column % len(_COLOURS)], f"y{column + 1}")
    axes.set_ylabel("coefficients")
    axes.yaxis.set_major_locator(MaxNLocator(5))
    _legend(axes, series.columns)


def _objects(axes: Any, timeline: Timeline, rows: list[int]) -> None:
    span = timeline.span[1] - timeline.span[0]
    shown = min(max(rows, default=0) + 1, _MOST_ROWS)
    drawn = 0
    for bar, row in zip(timeline.bars, rows, strict=True):
        if row >= _MOST_ROWS:
            continue
        drawn += 1
        width = max(bar.end - bar.start, 0.0015 * span)
        axes.barh(row, width, left=bar.start, height=0.74, color=_COLOURS[bar.id % len(_COLOURS)], alpha=0.85)
        text = str(bar.id)
        if width > _TEXT_WIDTH * len(text) * span:
            middle = bar.start + width / 2
            axes.text(middle, row, text, ha="center", va="center", fontsize=7, color="white", clip_on=True)
    axes.set_ylim(shown - 0.4, -0.6)
    axes.set_yticks([])
    left_out = timeline.objects - drawn
    axes.set_ylabel(f"objects ({timeline.objects})")
    if left_out:
        note = f"{left_out} short ones not shown"
        axes.text(1, 1.01, note, transform=axes.transAxes, ha="right", va="bottom", fontsize=7, color="#666666")


def _regions(axes: Any, timeline: Timeline) -> None:
    times, _, high = timeline.counts.points()
    for column, name in enumerate(timeline.names):
        colour = _COLOURS[column % len(_COLOURS)]
        # Steps that lie on each other remain visible a little apart.
        axes.step(times, high[:, column] + 0.04 * column, where="post", color=colour, linewidth=1.1, label=name)
    axes.set_ylabel("in regions")
    axes.set_ylim(-0.1, max(1.2, 1.15 * float(np.nanmax(high, initial=0))))
    axes.yaxis.set_major_locator(MaxNLocator(4, integer=True))
    _legend(axes, len(timeline.names))


def _legend(axes: Any, entries: int) -> None:
    """Name the lines beside the panel, where they hide nothing."""
    if entries <= 12:
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=8, frameon=False, handlelength=1.2)
