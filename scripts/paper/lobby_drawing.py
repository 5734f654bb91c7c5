"""The lobby figures: strips of pictures, and curves over the frames."""

from __future__ import annotations

import numpy as np
from figures import plt
from lobby_frames import Material
from lobby_tracking import SELF_TUNED, STILL, Track, Variant

_LINES = {"sample": ":", "sample, t <= 1": "--", "objective": "-", SELF_TUNED: "-", STILL: "-"}
_MARKERS = {"sample": "x", "sample, t <= 1": "^", "objective": "s", SELF_TUNED: "o", STILL: "_"}
_COLOURS = {SELF_TUNED: "tab:green", STILL: "0.4"}
_KNOWN_OF_SOME = ("found", "outside")  # of the frames whose people are known: points, no curve
_GAP = 4  # pixels between pictures
_LEAST = {"share_above": 2e-5, "outside": 2e-5, "step_length": 1e-3}  # drawn instead of 0 on a logarithmic axis
_SHOWN = 200  # points of a curve; of more frames, medians of neighbours are drawn
_PANELS = {
    "background_error": "error of the background\n(grey levels, rms)",
    "share_above": "share of pixels\nabove the threshold",
    "residual_energy": "residual energy\n(mean square)",
    "step_length": "step length",
    "found": "share of each person's box\nabove the threshold",
    "outside": "share outside the boxes\nabove the threshold",
}


def _label(variant: Variant) -> str:
    return variant.variant if variant.variant in _COLOURS else f"$\\mu$ = {variant.mu:g}, {variant.variant}"


def strip(material: Material, tracks: dict[Variant, Track], at: list[int], start: int, lamp: int) -> plt.Figure:
    """Draw frames and, below, background and foreground of each variant; the foreground on mid grey, with its sign."""
    rows, labels = [material.frames[at]], ["frame"]
    for variant, found in tracks.items():
        backgrounds = found.backgrounds[np.array(at) - start]
        rows += [backgrounds, rows[0] - backgrounds + 0.5]
        labels += [_label(variant).replace(", ", "\n", 1) + f"\n{part}" for part in ("background", "foreground")]
    height, width = material.frames.shape[1:]
    size = (1.2 * len(at) + 1.5, 1.2 * height / width * len(rows) + 0.5)
    figure, axes = plt.subplots(figsize=size)
    axes.imshow(_mosaic(rows), cmap="gray", vmin=0.0, vmax=1.0, interpolation="nearest")
    switch = "\nswitch {:+d}" if material.switches else ""
    titles = [f"frame {material.numbers[i]}" + switch.format(i - lamp) for i in at]
    axes.set_xticks((width + _GAP) * np.arange(len(at)) + width / 2, titles, size=8)
    axes.set_yticks((height + _GAP) * np.arange(len(rows)) + height / 2, labels, size=7)
    axes.tick_params(length=0, labeltop=True, labelbottom=False)
    axes.set_frame_on(False)
    return figure


def _mosaic(rows: list[np.ndarray]) -> np.ndarray:
    """Return pictures, one (n, h, w) per row, side by side with white between them."""
    gap = ((0, 0), (0, _GAP), (0, _GAP))
    padded = [np.pad(row, gap, constant_values=1.0) for row in rows]
    return np.vstack([np.hstack(list(row)) for row in padded])[:-_GAP, :-_GAP]


def curves(material: Material, tracks: dict[Variant, Track]) -> plt.Figure:
    """Draw the results of the frames against their numbers; points if only some frames have them."""
    rows = [row for found in tracks.values() for row in found.rows]
    shown = {name: label for name, label in _PANELS.items() if any(name in row for row in rows)}
    figure, grid = plt.subplots(len(shown), 1, figsize=(8, 2.1 * len(shown)), sharex=True, squeeze=False)
    for axes, (name, label) in zip(grid[:, 0], shown.items(), strict=True):
        for variant, found in tracks.items():
            _curve(axes, variant, found, name)
        for begin, end in material.switches:
            axes.axvspan(material.numbers[begin] - 0.5, material.numbers[end] + 0.5, color="0.85", lw=0.5, zorder=0)
        axes.set(yscale="linear" if name == "found" else "log", ylabel=label)
    figure.legend(*grid[0][0].get_legend_handles_labels(), loc="outside upper center", ncols=4, fontsize=7)
    together = -(-len(found.rows) // _SHOWN)
    medians = f"; medians of {together} frames" if together > 1 else ""
    grid[-1][0].set_xlabel(f"frame (grey: lamps switch{medians})")
    return figure


def _curve(axes: plt.Axes, variant: Variant, found: Track, name: str) -> None:
    """Draw one quantity of one variant."""
    points = np.array([(row["frame"], max(row[name], _LEAST.get(name, 0.0))) for row in found.rows if name in row])
    colour = _COLOURS.get(variant.variant) or ("tab:red" if variant.mu > 1 else "tab:blue")
    look = {"color": colour, "label": _label(variant)}
    if not len(points):
        return
    if name in _KNOWN_OF_SOME:
        axes.plot(*points.T, ls="none", marker=_MARKERS[variant.variant], ms=4, mew=0.9, fillstyle="none", **look)
        return
    groups = np.array_split(points, min(_SHOWN, len(points)))
    axes.plot(*np.transpose([np.median(group, axis=0) for group in groups]), ls=_LINES[variant.variant], lw=0.9, **look)
