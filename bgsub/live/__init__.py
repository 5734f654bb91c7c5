"""Cameras with a person in front: session, window, browser page, virtual camera."""

from bgsub._faces import face

__getattr__, __dir__, __all__ = face(__name__, __file__)
