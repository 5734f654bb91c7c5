"""The pass that turns the mask of a reduced frame into one of full size: blocks inside, pixel by pixel at the edges.

Kernels: arrays and scalars in, outputs and workspaces last, no validation.
"""

from __future__ import annotations

import numpy as np

from bgsub.numerics.jit import kernel, part
from bgsub.scene._pixel_kernels import CHUNK
from bgsub.separation import BACKGROUND, FOREGROUND, SHADOW
from bgsub.tracking._kernels import any_set

REACH = 2  # reduced pixels on each side whose colours and labels count
WINDOW = 2 * REACH + 1
SPREAD = 0.9  # standard deviation of the Gaussian weights around a place, reduced pixels
_PLACE = np.float32(0.7)  # weight of the place against that of the colour
_TOLERANCE = np.float32(0.04)  # joint distance that tells nothing, full scale is 1
_DISTANCE2 = np.add.outer(np.arange(-REACH, REACH + 1) ** 2, np.arange(-REACH, REACH + 1) ** 2)
_TAPER = np.exp(-_DISTANCE2 / (2 * SPREAD**2)).astype(np.float32)


@kernel
def enlarge(
    begin: int,
    end: int,
    frame: np.ndarray,
    frame_scale: np.float32,
    small: np.ndarray,
    picture: np.ndarray,
    small_scale: np.float32,
    mask: np.ndarray,
    edges: np.ndarray,
    rows: np.ndarray,
    columns: np.ndarray,
    row_taper: np.ndarray,
    column_taper: np.ndarray,
    out: np.ndarray,
    labels: np.ndarray,
    votes: np.ndarray,
    colours: np.ndarray,
) -> None:
    """Write the full-size mask of the reduced rows `begin` to `end`.

    A full-size pixel at an edge is foreground where ``0.7 (2 g - 1) + (b - f) / (b + f + 0.04) > 0``: g the share of
    foreground around it, b and f its joint distances from the nearer colour of the background and from the colour
    of the foreground there.

    Parameters
    ----------
    begin, end : int
        Rows of the reduced mask.
    frame : ndarray, (H, W, c)
        Full-size frame.
    frame_scale, small_scale : float32
        Factors to the unit range, for the frame and for the two reduced images.
    small, picture : ndarray, (h, w, c), uint8 or float32
        Reduced frame and its background.
    mask : ndarray, (h, w), uint8
        0 background, 127 shadow, 255 foreground.
    edges : ndarray, (h, w), uint8
        Non-zero where the labels of the 3x3 around a pixel differ.
    rows, columns : ndarray, (h + 1,) and (w + 1,), int64
        First full-size row and column of each reduced one.
    row_taper, column_taper : ndarray, (H, 5) and (W, 5), float32
        Weights of the reduced rows and columns around a full-size one; they sum to one.
    out : ndarray, (H, W), uint8
        Receives the mask.
    labels, votes, colours : ndarray, (2, 5, 5), (2, 5) and (3, 4), float32
        Workspaces.
    """
    w = mask.shape[1]
    for i in range(begin, end):
        _spread(mask[i], columns, out[rows[i]])
        for y in range(rows[i] + 1, rows[i + 1]):
            out[y] = out[rows[i]]
        for a in range(0, w, CHUNK):
            b = min(a + CHUNK, w)
            if not any_set(edges[i, a:b]):
                continue
            for j in range(a, b):
                if edges[i, j] == 0:
                    continue
                _gather_labels(mask, i, j, labels)
                mixed = _gather_colours(small, picture, small_scale, i, j, labels[0], colours)
                block = slice(rows[i], rows[i + 1]), slice(columns[j], columns[j + 1])
                vertical, across = row_taper[block[0]], column_taper[block[1]]
                _decide(frame[block], frame_scale, mixed, labels, vertical, across, colours, out[block], votes)


@part
def _spread(labels: np.ndarray, columns: np.ndarray, row: np.ndarray) -> None:
    """Write each label, (w,) uint8, to its full-size pixels of one row, (W,) uint8."""
    for a in range(0, labels.size, CHUNK):
        b = min(a + CHUNK, labels.size)
        row[columns[a] : columns[b]] = BACKGROUND
        if any_set(labels[a:b]):
            for j in range(a, b):
                for x in range(columns[j], columns[j + 1]):
                    row[x] = labels[j]


