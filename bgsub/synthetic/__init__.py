"""Scenes with exact masks and matrices with known parts, made on the spot.

Notes
-----
Random numbers come from ``Generator(PCG64(...))`` keyed by the seed and the frame number, and everything per
pixel is elementwise arithmetic that IEEE 754 rounds in one way only: a seed gives the same bytes on every
machine (matrices: the same up to the rounding of one product). No frame depends on the length of the sequence
or on the frames before it.
"""

from bgsub._lazy_exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)
