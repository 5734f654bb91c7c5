"""Scores as JSON and as CSV files, for programs."""

from __future__ import annotations

import csv
import io
import json
import math
import platform
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from bgsub._opencv import cv2
from bgsub._version import __version__
from bgsub.evaluation.run import Score
from bgsub.evaluation.summary import METRICS, Average, summarise
from bgsub.storage.atomic import write_whole

SCHEMA = "bgsub evaluation, version 1"

_COUNTS = ("tp", "fp", "fn", "tn", "shadow", "shadow_fp")
_HEADS = ("level", "category", "video", "method", "parts", "frames", "scored_frames")
_COLUMNS = (*_HEADS, *_COUNTS, *METRICS, "milliseconds_per_frame")


def format_json(scores: Iterable[Score], parameters: Mapping[str, Mapping[str, Any]] | None = None) -> str:
    """Return scores and their averages as JSON.

    Parameters
    ----------
    scores : iterable of Score
        One for each video and method.
    parameters : mapping, optional
        Parameters of each method, by its name.

    Returns
    -------
    str
        Indented by two; the fields are in the notes.

    Notes
    -----
    It is one object:

    - ``schema``: "bgsub evaluation, version 1";
    - ``versions``: of bgsub, opencv, numpy and python;
    - ``parameters``: an object of parameters for each method; empty means the method's own defaults;
    - ``videos``: a list of objects with ``category``, ``video``, ``method``, ``frames``, ``scored_frames``,
      the pixel counts ``tp``, ``fp``, ``fn``, ``tn``, ``shadow``, ``shadow_fp`` (`Confusion`), the metrics
      ``recall``, ``specificity``, ``fpr``, ``fnr``, ``pwc``, ``precision``, ``f_measure``, and
      ``milliseconds_per_frame``;
    - ``categories``: a list of objects with ``category``, ``method``, ``videos`` (how many), the means of the
      metrics, ``defined`` (of how many videos each metric is the mean) and ``milliseconds_per_frame``;
    - ``overall``: the same, with ``categories`` for their number, in the place of ``category`` and ``videos``.

    What is not defined is null.

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
        "categories": [_mean(average) for average in averages if average.category is not None],
        "overall": [_mean(average) for average in averages if average.category is None],
    }
    return json.dumps(content, indent=2, allow_nan=False)


def write_csv(path: str | Path, scores: Iterable[Score]) -> None:
    """Write scores and their averages as a CSV file with a head line, whole or not at all.

    Parameters
    ----------
    path : path
        The file; one that is there is replaced.
    scores : iterable of Score
        One for each video and method.

    Raises
    ------
    SinkError
        If the file cannot be written.

    Notes
    -----
    The column ``level`` tells lines of a ``video`` from means over a ``category`` and ``overall``; ``parts`` is
    how many videos or categories such a mean is over. The other columns are those of `format_json`. What is not
    defined, or has no meaning on a level, is empty.

    Examples
    --------
    >>> from bgsub.evaluation import Confusion, Score, write_csv
    >>> write_csv("scores.csv", [Score("street", "ours", Confusion(tp=3, fn=1, tn=96), frames=1)])
    >>> open("scores.csv").readline().split(",")[:4]
    ['level', 'category', 'video', 'method']
    """
    scores = list(scores)
    rows = [{"level": "video", **_video(score)} for score in scores]
    for average in summarise(scores):
        level = "overall" if average.category is None else "category"
        rows.append({"level": level, "parts": average.parts, **_mean(average)})
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, _COLUMNS, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_whole(Path(path), text.getvalue().encode(errors="replace"))


def versions() -> dict[str, str]:
    """Return the versions that a result depends on, by name."""
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
        **{name: getattr(score.confusion, name) for name in _COUNTS},
        **{name: _known(getattr(score.confusion, name)) for name in METRICS},
        "milliseconds_per_frame": _known(score.milliseconds),
    }


def _mean(average: Average) -> dict[str, Any]:
    parts = {"categories": average.parts}
    if average.category is not None:
        parts = {"category": average.category, "videos": average.parts}  # type: ignore[dict-item]
    return {
        **parts,
        "method": average.method,
        **{name: _known(value) for name, value in average.values.items()},
        "defined": average.defined,
        "milliseconds_per_frame": _known(average.milliseconds),
    }


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value
