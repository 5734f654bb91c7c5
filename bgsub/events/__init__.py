"""Events: tracked objects, motion, regions, and their files, clips, pages and notifications."""

from bgsub._lazy_exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)
