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

The background is ``l = U y`` after the step, the foreground the residual ``x - l``.

Units: intensities are scaled to [0, 1], and mu is in the unit of the surrogate, intensity^2 for ``lp`` and ``log`` and
intensity for ``atan``. On this scale no residual reaches the bend of the cost at mu = 2 (intensity 1.4, or 2 for
``atan``), so that it is least squares, while mu = 0.01 bends at 0.1 = 25 grey levels (``atan``: 2.5), which is robust.
On 0..255 both would bend at 2 grey levels or below, within the noise of a camera, and would differ in nothing: a
residual beyond has hardly any influence. The pictures show one surrogate, the tables all three.

Frames: a folder of images (the I2R sequence "lobby" or any other; numbers in names count as numbers), or the scene
``bgsub.synthetic.scene("lobby")`` with its exact masks and its empty room, from the lamp switch after which the light
stays longest. Nothing else is done to the residual: one threshold, no median, no memory of lights.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import click
import numpy as np
from figures import save
from grid import Table
from lobby_drawing import curves, strip
from lobby_frames import GREY, Material, Track, made, taken
from options import RESULTS, one_line_errors

from bgsub import SubspaceTracker
from bgsub.evaluation import Confusion, confusion

SURROGATES = ("atan", "log", "lp")
MUS = (2.0, 0.01)
LITERAL = {"metric": "canonical", "line_search": "sample", "gradient_carry": "unchanged"}
BOUNDED = "sample, t <= 1"
LINE_SEARCHES = {
    "sample": LITERAL,
    BOUNDED: LITERAL,
    "objective": {"metric": "scaled", "line_search": "objective", "gradient_carry": "model"},
}
AROUND = (-2, 0, 1, 3, 10, 35)  # frames of the second figure, from the lamp switch
BEFORE = (-26, -14, -2)  # frames of the first


FRAME_KEYS = ("surrogate", "mu", "line_search", "frame")
FRAME_VALUES = (
    "residual_energy", "share_above", "precision", "recall", "f_measure", "background_error", "step_length",
)  # fmt: skip
PHASE_KEYS = ("surrogate", "mu", "line_search", "first_frame", "last_frame")


def track(material: Material, surrogate: str, mu: float, line_search: str, start: int, threshold: float) -> Track:
    """Track all frames after the first `start`, which are the batch start.

    Parameters
    ----------
    material : Material
        The frames.
    surrogate, mu
        Cost and its smoothing.
    line_search : str
        One of `LINE_SEARCHES`.
    start : int
        Number of frames of the batch start.
    threshold : float
        Residual, as an intensity, from which a pixel is foreground.

    Returns
    -------
    Track
        Its first frame is number `start`.
    """
    count, height, width = material.frames.shape
    vectors = material.frames.reshape(count, -1)
    tracker = SubspaceTracker(2, surrogate, mu, forgetting=0.05, **LINE_SEARCHES[line_search]).fit(vectors[:start])
    backgrounds, rows = np.empty((count - start, height, width), np.float32), []
    for i in range(start, count):
        if line_search == BOUNDED:
            subspace = tracker.subspace_
            subspace.step_length = min(subspace.step_length or 0.5, 0.5)  # the search begins at twice this
        tracker.partial_fit(vectors[i])
        backgrounds[i - start] = tracker.low_rank_.reshape(height, width)
        key = {"surrogate": surrogate, "mu": mu, "line_search": line_search, "frame": i}
        figures = _figures(material, i, backgrounds[i - start], threshold)
        rows.append({**key, **figures, "step_length": tracker.step_length_})
    return Track(backgrounds, rows)


def _figures(material: Material, i: int, background: np.ndarray, threshold: float) -> dict[str, object]:
    """Return the figures of one frame; `confusion` is for sums and not written, errors are in grey levels."""
    residual = material.frames[i] - background
    above = np.abs(residual) > threshold
    out: dict[str, object] = {
        "residual_energy": float(np.mean(residual.astype(np.float64) ** 2)),
        "share_above": float(above.mean()),
    }
    if material.masks is None or material.empty is None:
        return out
    found = confusion((above * 255).astype(np.uint8), material.masks[i])
    error = GREY * float(np.sqrt(np.mean((background - material.empty[i]) ** 2)))
    scores = {"precision": found.precision, "recall": found.recall, "f_measure": found.f_measure}
    return {**out, **scores, "background_error": error, "confusion": found}


