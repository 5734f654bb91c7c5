"""Compare the objects of ``bgsub track`` with the known movers of synthetic scenes.

A mover counts if it covers at least 2.5e-4 of the picture in 5 frames. An object belongs to the mover that it covers in
most of its frames, and is false if it covers none in half of them. A mover without an object is merged if objects of
others cover it in half of its frames, and missed otherwise; each further object of a mover is a split. For SOURCES
(videos, folders of images), which have no ground truth, the script counts the objects and those that began in the start
phase. Usage: python scripts/events.py [SOURCE...] [--frames N] [--seeds N].
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import astuple, dataclass, fields
from itertools import islice
from typing import Any

import click
import numpy as np

from bgsub import BackgroundSubtractor, synthetic
from bgsub.errors import BgsubError
from bgsub.events import ObjectLinker
from bgsub.events.event import ObjectInFrame
from bgsub.jobs.simple import frames_per_second
from bgsub.video.sources.base import Frame
from bgsub.video.sources.opening import open_source

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

    def add(self, objects: Iterable[ObjectInFrame], movers: list[Movers]) -> None:
        """Add objects of any frames; `movers` are those of all frames so far."""
        for one in objects:
            x, y, w, h = one.box
            there = movers[one.frame].items()
            common = {key: np.count_nonzero(mask[y : y + h, x : x + w] & one.mask) for key, mask in there}
            owner = max(common, key=lambda key: common[key], default=None)
            self._owners[one.id][owner if owner and common[owner] >= _OWNED * one.area else None] += 1
            for key, pixels in common.items():
                self._covered[key] += 2 * pixels >= np.count_nonzero(movers[one.frame][key])

    def counts(self, movers: list[Movers]) -> Counts:
        """Return the counts after the last frame."""
        seen: Counter = Counter()
        for frame in movers:
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
    scorer, movers = ObjectScorer(), []
    for index, (image, _) in enumerate(scene):
        movers.append(scene.movers(index))
        scorer.add(linker.update(Frame(index, "", None, image), subtractor.process(image)), movers)
    return scorer.counts(movers)


def counted(source: str, frames: int | None) -> tuple[int, int]:
    """Return the numbers of objects, and of objects that began in the start phase."""
    with open_source(source) as opened:
        fps = frames_per_second(opened)
        subtractor, linker = BackgroundSubtractor(fps=fps), ObjectLinker(fps)
        starting, events = -1, []
        for frame in islice(opened, frames):
            separation = subtractor.process(frame.image)
            starting = frame.index if separation.phase == "start" else starting
            linker.update(frame, separation)
            events += linker.take_finished()
    events += linker.finish()
    return len(events), sum(event.start_frame <= starting for event in events)


@click.command()
@click.argument("sources", nargs=-1, metavar="[SOURCE...]")
@click.option("--frames", type=click.IntRange(1), help="Only the first frames; 500 of a scene.")
@click.option("--seeds", type=click.IntRange(0), default=2, show_default=True, help="Scenes of each kind.")
def main(sources: tuple[str, ...], frames: int | None, seeds: int) -> None:
    """Print the table of the scenes, then the objects of each SOURCE."""
    names = [column.name for column in fields(Counts)]
    total = Counts()
    click.echo(f"{'scene':22s}" + "".join(f"{name:>9s}" for name in names))
    for scene in SCENES if seeds else ():
        counts = sum((scored(scene, frames or 500, seed) for seed in range(seeds)), Counts())
        total += counts
        click.echo(f"{scene:22s}" + "".join(f"{number:9d}" for number in astuple(counts)))
    click.echo(f"{'all':22s}" + "".join(f"{number:9d}" for number in astuple(total)))
    for source in sources:
        try:
            objects, early = counted(source, frames)
        except BgsubError as error:
            raise click.ClickException(str(error)) from None
        click.echo(f"{source}: {objects} objects, {early} of them began in the start phase")


if __name__ == "__main__":
    main()
