"""Kernels that enlarge the mask of a reduced frame: blocks inside, pixel by pixel at the edges."""

from __future__ import annotations

import numpy as np

from bgsub.numerics.jit import kernel, part
from bgsub.scene._frame_kernels import CHUNK
from bgsub.separation import BACKGROUND, FOREGROUND, SHADOW
from bgsub.tracking._kernels import any_set

REACH = 1  # radius in reduced pixels
_WINDOW = 2 * REACH + 1
COUNT = _WINDOW * _WINDOW
_MIDDLE, SIDES = 4, (1, 3, 5, 7)  # of the places in a window, in reading order
SPREAD = 0.9  # standard deviation of the Gaussian weights around a place, reduced pixels
_PLACE = np.float32(0.7)  # weight of the place against that of the colour
_TOLERANCE = np.float32(0.04)  # insignificant joint distance, full scale is 1
_TOLERANCE2 = _TOLERANCE * _TOLERANCE
_PIECE, _MARGIN = 64, 3  # pixels: detail is copied in pieces of rows, at this distance from foreground
_ZERO, _ONE = np.float32(0), np.float32(1)


@kernel
def enlarge(  # type: ignore[no-untyped-def]
    begin, end, lanes, frame, frame_scale, small, picture, small_scale, mask, rows, columns, row_taper, column_taper,
    out, colours, weights, places, edges,
):  # fmt: skip
    """Write the full-size mask, `out` (H, W), of the reduced rows `begin` to `end`.

    `frame` (H, W, c); `small`, `picture` (h, w, c): reduced frame and background; `mask` (h, w); `rows` (h + 1,),
    `columns` (w + 1,): first full-size lines; `row_taper` (H, 3), `column_taper` (W, 3): weights of reduced lines;
    `colours` (3, c), `weights` (2, 4) float32, `places` (9,) uint64 and `edges` (CHUNK,) uint8 are work.
    """
    # an edge pixel is foreground if 0.7 (2 g - 1) + (b - f) / (b + f + 0.04) > 0: share g of foreground around it,
    # joint distances b and f from the nearer colour of the background and from the colour of the foreground
    h, w = mask.shape
    images = mask.reshape(-1), frame.reshape(-1), frame_scale, small.reshape(-1), picture.reshape(-1), small_scale
    for i in range(begin, end):
        above, here, below = mask[max(i - 1, 0)], mask[i], mask[min(i + 1, h - 1)]
        spread(here, columns, out, rows[i], rows[i + 1])
        for a in range(0, w, CHUNK):
            b = min(a + CHUNK, w)
            if not (any_set(above[a:b]) or any_set(here[max(a - 1, 0) : b + 1]) or any_set(below[a:b])):
                continue
            find_edges(above[a:b], here[a:b], below[a:b], edges)
            if a > 0:
                edges[0] |= here[a] ^ here[a - 1]
            if b < w:
                edges[b - a - 1] |= here[b - 1] ^ here[b]
            for j in range(a, b):
                if edges[j - a] != 0:
                    for n in range(COUNT):
                        row, column = i + n // _WINDOW - REACH, j + n % _WINDOW - REACH
                        places[n] = w * min(max(row, 0), h - 1) + min(max(column, 0), w - 1)
                    block = rows[i], rows[i + 1], columns[j], columns[j + 1]
                    decide(lanes, images, places, weights, colours, block, row_taper, column_taper, out)


@part
def spread(labels, columns, out, top, bottom):  # type: ignore[no-untyped-def]
    """Write each label, (w,) uint8, to its columns in the rows `top` to `bottom` of `out`."""
    w, first = labels.size, out[top]
    first[:] = BACKGROUND
    for a in range(0, w, CHUNK):
        if any_set(labels[a : a + CHUNK]):
            for j in range(a, min(a + CHUNK, w)):
                for x in range(columns[j], columns[j + 1]):
                    first[x] = labels[j]
    for y in range(top + 1, bottom):
        row = out[y]
        for x in range(row.size):
            row[x] = first[x]


@part
def decide(lanes, images, places, weights, colours, block, row_taper, column_taper, out):  # type: ignore[no-untyped-def]
    """Write the labels of the full-size pixels of one reduced pixel, the middle of `places`, into a block of `out`."""
    labels, pixels, scale, x, l, small_scale = images
    top, bottom, left, right = block
    is_mixed = gather_colours(lanes, x, l, small_scale, labels, places, weights, colours)
    for y in range(top, bottom):
        for column in range(left, right):
            g, s = shares_at(labels, places, row_taper[y], column_taper[column])
            first = np.uint64(y * out.shape[1] + column) * np.uint64(len(lanes))
            if is_mixed and is_foreground(lanes, pixels, first, scale, g, colours):
                out[y, column] = FOREGROUND
            else:
                out[y, column] = SHADOW if s + s > _ONE - g else BACKGROUND


