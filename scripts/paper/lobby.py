"""Experiment 5, the two lobby figures: background and foreground at mu = 2 and mu = 0.01, and the lamp switch.

Subspace tracking with k = 2 and w = 0.05 after a batch start on the first 50 frames. Side by side:

``sample``
    Algorithm 6 as it is printed: backtracking on the newest sample alone, canonical metric, gradient transported
    unchanged. Each search begins at twice the last accepted length; nothing stops the lengths from growing.
``sample, t <= 1``
    The same with no length above 1, the safe step for a cost of curvature one. The paper does not print a bound, but
    the authors' batch code never tries a length above its first one.
``objective``
    The default of `bgsub.SubspaceTracker`: backtracking on the whole objective, scaled metric, gradient carried by
    its second-order model.
``self-tuned``
    ``SubspaceTracker(rank=2)``: whatever the tracker does when it is told nothing but the rank; mu, w and the
    surrogate are its own.
``median of the light``
    No tracker: the median of all frames under the same lamps, to come ones included. It says how much of the people
    differs from the room behind them at all.

The background is ``l = U y`` after the step, the foreground the residual ``x - l``.

Units: intensities are scaled to [0, 1], and mu is in the unit of the surrogate, intensity^2 for ``lp`` and ``log`` and
intensity for ``atan``. On this scale no residual reaches the bend of the cost at mu = 2 (intensity 1.4, or 2 for
``atan``), so that it is least squares, while mu = 0.01 bends at 0.1 = 25 grey levels (``atan``: 2.5), which is robust.
On 0..255 both would bend at 2 grey levels or below, within the noise of a camera, and would differ in nothing: a
residual beyond has hardly any influence. The pictures and the table of frames show one surrogate, the others all three.

Frames: a folder of images (the I2R sequence "lobby" [1]_ or any other; numbers in names count as numbers), or the
scene ``bgsub.synthetic.scene("lobby")`` with its exact masks and its empty room, from the lamp switch after which the
light stays longest. Where lamps switch is found from the frames of a folder. A table of boxes of the people in some of
them says how much of each box is found, and how much foreground there is elsewhere. Nothing else is done to the
residual: one threshold, no median, no memory of lights.

References
----------
.. [1] L. Li, W. Huang, I. Y.-H. Gu and Q. Tian, *Statistical modeling of complex backgrounds for foreground object
   detection*, IEEE Transactions on Image Processing 13(11), 2004.
"""

from __future__ import annotations

from pathlib import Path

import click
from figures import save
from grid import Table, make_folder
from lobby_drawing import curves, strip
from lobby_frames import Material, made, taken
from lobby_people import People, read_people
from lobby_tracking import (
    FORGETTING,
    MEDIANS,
    RANK,
    SCORES,
    SELF_TUNED,
    STILL_LIGHT,
    SURROGATES,
    VARIANTS,
    Row,
    Track,
    Variant,
    persons,
    still,
    summary,
    track,
)
from options import RESULTS, one_line_errors

AROUND = (-2, 0, 1, 3, 10, 35)  # frames of the second figure, from the lamp switch
BEFORE = (-26, -14, -2)  # frames of the first, unless the people are known

FRAME_KEYS = (*Variant._fields, "frame")
PHASE_KEYS = (*Variant._fields, "phase", "first_frame", "last_frame")
PERSON_KEYS = (*Variant._fields, "frame", "box")
VALUES = (*MEDIANS, *SCORES)
PERSON_VALUES = ("found", "outside")


def written(rows: list[Row], columns: tuple[str, ...]) -> list[dict[str, str]]:
    """Return the columns of rows as text; unknown values are empty."""
    return [
        {name: f"{row[name]:.4g}" if isinstance(row.get(name), float) else str(row.get(name, "")) for name in columns}
        for row in rows
    ]


def pictured(offsets: tuple[int, ...], lamp: int, start: int, count: int) -> list[int]:
    """Return the positions of tracked frames at `offsets` from the lamp switch, none twice."""
    return sorted({min(max(lamp + i, start), count - 1) for i in offsets})


