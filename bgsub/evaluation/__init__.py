"""Scores against exact masks: changedetection.net metrics, sequences and side-by-side runs.

`find_sequences` finds the sequences of a data set. `evaluate` runs a method on one, `score_results` scores
masks on disk; both give a `Score`, and `compare` and `compare_results` do the same for many sequences.
`summarize` averages scores over videos and categories as changedetection.net does; `format_table`,
`write_json`, `write_csv` and `Sheet` show them.
"""

from bgsub.evaluation.batch import compare, compare_results
from bgsub.evaluation.methods import METHODS, Method, make_method
from bgsub.evaluation.metrics import Confusion, confusion
from bgsub.evaluation.output import write_csv, write_json
from bgsub.evaluation.overlay import error_image
from bgsub.evaluation.results import MaskWriter, find_masks, find_results
from bgsub.evaluation.run import Score, evaluate, score_results
from bgsub.evaluation.sequences import SceneSequence, Sequence
from bgsub.evaluation.sheet import Sheet
from bgsub.evaluation.summary import Average, format_table, summarize
from bgsub.evaluation.tree import find_sequences
from bgsub.evaluation.worst import WorstFrame, WorstFrames

__all__ = [
    "METHODS",
    "Average",
    "Confusion",
    "MaskWriter",
    "Method",
    "SceneSequence",
    "Score",
    "Sequence",
    "Sheet",
    "WorstFrame",
    "WorstFrames",
    "compare",
    "compare_results",
    "confusion",
    "error_image",
    "evaluate",
    "find_masks",
    "find_results",
    "find_sequences",
    "format_table",
    "make_method",
    "score_results",
    "summarize",
    "write_csv",
    "write_json",
]
