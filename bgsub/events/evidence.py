"""Whether what is followed is an object: it looks like itself from frame to frame, or it goes its way.

Leaves, water and the noise of a model that has just begun flicker in place: their next sight has little in common with
the last one, and their steps lead nowhere. How much that is, and how much objects have in common with themselves, is
learned from the scene.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

Point = tuple[float, float]

_SIGNIFICANT = 6.0  # a random walk gets that far beyond its steps in one of exp(6) = 400 cases
_NOISE, _OBJECTS = 0.3, 0.8  # likeness to begin with,
_PRIOR = 50.0  # which weighs as many steps


@dataclass
class Evidence:
    """What speaks for an object that is followed, since it last began anew."""

    origin: Point  # where it was then
    here: Point
    solid: float = 0.0  # seconds for which it looked more like itself than noise does, less those that it was unseen
    walked: float = 0.0  # sum of the squares of its steps, in pixels
    likeness: float = 0.0  # sum over the steps that `Experience` has not learned yet
    steps: int = 0

    @property
    def motion(self) -> float:
        """Square of its way over the sum of the squares of its steps: 1 for a random walk, n for n equal steps."""
        return math.dist(self.origin, self.here) ** 2 / max(self.walked, 1.0)

    def step(self, here: Point, likeness: float, seconds: float, unseen: float, level: float) -> None:
        """Take the next sight, which counts for some seconds, after others unseen; see `Experience` for its level."""
        self.solid += seconds * (likeness - level) / (1 - level) - unseen
        self.walked += math.dist(self.here, here) ** 2
        self.here = here
        self.likeness += likeness
        self.steps += 1

    def suffices(self, seconds: float, starting: bool) -> bool:
        """Whether it is an object, which takes so many seconds at rest; while the model starts, only motion counts."""
        moved = self.motion / _SIGNIFICANT
        return moved >= 1 if starting else self.solid >= seconds * (1 - moved)


@dataclass
class Experience:
    """What a scene has taught: how noise and objects look from sight to sight, and how often something is an object."""

    noise: float = _NOISE * _PRIOR  # sums of Dice coefficients of two sights, and over how many steps
    noise_steps: float = _PRIOR
    objects: float = _OBJECTS * _PRIOR
    object_steps: float = _PRIOR
    found: int = 1  # what turned out to be an object, and what came to nothing
    failed: int = 0

    @property
    def level(self) -> float:
        """Where a sight speaks neither for an object nor against it: half way, as in Page's cumulative sums."""
        return (self.noise / self.noise_steps + self.objects / self.object_steps) / 2

    @property
    def trust(self) -> float:
        """Share of what came into sight that turned out to be an object."""
        return self.found / (self.found + self.failed)

    def learn(self, evidence: Evidence, is_object: bool) -> None:
        """Take over the steps of something that is an object, or came to nothing."""
        if is_object:
            self.objects, self.object_steps = self.objects + evidence.likeness, self.object_steps + evidence.steps
        else:
            self.noise, self.noise_steps = self.noise + evidence.likeness, self.noise_steps + evidence.steps
        evidence.likeness, evidence.steps = 0.0, 0

    def judge(self, evidence: Evidence, is_object: bool) -> None:
        """Take over that something has turned out to be an object, or has come to nothing."""
        self.learn(evidence, is_object)
        self.found, self.failed = self.found + is_object, self.failed + (not is_object)
