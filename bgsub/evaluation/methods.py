"""The methods to compare: this package, OpenCV's subtractors and bgslibrary's, with default settings."""

from typing import TYPE_CHECKING, Protocol

import bgsub
from bgsub.errors import DependencyError, check_choice, import_optional

if TYPE_CHECKING:
    import numpy as np

OPENCV_METHODS = ("mog2", "knn", "cnt", "gmg", "gsoc", "lsbp", "mog")
#: Names for `make_method`; the names after ``knn`` need opencv-contrib-python.
METHODS = ("bgsub", *OPENCV_METHODS)

_PYBGS = {"subsense": "SuBSENSE", "vibe": "ViBe", "sigmadelta": "SigmaDelta"}
LIBRARY_METHODS = tuple(_PYBGS)  # names of bgslibrary's methods for `make_method`, which need pybgs


class Method(Protocol):
    """A background subtractor: frame in, mask out."""

    def apply(self, image: "np.ndarray") -> "np.ndarray":
        """Return the mask of the next frame, (h, w), uint8: foreground above 127."""


def make_method(name: str) -> Method:
    """Return a new method with default settings.

    Parameters
    ----------
    name : {"bgsub", "mog2", "knn", "cnt", "gmg", "gsoc", "lsbp", "mog", "subsense", "vibe", "sigmadelta"}
        This package, one of OpenCV's subtractors, or one of bgslibrary's.

    Raises
    ------
    ParameterError
        If there is no such method.
    DependencyError
        If OpenCV's extra modules or pybgs are needed and missing.

    Examples
    --------
    >>> import numpy as np
    >>> from bgsub.evaluation import make_method
    >>> make_method("mog2").apply(np.zeros((48, 64), np.uint8)).shape
    (48, 64)
    """
    check_choice("method", name, METHODS + LIBRARY_METHODS)
    if name == "bgsub":
        return bgsub.BackgroundSubtractor()
    if name in _PYBGS:
        return getattr(import_optional("pybgs", f"{name} needs bgslibrary: pip install pybgs"), _PYBGS[name])()
    from bgsub._opencv import cv2  # noqa: PLC0415 - the command line needs only the names

    constructor = f"createBackgroundSubtractor{name.upper()}"
    home = cv2 if name in ("mog2", "knn") else getattr(cv2, "bgsegm", None)
    if not hasattr(home, constructor):
        raise DependencyError(
            f"{name} needs OpenCV's extra modules, which the installed OpenCV {cv2.__version__} does not have; "
            "replace opencv-python by opencv-contrib-python"
        )
    return getattr(home, constructor)()
