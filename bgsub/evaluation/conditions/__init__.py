"""Conditions with exact masks, derived from any labelled sequence, and grids of runs over them.

A known change of the frame changes the mask in a known way: light changes leave it, a moved camera moves it.
Timed events count from the first scored frame.
"""

from bgsub._lazy_exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)
