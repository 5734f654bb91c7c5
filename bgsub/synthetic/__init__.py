"""Scenes with exact masks and matrices with known parts, computed on access.

Notes
-----
A seed gives the same bytes on every machine (matrices: up to the rounding of one product). No frame depends on the
length of the sequence or on other frames.
"""

from bgsub._lazy_exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)
