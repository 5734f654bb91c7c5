"""What a run did, in numbers."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Summary:
    """What a run did.

    Attributes
    ----------
    frames : int
        Frames separated and written.
    dropped : int
        Frames of a live source that came too fast.
    skipped : int
        Frames that could not be read.
    seconds : float
        Duration of the run.
    stopped : {"end", "user", "SIGINT", "SIGTERM", "broken"}
        The source ended; the user ended the run (a key, the cross of the window, a number of frames); Ctrl-C or another
        signal did; or the source could not be read on.
    stage_seconds : dict of str to float
        Time that the stages ``read``, ``track`` and ``write`` were busy, without waiting for each other or for kernels.
    resumed : int
        How many of the frames an earlier run had written, which this one went on from.
    waited : float
        Seconds of the duration for which kernels were waited for, which are compiled once per installation.
    """

    frames: int
    dropped: int
    skipped: int
    seconds: float
    stopped: str
    stage_seconds: dict[str, float] = field(default_factory=dict)
    resumed: int = 0
    waited: float = 0.0

    @property
    def frames_per_second(self) -> float:
        """Frames separated per second of the run, without the wait for kernels."""
        worked = self.seconds - self.waited
        return (self.frames - self.resumed) / worked if worked > 0 else 0.0
