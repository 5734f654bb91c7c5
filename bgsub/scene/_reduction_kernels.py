"""Kernels that enlarge the mask of a reduced frame: blocks inside, pixel by pixel at the edges, which are trimmed."""

import numpy as np

from bgsub.numerics.jit import kernel, part
from bgsub.scene._frame_kernels import CHUNK, distance
from bgsub.separation import BACKGROUND, FOREGROUND, SHADOW
from bgsub.tracking._kernels import any_set

REACH = 1  # radius in reduced pixels
SPREAD = 0.9  # reduced pixels, standard deviation of the Gaussian weights of the labels around a full-size pixel
_WINDOW = 2 * REACH + 1
_MIXED = np.float32(0.3)  # an outline pixel with less than this share of the RMS difference inside is background
_TOLERANCE = np.float32(0.04)  # joint distance that is insignificant for the label, full scale is 1
_ZERO, _HALF, _ONE = np.float32(0), np.float32(0.5), np.float32(1)


@kernel
def trim(lanes, x, l, mask, edges, places, out):  # type: ignore[no-untyped-def]
    """Copy a mask, (h, w), without outline pixels that differ much less from the background than those further inside.

    Reduction mixes the colours of an object and of its background at the outline. `x`, `l` (h, w, c): frame and
    background; `edges` (>= w, a multiple of 8) uint8 and `places` (> w,) int64 are work.
    """
    h, w = mask.shape
    colours, others, words = x.reshape(-1), l.reshape(-1), edges.view(np.uint64)
    edges[w:] = 0
    for i in range(h):
        here, target = mask[i], out[i]
        for j in range(w):
            target[j] = here[j]
        if h < 3 or w < 3 or not any_set(here):
            continue
        find_edges(mask[max(i - 1, 0)], here, mask[min(i + 1, h - 1)], edges)
        count = 0
        for k in range(words.size):
            if words[k] != 0:
                for j in range(8 * k, min(8 * k + 8, w)):
                    places[count] = j
                    count += (edges[j] != 0) & (here[j] == FOREGROUND)
        for n in range(count):
            target[places[n]] = BACKGROUND if is_mixed(colours, others, len(lanes), mask, i, places[n]) else FOREGROUND


