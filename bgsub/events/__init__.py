"""Events: objects followed through the video, regions that are watched, and files and pictures of both."""

from bgsub._faces import face

__getattr__, __dir__, __all__ = face(__name__, __file__)
