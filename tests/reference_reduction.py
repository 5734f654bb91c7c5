"""Naive float64 twin of the enlargement of masks, pixel by pixel."""

import numpy as np

REACH, SPREAD, TOLERANCE, MIXED = 1, 0.9, 0.04, 0.3


def own(line, full, reduced):
    """Return the reduced line of the middle of a full-size one, and that middle in reduced lines."""
    middle = (line + 0.5) * reduced / full
    return int(np.floor(middle)), middle - 0.5


def trim(mask, small, picture):
    """Return a mask without outline pixels of little change beside that of two further inside."""
    h, w = mask.shape
    change, out = ((small - picture) ** 2).sum(axis=2), mask.copy()
    foreground = np.pad(mask == 255, 1, mode="edge")
    around = (foreground[:-2, 1:-1], foreground[2:, 1:-1], foreground[1:-1, :-2], foreground[1:-1, 2:])
    inner = np.logical_and.reduce((mask == 255, *around))
    for i, j in np.argwhere((mask == 255) & ~inner):
        above, below, left, right = (int(side[i, j]) for side in around)
        y, z = i + 2 * (below - above), j + 2 * (right - left)
        if 0 < y < h - 1 and 0 < z < w - 1 and inner[y, z]:
            inside = (change[(i + y) // 2, (j + z) // 2] + change[y, z]) / 2
            out[i, j] = 0 if change[i, j] < MIXED**2 * inside else 255
    return out


def enlarge(mask, frame, small, picture):
    """Return the full-size mask; the images, (h, w, c), in the unit range."""
    height, width = frame.shape[:2]
    mask = trim(mask, small, picture)
    out = np.empty((height, width), np.uint8)
    for y, x in np.ndindex(height, width):
        (i, v), (j, u) = own(y, height, mask.shape[0]), own(x, width, mask.shape[1])
        beside = np.append(mask[max(i - 1, 0) : i + 2, j], mask[i, max(j - 1, 0) : j + 2])
        differ = beside.min() < beside.max()
        out[y, x] = _decide(mask, frame[y, x], small, picture, (i, j), (v, u)) if differ else mask[i, j]
    return out


def _decide(mask, colour, small, picture, centre, place):
    h, w = mask.shape
    weights, labels, beside = 0.0, {0: 0.0, 127: 0.0, 255: 0.0}, []
    for a in range(centre[0] - REACH, centre[0] + REACH + 1):
        for b in range(centre[1] - REACH, centre[1] + REACH + 1):
            q = min(max(a, 0), h - 1), min(max(b, 0), w - 1)
            weight = np.exp(-((a - place[0]) ** 2 + (b - place[1]) ** 2) / (2 * SPREAD**2))
            weights += weight
            labels[int(mask[q])] += weight
            if abs(a - centre[0]) + abs(b - centre[1]) == 1 and mask[q] == 255:
                beside.append(small[q])
    if beside:
        f = np.linalg.norm(colour - np.mean(beside, axis=0))
        b = np.linalg.norm(colour - picture[centre])
        if labels[255] / weights > (f + TOLERANCE / 2) / (f + b + TOLERANCE):
            return 255
    return 127 if labels[127] > labels[0] else 0
