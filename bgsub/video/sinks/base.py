"""What every output has in common."""

from __future__ import annotations

import tempfile
from abc import ABC, abstractmethod
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from bgsub.errors import SinkError
from bgsub.separation import Separation
from bgsub.storage.durable_io import folder_error, make_folder
from bgsub.video.sources.base import Frame


class Sink(ABC):
    """Takes separations, one by one, and ends in one of two ways.

    `close` finishes: the output appears under its final name. `abort` gives up: what was written stays
    readable, but not under the final name. As a context manager a sink closes at the end of the block and
    after Ctrl-C, and aborts after any other exception.

    A sink of one's own has `write` and `close`; the other methods do nothing, or what `close` does.

    Examples
    --------
    >>> import bgsub
    >>> from bgsub.video import Sink
    >>> class Shares(Sink):
    ...     def __init__(self):
    ...         self.shares = []
    ...     def write(self, frame, separation):
    ...         self.shares.append(separation.share)
    ...     def close(self):
    ...         self.mean = sum(self.shares) / len(self.shares)
    >>> shares = Shares()
    >>> summary = bgsub.process_video("video.mp4", shares)
    >>> len(shares.shares), 0 < shares.mean < 0.5
    (60, True)
    """

    @abstractmethod
    def write(self, frame: Frame, separation: Separation) -> None:
        """Take one frame and what it was separated into.

        Parameters
        ----------
        frame : Frame
            Index, name, time and pixels.
        separation : Separation
            Of that frame.

        Raises
        ------
        SinkError
            If it cannot be written; `OutputError` where the disk is full or gone.
        """

    def preview(self, frame: Frame) -> None:  # noqa: B027 - outputs hold what was separated
        """Show a frame of a live source that waits for its separation and may never get one.

        Called while the separation of an older frame takes long, for screens; in the thread of `write`.
        """

    def idle(self) -> None:  # noqa: B027 - most outputs have nothing to do
        """Do what must not wait for the next frame, such as the events of a window.

        Called some 20 times a second while no frame comes, as in a pause; in the thread of `write`.
        """

    @abstractmethod
    def close(self) -> None:
        """Finish the output; may be called more than once."""

    def abort(self) -> None:
        """Give up the output; without effect after `close`."""
        self.close()

    def checkpoint(self) -> dict[str, Any]:
        """Make what was written so far safe against a kill; return what `resume` needs, as JSON can hold it.

        To be called after any frame, and for the first time before the first one.

        Raises
        ------
        SinkError
            If this kind of output cannot be continued.
        """
        return {}

    def resume(self, state: dict[str, Any]) -> None:
        """Go on where `checkpoint` returned `state`, before the first `write`; what came after it is forgotten.

        Raises
        ------
        SinkError
            If this kind of output cannot be continued.
        """
        if state:
            raise SinkError(f"{type(self).__name__} cannot go on from {sorted(state)}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None or isinstance(error, KeyboardInterrupt):
            self.close()
        else:
            self.abort()


def prepare_folder(folder: Path) -> None:
    """Create a folder for outputs where it is missing; SinkError unless files can be written into it."""
    try:
        make_folder(folder)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise folder_error(folder, error) from None
