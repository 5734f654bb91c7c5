"""Events: objects followed through the video, regions that are watched, and files and pictures of both."""

from bgsub._lazy_exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)
