"""Real-time video background subtraction by robust subspace tracking on the Grassmannian.

The public names are imported when they are first used, so that ``import bgsub`` and ``bgsub --help`` answer
at once.
"""

from bgsub._lazy_exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)
