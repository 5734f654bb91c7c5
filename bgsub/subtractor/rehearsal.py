"""Learn the first frames of a file before it is processed from its beginning."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from bgsub.errors import ParameterError, SourceError

if TYPE_CHECKING:
    import numpy as np

#: The most frames of a rehearsal.
LONGEST = 500


def image_of(subtractor: Any, frame: Any) -> np.ndarray:
    """Return the image of a source's frame, after giving its time to the subtractor, if that takes times."""
    if hasattr(subtractor, "set_time"):
        subtractor.set_time(frame.time)
    image: np.ndarray = frame.image
    return image


def rehearse(subtractor: Any, frames: Iterable[np.ndarray]) -> None:
    """Let a subtractor rehearse, unless it has seen frames; an error ends this and will occur again in the run."""
    if hasattr(subtractor, "rehearse") and subtractor.empty():
        with suppress(SourceError, ParameterError):
            subtractor.rehearse(frames)
