"""Scores against ground truth: metrics of changedetection.net, sequences, comparison of methods.

`find_sequences` finds the sequences of a data set. `evaluate` runs a method on one, `score_results` scores stored
masks; both return a `Score`, and `compare` and `compare_results` do the same for many sequences. `summarise` averages
scores over videos and categories; `format_table`, `format_json` and `Sheet` present them.
"""

from bgsub._lazy_exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)
