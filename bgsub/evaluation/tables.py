"""Scores for people and programs: averages as on changedetection.net, text table and JSON."""

import json
import math
import platform
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from bgsub._opencv import cv2
from bgsub._version import __version__
from bgsub.evaluation.run import Score
from bgsub.events.tables import aligned

SCHEMA = "bgsub evaluation, version 1"

#: The seven metrics of changedetection.net, attributes of `Confusion`.
METRICS = ("recall", "specificity", "fpr", "fnr", "pwc", "precision", "f_measure")

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
        Mean of each metric of `Confusion` over the parts in which it is defined; nan if there are none.
    defined : dict
        Number of those parts for each metric.
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
    """Average metrics over videos, then over categories, as changedetection.net does.

    An undefined metric (recall without moving pixels, precision without detections) is left out of the mean;
    `Average.defined` counts the others. The tool of the site fails with a division by zero there.

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
    methods = dict.fromkeys(score.method for score in scores)
    averages = []
    for category in dict.fromkeys(score.category for score in scores):
        for method in methods:
            videos = [score for score in scores if (score.category, score.method) == (category, method)]
            if videos:
                parts = [{name: getattr(score.confusion, name) for name in METRICS} for score in videos]
                averages.append(_average(category, method, parts, [score.milliseconds for score in videos]))
    overall = []
    for method in methods:
        categories = [average for average in averages if average.method == method]
        times = [average.milliseconds for average in categories]
        overall.append(_average(None, method, [average.values for average in categories], times))
    return averages + overall


def _average(category: str | None, method: str, parts: list[dict[str, float]], times: list[float]) -> Average:
    means = {name: _mean(part[name] for part in parts) for name in METRICS}
    defined = {name: sum(not math.isnan(part[name]) for part in parts) for name in METRICS}
    return Average(category, method, len(parts), means, defined, _mean(times))


def _mean(values: Iterable[float]) -> float:
    known = [value for value in values if not math.isnan(value)]
    return math.fsum(known) / len(known) if known else math.nan


def format_table(scores: Iterable[Score], averages: Iterable[Average] = ()) -> str:
    """Return the scores as a text table of aligned lines, with ``-`` for an undefined ratio.

    Parameters
    ----------
    scores : iterable of Score
        One line each; the category is named if there are several.
    averages : iterable of Average
        Of several sequences, as `summarise` returns them. Notes below the table report the means that leave out
        videos or categories.

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
    notes = []
    if len({(score.category, score.sequence) for score in scores}) > 1:
        for average in averages:
            # The mean over a single category is the mean of its videos, which the notes count.
            if several or average.category is not None:
                title = f"mean of {average.category}" if several and average.category is not None else "overall"
                values = [average.values[metric] for metric in METRICS]
                rows.append((title, average.method, *_numbers(values, average.milliseconds)))
                notes += _notes(title, average)
    return "\n".join([*aligned(zip(*rows, strict=True), _HEADS[2:]), *notes])


def _numbers(values: Iterable[float], milliseconds: float) -> list[str]:
    pairs = [*((value, 4) for value in values), (milliseconds, 2)]
    return ["-" if math.isnan(value) else f"{value:.{digits}f}" for value, digits in pairs]


def _notes(title: str, average: Average) -> list[str]:
    heads = dict(zip(METRICS, _HEADS[2:-1], strict=True))
    parts = "categories" if average.category is None else "videos"
    return [
        f"{title}, {average.method}: {heads[metric]} is the mean of the {count} "
        f"of {average.parts} {parts} that define it"
        for metric, count in average.defined.items()
        if 0 < count < average.parts
    ]


def format_json(scores: Iterable[Score], parameters: Mapping[str, Mapping[str, Any]] | None = None) -> str:
    """Return scores and their averages as JSON, indented by two.

    Parameters
    ----------
    scores : iterable of Score
        One for each video and method.
    parameters : mapping, optional
        Parameters of each method, by its name.

    Notes
    -----
    The text is one object:

    - ``schema``: "bgsub evaluation, version 1";
    - ``versions``: of bgsub, opencv, numpy and python;
    - ``parameters``: an object of parameters for each method; empty means the method's own defaults;
    - ``videos``: a list of objects with ``category``, ``video``, ``method``, ``frames``, ``scored_frames``,
      the pixel counts ``tp``, ``fp``, ``fn``, ``tn``, ``shadow``, ``shadow_fp`` (`Confusion`), the metrics
      ``recall``, ``specificity``, ``fpr``, ``fnr``, ``pwc``, ``precision``, ``f_measure``, and
      ``milliseconds_per_frame``;
    - ``categories``: a list of objects with ``category``, ``method``, ``videos`` (their number), the means of the
      metrics, ``defined`` (the number of videos that define each metric) and ``milliseconds_per_frame``;
    - ``overall``: the same, with ``categories`` (their number) instead of ``category`` and ``videos``.

    Undefined values are null.

    Examples
    --------
    >>> import json
    >>> from bgsub.evaluation import Confusion, Score, format_json
    >>> text = format_json([Score("street", "ours", Confusion(tp=3, fn=1, tn=96), frames=1)])
    >>> json.loads(text)["videos"][0]["recall"]
    0.75
    """
    scores = list(scores)
    averages = summarise(scores)
    content = {
        "schema": SCHEMA,
        "versions": versions(),
        "parameters": {name: dict(values) for name, values in (parameters or {}).items()},
        "videos": [_video(score) for score in scores],
        "categories": [_mean_record(average) for average in averages if average.category is not None],
        "overall": [_mean_record(average) for average in averages if average.category is None],
    }
    return json.dumps(content, indent=2, allow_nan=False)


def versions() -> dict[str, str]:
    """Return the versions that affect a result, by name."""
    return {
        "bgsub": __version__,
        "opencv": cv2.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
    }


def _video(score: Score) -> dict[str, Any]:
    return {
        "category": score.category,
        "video": score.sequence,
        "method": score.method,
        "frames": score.length,
        "scored_frames": score.frames,
        **asdict(score.confusion),
        **{name: _defined(getattr(score.confusion, name)) for name in METRICS},
        "milliseconds_per_frame": _defined(score.milliseconds),
    }


def _mean_record(average: Average) -> dict[str, Any]:
    parts: dict[str, Any] = {"categories": average.parts}
    if average.category is not None:
        parts = {"category": average.category, "videos": average.parts}
    return {
        **parts,
        "method": average.method,
        **{name: _defined(value) for name, value in average.values.items()},
        "defined": average.defined,
        "milliseconds_per_frame": _defined(average.milliseconds),
    }


def _defined(value: float) -> float | None:
    return None if math.isnan(value) else value
