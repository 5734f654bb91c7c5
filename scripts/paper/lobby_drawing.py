"""The lobby figures: strips of pictures, and curves over the frames."""

from __future__ import annotations

import numpy as np
from figures import plt
from lobby_frames import Material, Track

_LINES = {"sample": ":", "sample, t <= 1": "--", "objective": "-"}
_GAP = 4  # pixels between pictures
_LEAST = 1e-5  # share of pixels that stands for none on a logarithmic axis


def strip(
    material: Material, tracks: dict[tuple[float, str], Track], numbers: list[int], start: int, lamp: int
) -> plt.Figure:
    """Draw frames and, below, background and foreground of each variant; the foreground on mid grey, with its sign."""
    rows, labels = [material.frames[numbers]], ["frame"]
    for (mu, line_search), found in tracks.items():
        backgrounds = found.backgrounds[np.array(numbers) - start]
        rows += [backgrounds, rows[0] - backgrounds + 0.5]
        labels += [f"$\\mu$ = {mu:g}\n{line_search}\n{part}" for part in ("background", "foreground")]
    height, width = material.frames.shape[1:]
    size = (1.2 * len(numbers) + 1.5, 1.2 * height / width * len(rows) + 0.5)
    figure, axes = plt.subplots(figsize=size)
    axes.imshow(_mosaic(rows), cmap="gray", vmin=0.0, vmax=1.0, interpolation="nearest")
    titles = [f"frame {number}" + (f"\nswitch {number - lamp:+d}" if material.lamps else "") for number in numbers]
    axes.set_xticks((width + _GAP) * np.arange(len(numbers)) + width / 2, titles, size=8)
    axes.set_yticks((height + _GAP) * np.arange(len(rows)) + height / 2, labels, size=7)
    axes.tick_params(length=0, labeltop=True, labelbottom=False)
    axes.set_frame_on(False)
    return figure


def _mosaic(rows: list[np.ndarray]) -> np.ndarray:
    """Return pictures, one (n, h, w) per row, side by side with white between them."""
    gap = ((0, 0), (0, _GAP), (0, _GAP))
    padded = [np.pad(row, gap, constant_values=1.0) for row in rows]
    return np.vstack([np.hstack(list(row)) for row in padded])[:-_GAP, :-_GAP]


def curves(material: Material, tracks: dict[tuple[float, str], Track]) -> plt.Figure:
    """Draw background error (where known) and share above the threshold against the frame number."""
    shown = {"share_above": "share of pixels above the threshold"}
    if material.empty is not None:
        shown = {"background_error": "error of the background\n(grey levels, root mean square)", **shown}
    figure, grid = plt.subplots(len(shown), 1, figsize=(8, 3 * len(shown)), sharex=True, squeeze=False)
    for axes, (name, label) in zip(grid[:, 0], shown.items(), strict=True):
        for (mu, line_search), found in tracks.items():
            look = {"color": "tab:red" if mu > 1 else "tab:blue", "ls": _LINES[line_search]}
            numbers = [row["frame"] for row in found.rows]
            axes.semilogy(
                numbers, [max(row[name], _LEAST) for row in found.rows], label=f"$\\mu$ = {mu:g}, {line_search}", **look
            )
        for at in (at for at in material.lamps if at >= numbers[0]):
            axes.axvline(at, color="0.7", lw=0.8, zorder=0)
        axes.set_ylabel(label)
    figure.legend(*grid[0][0].get_legend_handles_labels(), loc="outside upper center", ncols=3, fontsize=8)
    grid[-1][0].set_xlabel("frame (grey lines: lamps switch)")
    return figure
