"""Any number of files with Dask: found, shared out among processes or machines, each done exactly once."""

from bgsub._lazy_exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)
