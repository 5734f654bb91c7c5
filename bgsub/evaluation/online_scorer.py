"""Score the masks of a synthetic scene against its ground truth while it is processed."""

from __future__ import annotations

import numpy as np

from bgsub.evaluation.metrics import Confusion, confusion
from bgsub.separation import Separation
from bgsub.synthetic import Scene
from bgsub.video.sources.base import Frame
from bgsub.video.sources.images import ArraySource
from bgsub.video.views import to_bgr8


class OnlineScorer:
    """Score each frame of a scene and keep the best separated one; `source` yields the rendered frames."""

    def __init__(self, scene: Scene) -> None:
        frames, self._truths = (np.stack(part) for part in zip(*scene, strict=True))
        self.source = ArraySource(frames, fps=scene.fps)
        self.total = Confusion()
        self._best: tuple[int, Separation] | None = None

    def __call__(self, frame: Frame, separation: Separation) -> None:
        """Score one frame."""
        counts = confusion(separation.mask, self._truths[frame.index])
        self.total += counts
        merit = counts.tp - counts.fp - counts.fn
        if self._best is None or merit > self._best[0]:
            self._best = (merit, separation)

    def strip(self) -> np.ndarray | None:
        """Return input, background and mask of the best frame side by side, (h, 3 w, 3) uint8; None before any."""
        if self._best is None:
            return None
        best = self._best[1]
        return np.hstack([to_bgr8(image) for image in (best.frame, best.background, best.mask)])

    def scores(self) -> dict[str, float]:
        """Return the scores by name."""
        c = self.total
        return {"recall": c.recall, "precision": c.precision, "f_measure": c.f_measure}

    def text(self) -> str:
        """Return the scores as text."""
        c = self.total
        return f"recall {c.recall:.3f}, precision {c.precision:.3f}, F {c.f_measure:.3f}"
