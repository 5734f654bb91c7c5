"""Scores against exact masks: changedetection.net metrics, sequences and side-by-side runs.

`find_sequences` finds the sequences of a data set. `evaluate` runs a method on one, `score_results` scores
masks on disk; both give a `Score`, and `compare` and `compare_results` do the same for many sequences.
`summarise` averages scores over videos and categories as changedetection.net does; `format_table`,
`format_json`, `write_csv` and `Sheet` show them.
"""

from bgsub._lazy_exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)
