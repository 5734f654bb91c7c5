"""One or more cameras at once: windows, a page, and what becomes of each camera."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from bgsub.errors import ParameterError, StoppedError
from bgsub.events.annotation import AnnotatingSink
from bgsub.events.feed import EventFeed
from bgsub.events.motion import MotionRules
from bgsub.events.notifications.sink import NotificationSink
from bgsub.events.sink import make_feed
from bgsub.jobs import run
from bgsub.jobs.controls import Controls
from bgsub.jobs.interrupts import finishing, name_of
from bgsub.jobs.job import JobResult
from bgsub.jobs.region_subtractor import RegionSubtractor
from bgsub.live.backdrops import make_backdrop
from bgsub.live.pacing import PacedSource
from bgsub.live.region_drawing import RegionDrawing
from bgsub.live.region_store import RegionStore
from bgsub.live.server import LiveServer
from bgsub.live.snapshots import SnapshotSink
from bgsub.live.viewer import Viewer
from bgsub.live.window import LONGEST_SIDE, KeyCommands, WindowSink
from bgsub.live.worker import TICK, Outcome, Worker, join
from bgsub.video.in_background import in_background
from bgsub.video.private import PrivateSource
from bgsub.video.regions import Regions
from bgsub.video.sinks.base import Sink
from bgsub.video.sources.base import FrameSource
from bgsub.video.sources.camera_address import file_name, without_password
from bgsub.video.sources.opening import check_there, open_source
from bgsub.video.sources.pipe import PipeSource, is_pipe

Runner = Callable[..., JobResult]
MakeSinks = Callable[[FrameSource, EventFeed | None], Sequence[Sink]]


@dataclass(frozen=True)
class LiveCamera:
    """A camera of a session, and what is made of it.

    Attributes
    ----------
    source : str
        What `open_source` takes.
    parameters : dict
        Parameters of `BackgroundSubtractor`; none beside `model`.
    model, save_model : Path, optional
        Model file to start from; file to write the model to at the end.
    make_sinks : callable, optional
        Takes the opened source and the feed of its events that the screens share, if there are any, and returns the
        outputs beside windows and page.
    privacy : tuple of str
        Regions that are black, written as those of `roi`.
    motion : dict
        What is motion, see `Job`.
    open_options : dict
        More arguments of `open_source`, such as ``on_error`` and ``reconnect``.
    fast : bool
        A file comes as fast as it can, not in real time.
    roi : tuple of str
        Regions of interest, texts as `bgsub.video.Regions` takes them; none for the whole frame.

    Examples
    --------
    >>> from bgsub.live import LiveCamera
    >>> LiveCamera("rtsp://user:secret@gate/stream", {"threshold": 0.1}, roi=("door=0,0,80,120",)).name
    'rtsp://gate/stream'
    """

    source: str
    parameters: dict[str, Any] = field(default_factory=dict)
    model: Path | None = None
    save_model: Path | None = None
    make_sinks: MakeSinks | None = None
    open_options: dict[str, Any] = field(default_factory=dict)
    fast: bool = False
    roi: tuple[str, ...] = ()
    privacy: tuple[str, ...] = ()
    motion: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """What window and page call it."""
        return f"camera {self.source}" if self.source.isdigit() else without_password(self.source)


class LiveSession:
    """Runs cameras side by side until all have ended or are quit.

    One camera runs in the calling thread, and its errors are raised. Several have a thread each, the calling thread
    serves their windows, and one that fails does not stop the others. The calling thread must be the main one if
    there are windows.

    Parameters
    ----------
    cameras : sequence of LiveCamera
        With different sources.
    view : str
        View that is shown first, one of `bgsub.video.VIEWS`.
    boxes : bool
        Whether every view shows what was found, at first.
    window : bool
        Whether each camera has a window.
    page : dict, optional
        ``port`` of the page, 0 for a free one; ``host``, by default this machine only; ``token`` that every request
        must bring along, on another host a random one by default. By default there is no page.
    backdrop : str or path, optional
        What the view cutout shows behind the foreground: ``"blur"``, the background out of focus, a colour such as
        ``"#00b140"``, or an image file; by default a checkerboard.
    snapshot_folder : str or path
        Where snapshots go.
    regions : RegionStore, optional
        Where regions that are drawn by hand go; by default they cannot be stored.
    runner : callable, optional
        Runs one opened camera: is called with its source, subtractor and sinks, and by name with ``controls`` and
        ``save_model``; by default what `bgsub.jobs.run_job` does.

    Attributes
    ----------
    controls : dict of str to Controls
        State of each camera by its name.
    server : LiveServer or None
        The page, while the block runs.

    Raises
    ------
    ParameterError
        For no camera, the same camera twice, or several with one model file; for parameters of the method.
    SinkError
        If a window or the page cannot be shown.
    SourceError
        For one file that is not there.

    Examples
    --------
    >>> from bgsub.live import LiveCamera, LiveSession, LoopbackCamera
    >>> with LoopbackCamera() as camera:  # a real one: LiveCamera("0"), or its address
    ...     with LiveSession([LiveCamera(camera.address)], window=False, page={"port": 0}) as session:
    ...         address = session.server.address  # for the browser; outcomes = session.run()
    >>> address.startswith("http://127.0.0.1:")
    True
    """

    def __init__(
        self,
        cameras: Sequence[LiveCamera],
        *,
        view: str = "panel",
        boxes: bool = False,
        window: bool = True,
        page: dict[str, Any] | None = None,
        backdrop: str | Path | None = None,
        snapshot_folder: str | Path = ".",
        regions: RegionStore | None = None,
        runner: Runner = run.execute,
    ) -> None:
        _check(cameras)
        self._cameras, self._runner, self._folder = list(cameras), runner, Path(snapshot_folder)
        self.controls = {camera.name: Controls(view, boxes=boxes) for camera in cameras}
        self._backdrop = None if backdrop is None else make_backdrop(backdrop)
        self._windows: list[WindowSink] = []
        self.server: LiveServer | None = None
        try:
            if window:
                keys = KeyCommands(*self.controls.values(), drawing=RegionDrawing(regions or RegionStore()))
                for name, controls in self.controls.items():
                    self._windows.append(self._window(name, controls, keys))
            if page is not None:
                self.server = LiveServer(self.controls, **page, backdrop=self._backdrop, regions=regions)
        except BaseException:
            self.close()
            raise

    def _window(self, name: str, controls: Controls, keys: KeyCommands) -> WindowSink:
        viewer = Viewer(controls, name, backdrop=self._backdrop, longest_side=LONGEST_SIDE)
        title, snapshots = f"bgsub: {name.removeprefix('camera ')}", self._snapshots(name, controls)
        return WindowSink(title=title, controls=controls, viewer=viewer, keys=keys, snapshots=snapshots)

    def _snapshots(self, name: str, controls: Controls) -> SnapshotSink:
        several = len(self._cameras) > 1
        return SnapshotSink(controls, self._folder, f"snapshot-{file_name(name)}" if several else "snapshot")

    def run(self) -> list[Outcome]:
        """Run all cameras to their end.

        Returns
        -------
        list of Outcome
            In the order of the cameras; each has `name`, `result` (`bgsub.jobs.JobResult`) and `error`, one of which is
            None.

        Raises
        ------
        BgsubError
            As `bgsub.jobs.run_job` raises them, where there is one camera.
        """
        if len(self._cameras) > 1:
            return self._run_several()
        (camera,) = self._cameras
        return [Outcome(camera.name, self._run_one(0, self._windows))]

    def quit(self, by: str = "user") -> None:
        """End all cameras, see `Controls.quit`; safe to use from any thread."""
        for controls in self.controls.values():
            controls.quit(by)

    def close(self) -> None:
        """Remove the windows and the page; may be called more than once."""
        for window in self._windows:
            window.close()
        if self.server is not None:
            self.server.close()

    def __enter__(self) -> LiveSession:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run_one(self, number: int, screens: Sequence[Sink]) -> JobResult:
        """Open a camera and run it to its end."""
        camera = self._cameras[number]
        controls = self.controls[camera.name]
        # What is wrong shows before the source is opened.
        run.make_subtractor(camera.parameters, camera.model, privacy=camera.privacy)
        with self._open(camera) as opened:
            source = opened if opened.live or camera.fast else PacedSource(opened)
            subtractor = run.make_subtractor(camera.parameters, camera.model, source, camera.privacy)
            controls.follow(subtractor.get_params())
            regions = Regions(camera.roi) if camera.roi else None
            feed = make_feed(source, MotionRules(**camera.motion), regions)
            screens = list(screens)
            if self.server is not None:
                screens.append(self.server.sink(number))
                if not self._windows:
                    screens.append(self._snapshots(camera.name, controls))
            # Without a screen the outputs know by themselves what is to be followed.
            shared = feed if screens else None
            sinks = list(camera.make_sinks(source, shared) if camera.make_sinks is not None else ())
            controls.on_snapshot = next(
                (sink.tell_picture for sink in sinks if isinstance(sink, NotificationSink)), None
            )
            sinks += [AnnotatingSink(screen, feed, regions) for screen in screens]
            within: Any = RegionSubtractor(subtractor, regions) if regions is not None else subtractor
            return self._runner(source, within, sinks, controls=controls, save_model=camera.save_model)

    def _open(self, camera: LiveCamera) -> FrameSource:
        """Open a camera; while one on the network or a pipe is waited for, its window lives and the run can be quit."""
        controls = self.controls[camera.name]
        windows = self._windows if len(self._cameras) == 1 else []  # several are served by the main thread

        def attend() -> None:
            for window in windows:
                window.idle()
            if controls.wait(TICK):
                raise StoppedError("stopped by the user before the camera answered")

        opening = partial(open_source, camera.source, **camera.open_options)
        if "://" in camera.source or is_pipe(camera.source):
            source = in_background(opening, FrameSource.close, attend)
        else:
            source = opening()
        if isinstance(source, PipeSource):
            source.live = True  # whoever watches wants the newest frame, not all of them
        return PrivateSource(source, camera.privacy) if camera.privacy else source

    # -- several cameras -----------------------------------------------------------------------------------------

    def _run_several(self) -> list[Outcome]:
        came = threading.Event()
        windows: list[WindowSink | None] = [*self._windows] or [None] * len(self._cameras)
        workers = [
            Worker(camera.name, partial(self._run_one, number), window, came)
            for number, (camera, window) in enumerate(zip(self._cameras, windows, strict=True))
        ]
        for worker in workers:
            worker.thread.start()
        try:
            while any(worker.thread.is_alive() for worker in workers):
                came.wait(TICK)
                came.clear()
                for worker in workers:
                    worker.serve_window()
        except KeyboardInterrupt as interrupt:
            self.quit(name_of(interrupt))
        except BaseException:
            self.quit()
            join(workers)
            raise
        with finishing():
            join(workers)
        return [worker.outcome for worker in workers]


def _check(cameras: Sequence[LiveCamera]) -> None:
    if not cameras:
        raise ParameterError("a session needs at least one camera")
    names = [camera.name for camera in cameras]
    for name in names:
        if names.count(name) > 1:
            raise ParameterError(f"each camera can be given once, got {name} twice")
    if len(cameras) > 1 and any(camera.model or camera.save_model for camera in cameras):
        raise ParameterError("a model file is for one camera, got several cameras")
    if len(cameras) == 1:
        check_there(cameras[0].source)  # before a page says where it is; several do not stop each other
    for camera in cameras:
        if camera.model is None:
            run.make_subtractor(camera.parameters)
