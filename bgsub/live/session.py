"""Run one or more cameras at once, with windows and a page."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any

from bgsub.errors import ParameterError, StoppedError, logger, on_failure
from bgsub.events.annotation import AnnotatingSink
from bgsub.events.feed import EventFeed
from bgsub.events.notifications.sink import NotificationSink
from bgsub.jobs import run
from bgsub.jobs.controls import Controls
from bgsub.jobs.interrupts import finishing, name_of
from bgsub.jobs.job import Job, JobResult
from bgsub.jobs.outputs import make_feed, make_sinks
from bgsub.jobs.run import RegionSubtractor
from bgsub.live.page_commands import RegionStore, Texts
from bgsub.live.server import LiveServer
from bgsub.live.viewer import Broadcast, RecentEvents, SnapshotSink, Viewer
from bgsub.live.window import LONGEST_SIDE, WindowSink
from bgsub.numerics.memory import share_heaps
from bgsub.separation import Separation
from bgsub.storage.file_lock import Claims
from bgsub.video.concurrency import Channel, in_background
from bgsub.video.privacy_mask import PrivateSource
from bgsub.video.regions import Regions
from bgsub.video.sinks.base import Sink
from bgsub.video.sources.base import Frame, FrameSource, SelectedSource
from bgsub.video.sources.camera_address import file_name, insecure_mark, without_password
from bgsub.video.sources.opening import check_there, open_source
from bgsub.video.sources.pipes import PipeSource, is_pipe

_TICK = 0.04  # seconds between two updates of a window without frames
_CATCH_UP = 0.25  # maximum delay in seconds that a file played in real time makes up for

Runner = Callable[..., JobResult]


@dataclass(frozen=True)
class Outcome:
    """The result of one camera of a session, or its error."""

    name: str
    result: JobResult | None = None
    error: BaseException | None = None


class LiveSession(AbstractContextManager["LiveSession"]):
    """Run cameras in parallel until all have ended or are quit.

    One camera runs in the calling thread and raises its errors. Several have a thread each; the calling thread updates
    their windows, and a failed camera does not stop the others. Windows need the main thread.

    Parameters
    ----------
    cameras : sequence of Job
        The cameras with their outputs, see `bgsub.jobs.Job`; with different sources.
    fast : bool
        Read files as fast as possible instead of in real time.
    view : str
        Initial view, one of `bgsub.video.VIEWS`.
    boxes : bool
        Whether each view initially shows the detections.
    window : bool
        Whether each camera has a window.
    page : dict, optional
        ``port``, ``host`` and ``token`` of the page, see `LiveServer`; by default there is no page.
    regions : RegionStore, optional
        Stores regions drawn on the page, which cameras use at once; by default they cannot be stored.
    runner : callable, optional
        Called with the source, subtractor and sinks of one camera, and with ``controls``, ``save_model`` and
        ``claims`` by name; by default as `bgsub.jobs.run_job`.

    Attributes
    ----------
    controls : dict of str to Controls
        State of each camera by name.
    server : LiveServer or None
        The page, within the block.

    Raises
    ------
    ParameterError
        For no camera, duplicate cameras, several cameras with a model file, or invalid parameters.
    SinkError
        If a window or the page cannot be shown.
    SourceError
        For a single file that does not exist.

    Examples
    --------
    >>> from bgsub.jobs import Job
    >>> from bgsub.live import LiveSession
    >>> with LiveSession([Job("0", ".", save=())], window=False, page={"port": 0}) as session:
    ...     address = session.server.address  # for the browser; outcomes = session.run()
    >>> address.startswith("http://127.0.0.1:")
    True
    """

    def __init__(
        self,
        cameras: Sequence[Job],
        *,
        fast: bool = False,
        view: str = "panel",
        boxes: bool = False,
        window: bool = True,
        page: dict[str, Any] | None = None,
        regions: RegionStore | None = None,
        runner: Runner = run.execute,
    ) -> None:
        _check(cameras)
        share_heaps()  # encoders and connections come and go for days
        self._cameras, self._fast, self._runner = list(cameras), fast, runner
        self._started = datetime.now()  # in the names of all files
        self._regions = regions
        self.controls = {_name(camera): Controls(view, boxes=boxes) for camera in cameras}
        self._windows: list[WindowSink] = []
        self.server: LiveServer | None = None
        with on_failure(self.close):
            if window:
                for name, controls in self.controls.items():
                    self._windows.append(self._window(name, controls))
            if page is not None:
                self.server = LiveServer(self.controls, **page, regions=regions)

    def _window(self, name: str, controls: Controls) -> WindowSink:
        viewer = Viewer(controls, name, longest_side=LONGEST_SIDE)
        title, snapshots = f"bgsub: {name.removeprefix('camera ')}", self._snapshots(name, controls)
        cameras = list(self.controls.values())
        return WindowSink(title=title, controls=controls, viewer=viewer, cameras=cameras, snapshots=snapshots)

    def _snapshots(self, name: str, controls: Controls) -> SnapshotSink:
        several = len(self._cameras) > 1
        return SnapshotSink(controls, f"snapshot-{file_name(name)}" if several else "snapshot")

    def run(self) -> list[Outcome]:
        """Run all cameras to their end; return their outcomes in order.

        Each outcome has `name`, and `result` (`bgsub.jobs.JobResult`) or `error`; a single camera raises BgsubError, as
        `bgsub.jobs.run_job` does.
        """
        if len(self._cameras) > 1:
            return self._run_several()
        (camera,) = self._cameras
        return [Outcome(_name(camera), self._run_one(0, self._windows))]

    def quit(self, by: str = "user") -> None:
        """Quit all cameras; safe to use from any thread."""
        for controls in self.controls.values():
            controls.quit(by)

    def close(self) -> None:
        """Close the windows and the page; may be called more than once."""
        for window in self._windows:
            window.close()
        if self.server is not None:
            self.server.close()

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run_one(self, number: int, screens: Sequence[Sink]) -> JobResult:
        camera = self._cameras[number]
        name, controls = _name(camera), self.controls[_name(camera)]
        with self._open(camera) as opened, Claims(camera.output) as claims:
            source = opened if opened.live or self._fast else PacedSource(opened)
            is_whole = self._regions is not None and self.server is not None and isinstance(source, PrivateSource)
            subtractor = run.make_subtractor(replace(camera, roi=()) if is_whole else camera, source)
            controls.follow(subtractor.get_params())
            feed = make_feed(camera, source)
            screens, recent = list(screens), None
            if self.server is not None:
                broadcast = self.server.broadcasts[number]
                broadcast.recent = recent = RecentEvents(feed)
                screens.append(broadcast)
                if not self._windows:
                    screens.append(self._snapshots(name, controls))
            shared = feed if screens else None  # without a screen each output chooses what to track
            sinks = make_sinks(camera, source, shared, claims, camera.overwrite, self._started)
            notifying = (sink for sink in sinks if isinstance(sink, NotificationSink))
            controls.on_snapshot = next((sink.notify_snapshot for sink in notifying), None)
            sinks += [AnnotatingSink(screen, feed) for screen in screens]
            sinks += [] if recent is None else [recent]
            options: dict[str, Any] = {"controls": controls, "save_model": camera.save_model, "claims": claims}
            if self._regions is None or self.server is None or not isinstance(source, PrivateSource):
                return self._runner(source, run.restricted(subtractor, camera), sinks, **options)
            roi, ignored = Regions.of(camera.roi), Regions.of(camera.ignore)
            within = RegionSubtractor(subtractor, roi, ignored, source.mask)
            follow = partial(_use_regions, source, within, feed, self.server.broadcasts[number])
            with self._regions.followed_by(source.size[::-1], follow):
                return self._runner(source, within, sinks, **options)

    def _open(self, camera: Job) -> FrameSource:
        """Open a camera; the window and quitting work while a network camera or a pipe is awaited."""
        controls, address = self.controls[_name(camera)], str(camera.source)
        windows = self._windows if len(self._cameras) == 1 else []  # the main thread updates several

        def attend() -> None:
            for window in windows:
                window.idle()
            if controls.wait(_TICK):
                raise StoppedError("stopped by the user before the camera responded")

        opening = partial(open_source, camera.source, **run.open_options(camera))
        if "://" in address or is_pipe(address):
            source = in_background(opening, FrameSource.close, attend)
        else:
            source = opening()
        if isinstance(source, PipeSource):
            source.live = True  # show the newest frame, not all of them
        drawable = self._regions is not None and self.server is not None and source.live
        return PrivateSource(source, camera.privacy) if camera.privacy or drawable else source

    def _run_several(self) -> list[Outcome]:
        came = threading.Event()
        screens = [_LateWindow(window, came) for window in self._windows]
        names = list(map(_name, self._cameras))
        with ThreadPoolExecutor(len(names), "bgsub-camera") as pool:
            futures = [pool.submit(self._run_one, number, screens[number : number + 1]) for number in range(len(names))]
            for name, future in zip(names, futures, strict=True):
                future.add_done_callback(partial(_log_failure, name))
            try:
                while not all(future.done() for future in futures):
                    came.wait(_TICK)
                    came.clear()
                    for screen, future in zip(screens, futures, strict=False):  # there may be no windows
                        screen.update(future.done())
            except KeyboardInterrupt as interrupt:
                self.quit(name_of(interrupt))
            except BaseException:
                self.quit()
                raise
            with finishing():
                errors = [future.exception() for future in futures]
        results = [None if error else one.result() for one, error in zip(futures, errors, strict=True)]
        return list(map(Outcome, names, results, errors))


def _log_failure(name: str, future: Future[JobResult]) -> None:
    if error := future.exception():
        logger.debug("%s failed", name, exc_info=error)
        logger.warning("%s: %s", name, error)


def _name(camera: Job) -> str:
    """Return the name of a camera in its window and on the page."""
    source = str(camera.source)
    return f"camera {source}" if source.isdigit() else without_password(source) + insecure_mark(source, camera.insecure)


def _check(cameras: Sequence[Job]) -> None:
    if not cameras:
        raise ParameterError("a session needs at least one camera")
    names = [_name(camera) for camera in cameras]
    for name in names:
        if names.count(name) > 1:
            raise ParameterError(f"each camera can be given once, got {name} twice")
    if len(cameras) > 1 and any(camera.model or camera.save_model for camera in cameras):
        raise ParameterError("a model file is for one camera, got several cameras")
    if len(cameras) == 1:
        check_there(str(cameras[0].source))  # before the page is announced
    for camera in cameras:
        run.make_subtractor(camera, any_roi=True)


def _use_regions(
    source: PrivateSource, within: RegionSubtractor, feed: EventFeed, page: Broadcast, texts: Texts
) -> None:
    """Make a running camera use regions that were drawn on the page."""
    regions = Regions.of(texts["roi"])
    within.replace(regions, Regions.of(texts["ignore"]))
    feed.replace_regions(regions)
    if list(texts["privacy"]) != source.mask.texts:
        source.mask.replace(texts["privacy"])
        page.forget()


class PacedSource(SelectedSource):
    """Play a file in real time without dropping frames; a source without rate and times is not delayed."""

    def __init__(self, source: FrameSource) -> None:
        super().__init__(source)
        self._cancelled = threading.Event()

    def cancel(self) -> None:
        self._cancelled.set()
        super().cancel()

    def _frames(self) -> Iterator[Frame]:
        due, before = time.monotonic(), None
        for frame in super()._frames():
            if frame.time is not None:
                due += max(frame.time - before, 0.0) if before is not None else 0.0
                before = frame.time
            now = time.monotonic()
            due = max(due, now - _CATCH_UP)
            if due > now and self._cancelled.wait(due - now):
                return
            yield frame


class _LateWindow(Sink):
    """Keeps the newest frame of one of several cameras for the main thread, which updates its window; sets `came`."""

    def __init__(self, window: WindowSink, came: threading.Event) -> None:
        self._window, self._came, self._updated = window, came, 0.0
        self._newest: Channel[tuple[Frame, Separation | None]] = Channel(1, drop_oldest=True)

    def write(self, frame: Frame, separation: Separation | None) -> None:
        self._newest.put((frame, separation))
        self._came.set()

    def preview(self, frame: Frame) -> None:
        self.write(frame, None)

    def close(self) -> None:
        """Do nothing: the main thread closes the window when the camera has ended."""

    def update(self, is_over: bool) -> None:
        """Show the newest frame, or handle window events; close the window when the camera has ended."""
        newest, now = next(self._newest) if self._newest.ready(0) else None, time.monotonic()
        if is_over:
            self._window.close()
        elif newest is not None:
            frame, separation = newest
            if separation is None:
                self._window.preview(frame)
                self._window.idle()
            else:
                self._window.write(frame, separation)
            self._updated = now
        elif now - self._updated > _TICK:
            self._window.idle()
            self._updated = now
