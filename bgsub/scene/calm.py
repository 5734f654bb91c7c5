"""When light is asked for: what share of the frame usually turns into candidates, and patience after a no."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from bgsub.numerics.state import State, numbers_of

_SUDDEN = 0.04  # share of the frame that must turn into candidates at once before light is asked for
_LONGEST_WAIT = 16  # frames between two questions that were answered with no
_CALM_RATE = 0.1  # of the running share of candidates, per frame


@dataclass(frozen=True)
class Calm:
    """How calm a scene is.

    Attributes
    ----------
    usual : float
        Running share of candidates.
    waiting : int
        Frames until light may be asked for again.
    patience : int
        Frames to wait for after the next no: 1, 2, 4, ..., so that a tree in the wind is not asked every time.
    """

    usual: float = 0.0
    waiting: int = 0
    patience: int = 1

    def next(self, eager: bool = False) -> Calm:
        """Return what holds in the next frame, in which light may be asked for again at once if `eager`."""
        return replace(self, waiting=0 if eager else self.waiting - 1) if self.waiting else self

    def is_broken_by(self, share: float) -> bool:
        """Return whether a share of candidates is so sudden that light should be asked for."""
        return self.waiting == 0 and share > self.usual + _SUDDEN

    def answered(self, yes: bool) -> Calm:
        """Return what holds after an answer."""
        if yes:
            return replace(self, waiting=0, patience=1)
        return replace(self, waiting=self.patience, patience=min(2 * self.patience, _LONGEST_WAIT))

    def after(self, share: float) -> Calm:
        """Return what holds after a frame with a share of candidates."""
        usual = self.usual + _CALM_RATE * (min(share, self.usual + _SUDDEN) - self.usual)
        return Calm(usual, self.waiting, self.patience)

    def state(self) -> State:
        """Return the numbers as an array."""
        return {"calm": np.array([self.usual, float(self.waiting), float(self.patience)])}

    @classmethod
    def from_state(cls, state: State) -> Calm:
        """Return what `state` was of; ParameterError when the numbers are not there."""
        usual, waiting, patience = numbers_of(state, "calm", 3)
        return cls(usual, int(waiting), max(int(patience), 1))
