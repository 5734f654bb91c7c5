"""The pipeline: source, subtractor and sinks as three stages that run at the same time."""

import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from itertools import takewhile
from typing import Protocol

import numpy as np

from bgsub.errors import BrokenSourceError, ParameterError, ReaderGoneError, SourceError, logger
from bgsub.jobs import interrupts
from bgsub.jobs.checkpoints import Checkpoints, Snapshot
from bgsub.jobs.controls import Controls
from bgsub.jobs.job import Summary
from bgsub.numerics.compilation import waited
from bgsub.separation import Separation
from bgsub.subtractor.rehearsal import image_of, rehearse
from bgsub.video.concurrency import Channel
from bgsub.video.sinks.base import Sink
from bgsub.video.sources.base import Frame, FrameSource

_QUEUE_SIZE, _IN_WORK = 8, 3  # frames of a file that wait before a stage, and that stages have besides
_IDLE_SECONDS = 0.05
_PAUSE_TICK = 0.03  # seconds
_LATE = 0.2  # seconds of work on one frame after which screens show newer frames without a mask

Callback = Callable[[Frame, Separation], None]
#: Output of the second stage; the state of the subtractor after the frame, if a checkpoint is due.
_Result = tuple[Frame, Separation, Snapshot | None]


class Subtractor(Protocol):
    """The interface of a subtractor, such as `bgsub.BackgroundSubtractor`."""

    def process(self, image: np.ndarray, learningRate: float = -1) -> Separation:
        """Separate one frame; learning rate 0 freezes the model, 1 restarts it, -1 is the default."""


