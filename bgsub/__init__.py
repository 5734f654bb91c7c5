"""Real-time video background subtraction by robust subspace tracking on the Grassmannian.

The public names are imported when they are first used, so that ``import bgsub`` and ``bgsub --help`` answer
at once.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bgsub.detections import find_objects
    from bgsub.errors import BgsubError, DependencyError, ParameterError, SinkError, SourceError
    from bgsub.rpca import RobustPCA
    from bgsub.separation import Separation
    from bgsub.subtractor import BackgroundSubtractor
    from bgsub.tracker import SubspaceTracker
    from bgsub.video import open_source, process_video, separate

__version__ = "0.1.0"

_HOMES = {
    "BackgroundSubtractor": "bgsub.subtractor",
    "BgsubError": "bgsub.errors",
    "DependencyError": "bgsub.errors",
    "ParameterError": "bgsub.errors",
    "RobustPCA": "bgsub.rpca",
    "Separation": "bgsub.separation",
    "SinkError": "bgsub.errors",
    "SourceError": "bgsub.errors",
    "SubspaceTracker": "bgsub.tracker",
    "open_source": "bgsub.video",
    "find_objects": "bgsub.detections",
    "process_video": "bgsub.video",
    "separate": "bgsub.video",
}

__all__ = [
    "BackgroundSubtractor",
    "BgsubError",
    "DependencyError",
    "ParameterError",
    "RobustPCA",
    "Separation",
    "SinkError",
    "SourceError",
    "SubspaceTracker",
    "__version__",
    "find_objects",
    "open_source",
    "process_video",
    "separate",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'bgsub' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
