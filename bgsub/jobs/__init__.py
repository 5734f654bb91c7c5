"""One input from end to end: what to make of it, the pipeline that does it, what comes out."""

from bgsub._lazy_exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)
