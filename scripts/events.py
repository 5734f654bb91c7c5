"""Compare the objects of ``bgsub track`` with the known movers of synthetic scenes.

A mover counts if it covers at least 2.5e-4 of the picture in 5 frames. An object belongs to the mover that it covers in
most of its frames, and is false if it covers none in half of them. A mover without an object is merged if objects of
others cover it in half of its frames, and missed otherwise; each further object of a mover is a split. The movers of
labelled sequences are the objects that are found in their masks. Usage: python scripts/events.py [SEQUENCE...]
[--frames N] [--seeds N].
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import astuple, dataclass, fields, replace
from itertools import islice
from typing import Any

import click
import numpy as np

from bgsub import BackgroundSubtractor, synthetic
from bgsub.errors import BgsubError
from bgsub.evaluation.metrics import MOVING, OUTSIDE
from bgsub.evaluation.sequences import Sequence, find_sequences
from bgsub.events import ObjectLinker
from bgsub.events.event import ObjectInFrame
from bgsub.video.sources.base import Frame

_LEAST_SHARE, _LEAST_FRAMES = 2.5e-4, 5  # smallest share of the picture, and number of frames, of a mover
_OWNED = 0.2  # share of an object's pixels that belong to its mover

SCENES: dict[str, dict[str, Any]] = {
    "lobby": {},
    "lobby crowd": {"walkers": 8, "empty_start": 0},
    "lobby wind": {"sway": 2.0},
    "street": {},
    "street wind": {"sway": 3.0},
    "street shaken": {"shake": 1.0},
    "street busy": {"walkers": 6, "empty_start": 0},
    "street large wind": {"size": (320, 240), "sway": 2.0, "empty_start": 0},
    "lobby empty wind": {"walkers": 0, "sway": 3.0},
    "street empty wind": {"walkers": 0, "sway": 3.0},
}

Movers = dict[tuple[int, ...], np.ndarray]


@dataclass
class Counts:
    """Numbers of movers, objects and errors."""

    movers: int = 0
    objects: int = 0
    missed: int = 0
    merged: int = 0
    split: int = 0
    false: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))


class ObjectScorer:
    """Compares objects with movers; objects of a frame may be confirmed later."""

    def __init__(self) -> None:
        self._owners: dict[int, Counter] = defaultdict(Counter)  # movers of each object, in frames
        self._covered: Counter = Counter()  # frames in which an object covers half of a mover

    def add(self, objects: Iterable[ObjectInFrame], movers: dict[int, Movers]) -> None:
        """Add objects of any frames; `movers` are those of each frame so far."""
        for one in objects:
            x, y, w, h = one.box
            there = movers[one.frame].items()
            common = {key: np.count_nonzero(mask[y : y + h, x : x + w] & one.mask) for key, mask in there}
            owner = max(common, key=lambda key: common[key], default=None)
            self._owners[one.id][owner if owner and common[owner] >= _OWNED * one.area else None] += 1
            for key, pixels in common.items():
                self._covered[key] += 2 * pixels >= np.count_nonzero(movers[one.frame][key])

    def counts(self, movers: dict[int, Movers]) -> Counts:
        """Return the counts after the last frame."""
        seen: Counter = Counter()
        for frame in movers.values():
            seen.update(key for key, mask in frame.items() if np.count_nonzero(mask) >= _LEAST_SHARE * mask.size)
        wanted = {key for key, frames in seen.items() if frames >= _LEAST_FRAMES}
        of_mover: Counter = Counter()
        for frames in self._owners.values():
            owner = max(frames, key=lambda key: frames[key] if key else -1)
            of_mover[owner if owner and 2 * frames[owner] >= frames.total() else None] += 1
        lost = [key for key in wanted if key not in of_mover]
        merged = sum(2 * self._covered[key] >= seen[key] for key in lost)
        split = sum(number - 1 for key, number in of_mover.items() if key)
        return Counts(len(wanted), len(self._owners), len(lost) - merged, merged, split, of_mover[None])


def scored(name: str, frames: int, seed: int) -> Counts:
    """Return the counts of a scene."""
    place, options = name.split(maxsplit=1)[0], SCENES[name]
    scene = synthetic.scene(place, length=frames, seed=seed, **options)
    subtractor, linker = BackgroundSubtractor(fps=float(scene.fps)), ObjectLinker(float(scene.fps))
    scorer, movers = ObjectScorer(), {}
    for index, (image, _) in enumerate(scene):
        movers[index] = scene.movers(index)
        scorer.add(linker.update(Frame(index, "", None, image), subtractor.process(image)), movers)
    return scorer.counts(movers)


def labelled(sequence: Sequence, frames: int | None) -> Counts:
    """Return the counts of a sequence; its movers are the objects that are found in its masks."""
    subtractor, linker, true_linker = BackgroundSubtractor(), ObjectLinker(), ObjectLinker()
    scorer, objects, movers = ObjectScorer(), [], {}
    for number, image in islice(sequence.frames(), frames):
        frame, separation, truth = Frame(number, "", None, image), subtractor.process(image), sequence.truth(number)
        if truth is not None:
            separation = replace(separation, mask=separation.mask * (truth != OUTSIDE))
        objects += linker.update(frame, separation)
        if truth is not None:
            movers[number] = {}
            mask = np.where(truth == MOVING, truth, np.uint8(0))
            for one in true_linker.update(frame, replace(separation, mask=mask, phase="tracking", event=None)):
                x, y, w, h = one.box
                mover = movers[one.frame].setdefault((one.id,), np.zeros(mask.shape, bool))
                mover[y : y + h, x : x + w] = one.mask
    scorer.add([one for one in objects if one.frame in movers], movers)
    return scorer.counts(movers)


@click.command()
@click.argument("sequences", nargs=-1, metavar="[SEQUENCE...]")
@click.option("--frames", type=click.IntRange(1), help="Only the first frames; 500 of a scene.")
@click.option("--seeds", type=click.IntRange(0), default=2, show_default=True, help="Scenes of each kind.")
def main(sequences: tuple[str, ...], frames: int | None, seeds: int) -> None:
    """Print the table of the scenes, and that of each labelled SEQUENCE."""
    names = [column.name for column in fields(Counts)]
    click.echo(f"{'scene':22s}" + "".join(f"{name:>9s}" for name in names))

    def row(name: str, counts: Counts) -> str:
        return f"{name:22s}" + "".join(f"{number:9d}" for number in astuple(counts))

    def show(rows: Iterable[tuple[str, Counts]]) -> None:
        total = Counts()
        for name, counts in rows:
            click.echo(row(name, counts))
            total += counts
        click.echo(row("all", total))

    if seeds:
        show((scene, sum((scored(scene, frames or 500, seed) for seed in range(seeds)), Counts())) for scene in SCENES)
    try:
        if sequences:
            show((one.name, labelled(one, frames)) for one in find_sequences(sequences))
    except BgsubError as error:
        raise click.ClickException(str(error)) from None


if __name__ == "__main__":
    main()
