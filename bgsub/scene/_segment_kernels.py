"""From flags to a mask: solid regions, majority, small regions."""

import math

import numpy as np

from bgsub.numerics.jit import kernel, part
from bgsub.scene._frame_kernels import CHUNK, RECURRING, is_filled, sum_windows
from bgsub.scene._match_kernels import root_of
from bgsub.tracking._kernels import any_set

_MANY = 3.0  # new regions of about one area per frame: more are no objects
_BRIGHTER = 0.85  # share of their pixels that are brighter than the background: objects are darker, too
_WIDER = 8  # times the area of such regions: up to it new ones are erased
_SOLID = 0.3  # share of a region below which a hole in it is filled
_FILLED, _SHADED = 2, 4  # flags of such a hole, and of a region with shadow
_NEW = 0.5  # share of a region that was foreground before below which it is new
_SQUARE = 4  # pixels, side of a solid square


# -- noise -----------------------------------------------------------------------------------------------------------


@kernel
def find_solid(strong, filled, returns, work, solid):  # type: ignore[no-untyped-def]
    """Write the squares of 4 x 4 strong residuals, grown by two pixels, into `solid`; all (h, w) uint8 of 0 and 1.

    Except where a colour returns again and again, see `update_ages`.
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

    The border is repeated. `columns` (>= w + side,) and `counts` (>= w,) are uint16. Replaces `out_filled`, of `out`.
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
def remove_small_regions(x, l, mask, before, dark, filled, areas, counts, runs, rows, steps):  # type: ignore[no-untyped-def]
    """Erase regions below an area, 8-connected and with their holes, and fill small holes; 0 and 255.

    The three `areas` are this one, that of new regions, which is not smaller, and that of `count_new`. Less than half
    of a new region is in the mask `before`, which becomes the mask with all regions. A hole is small if its area is
    below the first one or, without shadow in it (`dark`), below a share of the region around it. Runs of equal pixels
    are joined to regions. `runs` (5, h w + 1) int32: first column, parent, pixels of the region, flags (at its root; 1
    if it touches the border), its pixels in `before`; `rows` (h + 1,): first run of a row; `steps` (>= w, 8 n) uint8.
    """
    h, w = mask.shape
    (area, least, _), begins, parents, sizes, border, seen = areas, runs[0], runs[1], runs[2], runs[3], runs[4]
    find_regions(mask, before, dark, filled, runs, rows, steps)
    for i in range(h):  # what is around a region is on the left of its first run
        for run in range(rows[i] + 1, rows[i + 1]):
            if parents[run] == run and mask[i, begins[run]] == 0 and border[run] & 1 == 0:
                share = 0.0 if border[run] & _SHADED else _SOLID * sizes[root_of(parents, run - 1)]
                border[run] = _FILLED if sizes[run] < max(area, share) else 0
    for i in range(h):
        for run in range(rows[i] + 1, rows[i + 1]):
            if parents[run] != run:
                continue
            around = root_of(parents, run - 1)
            if mask[i, begins[run]] == 0:
                sizes[around] += 0 if border[run] & 1 else sizes[run]  # a hole counts to its region
            elif border[around] == _FILLED:
                sizes[run] = seen[run] = area
    count_new(x, l, mask, areas, counts, runs, rows)
    for i in range(h):
        for run in range(rows[i], rows[i + 1]):
            root = root_of(parents, run)
            first, last = begins[run], begins[run + 1] if run + 1 < rows[i + 1] else w
            is_new = mask[i, first] != 0 and seen[root] < _NEW * sizes[root]
            if border[root] == _FILLED if mask[i, first] == 0 else sizes[root] < (least if is_new else area):
                mask[i, first:last] = 255 if mask[i, first] == 0 else 0
                filled[(i * w + first) // CHUNK : (i * w + last - 1) // CHUNK + 1] = 1


@part
def count_new(x, l, mask, areas, counts, runs, rows):  # type: ignore[no-untyped-def]
    """Write the numbers of new regions for each power of two of the area into `counts` (n,).

    The last two are the pixels of those up to the last of `areas`, and how many of these are brighter than `l`.
    """
    (area, _, largest), begins, parents, sizes, seen = areas, runs[0], runs[1], runs[2], runs[4]
    counts[:] = 0
    for i in range(mask.shape[0]):
        for run in range(rows[i], rows[i + 1]):
            root, first = root_of(parents, run), begins[run]
            if mask[i, first] == 0 or sizes[root] < area or seen[root] >= _NEW * sizes[root]:
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
def find_regions(mask, before, dark, filled, runs, rows, steps):  # type: ignore[no-untyped-def]
    """Find the regions of foreground and background; arguments as in `remove_small_regions`."""
    h, w = mask.shape
    begins, parents, sizes, border, seen = runs[0], runs[1], runs[2], runs[3], runs[4]
    steps[0], steps[w:], words = 0, 0, steps.view(np.uint64)
    count = 0
    for i in range(h):
        rows[i] = count
        line = mask[i]
        begins[count] = 0
        count += 1
        if is_filled(filled, i * w, (i + 1) * w):
            for j in range(1, w):
                steps[j] = line[j] != line[j - 1]
            for k in range(words.size):
                if words[k] != 0:
                    for j in range(8 * k, 8 * k + 8):
                        begins[count] = j
                        count += 1 if steps[j] != 0 else 0
        for run in range(rows[i], count):
            last = begins[run + 1] if run + 1 < count else w
            parents[run], sizes[run] = run, last - begins[run]
            border[run] = i == 0 or i == h - 1 or run == rows[i] or run == count - 1
            seen[run] = 0
            if line[begins[run]] != 0:
                for j in range(begins[run], last):
                    seen[run] += before[i, j] != 0
            elif any_set(dark[i, begins[run] : last]):
                border[run] |= _SHADED
        for j in range(w):
            before[i, j] = line[j]
        if i > 0:
            join_rows(mask[i - 1], line, i, count, runs, rows)
    rows[h] = count


@part
def join_rows(above, line, i, count, runs, rows):  # type: ignore[no-untyped-def]
    """Join the runs of row i to those of equal pixels above, foreground diagonally as well."""
    begins, parents, sizes, border, seen = runs[0], runs[1], runs[2], runs[3], runs[4]
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
                    seen[low] += seen[high]
                    border[low] |= border[high]
            other += 1
        upper = max(other - 2, rows[i - 1])


# -- the mask ---------------------------------------------------------------------------------------------------------


@kernel
def finish(x, l, mask, filled, dark, label, area, before, new, rate, largest, runs, rows, steps):  # type: ignore[no-untyped-def]
    """Clear the shadows `dark` in a mask, (h, w) of 0 and 255, remove small regions, and write the label of shadows.

    `new` (2, n) float64: running means, learned at a `rate`, and newest ones of the `counts` of new regions. Where
    there are many of an area, nearly all brighter than the background, as snow, these are removed, up to `largest`.
    """
    if label >= 0:
        paint(dark.reshape(-1), 0, mask.reshape(-1), filled)
    if area > 0:
        means, counts, least = new[0], new[1], 0
        for n in range(means.size - 2):
            if means[n] > _MANY and means[-1] > _BRIGHTER * means[-2]:
                least = min(_WIDER << n, largest)
        areas = area, max(least, area), largest
        remove_small_regions(x, l, mask, before, dark, filled, areas, counts, runs, rows, steps)
        for n in range(means.size):
            means[n] += rate * (counts[n] - means[n])
    if label > 0:
        paint(dark.reshape(-1), label, mask.reshape(-1), filled)


@part
def paint(where, value, image, filled):  # type: ignore[no-untyped-def]
    """Write `value` into the filled chunks of `image` where `where` is not zero; both (n,) uint8."""
    whole = image.size // CHUNK
    for q in range(whole):
        if filled[q] != 0:
            flags, pixels = where[q * CHUNK :], image[q * CHUNK :]
            for i in range(CHUNK):
                pixels[i] = value if flags[i] != 0 else pixels[i]
    for i in range(whole * CHUNK, image.size):
        image[i] = value if where[i] != 0 else image[i]