@part
def _decide(
    block: np.ndarray,
    scale: np.float32,
    mixed: bool,
    labels: np.ndarray,
    row_taper: np.ndarray,
    column_taper: np.ndarray,
    colours: np.ndarray,
    out: np.ndarray,
    votes: np.ndarray,
) -> None:
    """Write the labels of the full-size pixels, (n, n', c), of one reduced pixel.

    Only where foreground and others are `mixed` can the colour decide; of the others the more frequent one wins.
    """
    for y in range(out.shape[0]):
        _count(labels, row_taper[y], votes)
        for x in range(out.shape[1]):
            g, s = _share(votes[0], column_taper[x]), _share(votes[1], column_taper[x])
            if mixed and _is_foreground(block[y, x], scale, g, colours):
                out[y, x] = FOREGROUND
            else:
                out[y, x] = SHADOW if 2 * s > 1 - g else BACKGROUND


@part
def _gather_labels(mask: np.ndarray, i: int, j: int, labels: np.ndarray) -> None:
    """Write which reduced pixels around (i, j) are foreground and which shadow; the border is repeated outside."""
    h, w = mask.shape
    for a in range(WINDOW):
        for b in range(WINDOW):
            label = mask[min(max(i + a - REACH, 0), h - 1), min(max(j + b - REACH, 0), w - 1)]
            labels[0, a, b] = 1.0 if label == FOREGROUND else 0.0
            labels[1, a, b] = 1.0 if label == SHADOW else 0.0


@part
def _gather_colours(
    small: np.ndarray,
    picture: np.ndarray,
    scale: np.float32,
    i: int,
    j: int,
    foreground: np.ndarray,
    colours: np.ndarray,
) -> bool:
    """Write the colours around (i, j); return whether there are both foreground and others.

    The three colours, in the unit range: the background at (i, j); the mean of what is labelled foreground, weighted
    by its squared residual, for a mixed pixel on the edge differs least from the background; and the mean of the
    others, weighted against their residual, for they are mixed too: it knows shadows and light that the
    background does not know.
    """
    h, w, channels = small.shape
    colours[:] = 0.0
    inside, outside = np.float32(0.0), np.float32(0.0)
    for a in range(WINDOW):
        for b in range(WINDOW):
            p, q = min(max(i + a - REACH, 0), h - 1), min(max(j + b - REACH, 0), w - 1)
            d2 = np.float32(0.0)
            for c in range(channels):
                d = scale * (np.float32(small[p, q, c]) - np.float32(picture[p, q, c]))
                d2 += d * d
            if foreground[a, b] > 0:
                weight, row = _TAPER[a, b] * d2, 1
                inside += weight
            else:
                weight, row = _TAPER[a, b] * _TOLERANCE**2 / (_TOLERANCE**2 + d2), 2
                outside += weight
            for c in range(channels):
                colours[row, c] += weight * scale * small[p, q, c]
    if inside <= 0 or outside <= 0:
        return False
    for c in range(channels):
        colours[0, c] = scale * picture[i, j, c]
        colours[1, c] /= inside
        colours[2, c] /= outside
    return True


@part
def _count(labels: np.ndarray, taper: np.ndarray, votes: np.ndarray) -> None:
    """Write the weighted sums of the labels over the rows, (2, 5)."""
    votes[:] = 0.0
    for k in range(2):
        for a in range(WINDOW):
            for b in range(WINDOW):
                votes[k, b] += taper[a] * labels[k, a, b]


@part
def _share(votes: np.ndarray, taper: np.ndarray) -> np.float32:
    """Return the weighted sum over the columns."""
    total = np.float32(0.0)
    for b in range(WINDOW):
        total += taper[b] * votes[b]
    return total


@part
def _is_foreground(pixel: np.ndarray, scale: np.float32, share: np.float32, colours: np.ndarray) -> bool:
    """Return whether a full-size pixel, (c,), is foreground by its colour and its place."""
    background, foreground, others = np.float32(0.0), np.float32(0.0), np.float32(0.0)
    for c in range(pixel.size):
        x = scale * np.float32(pixel[c])
        background += (x - colours[0, c]) ** 2
        foreground += (x - colours[1, c]) ** 2
        others += (x - colours[2, c]) ** 2
    b, f = np.sqrt(min(background, others)), np.sqrt(foreground)
    return _PLACE * (2 * share - 1) + (b - f) / (b + f + _TOLERANCE) > 0
