"""One input from end to end: what to make of it, the pipeline that does it, what comes out."""

from bgsub._faces import face

__getattr__, __dir__, __all__ = face(__name__, __file__)
