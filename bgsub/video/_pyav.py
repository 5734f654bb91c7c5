"""Import PyAV after OpenCV: else OpenCV's windows hang on Linux (github.com/PyAV-Org/PyAV/issues/978)."""

import bgsub._opencv  # noqa: F401 - first

import av  # isort: skip

__all__ = ["ANY_METADATA", "av"]

#: Options of `av.open` for files with metadata that are not UTF-8; PyAV 19 always reads them.
ANY_METADATA = {"metadata_errors": "replace"} if int(av.__version__.split(".")[0]) < 19 else {}
