"""The trackers of the lobby figures, and their results for each frame and each phase of the light."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from lobby_frames import GREY, MEMORY, Material, Switch
from lobby_people import People, shares

from bgsub import SubspaceTracker
from bgsub.evaluation import Confusion, confusion

RANK, FORGETTING = 2, 0.05
SURROGATES = ("atan", "log", "lp")
MUS = (2.0, 0.01)
LITERAL = {"metric": "canonical", "line_search": "sample", "gradient_carry": "unchanged"}
BOUNDED = "sample, t <= 1"
SEARCHES = {
    "sample": LITERAL,
    BOUNDED: LITERAL,
    "objective": {"metric": "scaled", "line_search": "objective", "gradient_carry": "model"},
}
SELF_TUNED = "self-tuned"
STILL = "median of the light"  # no tracker: what can be found at all

MEDIANS = ("residual_energy", "share_above", "background_error", "step_length", "found", "outside")
SCORES = ("precision", "recall", "f_measure")
Row = dict[str, object]


class Variant(NamedTuple):
    """A tracker: its line search and, unless it tunes itself, surrogate and mu."""

    surrogate: str
    mu: float | str
    variant: str


class Track(NamedTuple):
    """Backgrounds of the tracked frames, (n, h, w), float32, and their figures, one row per frame."""

    backgrounds: np.ndarray
    rows: list[Row]


SELF_TUNING = Variant("", "", SELF_TUNED)
VARIANTS = (*(Variant(s, mu, search) for s in SURROGATES for mu in MUS for search in SEARCHES), SELF_TUNING)
STILL_LIGHT = Variant("", "", STILL)


def tracker_of(variant: Variant) -> SubspaceTracker:
    """Return the tracker of a variant; a self-tuned one gets the rank only."""
    if variant == SELF_TUNING:
        return SubspaceTracker(rank=RANK)
    return SubspaceTracker(RANK, variant.surrogate, variant.mu, forgetting=FORGETTING, **SEARCHES[variant.variant])


def track(material: Material, people: People, variant: Variant, start: int, threshold: float) -> Track:
    """Track all frames after the first `start`, which are the batch start.

    Parameters
    ----------
    material : Material
        The frames.
    people : dict of int to ndarray, (n, 4), int
        Boxes of the people, by position of the frame.
    variant : Variant
        The tracker.
    start : int
        Number of frames of the batch start.
    threshold : float
        Residual, as an intensity, from which a pixel is foreground.

    Returns
    -------
    Track
        Its first frame is that at `start`.
    """
    count, height, width = material.frames.shape
    vectors = material.frames.reshape(count, -1)
    tracker = tracker_of(variant).fit(vectors[:start])
    backgrounds, rows = np.empty((count - start, height, width), np.float32), []
    for i in range(start, count):
        if variant.variant == BOUNDED:
            subspace = tracker.subspace_
            subspace.step_length = min(subspace.step_length or 0.5, 0.5)  # the search begins at twice this
        tracker.partial_fit(vectors[i])
        backgrounds[i - start] = tracker.low_rank_.reshape(height, width)
        figures = _figures(material, people, i, backgrounds[i - start], threshold)
        rows.append({**variant._asdict(), "frame": material.numbers[i], **figures, "step_length": tracker.step_length_})
    return Track(backgrounds, rows)


def still(material: Material, people: People, start: int, threshold: float) -> Track:
    """Return the results of the median of all frames under the same lamps, as `track` does; none within a switch."""
    count = len(material.frames)
    edges = [0, *(edge for begin, end in material.switches for edge in (begin, end + 1)), count]
    backgrounds = material.frames.copy()
    rows: list[Row] = [{**STILL_LIGHT._asdict(), "frame": number} for number in material.numbers]
    for a, b in zip(edges[::2], edges[1::2], strict=True):
        backgrounds[a:b] = np.median(material.frames[a:b], axis=0)
        for i in range(a, b):
            rows[i] |= _figures(material, people, i, backgrounds[i], threshold)
    return Track(backgrounds[start:], rows[start:])


def _figures(material: Material, people: People, i: int, background: np.ndarray, threshold: float) -> Row:
    """Return the figures of one frame; `confusion` and `boxes` are not written, errors are in grey levels."""
    residual = material.frames[i] - background
    above = np.abs(residual) > threshold
    out: Row = {"residual_energy": float(np.mean(residual.astype(np.float64) ** 2)), "share_above": float(above.mean())}
    if i in people:
        boxes, outside = shares(above, people[i])
        out |= {"boxes": boxes, "outside": outside} | ({"found": float(np.mean(boxes))} if boxes else {})
    if material.masks is None or material.empty is None:
        return out
    found = confusion((above * 255).astype(np.uint8), material.masks[i])
    error = GREY * float(np.sqrt(np.mean((background - material.empty[i]) ** 2)))
    return {**out, **_scores(found), "background_error": error, "confusion": found}


def _scores(found: Confusion) -> Row:
    return {name: getattr(found, name) for name in SCORES}


def phases(switches: Sequence[Switch], first: int, count: int) -> list[tuple[str, int, int]]:
    """Return the phases of the light: before, within and after each switch, and later than all.

    Parameters
    ----------
    switches : sequence of Switch
        First and last jump of each.
    first, count : int
        First tracked frame and number of frames.

    Returns
    -------
    list of (str, int, int)
        Name, first frame and the one after the last; "within" is from the first jump to the last, "after" the
        `MEMORY` frames that follow. None is empty, and together they are all frames.
    """
    names, cuts = [], [first]
    for begin, end in switches:
        names += ["before", "within", "after"]
        cuts += [begin, end + 1, end + 1 + MEMORY]
    cuts = np.clip(np.minimum.accumulate([*cuts, count][::-1])[::-1], first, count)  # "after" ends where lamps switch
    found = zip([*names, "later"], pairwise(int(cut) for cut in cuts), strict=True)
    return [(name, a, b) for name, (a, b) in found if a < b]


def summary(material: Material, rows: Sequence[Row], start: int) -> Iterator[Row]:
    """Yield the figures of one variant in each phase: medians over frames, scores of all pixels."""
    for phase, a, b in phases(material.switches, start, len(material.frames)):
        part = rows[a - start : b - start]
        out: Row = {name: part[0][name] for name in Variant._fields}
        out |= {"phase": phase, "first_frame": part[0]["frame"], "last_frame": part[-1]["frame"]}
        for name in MEDIANS:
            known = [row[name] for row in part if name in row]
            if known:
                out[name] = float(np.median(known))
        if "confusion" in part[0]:
            out |= _scores(sum((row["confusion"] for row in part), Confusion()))
        yield out


def persons(people: People, rows: Sequence[Row], start: int) -> Iterator[Row]:
    """Yield one row for each box, and one for each frame that is known to be empty, of one variant."""
    for i in sorted(at for at in people if at >= start):
        row = rows[i - start]
        kept = {name: value for name, value in row.items() if name != "found"}
        for box, found in zip(people[i], row["boxes"], strict=True):
            yield {**kept, "box": " ".join(map(str, box)), "found": found}
        if not row["boxes"]:
            yield kept