@part
def is_mixed(x, l, channels, mask, i, j):  # type: ignore[no-untyped-def]
    """Return whether an outline pixel differs much less from the background than the two further inside."""
    h, w = mask.shape
    down = np.int64(mask[min(i + 1, h - 1), j] == FOREGROUND) - np.int64(mask[max(i - 1, 0), j] == FOREGROUND)
    right = np.int64(mask[i, min(j + 1, w - 1)] == FOREGROUND) - np.int64(mask[i, max(j - 1, 0)] == FOREGROUND)
    y, z = min(max(i + 2 * down, 1), h - 2), min(max(j + 2 * right, 1), w - 2)
    labels = mask[y, z] & mask[y - 1, z] & mask[y + 1, z] & mask[y, z - 1] & mask[y, z + 1]
    is_inner = (labels == FOREGROUND) & (y == i + 2 * down) & (z == j + 2 * right)
    near = squared_change(x, l, channels, w, (i + y) // 2, (j + z) // 2)
    far = squared_change(x, l, channels, w, y, z)
    return is_inner & (squared_change(x, l, channels, w, i, j) < _MIXED * _MIXED / 2 * (near + far))


@part
def squared_change(x, l, channels, w, i, j):  # type: ignore[no-untyped-def]
    """Return the squared distance of a pixel from its background, float32."""
    first = np.uint64(channels * (i * w + j))
    return np.float32(distance(x, l, first, first, channels))


@kernel
def enlarge(  # type: ignore[no-untyped-def]
    begin, end, lanes, frame, frame_scale, small, picture, small_scale, mask, rows, columns, row_taper, column_taper,
    out, colours, foreground, shadow, edges,
):  # fmt: skip
    """Write the full-size mask, `out` (H, W), of the reduced rows `begin` to `end`.

    `frame` (H, W, c); `small`, `picture` (h, w, c): reduced frame and background; `mask` (h, w); `rows` (h + 1,),
    `columns` (w + 1,): first full-size lines; `row_taper` (H, 3), `column_taper` (W, 3): weights of reduced lines;
    `colours` (2, c), `foreground` and `shadow` (3, 3) float32 and `edges` (w,) uint8 are work.
    """
    # an edge pixel is foreground if g > (f + T / 2) / (f + b + T): share g of foreground around it, joint distances f
    # and b from the colours of the foreground beside it and of its background, T = 0.04
    h, w = mask.shape
    images = mask, frame.reshape(-1), frame_scale, small.reshape(-1), picture.reshape(-1), small_scale
    work = colours, foreground, shadow
    out[rows[begin] : rows[end]] = BACKGROUND
    last = -2  # last row up to i + 1 that has a label
    for i in range(max(begin - 2, -1), end):
        if i + 1 < h and any_set(mask[i + 1]):
            last = i + 1
        if i < begin or last < i - 1:
            continue
        above, here, below = mask[max(i - 1, 0)], mask[i], mask[min(i + 1, h - 1)]
        spread(here, columns, out, rows[i], rows[i + 1])
        find_edges(above, here, below, edges)
        for a in range(0, w, CHUNK):
            if not any_set(edges[a : a + CHUNK]):
                continue
            for j in range(a, min(a + CHUNK, w)):
                if edges[j] != 0:
                    block = rows[i], rows[i + 1], columns[j], columns[j + 1]
                    decide(lanes, images, i, j, work, block, row_taper, column_taper, out)


@part
def spread(labels, columns, out, top, bottom):  # type: ignore[no-untyped-def]
    """Write each label, (w,) uint8, that is not background to its columns in the rows `top` to `bottom` of `out`."""
    for a in range(0, labels.size, CHUNK):
        if not any_set(labels[a : a + CHUNK]):
            continue
        for j in range(a, min(a + CHUNK, labels.size)):
            if labels[j] == BACKGROUND:
                continue
            for y in range(top, bottom):
                for x in range(columns[j], columns[j + 1]):
                    out[y, x] = labels[j]


@part
def decide(lanes, images, i, j, work, block, row_taper, column_taper, out):  # type: ignore[no-untyped-def]
    """Write the labels of the full-size pixels of a reduced pixel into a block of `out`."""
    mask, pixels, scale, x, l, small_scale = images
    top, bottom, left, right = block
    colours, foreground, shadow = work
    h, w = mask.shape
    lines = max(i - 1, 0), i, min(i + 1, h - 1)
    has_shadow = False
    for a in range(_WINDOW):
        row = mask[lines[a]]
        for b in range(_WINDOW):
            label = row[min(max(j + b - REACH, 0), w - 1)]
            foreground[a, b] = _ONE if label == FOREGROUND else _ZERO
            shadow[a, b] = _ONE if label == SHADOW else _ZERO
            has_shadow |= label == SHADOW
    sides = w * lines[0] + j, w * i + max(j - 1, 0), w * i + min(j + 1, w - 1), w * lines[2] + j
    is_inside = foreground[0, 1], foreground[1, 0], foreground[1, 2], foreground[2, 1]
    has_colour = gather_colours(lanes, x, l, small_scale, w * i + j, sides, is_inside, colours)
    for y in range(top, bottom):
        g = sum_lines(foreground, row_taper[y])
        s = sum_lines(shadow, row_taper[y]) if has_shadow else (_ZERO, _ZERO, _ZERO)
        first = (y * out.shape[1] + left) * len(lanes)
        for column in range(left, right):
            t = column_taper[column]
            share = g[0] * t[0] + g[1] * t[1] + g[2] * t[2]
            if has_colour and is_foreground(lanes, pixels, np.uint64(first), scale, share, colours):
                out[y, column] = FOREGROUND
            else:
                other = s[0] * t[0] + s[1] * t[1] + s[2] * t[2]
                out[y, column] = SHADOW if other + other > _ONE - share else BACKGROUND
            first += len(lanes)


@part
def sum_lines(values, taper):  # type: ignore[no-untyped-def]
    """Return the sums of the columns of `values`, (3, 3), with the weights `taper`."""
    a, b, c = taper[0], taper[1], taper[2]
    return (
        a * values[0, 0] + b * values[1, 0] + c * values[2, 0],
        a * values[0, 1] + b * values[1, 1] + c * values[2, 1],
        a * values[0, 2] + b * values[1, 2] + c * values[2, 2],
    )


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
def gather_colours(lanes, x, l, scale, middle, sides, is_inside, colours):  # type: ignore[no-untyped-def]
    """Write the background of a pixel, and the mean colour of foreground beside it; return whether there is any."""
    # diagonal neighbours make no difference
    inside = is_inside[0] + is_inside[1] + is_inside[2] + is_inside[3]
    if inside == _ZERO:
        return False
    for c in range(len(lanes)):
        total = _ZERO
        for side in range(len(sides)):
            total += is_inside[side] * np.float32(x[np.uint64(sides[side] * len(lanes) + c)])
        colours[0, c] = scale * np.float32(l[np.uint64(middle * len(lanes) + c)])
        colours[1, c] = scale * total / inside
    return True


@part
def is_foreground(lanes, pixels, first, scale, share, colours):  # type: ignore[no-untyped-def]
    """Return whether the full-size pixel at the entry `first` is foreground by its colour and the `share` around it."""
    b, f = _ZERO, _ZERO
    for c in range(len(lanes)):
        v = scale * np.float32(pixels[first + np.uint64(c)])
        b += (v - colours[0, c]) ** 2
        f += (v - colours[1, c]) ** 2
    b, f = np.sqrt(b), np.sqrt(f)
    return share * (f + b + _TOLERANCE) > f + _HALF * _TOLERANCE
