"""Where frames come from: video files, image sequences, cameras, arrays."""

from bgsub._faces import face

__getattr__, __dir__, __all__ = face(__name__, __file__)
