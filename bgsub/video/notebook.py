"""Show pictures and videos in a Jupyter notebook, an optional dependency."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from bgsub._opencv import cv2
from bgsub.errors import ParameterError, import_optional
from bgsub.separation import Separation
from bgsub.video.views import get_view, to_uint8

__all__ = ["Picture", "picture", "play"]


class Picture:
    """An image that a notebook shows if it is the last value of a cell.

    Parameters
    ----------
    image : ndarray, (h, w), (h, w, 3) or (h, w, 4), uint8, uint16 or floating
        Blue first.

    Examples
    --------
    >>> import numpy as np
    >>> from bgsub.video.notebook import Picture
    >>> Picture(np.zeros((48, 64, 3), np.uint8)).image.shape
    (48, 64, 3)
    """

    def __init__(self, image: np.ndarray) -> None:
        self.image = to_uint8(image)

    def _repr_png_(self) -> bytes:
        good, data = cv2.imencode(".png", self.image)
        if not good:
            raise ParameterError(f"no PNG can hold an image of shape {self.image.shape}")
        return bytes(data)


def picture(separation: Separation, view: str = "panel") -> Picture:
    """Return one view of a separation; a notebook shows it as the last value of a cell.

    Parameters
    ----------
    separation : Separation
        One frame.
    view : str, default "panel"
        One of `bgsub.video.VIEWS`.

    Raises
    ------
    ParameterError
        If the view is unknown.

    Examples
    --------
    >>> import bgsub
    >>> from bgsub.video.notebook import picture
    >>> frame, separation = next(bgsub.separate("video.mp4"))
    >>> picture(separation, "mask").image.shape
    (48, 64)
    """
    return Picture(get_view(view)(separation))


def play(separations: Iterable[tuple[Any, Separation]], view: str = "panel", every: int = 5) -> None:
    """Show the frames of ``bgsub.separate(...)`` as a video below the cell.

    Parameters
    ----------
    separations : iterable of (Frame, Separation)
        The frames; the iterator is consumed.
    view : str, default "panel"
        One of `bgsub.video.VIEWS`.
    every : int, default 5
        Show the first of each `every` frames.

    Raises
    ------
    DependencyError
        If IPython is missing.
    ParameterError
        If the view is unknown, or `every` is below 1.

    Examples
    --------
    >>> import bgsub
    >>> from bgsub.video.notebook import play
    >>> play(bgsub.separate("video.mp4"), "overlay")  # doctest: +SKIP
    """
    if every < 1:
        raise ParameterError(f"every must be at least 1, got {every!r}")
    get_view(view)
    display = import_optional("IPython.display", "play needs a notebook: pip install notebook").display
    handle = None
    for index, (_, separation) in enumerate(separations):
        if index % every:
            continue
        shown = picture(separation, view)
        if handle is None:
            handle = display(shown, display_id=True)
        else:
            handle.update(shown)
