"""Naive float64 twin of the enlargement of masks, pixel by pixel."""

import numpy as np

REACH, SPREAD, PLACE, TOLERANCE = 1, 0.9, 0.7, 0.04


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
    weights, labels, sums, totals = 0.0, {0: 0.0, 127: 0.0, 255: 0.0}, np.zeros((2, colour.size)), np.zeros(2)
    for a in range(centre[0] - REACH, centre[0] + REACH + 1):
        for b in range(centre[1] - REACH, centre[1] + REACH + 1):
            q = min(max(a, 0), h - 1), min(max(b, 0), w - 1)
            weight = np.exp(-((a - place[0]) ** 2 + (b - place[1]) ** 2) / (2 * SPREAD**2))
            weights += weight
            labels[int(mask[q])] += weight
            d2 = np.sum((small[q] - picture[q]) ** 2)
            is_beside = abs(a - centre[0]) + abs(b - centre[1]) == 1
            weight = is_beside * (d2 if mask[q] == 255 else TOLERANCE**2 / (TOLERANCE**2 + d2))
            k = int(mask[q] == 255)
            sums[k] += weight * small[q]
            totals[k] += weight
    if totals.min() > 0:
        f = np.linalg.norm(colour - sums[1] / totals[1])
        b = min(np.linalg.norm(colour - sums[0] / totals[0]), np.linalg.norm(colour - picture[centre]))
        if PLACE * (2 * labels[255] / weights - 1) + (b - f) / (b + f + TOLERANCE) > 0:
            return 255
    return 127 if labels[127] > labels[0] else 0
