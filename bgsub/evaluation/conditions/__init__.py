"""Conditions with exact masks, derived from any labelled sequence, and grids of runs over them.

A known change of the frame changes the mask in a known way: light changes leave it, a moved camera moves it.
Timed events count from the first scored frame.
"""

from bgsub.evaluation.conditions._derived import Derived, Recording
from bgsub.evaluation.conditions._objects import load_background
from bgsub.evaluation.conditions._table import CONDITIONS, SCENES, Condition, derive, synthetic, transplant

__all__ = [
    "CONDITIONS",
    "SCENES",
    "Condition",
    "Derived",
    "Recording",
    "derive",
    "load_background",
    "synthetic",
    "transplant",
]
