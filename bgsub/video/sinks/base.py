"""The base class of all outputs."""

import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from operator import methodcaller
from pathlib import Path
from typing import Any, Self

from bgsub.errors import ParameterError, SinkError, on_failure
from bgsub.separation import Separation
from bgsub.storage.durable_io import AnyPath, folder_error, make_folder
from bgsub.video.sources.base import Frame


class Sink(ABC):
    """Writes separations, one by one.

    `close` finishes the output under its final name. `abort` leaves a readable part under another name. As a context
    manager a sink closes at the end of the block and after Ctrl-C, and aborts after other exceptions.

    A subclass defines `write` and `close`; the other methods are optional.

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

    _done = False  # set by subclasses that close once

    @abstractmethod
    def write(self, frame: Frame, separation: Separation) -> None:
        """Write one frame and its separation; SinkError if that fails, OutputError if the disk is full or gone."""

    def preview(self, frame: Frame) -> None:  # noqa: B027 - only for screens
        """Show a live frame without its separation, while the separation of an older frame takes long.

        Called in the thread of `write`.
        """

    def idle(self) -> None:  # noqa: B027 - optional
        """Handle events of a window while no frame comes.

        Called about 20 times a second, such as during a pause, in the thread of `write`.
        """

    @abstractmethod
    def close(self) -> None:
        """Finish the output; may be called more than once."""

    def abort(self) -> None:
        """Abort the output; no effect after `close`."""
        self.close()

    def checkpoint(self) -> dict[str, Any]:
        """Sync the output to disk and return the state for `resume`, in types of JSON.

        The first call must come before the first frame. What `resume` needs stays beside the output after `close`.
        SinkError if this kind of output cannot be resumed.
        """
        return {}

    def resume(self, state: dict[str, Any]) -> None:
        """Continue from the `state` of a checkpoint, before the first `write`; drop later data; SinkError as there."""
        if state:
            raise SinkError(f"{type(self).__name__} cannot be resumed from {sorted(state)}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if error is None or isinstance(error, KeyboardInterrupt):
            self.close()
        else:
            self.abort()


def path_with_ending(path: AnyPath, noun: str, endings: Sequence[str]) -> Path:
    """Return the path of an output file; ParameterError for another ending."""
    path = Path(path)
    if path.suffix.lower() not in endings:
        raise ParameterError(f"{noun} must end in {', '.join(endings)}, got '{path}'")
    return path


def abort_on_error(sinks: Iterable[Sink]) -> AbstractContextManager[None]:
    """Abort all sinks if the block fails."""
    return on_failure(lambda: list(map(methodcaller("abort"), sinks)))


def prepare_folder(folder: Path) -> None:
    """Create a folder for outputs if it is missing; SinkError if it is not writable."""
    try:
        make_folder(folder)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise folder_error(folder, error) from None
