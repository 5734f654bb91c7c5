"""Import PyAV in one place, after OpenCV: in the other order, OpenCV's windows hang on Linux [1]_.

References
----------
.. [1] https://github.com/PyAV-Org/PyAV/issues/978
"""

import bgsub._opencv  # noqa: F401 - first

import av  # isort: skip

__all__ = ["av"]
