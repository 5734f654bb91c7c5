"""The background subtractor with OpenCV's interface: `BackgroundSubtractor`."""

from bgsub._faces import face

__getattr__, __dir__, __all__ = face(__name__, __file__)
