"""The figure of a decomposition: singular values, and some samples with their parts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from scipy.sparse.linalg import svds

from bgsub.jobs.decomposition.samples import Decomposition, FrameSamples, Samples
from bgsub.video.views import to_bgr8

_WIDTH, _DPI = 12.0, 110
_ROWS = 4  # samples in the figure
_MOST_VALUES = 40
_SMALL_SIDE = 1000  # up to this, all singular values by the Gram matrix; above, some by Lanczos steps
_MOST_CELLS = 600  # rows and columns of a heat map
_MOST_POINTS = 2000
_TITLE = 80
_INPUT, _LOW_RANK, _SPARSE = "#888888", "#1f77b4", "#d95f02"


def draw(samples: Samples, parts: Decomposition, path: Path) -> None:
    """Draw a decomposition into a PNG file."""
    frames = isinstance(samples, FrameSamples)
    chosen = np.unique(np.linspace(0, len(samples.X) - 1, _ROWS).round().astype(int))
    rows = len(chosen) + (0 if frames else 1)
    heights = [2.6] + [_height(samples)] * rows
    figure = Figure(figsize=(_WIDTH, sum(heights) + 0.9), dpi=_DPI, layout="constrained")
    FigureCanvasAgg(figure)
    title = samples.name if len(samples.name) <= _TITLE else f"{samples.name[: _TITLE - 3]}..."
    figure.suptitle(f"{title}: {samples.description}, rank {len(parts.components)}", fontsize=12, x=0.01, ha="left")
    grid = figure.add_gridspec(rows + 1, 3, height_ratios=heights)
    _singular_values(figure.add_subplot(grid[0, :2]), samples, parts)
    _coefficients(figure.add_subplot(grid[0, 2]), parts)
    if isinstance(samples, FrameSamples):
        _frames(figure, grid, samples, parts, chosen)
    else:
        _heat_maps(figure, grid, samples, parts)
        _lines(figure, grid, samples, parts, chosen)
    figure.savefig(path, format="png", metadata={"Software": None})


def input_singular_values(samples: Samples, parts: Decomposition) -> np.ndarray:
    """Return the largest singular values of the input, with missing entries from the low-rank part."""
    X = parts.low_rank + parts.sparse
    side = min(X.shape)
    if side > _SMALL_SIDE:
        start = np.random.default_rng(0).standard_normal(side)
        return svds(X, _MOST_VALUES, v0=start, return_singular_vectors=False)[::-1]
    wide = X if X.shape[0] <= X.shape[1] else X.T
    gram = np.zeros((side, side))
    for begin in range(0, wide.shape[1], 1 << 16):  # in double precision without a second matrix
        block = wide[:, begin : begin + (1 << 16)].astype(np.float64)
        gram += block @ block.T
    return np.sqrt(np.linalg.eigvalsh(gram)[::-1].clip(0))[:_MOST_VALUES]


def _height(samples: Samples) -> float:
    if not isinstance(samples, FrameSamples):
        return 2.2
    height, width = samples.format.shape[:2]
    return float(np.clip(_WIDTH / 3 * height / width, 0.8, 5.0))


def _singular_values(axes: Any, samples: Samples, parts: Decomposition) -> None:
    for values, colour, label in (
        (input_singular_values(samples, parts), _INPUT, "input"),
        (parts.singular_values, _LOW_RANK, "low rank"),
    ):
        shown = values[values > 0]
        axes.semilogy(np.arange(1, len(shown) + 1), shown, "o-", color=colour, markersize=4, linewidth=1, label=label)
    axes.xaxis.get_major_locator().set_params(integer=True)
    _dress(axes, "singular values")
    axes.legend(fontsize=8, frameon=False)


def _coefficients(axes: Any, parts: Decomposition) -> None:
    """Draw the coefficients of the strongest components, each relative to its largest."""
    for number, column in enumerate(parts.coefficients.T[:3], start=1):
        largest = float(np.abs(column).max()) or 1.0
        axes.plot(column / largest, linewidth=1, label=f"{number}")
    axes.set_xlabel("sample", fontsize=8)
    _dress(axes, "coefficients")
    axes.legend(fontsize=8, frameon=False, ncols=3, loc="lower right", bbox_to_anchor=(1.0, 1.0), handlelength=1.2)


def _dress(axes: Any, title: str) -> None:
    axes.set_title(title, fontsize=9, loc="left")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color="#e4e4e4", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(labelsize=8)


def _frames(figure: Any, grid: Any, samples: FrameSamples, parts: Decomposition, chosen: np.ndarray) -> None:
    """Draw input, low-rank and sparse part of the chosen frames; the sparse part signed, averaged over the colours."""
    limit = _limit(parts.sparse[chosen])
    for line, i in enumerate(chosen, start=1):
        for column, row in enumerate((samples.X[i], parts.low_rank[i])):
            axes = figure.add_subplot(grid[line, column])
            axes.imshow(to_bgr8(samples.image(np.nan_to_num(row)))[:, :, ::-1])
            axes.set_title(f"{('input', 'low rank')[column]} {samples.frames[i].name}", fontsize=9, loc="left")
            axes.set_axis_off()
        axes = figure.add_subplot(grid[line, 2])
        signed = parts.sparse[i].reshape(samples.format.cube).mean(axis=2)
        shown = axes.imshow(signed, cmap="RdBu_r", vmin=-limit, vmax=limit)
        axes.set_title("sparse", fontsize=9, loc="left")
        axes.set_axis_off()
        figure.colorbar(shown, ax=axes, shrink=0.8).ax.tick_params(labelsize=7)


def _heat_maps(figure: Any, grid: Any, samples: Samples, parts: Decomposition) -> None:
    X, low_rank, sparse = (_thinned(part) for part in (samples.X, parts.low_rank, parts.sparse))
    low, high = np.percentile(low_rank, (0.5, 99.5))
    limit = _limit(sparse)
    for column, (name, image, scale) in enumerate(
        (
            ("input, black where missing" if np.isnan(X).any() else "input", X, {"vmin": low, "vmax": high}),
            ("low rank", low_rank, {"vmin": low, "vmax": high}),
            ("sparse", sparse, {"vmin": -limit, "vmax": limit, "cmap": "RdBu_r"}),
        )
    ):
        axes = figure.add_subplot(grid[1, column])
        shown = axes.imshow(
            image, aspect="auto", interpolation="nearest", extent=(0, samples.X.shape[1], len(samples.X), 0), **scale
        )
        axes.set_facecolor("#000000")  # missing entries
        axes.set_title(name, fontsize=9, loc="left")
        axes.set_xlabel("feature", fontsize=8)
        axes.set_ylabel("sample", fontsize=8)
        axes.tick_params(labelsize=7)
        figure.colorbar(shown, ax=axes).ax.tick_params(labelsize=7)


def _lines(figure: Any, grid: Any, samples: Samples, parts: Decomposition, chosen: np.ndarray) -> None:
    step = -(-samples.X.shape[1] // _MOST_POINTS)
    features = np.arange(0, samples.X.shape[1], step)
    for line, i in enumerate(chosen, start=2):
        axes = figure.add_subplot(grid[line, :])
        axes.plot(features, samples.X[i, ::step], ".", color=_INPUT, markersize=3, label="input")
        axes.plot(features, parts.low_rank[i, ::step], color=_LOW_RANK, linewidth=1, label="low rank")
        axes.plot(features, parts.sparse[i, ::step], color=_SPARSE, linewidth=0.7, alpha=0.8, label="sparse")
        _dress(axes, f"sample {i + 1}")
        if line == 2:
            axes.legend(fontsize=8, frameon=False, ncols=3, loc="upper right")


def _limit(sparse: np.ndarray) -> float:
    """Return a value that few entries of a sparse part exceed."""
    return float(np.percentile(np.abs(sparse), 99.8)) or 1.0


def _thinned(matrix: np.ndarray) -> np.ndarray:
    """Return evenly spaced rows and columns of a matrix, at most `_MOST_CELLS` of each."""
    rows, columns = (-(-length // _MOST_CELLS) for length in matrix.shape)
    return matrix[::rows, ::columns]
