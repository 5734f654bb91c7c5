"""Robust PCA of whole matrices: `RobustPCA`, the batch half of the method."""

from bgsub._faces import face

__getattr__, __dir__, __all__ = face(__name__, __file__)