@part
def find_edges(above, here, below, edges):  # type: ignore[no-untyped-def]
    """Write non-zero `edges` where a label, (n,) uint8, differs from one beside, above or below it."""
    n = here.size
    for j in range(n):
        edges[j] = (above[j] ^ here[j]) | (below[j] ^ here[j])
    left, right = here[: n - 1], here[1:n]
    for j in range(n - 1):
        edges[j] |= left[j] ^ right[j]
    later = edges[1:n]
    for j in range(n - 1):
        later[j] |= left[j] ^ right[j]


@part
def gather_colours(lanes, x, l, scale, labels, places, weights, colours):  # type: ignore[no-untyped-def]
    """Write the colours of the middle of `places` and beside it; return whether foreground and others are beside it."""
    # rows: background; foreground, weighted by the squared residual, as mixed pixels differ least; others, against it.
    # Diagonal neighbours make no difference.
    inside, outside = _ZERO, _ZERO
    for side in range(len(SIDES)):
        place, d2 = places[SIDES[side]], _ZERO
        for c in range(len(lanes)):
            k = place * np.uint64(len(lanes)) + np.uint64(c)
            d = scale * (np.float32(x[k]) - np.float32(l[k]))
            d2 += d * d
        is_inside = labels[place] == FOREGROUND
        weights[0, side] = d2 if is_inside else _ZERO
        weights[1, side] = _ZERO if is_inside else _TOLERANCE2 / (_TOLERANCE2 + d2)
        inside += weights[0, side]
        outside += weights[1, side]
    if inside <= 0 or outside <= 0:
        return False
    for c in range(len(lanes)):
        foreground, others = _ZERO, _ZERO
        for side in range(len(SIDES)):
            value = np.float32(x[places[SIDES[side]] * np.uint64(len(lanes)) + np.uint64(c)])
            foreground += weights[0, side] * value
            others += weights[1, side] * value
        colours[0, c] = scale * np.float32(l[places[_MIDDLE] * np.uint64(len(lanes)) + np.uint64(c)])
        colours[1, c] = scale * foreground / inside
        colours[2, c] = scale * others / outside
    return True


@part
def shares_at(labels, places, vertical, across):  # type: ignore[no-untyped-def]
    """Return the weighted shares of foreground and shadow at the `places` around a pixel."""
    foreground, shadow = _ZERO, _ZERO
    for a in range(_WINDOW):
        for b in range(_WINDOW):
            label, weight = labels[places[a * _WINDOW + b]], vertical[a] * across[b]
            foreground += weight if label == FOREGROUND else _ZERO
            shadow += weight if label == SHADOW else _ZERO
    return foreground, shadow


@part
def is_foreground(lanes, pixels, first, scale, share, colours):  # type: ignore[no-untyped-def]
    """Return whether a full-size pixel, at the entry `first`, is foreground by its colour and its place."""
    background, foreground, others = _ZERO, _ZERO, _ZERO
    for c in range(len(lanes)):
        v = scale * np.float32(pixels[first + np.uint64(c)])
        background += (v - colours[0, c]) ** 2
        foreground += (v - colours[1, c]) ** 2
        others += (v - colours[2, c]) ** 2
    b, f = np.sqrt(min(background, others)), np.sqrt(foreground)
    return _PLACE * (share + share - _ONE) * (b + f + _TOLERANCE) + (b - f) > _ZERO


@kernel
def update_detail(mask, frame, detail, top, bottom):  # type: ignore[no-untyped-def]
    """Copy the rows `top` to `bottom` from `frame` to `detail`, (H, W, c), except around foreground.  O(W c) per row.

    Foreground is where the mask, (H, W), is not 0.
    """
    h, w = mask.shape
    for i in range(top, bottom):
        for a in range(0, w, _PIECE):
            left, right, is_free = max(a - _MARGIN, 0), a + _PIECE + _MARGIN, True
            for row in (max(i - _MARGIN, 0), i, min(i + _MARGIN, h - 1)):
                is_free &= not any_set(mask[row, left:right])
            if is_free:
                source, target = frame[i, a : a + _PIECE].reshape(-1), detail[i, a : a + _PIECE].reshape(-1)
                for k in range(target.size):
                    target[k] = source[k]
