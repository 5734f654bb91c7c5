"""The Numba passes over the colours that every pixel has shown, and for how long."""

from __future__ import annotations

import numpy as np

from bgsub.numerics.jit import kernel, part
from bgsub.scene._pixel_kernels import CHUNK, any_set

_ZERO = np.float32(0)
_FOLLOWS = np.float32(0.1)  # of the way to a new colour, per frame


@kernel
def count_all(begin, end, x, limit, most, colours, counts, last):  # type: ignore[no-untyped-def]
    """Count the colours of a frame, and put the one that was seen most in the first place.

    Parameters
    ----------
    begin, end : int
        The band of pixels.
    x : ndarray, (n, c), any real dtype
        Frame.
    limit : float32
        Squared joint distance, in the frame's unit, up to which a colour is the same.
    most : int
        Largest count.
    colours : ndarray, (q, n, c), float32
        Colours of each pixel, changed in place; they follow what is seen.
    counts : ndarray, (q, n), uint16
        For how many frames each was seen, after a frame that showed it as well; 0 where there is none.
    last : ndarray, (n,), uint8
        Which of them the frame before showed.  O(q c n).
    """
    for i in range(begin, end):
        k = np.uint8(match(x, i, 0, limit, colours, counts))
        if k == colours.shape[0]:
            k = renew(x, i, 1 if counts[0, i] > 0 else 0, colours, counts)
        else:
            confirm(x, i, k, last[i] == k, most, colours, counts)
        if k > 0 and counts[k, i] > counts[0, i]:
            swap(i, k, colours, counts)
            k = np.uint8(0)
        last[i] = k


@kernel
def count_rivals(begin, end, x, mask, over, limit, most, colours, counts, last, due):  # type: ignore[no-untyped-def]
    """Count the frames in which a mask confirms the background, and the colours of what it calls foreground.

    Parameters
    ----------
    begin, end, x, limit, most, colours, last
        As in `count_all`, but the first colour of a pixel is the background's, which is known elsewhere.
    mask : ndarray, (n,), uint8
        Background where it is 0, foreground where it is 255.
    counts : ndarray, (q, n), uint16
        As in `count_all`; where the first one has reached `most` there are no rivals.
    due : ndarray, (n,), uint8, output
        The number of the colour that the frame shows where it was seen for longer than the background, else 0.

    Returns
    -------
    int
        Number of pixels that are due.  O(n + q c foreground).
    """
    found = 0
    support = counts[0]
    for a in range(begin, end, CHUNK):
        b = min(a + CHUNK, end)
        for i in range(a, b):
            due[i] = 0
        for i in range(a, b):
            support[i] += np.uint16((mask[i] | over[i]) == 0 and support[i] < most)
        if not any_set(over[a:b]):
            last[a:b] = 0
            continue
        for i in range(a, b):
            if over[i] == 0:
                last[i] = 0
            if over[i] == 0 or support[i] >= most:
                continue
            k = np.uint8(match(x, i, 1, limit, colours, counts))
            if k == colours.shape[0]:
                k = renew(x, i, 1, colours, counts)
            else:
                confirm(x, i, k, last[i] == k, most, colours, counts)
            last[i] = k
            if counts[k, i] > 2 * support[i]:
                due[i] = k
                found += 1
    return found


@part
def match(x, i, first, limit, colours, counts):  # type: ignore[no-untyped-def]
    """Return which colour from `first` on is nearest to pixel i and within the limit, or their number if none is."""
    nearest, found = limit, colours.shape[0]
    for k in range(first, colours.shape[0]):
        if counts[k, i] == 0:
            continue
        total = _ZERO
        for c in range(x.shape[1]):
            s = np.float32(x[i, c]) - colours[k, i, c]
            total += s * s
        if total < nearest:
            nearest, found = total, k
    return found


@part
def confirm(x, i, k, again, most, colours, counts):  # type: ignore[no-untyped-def]
    """Let colour k of pixel i follow the frame, and count it where it is seen `again`."""
    for c in range(x.shape[1]):
        colours[k, i, c] += _FOLLOWS * (np.float32(x[i, c]) - colours[k, i, c])
    if again and counts[k, i] < most:
        counts[k, i] += np.uint16(1)


@part
def renew(x, i, first, colours, counts):  # type: ignore[no-untyped-def]
    """Put the frame's colour in the place of the one of pixel i, from `first` on, that was seen least; return which."""
    least = first
    for k in range(first + 1, colours.shape[0]):
        if counts[k, i] < counts[least, i]:
            least = k
    for c in range(x.shape[1]):
        colours[least, i, c] = x[i, c]
    counts[least, i] = 1
    return np.uint8(least)


@part
def swap(i, k, colours, counts):  # type: ignore[no-untyped-def]
    """Exchange colour k of pixel i for its first one."""
    counts[0, i], counts[k, i] = counts[k, i], counts[0, i]
    for c in range(colours.shape[2]):
        colours[0, i, c], colours[k, i, c] = colours[k, i, c], colours[0, i, c]


@kernel
def fill_in(begin, end, background, limit, frames):  # type: ignore[no-untyped-def]
    """Put the background in the place of what differs from it in some frames.

    Parameters
    ----------
    begin, end : int
        The band of pixels.
    background : ndarray, (n, c), float32
        In the unit of the frames.
    limit : ndarray, (n,), float32
        Joint distance up to which a pixel shows the background.
    frames : ndarray, (q, n, c), any real dtype
        Changed in place.  O(q n c).
    """
    half = np.float32(0.5)
    for f in range(frames.shape[0]):
        for i in range(begin, end):
            total = _ZERO
            for c in range(frames.shape[2]):
                s = np.float32(frames[f, i, c]) - background[i, c]
                total += s * s
            if total > limit[i] * limit[i]:
                for c in range(frames.shape[2]):
                    frames[f, i, c] = background[i, c]
