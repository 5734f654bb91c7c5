"""Naive float64 twin of the enlargement of masks, pixel by pixel."""

import numpy as np

REACH, SPREAD, TOLERANCE = 1, 0.9, 0.04


def own(line, full, reduced):
    """Return the reduced line of the middle of a full-size one, and that middle in reduced lines."""
    middle = (line + 0.5) * reduced / full
    return int(np.floor(middle)), middle - 0.5


def enlarge(mask, frame, small, picture):
    """Return the full-size mask; the images, (h, w, c), in the unit range."""
    height, width = frame.shape[:2]
    out = np.empty((height, width), np.uint8)
    for y in range(height):
        for x in range(width):
            i, v = own(y, height, mask.shape[0])
            j, u = own(x, width, mask.shape[1])
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
