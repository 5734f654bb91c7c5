"""From candidates to a mask: solid regions, majority filter, small regions, and the label of shadows."""

import math

import numpy as np

from bgsub.numerics.jit import kernel, part
from bgsub.scene._frame_kernels import CHUNK, RECURRING, is_filled, sum_windows
from bgsub.scene._match_kernels import root_of
from bgsub.tracking._kernels import any_set

_MANY = 3.0  # new regions of about one area per frame; more are snow, rain or insects, ...
_BRIGHTER = 0.85  # ... if more than this share of their pixels is brighter than the background, unlike objects
_WIDER = 8  # times this area: new regions up to that size are then removed
_SOLID = 0.3  # share of a region below which a hole in it is filled
_AT_BORDER, _TO_FILL, _WITH_SHADOW = 1, 2, 4  # flags of a region
_NEW = 0.5  # a region is new if less than this share of it was foreground in the frame before
_SQUARE = 4  # pixels, side of a solid square


@kernel
def find_solid(strong, filled, returns, work, solid):  # type: ignore[no-untyped-def]
    """Write the squares of 4 x 4 strong residuals, grown by two pixels, into `solid`; all (h, w) uint8 of 0 and 1.

    Pixels of a `RECURRING` colour (`returns`) are left out. The noise scale is not learned at solid pixels.
    """
    # noise rarely fills such squares, and the edges of objects are not noise; `work` (2, w + 10) uint8
    h, w = strong.shape
    solid[:] = 0
    if w < _SQUARE:
        return
    n = w - _SQUARE + 1
    squares, spread = work[0, :w], work[1, : w + 10]  # with a margin of 5 on both sides
    rows = 0  # successive ones that are not empty
    for i in range(h):
        rows = rows + 1 if is_filled(filled, i * w, (i + 1) * w) else 0
        if rows < _SQUARE:
            continue
        a, b, c, d = strong[i - 3], strong[i - 2], strong[i - 1], strong[i]
        for j in range(w):
            squares[j] = a[j] & b[j] & c[j] & d[j]
        spread[:] = 0
        for j in range(n):
            spread[j + 5] = squares[j] & squares[j + 1] & squares[j + 2] & squares[j + 3]
        if not any_set(spread):
            continue
        for j in range(w):
            near = spread[j] | spread[j + 1] | spread[j + 2] | spread[j + 3]
            squares[j] = near | spread[j + 4] | spread[j + 5] | spread[j + 6] | spread[j + 7]
        for row in range(max(i - 5, 0), min(i + 3, h)):
            target, often = solid[row], returns[row]
            for j in range(w):
                target[j] |= squares[j] & (often[j] < RECURRING)


# -- majority in a square --------------------------------------------------------------------------------------------


