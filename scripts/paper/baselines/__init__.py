"""Baselines of the experiments: short, faithful NumPy implementations, one method per file."""

from ._decomposition import Decomposition
from .accaltproj import accaltproj
from .ealm import ealm
from .godec import godec
from .grasta import Grasta, grasta
from .grouse import Grouse
from .ialm import ialm
from .sparcs import sparcs

__all__ = ["Decomposition", "Grasta", "Grouse", "accaltproj", "ealm", "godec", "grasta", "ialm", "sparcs"]
