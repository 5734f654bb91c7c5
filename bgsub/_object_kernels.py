"""The Numba passes over what stands still in the foreground."""

from __future__ import annotations

import numpy as np

from bgsub._jit import kernel

_ZERO = np.float32(0)


@kernel
def grow_old(x, mask, tolerance, anchor, age):  # type: ignore[no-untyped-def]
    """Count for how many frames each foreground pixel has shown the same colour.

    Parameters
    ----------
    x : ndarray, (n, c), float32
        Frame.
    mask : ndarray, (n,), uint8
        Foreground where it is 255.
    tolerance : float32
        Joint distance up to which a colour is the same.
    anchor : ndarray, (n, c), float32
        Colour that a pixel is compared with; follows slowly while it stands.
    age : ndarray, (n,), int32
        0 off the foreground, 1 in the first frame of a colour; changed in place.  O(n + c foreground).
    """
    limit = tolerance * tolerance
    for i in range(age.size):
        if mask[i] != 255:
            age[i] = 0
            continue
        total = _ZERO
        for c in range(x.shape[1]):
            s = x[i, c] - anchor[i, c]
            total += s * s
        if age[i] > 0 and total < limit:
            age[i] += 1
            for c in range(x.shape[1]):
                anchor[i, c] += np.float32(0.1) * (x[i, c] - anchor[i, c])
        else:
            age[i] = 1
            for c in range(x.shape[1]):
                anchor[i, c] = x[i, c]
