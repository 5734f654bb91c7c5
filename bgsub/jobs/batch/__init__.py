"""Batches: any number of files, in processes of this machine or on a Dask cluster."""

from bgsub._lazy_exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)
