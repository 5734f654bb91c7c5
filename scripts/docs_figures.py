"""The figures of docs/method.md, drawn from the code: python scripts/docs_figures.py [--output docs/pictures].

Everything is made on the spot and with fixed seeds: the costs, a planted subspace, a synthetic street and a lobby.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from bgsub import BackgroundSubtractor, SubspaceTracker
from bgsub._opencv import cv2
from bgsub.numerics.surrogates import Surrogate
from bgsub.synthetic import UNKNOWN, scene

PICTURES = Path(__file__).resolve().parent.parent / "docs" / "pictures"
SURROGATES = ("lp", "log", "atan")
FIXED = {"mu": 0.05, "forgetting": 0.05}
TRACKERS = {
    "tunes itself (default of SubspaceTracker)": {},
    "whole objective, scaled metric": FIXED,
    "whole objective, canonical metric": {**FIXED, "metric": "canonical"},
    "whole objective, gradient unchanged": {**FIXED, "gradient_carry": "unchanged"},
    "newest sample (as printed)": {**FIXED, "line_search": "sample"},
}


def figure(columns: int) -> tuple[Figure, list[Axes]]:
    """Return an empty figure with some plots side by side."""
    drawn = Figure((3.2 * columns, 2.8), layout="constrained")
    axes = list(drawn.subplots(1, columns, squeeze=False)[0])
    for axis in axes:
        axis.grid(alpha=0.3)
        axis.spines[["top", "right"]].set_visible(False)
    return drawn, axes


def save(drawn: Figure, path: Path) -> None:
    """Write a figure as SVG, the same bytes each time."""
    with mpl.rc_context({"svg.hashsalt": path.stem}):
        FigureCanvasSVG(drawn).print_svg(path, metadata={"Date": None})


def costs(path: Path) -> None:
    """Cost, influence and weight of the surrogates, all of the same scale."""
    drawn, axes = figure(3)
    r = np.linspace(-0.3, 0.3, 241)
    for name in SURROGATES:
        one = Surrogate.flattening_at(0.06, name)
        rows = one.value(r) - one.value(np.zeros(1)), one.influence(r), one.weight(r)
        for axis, values in zip(axes, rows, strict=True):
            axis.plot(r, values, label=name)
    axes[0].plot(r, r**2 / 2, "k:", label="squares")
    axes[0].set_ylim(0, 0.012)
    axes[1].plot(r, r, "k:")
    axes[1].set_ylim(-0.08, 0.08)
    axes[2].plot(r, np.ones_like(r), "k:")
    for axis, title in zip(axes, ("cost h(r)", "influence ψ(r)", "weight ω(r)"), strict=True):
        axis.set_title(title)
        axis.set_xlabel("residual r")
    axes[0].legend(fontsize=8)
    save(drawn, path)


def planted(length: int, size: int = 200, rank: int = 2) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield a turning subspace, (m, k), and a vector of it with noise and 20 % outliers."""
    rng = np.random.default_rng(0)
    U = np.linalg.qr(rng.standard_normal((size, 2 * rank)))[0]
    for i in range(length):
        angle = 1e-3 * i
        basis = np.cos(angle) * U[:, :rank] + np.sin(angle) * U[:, rank:]
        x = basis @ rng.standard_normal(rank) * np.sqrt(size) * 0.2 + 0.01 * rng.standard_normal(size)
        outliers = rng.random(size) < 0.2
        yield basis, np.where(outliers, x + rng.uniform(-1, 1, size), x)


def angles(vectors: list[tuple[np.ndarray, np.ndarray]], options: dict[str, Any]) -> np.ndarray:
    """Return the largest principal angle to the true subspace after each vector, in radians."""
    rank = vectors[0][0].shape[1]
    tracker = SubspaceTracker(rank, **options)
    tracker.fit(np.stack([x for _, x in vectors[:50]]))
    found = []
    for basis, x in vectors[50:]:
        tracker.partial_fit(x)
        rest = basis.T - (basis.T @ tracker.components_.T) @ tracker.components_
        found.append(np.arcsin(min(1.0, float(np.linalg.norm(rest, 2)))))
    return np.array(found)


def line_searches(path: Path, length: int) -> None:
    """The angle to a turning subspace, by line search and gradient carry."""
    vectors = list(planted(length))
    drawn, (axis,) = figure(1)
    drawn.set_size_inches(9, 3.2)
    for name, options in TRACKERS.items():
        axis.semilogy(angles(vectors, options), label=name, linewidth=1)
    axis.set_xlabel("vectors after the batch start")
    axis.set_ylabel("largest principal angle, rad")
    axis.legend(fontsize=8, bbox_to_anchor=(1, 1), loc="upper left")
    save(drawn, path)


def chain(path: Path, size: tuple[int, int], index: int) -> None:
    """One frame, its background, residual, candidate threshold and mask."""
    subtractor = BackgroundSubtractor(threads=1)
    for frame, _ in scene("street", size=size, length=index + 1, lamps=False, sway=1.5, seed=1):
        result = subtractor.process(frame)
    vote = result.soft_vote
    limit = np.hypot(vote.threshold, vote.factor * vote.sigma)
    tiles = [result.frame, result.background, shade(result.residual / 0.4), shade(limit / 0.4), result.mask]
    colour = [tile if tile.ndim == 3 else cv2.cvtColor(tile, cv2.COLOR_GRAY2BGR) for tile in tiles]
    gap = np.full((size[1], 3, 3), 255, np.uint8)
    row = np.hstack([part for tile in colour for part in (tile, gap)][:-1])
    cv2.imwrite(str(path), row, [cv2.IMWRITE_PNG_COMPRESSION, 9])


def shade(values: np.ndarray) -> np.ndarray:
    """Return numbers in [0, 1] as a grey picture."""
    return (255 * np.clip(values, 0, 1)).astype(np.uint8)


def lamps(path: Path, size: tuple[int, int], length: int) -> None:
    """The share of false foreground under switching lamps, with and without the light model."""
    frames = list(scene("lobby", size=size, length=length, seed=2))
    drawn, (axis,) = figure(1)
    drawn.set_size_inches(7, 2.8)
    for name, light in (("light=True", True), ("light=False", False)):
        subtractor, wrong = BackgroundSubtractor(light=light, threads=1), []
        for frame, truth in frames:
            mask = subtractor.apply(frame)
            wrong.append(100 * np.mean((mask == 255) & (truth < UNKNOWN)))
        axis.plot(wrong, label=name, linewidth=1.2)
    axis.set_xlabel("frame")
    axis.set_ylabel("false foreground, %")
    axis.legend(fontsize=8)
    save(drawn, path)


@click.command()
@click.option("--output", type=click.Path(path_type=Path), default=PICTURES, help="Folder of the figures.")
@click.option("--size", default=200, show_default=True, help="Width of the pictures; the height is 3/4 of it.")
@click.option("--length", default=400, show_default=True, help="Frames of the lobby, vectors of the stream.")
def main(output: Path, size: int, length: int) -> None:
    """Draw all figures."""
    output.mkdir(parents=True, exist_ok=True)
    shape = size, size * 3 // 4
    costs(output / "costs.svg")
    line_searches(output / "line_searches.svg", length)
    chain(output / "chain.png", shape, min(160, length - 1))
    lamps(output / "lamps.svg", shape, length)


if __name__ == "__main__":
    main()
