"""How much memory a decomposition takes."""

from __future__ import annotations

from collections.abc import Callable

from bgsub.numerics.memory import available_memory, in_words
from bgsub.robust_pca.parameters import default_rank

Tell = Callable[[str], None]

_MATRICES, _MASKS = 5.5, 4  # of the size of the samples at the peak of a fit with gaps; measured, see the tests


def needed_memory(shape: tuple[int, int], rank: int | None, itemsize: int) -> int:
    """Return the bytes that a decomposition of samples (n, m) takes at its peak, the samples themselves included.

    `rank` is by default that of `bgsub.robust_pca.parameters.default_rank`; `itemsize` the bytes of an entry: 4 or 8.
    """
    n, m = shape
    rank = default_rank(shape) if rank is None else rank
    bases = 8 * rank * (n + m) * itemsize  # basis, gradient, directions and their like
    return int(n * m * (_MATRICES * itemsize + _MASKS)) + bases


def tell_memory(name: str, size: str, needed: int, tell: Tell) -> None:
    """Say how much memory an input takes, and how much there is."""
    available = available_memory()
    of = "" if available is None else f" of {in_words(available)}"
    tell(f"{name}: {size} take about {in_words(needed)}{of} of memory")