@kernel
def majority(flags, filled, side, columns, counts, out, out_filled):  # type: ignore[no-untyped-def]
    """Write 255 into `out` where most of the square around a pixel is set in `flags`, else 0; all (h, w) uint8.

    The border is repeated. `columns` (>= w + side,) and `counts` (>= w,) uint16: work. `out_filled` is that of `out`.
    """
    h, w = flags.shape
    half, limit, flat = side // 2, np.uint16(side * side // 2), out.reshape(-1)
    for q in range(out_filled.size):
        if out_filled[q] != 0:
            out_filled[q] = 0
            flat[q * CHUNK : (q + 1) * CHUNK] = 0
    sums = columns[half : half + w]
    sums[:] = 0
    rows = 0  # of the window that are not empty
    for row in range(-half, half):
        rows += add_row(flags, filled, min(max(row, 0), h - 1), 1, sums)
    for i in range(h):
        rows += add_row(flags, filled, min(i + half, h - 1), 1, sums)
        if rows > 0:
            columns[:half] = sums[0]
            columns[half + w : 2 * half + w] = sums[w - 1]
            sum_windows(columns[: 2 * half + w], side, counts[:w])
            for j in range(w):
                out[i, j] = 255 if counts[j] > limit else 0
            out_filled[i * w // CHUNK : ((i + 1) * w - 1) // CHUNK + 1] = 1
        rows -= add_row(flags, filled, min(max(i - half, 0), h - 1), -1, sums)
    find_filled(flat, out_filled)


@part
def find_filled(flags, filled):  # type: ignore[no-untyped-def]
    """Set `filled` to 0 for the whole chunks of `flags`, (n,) uint8, that are empty."""
    size = CHUNK // 8
    words = flags[: flags.size // CHUNK * CHUNK].view(np.uint64)
    for q in range(words.size // size):
        if filled[q] != 0:
            word = words[size * q]
            for i in range(1, size):
                word |= words[size * q + i]
            filled[q] = 1 if word != 0 else 0


@part
def add_row(flags, filled, i, sign, sums):  # type: ignore[no-untyped-def]
    """Add `sign` to `sums`, (w,) uint16, where row i of `flags`, (h, w) uint8, is set; return whether it is filled."""
    if not is_filled(filled, i * sums.size, (i + 1) * sums.size):
        return 0
    add_flags(flags[i], sign, sums)
    return 1


@part
def add_flags(flags, sign, sums):  # type: ignore[no-untyped-def]
    """Add `sign` to `sums`, (n,) uint16, where `flags`, (n,) uint8, is set."""
    one, none = np.uint16(1), np.uint16(0)
    if sign > 0:
        for j in range(sums.size):
            sums[j] += one if flags[j] != 0 else none
    else:
        for j in range(sums.size):
            sums[j] -= one if flags[j] != 0 else none


@kernel
def keep_still(strong, age, aged, least, mask, filled):  # type: ignore[no-untyped-def]
    """Set `mask` to 255 at strong residuals of an age of at least `least`; `filled`, of `mask`, is updated."""
    # `strong`, `mask` (h, w) uint8, `age` (h, w) uint16; `aged` (chunks,) uint8: 0 where a chunk has no age
    seen, ages, flat = strong.reshape(-1), age.reshape(-1), mask.reshape(-1)
    for q in range(aged.size):
        if aged[q] == 0:
            continue
        for p in range(q * CHUNK, min((q + 1) * CHUNK, flat.size)):
            if seen[p] != 0 and ages[p] >= least:
                flat[p] = 255
                filled[q] = 1


# -- small regions ---------------------------------------------------------------------------------------------------


@part
def remove_small_regions(x, l, mask, before, dark, filled, areas, counts, runs, rows, changes):  # type: ignore[no-untyped-def]
    """Erase small regions of a mask of 0 and 255, 8-connected and with their holes, and fill small holes.

    `areas`: least area of a region, that of a new one, which is not smaller, and the largest area of `count_new`. Less
    than half of a new region is in the mask `before`, which is replaced by the mask with all regions. A hole is small
    if its area is below the first one or, without shadow in it (`dark`), below a share of the region around it. Runs of
    equal pixels are joined to regions. `runs` (5, h w + 1) int32: first column, parent, and at the root of a region its
    pixels, flags, and pixels in `before`; `rows` (h + 1,): first run of a row; `changes` (>= w, 8 n) uint8: work.
    """
    h, w = mask.shape
    (area, least, _), begins, parents, sizes, flags, old = areas, runs[0], runs[1], runs[2], runs[3], runs[4]
    find_regions(mask, before, dark, filled, runs, rows, changes)
    for i in range(h):  # the run on the left of the first run of a hole belongs to the region around it
        for run in range(rows[i] + 1, rows[i + 1]):
            if parents[run] == run and mask[i, begins[run]] == 0 and flags[run] & _AT_BORDER == 0:
                share = 0.0 if flags[run] & _WITH_SHADOW else _SOLID * sizes[root_of(parents, run - 1)]
                flags[run] = _TO_FILL if sizes[run] < max(area, share) else 0
    for i in range(h):
        for run in range(rows[i] + 1, rows[i + 1]):
            if parents[run] != run:
                continue
            around = root_of(parents, run - 1)
            if mask[i, begins[run]] == 0:
                sizes[around] += 0 if flags[run] & _AT_BORDER else sizes[run]  # a hole is part of its region
            elif flags[around] == _TO_FILL:
                sizes[run] = old[run] = area
    count_new(x, l, mask, areas, counts, runs, rows)
    for i in range(h):
        for run in range(rows[i], rows[i + 1]):
            root = root_of(parents, run)
            first, last = begins[run], begins[run + 1] if run + 1 < rows[i + 1] else w
            is_new = mask[i, first] != 0 and old[root] < _NEW * sizes[root]
            if flags[root] == _TO_FILL if mask[i, first] == 0 else sizes[root] < (least if is_new else area):
                mask[i, first:last] = 255 if mask[i, first] == 0 else 0
                filled[(i * w + first) // CHUNK : (i * w + last - 1) // CHUNK + 1] = 1


@part
def count_new(x, l, mask, areas, counts, runs, rows):  # type: ignore[no-untyped-def]
    """Write how many new regions there are for each power of two of the area into `counts`, (n,).

    The last two: pixels of the new regions up to the last one of `areas`, and how many of these are brighter than `l`.
    """
    (area, _, largest), begins, parents, sizes, old = areas, runs[0], runs[1], runs[2], runs[4]
    counts[:] = 0
    for i in range(mask.shape[0]):
        for run in range(rows[i], rows[i + 1]):
            root, first = root_of(parents, run), begins[run]
            if mask[i, first] == 0 or sizes[root] < area or old[root] >= _NEW * sizes[root]:
                continue
            if root == run:
                counts[int(math.log2(sizes[root]))] += 1
            if sizes[root] <= largest:
                last = begins[run + 1] if run + 1 < rows[i + 1] else mask.shape[1]
                counts[-2] += last - first
                counts[-1] += brighter(x[i, first:last], l[i, first:last])


@part
def brighter(x, l):  # type: ignore[no-untyped-def]
    """Return how many pixels of `x` are brighter than those of `l`, both (n, c)."""
    count = 0
    for i in range(x.shape[0]):
        total = np.float32(0)
        for c in range(x.shape[1]):
            total += np.float32(x[i, c]) - np.float32(l[i, c])
        count += total > 0
    return count


@part
def find_regions(mask, before, dark, filled, runs, rows, changes):  # type: ignore[no-untyped-def]
    """Find the regions of foreground and background; arguments as in `remove_small_regions`."""
    h, w = mask.shape
    begins, parents, sizes, flags, old = runs[0], runs[1], runs[2], runs[3], runs[4]
    changes[0], changes[w:], words = 0, 0, changes.view(np.uint64)
    count = 0
    for i in range(h):
        rows[i] = count
        line = mask[i]
        begins[count] = 0
        count += 1
        if is_filled(filled, i * w, (i + 1) * w):
            for j in range(1, w):
                changes[j] = line[j] != line[j - 1]
            for k in range(words.size):
                if words[k] != 0:
                    for j in range(8 * k, 8 * k + 8):
                        begins[count] = j
                        count += 1 if changes[j] != 0 else 0
        for run in range(rows[i], count):
            last = begins[run + 1] if run + 1 < count else w
            parents[run], sizes[run] = run, last - begins[run]
            flags[run] = i == 0 or i == h - 1 or run == rows[i] or run == count - 1
            old[run] = 0
            if line[begins[run]] != 0:
                for j in range(begins[run], last):
                    old[run] += before[i, j] != 0
            elif any_set(dark[i, begins[run] : last]):
                flags[run] |= _WITH_SHADOW
        for j in range(w):
            before[i, j] = line[j]
        if i > 0:
            join_rows(mask[i - 1], line, i, count, runs, rows)
    rows[h] = count


@part
def join_rows(above, line, i, count, runs, rows):  # type: ignore[no-untyped-def]
    """Join the runs of row i to those of equal pixels in the row above; foreground also diagonally."""
    begins, parents, sizes, flags, old = runs[0], runs[1], runs[2], runs[3], runs[4]
    w = line.size
    upper = rows[i - 1]
    for run in range(rows[i], count):
        first, last = begins[run], begins[run + 1] if run + 1 < count else w
        reach = 1 if line[first] != 0 else 0
        while upper + 1 < rows[i] and begins[upper + 1] + reach <= first:
            upper += 1
        other = upper
        while other < rows[i] and begins[other] < last + reach:
            if above[begins[other]] == line[first]:
                a, b = root_of(parents, other), root_of(parents, run)
                if a != b:
                    low, high = min(a, b), max(a, b)
                    parents[high] = low
                    sizes[low] += sizes[high]
                    old[low] += old[high]
                    flags[low] |= flags[high]
            other += 1
        upper = max(other - 2, rows[i - 1])


# -- the mask ---------------------------------------------------------------------------------------------------------


@kernel
def finish(x, l, mask, filled, dark, label, area, before, new, rate, largest, runs, rows, changes):  # type: ignore[no-untyped-def]
    """Clear the shadows `dark` in a mask, (h, w) of 0 and 255, remove small regions, and write the label of shadows.

    `new` (2, n) float64: running means, learned at a `rate`, of `counts` of `count_new`, and the newest counts. If many
    are of one area and nearly all brighter than the background, as snow, new regions are removed, up to `largest`.
    """
    if label >= 0:
        paint(dark.reshape(-1), 0, mask.reshape(-1), filled)
    if area > 0:
        means, counts, least = new[0], new[1], 0
        for n in range(means.size - 2):
            if means[n] > _MANY and means[-1] > _BRIGHTER * means[-2]:
                least = min(_WIDER << n, largest)
        areas = area, max(least, area), largest
        remove_small_regions(x, l, mask, before, dark, filled, areas, counts, runs, rows, changes)
        for n in range(means.size):
            means[n] += rate * (counts[n] - means[n])
    if label > 0:
        paint(dark.reshape(-1), label, mask.reshape(-1), filled)


@part
def paint(where, value, image, filled):  # type: ignore[no-untyped-def]
    """Write `value` into the filled chunks of `image` where `where` is not 0; both (n,) uint8."""
    whole = image.size // CHUNK
    for q in range(whole):
        if filled[q] != 0:
            flags, pixels = where[q * CHUNK :], image[q * CHUNK :]
            for i in range(CHUNK):
                pixels[i] = value if flags[i] != 0 else pixels[i]
    for i in range(whole * CHUNK, image.size):
        image[i] = value if where[i] != 0 else image[i]
