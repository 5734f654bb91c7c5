"""Baselines of the experiments: short, faithful NumPy implementations, one method per file."""

from ._decomposition import Decomposition
from .accaltproj import accaltproj
from .ealm import ealm
from .godec import godec
from .grasta import Grasta, grasta
from .grouse import Grouse
from .ialm import ialm
from .incremental import IncrementalRobustPCA
from .norst import Norst
from .orpca import OnlineRobustPCA
from .petrels import Petrels
from .sparcs import sparcs

__all__ = [
    "Decomposition",
    "Grasta",
    "Grouse",
    "IncrementalRobustPCA",
    "Norst",
    "OnlineRobustPCA",
    "Petrels",
    "accaltproj",
    "ealm",
    "godec",
    "grasta",
    "ialm",
    "sparcs",
]
