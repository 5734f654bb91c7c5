"""The commands that reach a running pipeline from a window, a callback or another thread."""

from __future__ import annotations

import threading


class Controls:
    """Switches of a running pipeline, safe to use from any thread.

    Attributes
    ----------
    frozen : bool
        The model learns nothing (learning rate 0).
    paused : bool
        The window shows one frame and holds up the rest.
    """

    def __init__(self) -> None:
        self.frozen = False
        self.paused = False
        self._quit = threading.Event()
        self._reset = threading.Event()

    def quit(self) -> None:
        """End the run after the frame at hand; its outputs are finished."""
        self._quit.set()

    @property
    def quitting(self) -> bool:
        """Whether the end of the run has been asked for."""
        return self._quit.is_set()

    def reset(self) -> None:
        """Start the model anew with the next frame."""
        self._reset.set()

    def take_learning_rate(self) -> float:
        """Return the learning rate of the next frame and forget a reset: 1 reset, 0 frozen, -1 otherwise."""
        if self._reset.is_set():
            self._reset.clear()
            return 1.0
        return 0.0 if self.frozen else -1.0
