"""Real-time video background subtraction by robust subspace tracking on the Grassmannian.

The public names are imported when they are first used, so that ``import bgsub`` and ``bgsub --help`` answer
at once.
"""

from bgsub._faces import face

__getattr__, __dir__, __all__ = face(__name__, __file__)
