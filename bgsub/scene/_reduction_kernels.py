"""Kernels that enlarge the mask of a reduced frame: blocks inside, pixel by pixel at the edges."""

from __future__ import annotations

import numpy as np

from bgsub.numerics.jit import allocating_kernel, part
from bgsub.scene._frame_kernels import CHUNK
from bgsub.separation import BACKGROUND, FOREGROUND, SHADOW
from bgsub.tracking._kernels import any_set

REACH = 2  # radius in reduced pixels
WINDOW = 2 * REACH + 1
SPREAD = 0.9  # standard deviation of the Gaussian weights around a place, reduced pixels
_PLACE = np.float32(0.7)  # weight of the place against that of the colour
_TOLERANCE = np.float32(0.04)  # insignificant joint distance, full scale is 1
_DISTANCE2 = np.add.outer(np.arange(-REACH, REACH + 1) ** 2, np.arange(-REACH, REACH + 1) ** 2)
_TAPER = np.exp(-_DISTANCE2 / (2 * SPREAD**2)).astype(np.float32)


@allocating_kernel
def enlarge(  # type: ignore[no-untyped-def]
    begin, end, frame, frame_scale, small, picture, small_scale, mask, edges, rows, columns, row_taper, column_taper,
    out, labels, votes, colours,
):  # fmt: skip
    """Write the full-size mask, `out` (H, W), of the reduced rows `begin` to `end`.

    `frame` (H, W, c); `small`, `picture` (h, w, c): reduced frame and background; `mask`, `edges` (h, w); `rows` (h +
    1,), `columns` (w + 1,): first full-size lines; `row_taper` (H, 5), `column_taper` (W, 5): weights of reduced lines.
    """
    # an edge pixel is foreground if 0.7 (2 g - 1) + (b - f) / (b + f + 0.04) > 0: share g of foreground around it,
    # joint distances b and f from the nearer colour of the background and from the colour of the foreground
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
def _spread(labels, columns, row):  # type: ignore[no-untyped-def]
    """Write each label, (w,) uint8, to its full-size pixels of one row, (W,) uint8."""
    for a in range(0, labels.size, CHUNK):
        b = min(a + CHUNK, labels.size)
        row[columns[a] : columns[b]] = BACKGROUND
        if any_set(labels[a:b]):
            for j in range(a, b):
                for x in range(columns[j], columns[j + 1]):
                    row[x] = labels[j]


@part
def _decide(block, scale, mixed, labels, row_taper, column_taper, colours, out, votes):  # type: ignore[no-untyped-def]
    """Write the labels of the full-size pixels, (n, n', c), of one reduced pixel; colour decides if `mixed`."""
    for y in range(out.shape[0]):
        _count(labels, row_taper[y], votes)
        for x in range(out.shape[1]):
            g, s = _share(votes[0], column_taper[x]), _share(votes[1], column_taper[x])
            if mixed and _is_foreground(block[y, x], scale, g, colours):
                out[y, x] = FOREGROUND
            else:
                out[y, x] = SHADOW if 2 * s > 1 - g else BACKGROUND


@part
def _gather_labels(mask, i, j, labels):  # type: ignore[no-untyped-def]
    """Write which reduced pixels around (i, j) are foreground and which shadow; the border is replicated."""
    h, w = mask.shape
    for a in range(WINDOW):
        for b in range(WINDOW):
            label = mask[min(max(i + a - REACH, 0), h - 1), min(max(j + b - REACH, 0), w - 1)]
            labels[0, a, b] = 1.0 if label == FOREGROUND else 0.0
            labels[1, a, b] = 1.0 if label == SHADOW else 0.0


@part
def _gather_colours(small, picture, scale, i, j, foreground, colours):  # type: ignore[no-untyped-def]
    """Write the colours around (i, j) in the unit range; return whether foreground and others are present."""
    # rows: background; foreground, weighted by the squared residual, as mixed pixels differ least; others, against it
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
def _count(labels, taper, votes):  # type: ignore[no-untyped-def]
    """Write the weighted sums of the labels over the rows, (2, 5)."""
    votes[:] = 0.0
    for k in range(2):
        for a in range(WINDOW):
            for b in range(WINDOW):
                votes[k, b] += taper[a] * labels[k, a, b]


@part
def _share(votes, taper):  # type: ignore[no-untyped-def]
    """Return the weighted sum over the columns."""
    total = np.float32(0.0)
    for b in range(WINDOW):
        total += taper[b] * votes[b]
    return total


@part
def _is_foreground(pixel, scale, share, colours):  # type: ignore[no-untyped-def]
    """Return whether a full-size pixel, (c,), is foreground by its colour and its place."""
    background, foreground, others = np.float32(0.0), np.float32(0.0), np.float32(0.0)
    for c in range(pixel.size):
        x = scale * np.float32(pixel[c])
        background += (x - colours[0, c]) ** 2
        foreground += (x - colours[1, c]) ** 2
        others += (x - colours[2, c]) ** 2
    b, f = np.sqrt(min(background, others)), np.sqrt(foreground)
    return _PLACE * (2 * share - 1) + (b - f) / (b + f + _TOLERANCE) > 0
