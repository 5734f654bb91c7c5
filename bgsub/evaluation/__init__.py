"""Scores against exact masks: changedetection.net metrics, sequences and side-by-side runs."""

from bgsub.evaluation.metrics import Confusion, confusion
from bgsub.evaluation.overlay import error_image
from bgsub.evaluation.run import METHODS, Score, evaluate, format_table, make_method, score_results
from bgsub.evaluation.sequences import SceneSequence, Sequence

__all__ = [
    "METHODS",
    "Confusion",
    "SceneSequence",
    "Score",
    "Sequence",
    "confusion",
    "error_image",
    "evaluate",
    "format_table",
    "make_method",
    "score_results",
]
