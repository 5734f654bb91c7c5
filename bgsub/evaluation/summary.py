"""Averages over videos and categories, as changedetection.net defines them, and the table."""

from __future__ import annotations

import math
from collections.abc import Iterable
from collections.abc import Sequence as Listing
from dataclasses import dataclass

from bgsub.evaluation.run import Score

METRICS = ("recall", "specificity", "fpr", "fnr", "pwc", "precision", "f_measure")
"""The seven metrics of the site, attributes of `Confusion`."""

_HEADS = ("sequence", "method", "recall", "specificity", "FPR", "FNR", "PWC", "precision", "F", "ms/frame")


@dataclass(frozen=True)
class Average:
    """Mean of one method over the videos of a category, or over the categories.

    Attributes
    ----------
    category : str or None
        The category; None for the mean over all categories.
    method : str
        Name of the method.
    parts : int
        Number of videos, or of categories.
    values : dict
        Mean of each metric of `Confusion`, by its name, over the parts in which it is defined; nan where it is defined
        in none.
    defined : dict
        Number of those parts.
    milliseconds : float
        Mean time of one frame; nan where no method ran.
    """

    category: str | None
    method: str
    parts: int
    values: dict[str, float]
    defined: dict[str, int]
    milliseconds: float


def summarise(scores: Iterable[Score]) -> list[Average]:
    """Average as changedetection.net does: metrics, not pixels; over videos, then over categories.

    A category's value is the mean of its videos' values, the overall value the mean of the categories' values.
    A metric that a video does not define (the recall where nothing moves, the precision where nothing was
    marked) is left out of that mean, and `Average.defined` tells how many videos are in it. The site's own tool
    ends with a division by zero there.

    Parameters
    ----------
    scores : iterable of Score
        One for each video and method.

    Returns
    -------
    list of Average
        For each category, in the order of its first score, one for each method; then overall.

    Examples
    --------
    >>> from bgsub.evaluation import Confusion, Score, summarise
    >>> good, bad = Confusion(tp=4, tn=96), Confusion(tp=1, fn=3, tn=96)
    >>> scores = [Score(name, "ours", found, 1) for name, found in (("street", good), ("lobby", bad))]
    >>> summarise(scores)[-1].values["recall"]
    0.625
    """
    scores = list(scores)
    categories = dict.fromkeys(score.category for score in scores)
    methods = dict.fromkeys(score.method for score in scores)
    averages = [
        _of_videos(category, method, videos)
        for category in categories
        for method in methods
        if (videos := [s for s in scores if (s.category, s.method) == (category, method)])
    ]
    return averages + [_of_categories(method, [a for a in averages if a.method == method]) for method in methods]


def _of_videos(category: str, method: str, videos: Listing[Score]) -> Average:
    values = {name: [getattr(score.confusion, name) for score in videos] for name in METRICS}
    return _average(category, method, values, [score.milliseconds for score in videos])


def _of_categories(method: str, categories: Listing[Average]) -> Average:
    values = {name: [average.values[name] for average in categories] for name in METRICS}
    return _average(None, method, values, [average.milliseconds for average in categories])


def _average(category: str | None, method: str, values: dict[str, list[float]], times: list[float]) -> Average:
    means = {name: _mean(parts) for name, parts in values.items()}
    defined = {name: sum(not math.isnan(part) for part in parts) for name, parts in values.items()}
    return Average(category, method, len(times), means, defined, _mean(times))


def _mean(values: Iterable[float]) -> float:
    there = [value for value in values if not math.isnan(value)]
    return math.fsum(there) / len(there) if there else math.nan


def format_table(scores: Iterable[Score], averages: Iterable[Average] = ()) -> str:
    """Return the scores as a text table, one line each; ``-`` where a ratio is not defined.

    Parameters
    ----------
    scores : iterable of Score
        One line each; the category is named where there are several.
    averages : iterable of Average
        Of several sequences, as `summarise` returns them: the categories where there are several, and overall.
        Below the table stands of which means a video or a category had to be left out.

    Returns
    -------
    str
        Lines of equal columns, without an end of line after the last one.

    Examples
    --------
    >>> from bgsub.evaluation import Confusion, Score, format_table
    >>> print(format_table([Score("street", "ours", Confusion(tp=3, fn=1, tn=96), frames=1, milliseconds=2)]))
    sequence ...
    street ...
    """
    scores, averages = list(scores), list(averages)
    several = len({score.category for score in scores}) > 1
    rows: list[tuple[str, ...]] = [_HEADS]
    for score in scores:
        name = f"{score.category}/{score.sequence}" if several else score.sequence
        values = [getattr(score.confusion, metric) for metric in METRICS]
        rows.append((name, score.method, *_numbers(values, score.milliseconds)))
    alone = len({(score.category, score.sequence) for score in scores}) == 1
    # The mean over a single category is the mean of its videos, and the notes shall count those.
    shown = [] if alone else [a for a in averages if several or a.category is not None]
    titles = [_title(average) if several else "overall" for average in shown]
    for title, average in zip(titles, shown, strict=True):
        values = [average.values[metric] for metric in METRICS]
        rows.append((title, average.method, *_numbers(values, average.milliseconds)))
    notes = [note for title, average in zip(titles, shown, strict=True) for note in _notes(title, average)]
    return "\n".join([*_aligned(rows), *notes])


def _title(average: Average) -> str:
    return "overall" if average.category is None else f"mean of {average.category}"


def _numbers(values: Iterable[float], milliseconds: float) -> list[str]:
    return [*(_number(value, 4) for value in values), _number(milliseconds, 2)]


def _number(value: float, digits: int) -> str:
    return "-" if math.isnan(value) else f"{value:.{digits}f}"


def _aligned(rows: list[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[i]) for row in rows) for i in range(len(_HEADS))]
    return [
        "  ".join(
            cell.ljust(width) if i < 2 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def _notes(title: str, average: Average) -> list[str]:
    heads = dict(zip(METRICS, _HEADS[2:-1], strict=True))
    parts = "categories" if average.category is None else "videos"
    return [
        f"{title}, {average.method}: {heads[metric]} is the mean of the {count} "
        f"of {average.parts} {parts} that define it"
        for metric, count in average.defined.items()
        if 0 < count < average.parts
    ]
