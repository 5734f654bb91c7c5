"""What the figures share: the backend, one colour per method, phase diagrams, files that appear whole."""

from __future__ import annotations

import io
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")  # no screen

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from PIL import Image  # comes with matplotlib
from planted import RECOVERED

from bgsub.storage.durable_io import write_whole

COLOURS = {
    "lp": "tab:blue",
    "log": "tab:purple",
    "atan": "tab:cyan",
    "SpaRCS": "tab:orange",
    "EALM": "tab:brown",
    "IALM": "tab:red",
    "GRASTA": "tab:green",
    "GoDec": "tab:olive",
    "AccAltProj": "tab:pink",
    "pyrpca": "lightcoral",
    "rpca": "plum",
    "tensorly": "tab:gray",
}
SMALLEST = 1e-4  # errors below have the lightest shade of a phase diagram

mpl.rcParams.update({"font.size": 10, "axes.grid": False, "figure.constrained_layout.use": True})


def style(name: str) -> dict[str, object]:
    """Return how the curve of a method looks: surrogates by colour, their settings by line and marker."""
    first, _, rest = name.partition(" ")
    look: dict[str, object] = {"color": COLOURS.get(first, "tab:gray"), "label": name, "linewidth": 1.5}
    if rest == "(package)":
        return look | {"linestyle": ":", "marker": "x", "markersize": 4}
    if not rest:
        return look | {"linestyle": "-", "marker": "s", "markersize": 3}
    if rest.startswith("("):
        return look | {"linestyle": "--", "marker": "o", "markersize": 3}
    return look | {"linestyle": "-", "marker": "^", "markersize": 4, "linewidth": 2.0}


def phase_diagram(axes: Axes, shares: np.ndarray, errors: np.ndarray, title: str) -> object:
    """Draw relative errors over outlier share and k/m, with the boundary of recovery.

    Parameters
    ----------
    axes : Axes
        Where to draw.
    shares : ndarray, (steps,)
        Values on both axes.
    errors : ndarray, (steps, steps)
        Relative errors of L; rows: k/m, columns: outlier share; NaN where not computed.
    title : str
        Name of the method.

    Returns
    -------
    object
        What a colour bar is made for.
    """
    half = (shares[1] - shares[0]) / 2 if len(shares) > 1 else shares[0] / 2
    edges = np.append(shares - half, shares[-1] + half)
    shown = np.clip(errors, SMALLEST, 1.0)
    mesh = axes.pcolormesh(edges, edges, shown, cmap="YlGnBu", norm=LogNorm(SMALLEST, 1.0), rasterized=True)
    _draw_boundary(axes, edges, errors < RECOVERED)
    known = np.isfinite(errors) | np.isinf(errors)
    axes.set_title(f"{title}\n{np.count_nonzero(errors < RECOVERED)} of {np.count_nonzero(known)} recovered", size=10)
    axes.set(aspect="equal", facecolor="0.85")
    return mesh


def _draw_boundary(axes: Axes, edges: np.ndarray, inside: np.ndarray) -> None:
    """Draw the edges between cells that are inside and cells that are not."""
    segments = [
        ((edges[j], edges[i + 1]), (edges[j + 1], edges[i + 1])) for i, j in np.argwhere(inside[:-1] ^ inside[1:])
    ]
    segments += [
        ((edges[j + 1], edges[i]), (edges[j + 1], edges[i + 1])) for i, j in np.argwhere(inside[:, :-1] ^ inside[:, 1:])
    ]
    for (x, y), (x_end, y_end) in segments:
        axes.plot([x, x_end], [y, y_end], color="tab:red", linewidth=1.5, solid_capstyle="projecting")


def phase_figure(panels: list[list[tuple[str, np.ndarray]]], shares: np.ndarray, rows: list[str]) -> Figure:
    """Draw one phase diagram per title and matrix of errors; `rows` names each row of panels, or is empty strings."""
    columns = max(map(len, panels))
    figure, grid = plt.subplots(
        len(panels),
        columns,
        figsize=(2.5 * columns + 1.2, 2.85 * len(panels) + 0.3),
        squeeze=False,
        sharex=True,
        sharey=True,
    )
    mesh = None
    for i, row in enumerate(panels):
        for j, axes in enumerate(grid[i]):
            if j >= len(row):
                axes.axis("off")
                continue
            mesh = phase_diagram(axes, shares, row[j][1], row[j][0])
            below_is_empty = i + 1 == len(panels) or j >= len(panels[i + 1])
            axes.tick_params(labelbottom=below_is_empty)
            if below_is_empty:
                axes.set_xlabel("outlier share")
        grid[i][0].set_ylabel(f"{rows[i]}\nk / m" if rows[i] else "k / m")
    bar = figure.colorbar(mesh, ax=grid, extend="both", fraction=0.03)
    bar.set_label("relative error of L")
    bar.ax.axhline(RECOVERED, color="tab:red")
    return figure


def save(figure: Figure, path: Path) -> None:
    """Write a figure as PNG of 256 colours so that it appears whole; SinkError where that cannot be done."""
    drawn, file = io.BytesIO(), io.BytesIO()
    figure.savefig(drawn, format="png", dpi=110)
    plt.close(figure)
    Image.open(drawn).convert("RGB").quantize(256, dither=Image.Dither.NONE).save(file, "PNG", optimize=True)
    write_whole(path, file.getvalue())
