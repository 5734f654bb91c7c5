"""Robust PCA by graduated non-convexity: both factors move at once while the cost sharpens and a ridge fades.

The schedule of the paper solves a least-squares-like problem first, of the full rank. Near the limits of recovery its
solution holds the outliers: the singular values of outliers exceed the smallest ones of the low-rank part, so that
the last directions are taken by outliers, and no later mu gives them back; solving each mu more exactly makes it
worse. A ridge on the factors removes that. It is the maximum a posteriori estimate under Gaussian factors and a
Student-t residual, ``h_mu(X - A B') + c mu sqrt(k) / s (|A|^2 + |B|^2) / 2`` with s the scale of the data: while mu is
large, only what stands above the outliers is let in; it fades with mu, and so does its bias.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from bgsub.robust_pca.descent import Descent, Step, Task


def graduate(task: Task, A: np.ndarray, B: np.ndarray) -> Iterator[Step]:
    """Yield each step, at least one, from the factors A, (n, k), and B, (m, k); the last one has the result."""
    taken = None
    for taken in _fits(task, A, B):
        yield taken
    if taken is None:  # no step lowers the cost, or none may be taken
        value = task.fit.evaluate(B, A.T)
        yield Step(A, B, task.fit.surrogate.mu, (value, value), 0.0)


def _fits(task: Task, A: np.ndarray, B: np.ndarray) -> Iterator[Step]:
    """Yield the steps of each fit and what is left to do with the best of them."""
    final = task.fit.surrogate
    best: Descent | None = None
    for ridge in task.pace.ridges:
        descent = Descent(task, ridge, A, B)
        yield from descent.run()
        if best is None or (not descent.unfinished and descent.beats(best)):
            best = descent
        if best.exact or (best.noisy and not task.pace.doubts):
            break
    if best is not None:
        yield from best.finish(final, repeated=best is not descent)