class Pipeline:
    """Reads in one thread, separates in a second, and writes in the thread that calls `run`.

    The calling thread has the sinks because windows need the main thread, and Ctrl-C arrives there. No frame of a file
    is lost. A live source drops its oldest waiting frames; while the separation of one takes long, sinks can show the
    newer ones (`Sink.preview`).

    Parameters
    ----------
    source : FrameSource
        Closed at the end of the run.
    subtractor : Subtractor
        Anything with `process`.
    sinks : sequence of Sink
        Closed at the end of the run, also if the source fails after some frames; aborted when anything else fails, or
        if the user stops the run before the first frame.
    progress : callable, optional
        Called with each frame and its separation after the sinks.
    controls : Controls, optional
        Commands to the run; by default those of the first window among the sinks.
    online : bool, default True
        Whether each mask depends only on the frames so far. Otherwise a new subtractor learns the first frames of a
        file before the run, see `bgsub.BackgroundSubtractor.rehearse`.
    checkpoints : Checkpoints, optional
        Makes checkpoints of a run over files, and has the start of a resumed one. If the user stops the run, all
        separated frames are written, a checkpoint follows, and the sinks are aborted, not closed.

    Examples
    --------
    >>> import bgsub
    >>> from bgsub.jobs import Pipeline
    >>> from bgsub.video import ArraySink
    >>> source = bgsub.open_source("video.mp4")
    >>> subtractor = bgsub.BackgroundSubtractor(fps=float(source.fps))
    >>> Pipeline(source, subtractor, [ArraySink("masks.npz")]).run().frames
    60
    """

    def __init__(
        self,
        source: FrameSource,
        subtractor: Subtractor,
        sinks: Sequence[Sink] = (),
        *,
        progress: Callback | None = None,
        controls: Controls | None = None,
        online: bool = True,
        checkpoints: Checkpoints | None = None,
    ) -> None:
        self._source = source
        self._subtractor = subtractor
        self._sinks = list(sinks)
        self._progress = progress
        of_windows = (getattr(sink, "controls", None) for sink in self._sinks)
        self._controls: Controls = controls or next(filter(None, of_windows), None) or Controls()
        queue_size = 1 if source.live else _QUEUE_SIZE
        self._looks_ahead = source.restartable and not online
        self._frames: Channel[Frame] = Channel(queue_size, drop_oldest=source.live)
        self._results: Channel[_Result] = Channel(queue_size)
        self._requested_by = ""  # name of the signal after which the run ends with the current frame
        self._finishing = False  # outputs are being finished, and signals are ignored
        self._busy_since: float | None = None  # when the subtractor got its current frame
        self._previewed: Frame | None = None
        self._has_results = False
        self._checkpoints = checkpoints
        self._first = self._count = 0 if checkpoints is None else checkpoints.start.frames

    def run(self) -> Summary:
        """Run to the end of the source, or until the user stops the run; may be called once.

        Raises
        ------
        BrokenSourceError
            When the source fails after some frames. The sinks are closed then, with those frames, and `result` is the
            Summary.
        Exception
            The first one of the source, the subtractor, a sink or `progress`. All threads have ended then, the source
            is closed, and the sinks are aborted, or closed with the frames before after `ReaderGoneError`.
        """
        self._begin = time.perf_counter(), waited()
        started: list[threading.Thread] = []
        failure: BaseException | None = None
        ended: BaseException | None = None  # an error after which the outputs are finished
        stopped = "end"
        with interrupts.taken(self._interrupt):
            try:
                for work, name in ((self._read, "bgsub-read"), (self._track, "bgsub-track")):
                    thread = threading.Thread(target=work, name=name)
                    thread.start()
                    started.append(thread)
                self._write()
                stopped = self._stopped_by or "end"
            except KeyboardInterrupt as error:
                stopped = interrupts.name_of(error)
            except BrokenSourceError as error:
                stopped, ended = "broken", error
            except ReaderGoneError as error:
                ended = error
            except BaseException as error:
                failure = error
            self._finishing = True
            is_stopped = stopped not in ("end", "limit", "broken")
            unfinished = is_stopped and (self._checkpoints is not None or not self._has_results)
            if stopped == "broken" and self._checkpoints is not None:
                failure = _attempt(self._checkpoints.restart_later, failure)
            failure = self._finish(started, failure, unfinished)
        if failure is not None:
            raise failure
        seconds, for_kernels = time.perf_counter() - self._begin[0], waited() - self._begin[1]
        dropped = self._frames.dropped + self._source.dropped
        skipped = self._source.skipped if self._checkpoints is None else self._checkpoints.skipped(self._source)
        summary = Summary(self._count, dropped, skipped, seconds, stopped, self._first, for_kernels)
        if isinstance(ended, BrokenSourceError):
            ended.result = summary
        if ended is not None:
            raise ended
        return summary

    def _interrupt(self, number: int) -> None:
        """Handle a signal; the second one raises KeyboardInterrupt. Only flags: it may come while a lock is held."""
        if self._finishing:
            logger.warning("finishing the outputs")
        elif self._requested_by:
            raise KeyboardInterrupt(number)
        else:
            self._requested_by = interrupts.name_of(KeyboardInterrupt(number))

    def _read(self) -> None:
        """Run the first stage: frames from the source into the first channel."""
        has_frames = False
        try:
            source = self._source
            if self._looks_ahead:
                self._controls.tune_subtractor(self._subtractor)
                with closing(self._controls.watch_ahead(source.ahead())) as ahead:
                    seen = takewhile(self._goes_on, ahead)
                    rehearse(self._subtractor, (image_of(self._subtractor, frame) for frame in seen))
                self._begin = time.perf_counter(), waited()
                if not self._goes_on():
                    self._frames.close()
                    return
            frames = source.alike(source) if self._checkpoints is None else self._checkpoints.remaining(source)
            for frame in frames:
                has_frames = True
                if not self._frames.put(frame):
                    return
            self._frames.close()
        except SourceError as error:
            is_broken = has_frames and not isinstance(error, BrokenSourceError)
            self._frames.close(BrokenSourceError(str(error)) if is_broken else error)
        except BaseException as error:
            self._frames.close(error)

    def _track(self) -> None:
        """Run the second stage: separations of the frames into the second channel."""
        has_results = False
        try:
            for frame in self._frames:
                self._busy_since = time.monotonic()
                self._controls.tune_subtractor(self._subtractor)
                try:
                    rate = self._controls.take_learning_rate()
                    image = image_of(self._subtractor, frame)
                    separation = self._subtractor.process(image, learningRate=rate)
                except ParameterError as error:
                    kind = BrokenSourceError if has_results else ParameterError
                    raise kind(f"frame {frame.name}: {error}") from error
                has_results = True
                snapshot = None if self._checkpoints is None else self._checkpoints.snapshot(self._subtractor)
                self._busy_since = None
                if not self._results.put((frame, separation, snapshot)):
                    return
            self._results.close()
        except BaseException as error:
            self._results.close(error)

    def _write(self) -> None:
        """Run the last stage in the calling thread: separations into the sinks."""
        newest: Frame | None = None
        for frame, separation, snapshot in self._arriving():
            newest, self._has_results = frame, True
            self._controls.statistics.update(frame, separation, self._frames.dropped + self._source.dropped)
            for sink in self._sinks:
                sink.write(frame, separation)
            self._count += 1
            if self._progress is not None:
                self._progress(frame, separation)
            if snapshot is not None and self._checkpoints is not None:
                self._checkpoints.store(snapshot, frame, self._count, self._sinks)
            while self._controls.paused and not self._requested_by and not self._controls.wait(_PAUSE_TICK):
                for sink in self._sinks:
                    sink.idle()
        if self._checkpoints is not None and self._stopped_by and newest is not None:
            # The tracking thread has ended.
            self._checkpoints.store(self._checkpoints.take(self._subtractor), newest, self._count, self._sinks)

    def _goes_on(self, _frame: Frame | None = None) -> bool:
        return not (self._stopped_by or self._finishing)

    @property
    def _stopped_by(self) -> str:
        return self._requested_by or self._controls.quit_by

    def _arriving(self) -> Iterator[_Result]:
        """Yield the results; while none comes, call `idle` of the sinks and check for a stop."""
        while True:
            if self._stopped_by and self._checkpoints is None:
                return
            if self._stopped_by:
                self._frames.cancel()  # the results end after the last frame that the model has learned
            if self._results.ready(_IDLE_SECONDS):
                result = next(self._results, None)
                if result is None:
                    return
                yield result
            else:
                self._preview()
                for sink in self._sinks:
                    sink.idle()

    def _preview(self) -> None:
        """Show the newest frame of a live source while the separation of an older one is late."""
        busy_since, frame = self._busy_since, self._frames.newest()
        if not self._source.live or busy_since is None or time.monotonic() - busy_since < _LATE:
            return
        if frame is not None and frame is not self._previewed:
            self._previewed = frame
            self._controls.statistics.note_preview()
            for sink in self._sinks:
                sink.preview(frame)

    def _finish(
        self, threads: Sequence[threading.Thread], failure: BaseException | None, unfinished: bool
    ) -> BaseException | None:
        """Stop the threads, close the source, close or abort the sinks; return the first failure."""
        self._frames.cancel()
        self._results.cancel()
        failure = _attempt(self._source.cancel, failure)
        for thread in threads:
            thread.join()
        failure = _attempt(self._source.close, failure)
        for sink in self._sinks:
            if failure is None and not unfinished:
                failure = _attempt(sink.close, failure)
            if failure is not None or unfinished:
                failure = _attempt(sink.abort, failure)
        return failure


def queue_memory(size: tuple[int, int]) -> int:
    """Return the bytes of the colour frames and separations of a file that wait, or are in work, at most."""
    # per pixel a frame; its copy, background, residual and mask
    return (_QUEUE_SIZE + _IN_WORK) * math.prod(size) * (2 * 3 + 2 * 3 + 4 + 1)


def _attempt(action: Callable[[], None], failure: BaseException | None) -> BaseException | None:
    """Call `action`; return its failure if it is the first one, else log it and return the first."""
    try:
        action()
    except BaseException as error:
        if failure is None:
            return error
        logger.warning("while stopping: %s", error)
    return failure
