"""Video in and out: sources of frames, sinks of results, views."""

from bgsub._faces import face

__getattr__, __dir__, __all__ = face(__name__, __file__)