@click.command()
@click.option("--frames", type=click.Path(exists=True, file_okay=False, path_type=Path), help="Folder of real frames.")
@click.option(
    "--people", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Their boxes: frame,x0,y0,x1,y1."
)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder of the results; without it, real frames leave no picture of themselves and no table of frames.",
)
@click.option(
    "--size", type=(int, int), default=(160, 128), show_default=True, help="Width and height of the made scene."
)
@click.option("--length", default=200, show_default=True, help="Frames of the made scene.")
@click.option("--seed", default=0, show_default=True, help="Seed of the made scene.")
@click.option("--start", default=50, show_default=True, help="Frames of the batch start.")
@click.option("--threshold", default=0.08, show_default=True, help="Residual of a foreground pixel, full scale is 1.")
@click.option("--surrogate", default="atan", show_default=True, type=click.Choice(SURROGATES), help="In the pictures.")
@one_line_errors
def main(
    frames: Path | None,
    people: Path | None,
    out: Path | None,
    size: tuple[int, int],
    length: int,
    seed: int,
    start: int,
    threshold: float,
    surrogate: str,
) -> None:
    """Draw the lobby figures and write their tables, of the made scene or, as `lobby_real`, of real frames."""
    if people is not None and frames is None:
        raise click.UsageError("--people goes with --frames: the made scene has masks")
    material = made(size, length, seed) if frames is None else taken(frames)
    count, *shape = material.frames.shape
    if not 2 <= start < count:
        raise click.UsageError(f"--start must be in 2..{count - 1}, got {start}")
    boxes = {} if people is None else read_people(people, material.numbers, (shape[0], shape[1]))
    stem = (out or RESULTS) / ("lobby" if frames is None else "lobby_real")
    pictures = frames is None or out is not None  # those of real frames do not belong into the repository
    report(material, boxes, stem, start, threshold, surrogate, pictures)


def report(
    material: Material, people: People, stem: Path, start: int, threshold: float, surrogate: str, pictures: bool
) -> None:
    """Track with every variant, write tables and figures whose paths begin with `stem`, and say each phase."""
    make_folder(stem.parent)
    tracks = {variant: track(material, people, variant, start, threshold) for variant in VARIANTS}
    tracks[STILL_LIGHT] = still(material, people, start, threshold)
    shown = {variant: found for variant, found in tracks.items() if variant.surrogate in (surrogate, "")}
    phase_rows = [row for found in tracks.values() for row in summary(material, found.rows, start)]
    tables = {"": (PHASE_KEYS, VALUES, phase_rows)}
    if people:
        rows = [row for found in tracks.values() for row in persons(people, found.rows, start)]
        tables["_boxes"] = (PERSON_KEYS, PERSON_VALUES, rows)
    if pictures:
        tables["_frames"] = (FRAME_KEYS, VALUES, [row for found in shown.values() for row in found.rows])
        draw_strips(material, people, shown, stem, start)
    settings = {
        "frames": material.name,
        "start": start,
        "threshold": threshold,
        "rank": RANK,
        "forgetting": f"{FORGETTING:g}; {SELF_TUNED}: its own",
    }
    for ending, (keys, values, rows) in tables.items():
        table = Table(stem.with_name(f"{stem.name}{ending}.csv"), settings, keys, values)
        table.write(written(rows, table.columns))
    save(curves(material, shown), stem.with_name(f"{stem.name}_curves.png"))
    columns = (*PHASE_KEYS, *VALUES)
    for row in (dict(zip(columns, columns, strict=True)), *written(phase_rows, columns)):
        click.echo("  ".join(f"{row[name][:14]:>14s}" for name in columns))


def draw_strips(material: Material, people: People, shown: dict[Variant, Track], stem: Path, start: int) -> None:
    """Draw people, the first ones in the table or else those before the lamp switch, and that switch."""
    tracked = {variant: found for variant, found in shown.items() if variant != STILL_LIGHT}
    count = len(material.frames)
    lamp = next((begin for begin, _ in material.switches if begin > start), (start + count) // 2)
    known = sorted(i for i, boxes in people.items() if i >= start and len(boxes))[: len(BEFORE)]
    numbers = {"people": known or pictured(BEFORE, lamp, start, count), "lamp": pictured(AROUND, lamp, start, count)}
    for name, at in numbers.items():
        save(strip(material, tracked, at, start, lamp), stem.with_name(f"{stem.name}_{name}.png"))


if __name__ == "__main__":
    main()
