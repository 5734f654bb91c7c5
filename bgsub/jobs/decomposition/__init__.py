"""Robust PCA of whole files: videos, images and matrices in, their low-rank and sparse parts out."""

from bgsub._lazy_exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)
