"""How much memory a decomposition takes, and whether there is as much."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from bgsub.errors import ParameterError
from bgsub.robust_pca.parameters import default_rank

Tell = Callable[[str], None]

_MATRICES, _MASKS = 5.5, 4  # of the size of the samples at the peak of a fit with gaps; measured, see the tests
_CGROUP = Path("/sys/fs/cgroup")


def needed_memory(shape: tuple[int, int], rank: int | None, itemsize: int) -> int:
    """Return the bytes that a decomposition of samples (n, m) takes at its peak, the samples themselves included.

    `rank` is by default that of `bgsub.robust_pca.default_rank`; `itemsize` the bytes of an entry: 4 or 8.
    """
    n, m = shape
    rank = default_rank(shape) if rank is None else rank
    bases = 8 * rank * (n + m) * itemsize  # basis, gradient, directions and their like
    return int(n * m * (_MATRICES * itemsize + _MASKS)) + bases


def available_memory() -> int | None:
    """Return the bytes that this process can still get; None where the system does not tell."""
    known = [found for found in (_of_system(), _of_group()) if found is not None]
    return min(known, default=None)


def check_memory(needed: int, what: str, remedy: str) -> None:
    """Raise ParameterError unless `needed` bytes are available; `remedy` says which options reduce them."""
    available = available_memory()
    if available is not None and needed > available:
        raise ParameterError(
            f"{what} needs about {in_words(needed)} of memory, {in_words(available)} are available; less takes {remedy}"
        )


def tell_memory(name: str, size: str, needed: int, tell: Tell) -> None:
    """Say how much memory an input takes, and how much there is."""
    available = available_memory()
    of = "" if available is None else f" of {in_words(available)}"
    tell(f"{name}: {size} take about {in_words(needed)}{of} of memory")


def in_words(count: int) -> str:
    """Return a number of bytes for a person: ``42 MB`` or ``1.3 GB``."""
    if count < 999_500_000:
        return f"{max(1, round(count / 1e6))} MB"
    return f"{count / 1e9:.1f} GB"


def _of_system() -> int | None:
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError):
        pass
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None


def _of_group() -> int | None:
    """Return what the limit of a container leaves."""
    try:
        limit, used = ((_CGROUP / name).read_text().strip() for name in ("memory.max", "memory.current"))
        return None if limit == "max" else max(int(limit) - int(used), 0)
    except (OSError, ValueError):
        return None
