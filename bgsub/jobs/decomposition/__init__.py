"""Robust PCA of whole files: videos, images and matrices in, their low-rank and sparse parts out."""

from bgsub._faces import face

__getattr__, __dir__, __all__ = face(__name__, __file__)
