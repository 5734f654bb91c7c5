"""Reproduce the table of tracking variants: F over ranks on one labelled sequence at 160x120 grey.

Frames are shrunk by taking single pixels. The model starts from the first 50 scored frames and then tracks all scored
frames; one global threshold on the residual after the update, a 3x3 median, the best F over thresholds. Usage:
python scripts/tracking_table.py DIR, with DIR in the layout of changedetection.net.
"""

from __future__ import annotations

from pathlib import Path

import click
import cv2
import numpy as np

from bgsub import SubspaceTracker
from bgsub.evaluation import Confusion, Sequence, confusion

SIZE = (160, 120)
START = 50
THRESHOLDS = np.arange(0.03, 0.16, 0.005)
VARIANTS = {
    "line search on the newest sample": ("canonical", "sample", "unchanged"),
    "whole objective, gradient carried unchanged": ("canonical", "objective", "unchanged"),
    "whole objective, carried by the model, canonical metric": ("canonical", "objective", "model"),
    "the same, scaled metric": ("scaled", "objective", "model"),
}


def grey(image: np.ndarray) -> np.ndarray:
    """Return a frame as a vector in [0, 1], shrunk to 160x120."""
    small = cv2.resize(cv2.cvtColor(image, cv2.COLOR_BGR2GRAY), SIZE, interpolation=cv2.INTER_NEAREST)
    return (small.ravel() / 255).astype(np.float32)


def score(residuals: list[np.ndarray], truths: list[np.ndarray]) -> tuple[float, float]:
    """Return the best F and its threshold."""
    best = (0.0, 0.0)
    for threshold in THRESHOLDS:
        total = Confusion()
        for residual, truth in zip(residuals, truths, strict=True):
            raw = (residual.reshape(SIZE[1], SIZE[0]) > threshold).astype(np.uint8) * 255
            total += confusion(cv2.medianBlur(raw, 3), truth)
        best = max(best, (total.f_measure, float(threshold)))
    return best


@click.command()
@click.argument("directory", type=click.Path(exists=True, path_type=Path))
@click.option("--mu", default=0.05, show_default=True)
@click.option("--forgetting", default=0.05, show_default=True)
def main(directory: Path, mu: float, forgetting: float) -> None:
    """Print the table for the sequence in DIRECTORY."""
    sequence = Sequence(directory)
    frames = {n: grey(sequence.frame(n)) for n in sequence.scored}
    truths = [
        cv2.resize(truth, SIZE, interpolation=cv2.INTER_NEAREST)
        for truth in (sequence.truth(n) for n in sequence.scored)
        if truth is not None
    ]
    start = np.array(list(frames.values())[:START])
    click.echo(f"{'variant':58s}" + "".join(f"{f'k={k}':>14s}" for k in (1, 2, 5)))
    for title, (metric, line_search, carry) in VARIANTS.items():
        row = []
        for rank in (1, 2, 5):
            tracker = SubspaceTracker(
                rank, mu=mu, forgetting=forgetting, metric=metric, line_search=line_search, gradient_carry=carry
            ).fit(start)
            residuals = []
            for n in sequence.scored:
                tracker.partial_fit(frames[n])
                residuals.append(np.abs(frames[n] - tracker.low_rank_))
            f, threshold = score(residuals, truths)
            row.append(f"{f:.3f} @{threshold:.3f}")
        click.echo(f"{title:58s}" + "".join(f"{cell:>14s}" for cell in row))


if __name__ == "__main__":
    main()
