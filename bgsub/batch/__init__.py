"""Any number of files with Dask: found, shared out among processes or machines, each done exactly once."""

from __future__ import annotations

from bgsub.batch.dispatch import BatchResult
from bgsub.batch.manifest import Entry
from bgsub.batch.run import run_batch

__all__ = ["BatchResult", "Entry", "run_batch"]
