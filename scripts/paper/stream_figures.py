"""The figures of experiment 6: end angles against what varies, or angles against the number of samples."""

from __future__ import annotations

from collections.abc import Sequence

import figures
import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from stream_questions import Question, counts
from stream_results import Results
from stream_trackers import METHODS

LOWEST = 1e-7  # radians at the lower edge of all panels


def draw(question: Question, results: Results) -> figures.Figure:
    """Draw the results of one question: medians over seeds, and bands from the lowest to the highest."""
    if question.axis:
        return _ends(question, results)
    return _with_ranks(question, results) if "rank" in question.name else _curves(question, results)


def _ends(question: Question, results: Results) -> figures.Figure:
    figure, panels = figures.plt.subplots(1, len(question.panels), figsize=(11, 4.2), sharey=True)
    places = np.arange(len(question.labels))
    for axes, (title, cells) in zip(panels, question.panels.items(), strict=True):
        for name in question.methods:
            ends = [results.ends(cell, name) for cell in cells]
            _plot(axes, name, places, [end if end.size else np.array([np.nan]) for end in ends], marker="o", ms=4)
        axes.set(title=title, xlabel=question.axis, yscale="log", xticks=places, xticklabels=question.labels)
    panels[0].set_ylabel("largest principal angle at the end, rad")
    return _finished(figure, panels)


def _curves(question: Question, results: Results) -> figures.Figure:
    rows = (len(question.panels) + 1) // 2
    figure, panels = figures.plt.subplots(
        rows, 2, figsize=(11, 0.6 + 3.6 * rows), sharex=True, sharey=True, squeeze=False
    )
    for axes in panels[:, 0]:
        axes.set_ylabel("largest principal angle, rad")
    for axes, title in zip(panels.flat, question.panels, strict=True):
        _angles(axes, question, title, results)
    for axes in panels[-1]:
        axes.set_xlabel("samples")
    return _finished(figure, panels.flat)


def _with_ranks(question: Question, results: Results) -> figures.Figure:
    figure, panels = figures.plt.subplots(2, len(question.panels), figsize=(11, 5.6), sharex=True, sharey="row")
    for (upper, lower), (title, (cell,)) in zip(panels.T, question.panels.items(), strict=True):
        _angles(upper, question, title, results)
        after = np.array(counts(cell))
        lower.plot(after, np.where(after > cell.change, cell.rank_after, cell.rank), color="0.6", lw=4, alpha=0.5)
        for name in question.methods:
            _plot(lower, name, after, results.curves(cell, name, "ranks").T)
        lower.set_xlabel("samples")
        lower.yaxis.set_major_locator(MaxNLocator(integer=True))
    panels[0, 0].set_ylabel("largest principal angle, rad")
    panels[1, 0].set_ylabel("rank (grey: the true one)")
    return _finished(figure, panels[0])


def _angles(axes: Axes, question: Question, title: str, results: Results) -> None:
    """Draw the angles of one cell; on a linear axis where the subspace changes."""
    (cell,) = question.panels[title]
    for name in question.methods:
        _plot(axes, name, np.array(counts(cell)), results.curves(cell, name).T)
    axes.set(title=title, yscale="log", xscale="linear" if cell.change else "log")


def _plot(axes: Axes, name: str, x: np.ndarray, values: Sequence[np.ndarray], **look: object) -> None:
    """Draw medians and bands of a method; `values`: for every x those of the seeds, (seeds,)."""
    if not len(values):
        return
    method = METHODS[name]
    low, middle, high = ([float(statistic(value)) for value in values] for statistic in (np.min, np.median, np.max))
    axes.plot(x, middle, color=method.colour, ls=method.line, lw=1.5, label=name, **look)
    axes.fill_between(x, low, high, color=method.colour, alpha=0.12, lw=0)


def _finished(figure: figures.Figure, panels: Sequence[Axes]) -> figures.Figure:
    """Add grids, limits and one legend outside for all panels."""
    for axes in panels:
        axes.grid(alpha=0.3)
        axes.set_ylim(max(LOWEST, axes.get_ylim()[0]), 2)
    handles, names = panels[0].get_legend_handles_labels()
    if handles:
        figure.legend(handles, names, loc="outside right center", frameon=False, fontsize=8)
    return figure
