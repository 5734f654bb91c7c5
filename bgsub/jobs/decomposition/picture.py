"""One row of a part as an image."""

from __future__ import annotations

import numpy as np

from bgsub.jobs.decomposition.samples import FrameSamples


def picture(samples: FrameSamples, row: np.ndarray, sparse_picture: str = "") -> np.ndarray:
    """Return one row of a part, (m,), as an image of the frames' format."""
    if sparse_picture == "absolute":
        row = np.abs(row)
    elif sparse_picture == "offset":
        row = (1 + row) / 2
    if samples.format.dtype.startswith("float"):
        row = row.clip(0, 1)
    return samples.format.to_image(np.ascontiguousarray(row, np.float32))