def phases(material: Material, rows: list[dict[str, object]]) -> Iterator[dict[str, object]]:
    """Yield the figures of one variant between two lamp switches: medians over frames, scores of all pixels."""
    first, last = int(rows[0]["frame"]), int(rows[-1]["frame"])
    cuts = [first, *(at for at in material.lamps if first < at <= last), last + 1]
    for a, b in pairwise(cuts):
        part = rows[a - first : b - first]
        out = {**part[0], "first_frame": a, "last_frame": b - 1}
        for name in ("residual_energy", "share_above", "background_error", "step_length"):
            if name in part[0]:
                out[name] = float(np.median([row[name] for row in part]))
        if "confusion" in part[0]:
            found = sum((row["confusion"] for row in part), Confusion())
            out |= {"precision": found.precision, "recall": found.recall, "f_measure": found.f_measure}
        yield out


def written(rows: list[dict[str, object]], columns: tuple[str, ...]) -> list[dict[str, str]]:
    """Return the columns of rows as text; what is not known is empty."""
    return [
        {name: f"{row[name]:.6g}" if isinstance(row.get(name), float) else str(row.get(name, "")) for name in columns}
        for row in rows
    ]


def pictured(offsets: tuple[int, ...], lamp: int, start: int, count: int) -> list[int]:
    """Return the numbers of tracked frames at `offsets` from the lamp switch, none twice."""
    return sorted({min(max(lamp + i, start), count - 1) for i in offsets})


@click.command()
@click.option("--frames", type=click.Path(exists=True, file_okay=False, path_type=Path), help="Folder of real frames.")
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), help="Folder of the results.")
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
    out: Path | None,
    size: tuple[int, int],
    length: int,
    seed: int,
    start: int,
    threshold: float,
    surrogate: str,
) -> None:
    """Draw the two lobby figures and write their tables; real frames need a folder for the results, --out."""
    if frames is not None and out is None:
        raise click.UsageError("pictures of real frames do not belong into the repository: name a folder by --out")
    folder = out or RESULTS
    material = made(size, length, seed) if frames is None else taken(frames)
    if not 2 <= start < len(material.frames):
        raise click.UsageError(f"--start must be in 2..{len(material.frames) - 1}, got {start}")
    report(material, folder, start, threshold, surrogate)


def report(material: Material, folder: Path, start: int, threshold: float, surrogate: str) -> None:
    """Track with every variant, write tables and figures into `folder` and say the figures of each phase."""
    rows: list[dict[str, object]] = []
    summary: list[dict[str, object]] = []
    shown: dict[tuple[float, str], Track] = {}
    for kind in SURROGATES:
        for mu in MUS:
            for line_search in LINE_SEARCHES:
                found = track(material, kind, mu, line_search, start, threshold)
                rows += found.rows
                summary += phases(material, found.rows)
                if kind == surrogate:
                    shown[mu, line_search] = found
    folder.mkdir(parents=True, exist_ok=True)
    settings = {"frames": material.name, "start": start, "threshold": threshold, "rank": 2, "forgetting": 0.05}
    for name, keys, part in (("lobby_frames", FRAME_KEYS, rows), ("lobby", PHASE_KEYS, summary)):
        table = Table(folder / f"{name}.csv", settings, keys, FRAME_VALUES)
        table.write(written(part, table.columns))
    count = len(material.frames)
    lamp = next((at for at in material.lamps if at > start), (start + count) // 2)
    for name, offsets in (("lobby_people", BEFORE), ("lobby_lamp", AROUND)):
        numbers = pictured(offsets, lamp, start, count)
        save(strip(material, shown, numbers, start, lamp), folder / f"{name}.png")
    save(curves(material, shown), folder / "lobby_curves.png")
    columns = (*PHASE_KEYS, *FRAME_VALUES)
    for row in (dict(zip(columns, columns, strict=True)), *written(summary, columns)):
        click.echo("  ".join(f"{row[name][:14]:>14s}" for name in columns))


if __name__ == "__main__":
    main()
