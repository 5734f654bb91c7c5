"""``bgsub live``: cameras in windows, on a page, in files and in video calls."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from bgsub import live as sessions
from bgsub.cli.exit_status import FAILURE, OK, exit_status
from bgsub.cli.help import OUTPUT, SCREEN, Example
from bgsub.cli.logs import Reporting, json_option, logger
from bgsub.cli.method_options import MethodCommand, check_model, given, model_option, save_model_option
from bgsub.cli.motion_options import MotionActions, motion_options
from bgsub.cli.options import PATH, check_no_file, choice, collect, one_of_files, option
from bgsub.cli.output_options import boxes_option, event_options, name_option, save_option
from bgsub.cli.pipeline import RunReporter, check_whole, run_pipeline
from bgsub.cli.setting_sources import FILE_NAME, called
from bgsub.cli.source_options import (
    BEGINNINGS,
    duration_option,
    on_error_option,
    rate_option,
    raw_option,
    reconnect_option,
)
from bgsub.errors import ParameterError, SinkError
from bgsub.jobs.controls import LIVE_VIEWS
from bgsub.jobs.job import Job, JobResult
from bgsub.video.regions import Regions
from bgsub.video.sources.camera_address import file_name, without_password

if TYPE_CHECKING:
    from bgsub.events.feed import EventFeed
    from bgsub.live.session import Outcome
    from bgsub.storage.file_lock import Claims
    from bgsub.subtractor.subtractor import BackgroundSubtractor
    from bgsub.video.sinks.base import Sink
    from bgsub.video.sources.base import FrameSource
    from bgsub.video.timecode import Timecode

_PLACE = re.compile(r"(?:(?P<host>\[[0-9a-fA-F:]+\]|[^:\[\]]+):)?(?P<port>\d{1,5})")
_STANDARD = Path("-")


@dataclass(frozen=True)
class Screen:
    """The options of window, page and virtual camera; `serve` is host and port of the page."""

    view: str
    no_window: bool
    serve: tuple[str, int] | None
    token: str | None
    fast: bool
    virtual_camera: bool
    backdrop: str | None


def parse_host_and_port(context: click.Context, option: click.Parameter, value: str | None) -> tuple[str, int] | None:
    """Return host and port of ``8765``, ``0.0.0.0:8765`` or ``[::1]:8765``."""
    if value is None:
        return None
    match = _PLACE.fullmatch(value)
    if match is None or int(match["port"]) > 65535:
        raise ParameterError(f"{called(context, option)} takes a port up to 65535, or host:port, got '{value}'")
    return (match["host"] or "127.0.0.1").strip("[]"), int(match["port"])


_screen_options = collect(
    "screen",
    Screen,
    choice(
        "--view",
        group=SCREEN,
        of=LIVE_VIEWS,
        metavar="VIEW",
        text=f"View at the start; the keys 1 to 9 and 0 change it: {', '.join(LIVE_VIEWS)}.",
    ),
    option("--no-window", group=SCREEN, is_flag=True, help="Open no window; needs another output or --serve."),
    option(
        "--serve",
        group=SCREEN,
        metavar="[HOST:]PORT",
        callback=parse_host_and_port,
        help="Show and control the run in a browser, on this machine or, with a token, in the network "
        "(0.0.0.0:8765); port 0 is any free one.",
    ),
    option(
        "--token",
        group=SCREEN,
        metavar="TEXT",
        hide_input=True,
        help="Password of the page.  [default: in the network a random one]",
    ),
    option("--fast", group=SCREEN, is_flag=True, help="Show a file as fast as possible instead of in real time."),
    option(
        "--virtual-camera",
        group=SCREEN,
        is_flag=True,
        help="Send the foreground on another background to a virtual camera, for video calls.",
    ),
    option(
        "--backdrop",
        group=SCREEN,
        shell_complete=one_of_files("blur"),
        metavar="blur|#rrggbb|IMAGE",
        help="The background of the virtual camera and of the view cutout: blurred, a colour, or an image file.  "
        "[default: blur]",
    ),
)


@click.command(
    cls=MethodCommand,
    short_help="Separate cameras in windows, a browser, files.",
    common=(
        *("view", "no-window", "serve", "virtual-camera", "backdrop", "output", "save", "event-formats", "roi"),
        *("record", "webhook", "threshold", "min-area", "shadows", "absorb-after"),
    ),
    examples=(
        Example("bgsub live", "The first camera of this machine, in a window"),
        Example("bgsub live rtsp://camera/stream --no-window --serve 8765", "A network camera, in a browser"),
        Example("bgsub live 0 --record clips --snapshots pictures", "A clip and a picture of each motion"),
    ),
)
@click.argument("cameras", nargs=-1, metavar="[CAMERA]...", shell_complete=one_of_files(*BEGINNINGS))
@_screen_options
@option(
    "-o",
    "--output",
    group=OUTPUT,
    type=PATH,
    callback=check_no_file,
    help="Folder for recordings of the --save views, or - for standard output.",
)
@save_option
@boxes_option
@name_option
@option("--overwrite", group=OUTPUT, is_flag=True, help="Replace recordings, event files and a model that exist.")
@event_options
@motion_options
@duration_option()
@raw_option
@rate_option
@reconnect_option
@on_error_option
@model_option
@save_model_option
@json_option()
def live(
    *, cameras: tuple[str, ...], screen: Screen, actions: MotionActions, duration: Timecode | None, **options: Any
) -> int:
    """Separate the frames of cameras in real time.

    CAMERA is the number of a camera (0, the default, is the first) or an address such as rtsp://... or
    http://...; it can also be a file, a named pipe, or - for standard input. If frames come too fast, the oldest
    are dropped and counted. Several cameras have one window each and share the page; the files of each are in its
    own folder.

    q in the window, Ctrl-C and SIGTERM end the run of a camera with exit code 0. Before the end of a file, or of
    --duration, the two signals give the exit codes 130 and 143.

    Keys in the window: h shows them all; q quit, space pause, s snapshot, v view, b boxes, e edit the regions,
    r reset the model, f freeze it.
    """
    cameras = cameras or ("0",)
    from bgsub.storage.file_lock import Claims  # noqa: PLC0415 - it is slow to import

    context = click.get_current_context()
    claims = context.with_resource(Claims())
    outputs = _Outputs(actions, screen, datetime.now(), options, claims)
    _check(cameras, outputs)
    check_model(options, options["model"])
    described = [
        sessions.LiveCamera(
            source,
            given(options),
            options["model"],
            options["save_model"],
            partial(outputs.sinks, folder=folder),
            {name: options[name] for name in ("on_error", "fps", "raw", "reconnect")},
            screen.fast,
            options["roi"],
            options["privacy"],
            actions.of_job["motion"],
        )
        for source, folder in zip(cameras, _folders(cameras), strict=True)
    ]
    page = None if screen.serve is None else {"host": screen.serve[0], "port": screen.serve[1], "token": screen.token}
    reporter = RunReporter(len(cameras) > 1, duration)
    start = partial(
        sessions.LiveSession,
        described,
        view=screen.view,
        boxes=options["boxes"],
        page=page,
        backdrop=screen.backdrop,
        regions=_regions(context, options),
        runner=partial(_run, context, reporter, claims=claims),
    )
    with _start(start, not screen.no_window, page is not None) as session:
        if session.server is not None:
            is_taken = Reporting.of().json or options["output"] == _STANDARD
            click.echo(f"watch at {session.server.address}", err=is_taken)
        outcomes = session.run()
        code = _report_all(outcomes, replace(reporter, is_one_of_many=False)) if len(cameras) > 1 else OK
    for outcome in outcomes:
        if outcome.result is not None:
            check_whole(outcome.result, ends=duration is not None)
    return code


_ABOVE_FILES = (ParameterSource.COMMANDLINE, ParameterSource.ENVIRONMENT)


def _regions(context: click.Context, options: dict[str, Any]) -> sessions.RegionStore:
    """Return the regions of the run, and the function that writes drawn ones into a settings file."""
    file = context.find_root().params.get("config") or Path(FILE_NAME)

    def save(texts: Mapping[str, Sequence[str]]) -> str:
        from bgsub.cli.config import store  # noqa: PLC0415 - few runs store regions

        store(file, context.command.name or "", texts)
        above = [kind for kind in texts if context.get_parameter_source(kind) in _ABOVE_FILES]
        return f"{file}, which {' and '.join(f'--{kind}' for kind in above)} overrides" if above else str(file)

    return sessions.RegionStore({kind: options[kind] for kind in ("roi", "privacy")}, save)


def _start(start: Callable[..., sessions.LiveSession], window: bool, page: bool) -> sessions.LiveSession:
    """Start a session; without a screen only with a page, or raise SinkError with advice."""
    from bgsub.live.window import NoWindowError  # noqa: PLC0415 - it imports OpenCV

    try:
        return start(window=window)
    except NoWindowError as error:
        if not page:
            advice = "--serve PORT shows the run in a browser, --no-window runs without a window"
            raise SinkError(f"{error}; {advice}") from None
        logger.info("%s; the run is shown in the browser only", error)
        return start(window=False)


@dataclass(frozen=True)
class _Outputs:
    """The outputs of the cameras in files and in a virtual camera; `started` is in all file names of the run."""

    actions: MotionActions
    screen: Screen
    started: datetime
    options: dict[str, Any]
    claims: Claims

    def sinks(self, source: FrameSource, feed: EventFeed | None, folder: str) -> list[Sink]:
        """Return the outputs of a camera, in `folder` below the folders of the options."""
        sinks: list[Sink] = []
        try:
            if self.screen.virtual_camera:
                backdrop = self.screen.backdrop or "blur"
                sinks.append(sessions.VirtualCameraSink(backdrop, source.fps, size=source.size))
            sinks += self._files(source, feed, folder)
        except BaseException:
            for sink in sinks:
                sink.abort()
            raise
        return sinks

    def _files(self, source: FrameSource, feed: EventFeed | None, folder: str) -> list[Sink]:
        from bgsub.jobs.outputs import make_sinks  # noqa: PLC0415 - it imports OpenCV

        output, actions = self.options["output"], self.actions.moved(lambda place: place / folder)
        job = Job(
            source.name,
            (output or Path()) / folder,
            save=() if output is None else actions.views(self.options["views"]),
            event_formats=tuple(self.options["event_formats"]),
            **{name: self.options[name] for name in ("name", "boxes", "model", "save_model")},
            **actions.of_job,
        )
        regions = Regions(self.options["roi"]) if self.options["roi"] else None
        return make_sinks(job, source, self.options["overwrite"], self.started, regions, feed, self.claims)


def _check(cameras: tuple[str, ...], outputs: _Outputs) -> None:
    """Raise an error for options that exclude or need each other."""
    folder, screen = outputs.options["output"], outputs.screen
    seen = (folder is not None, outputs.actions.is_wanted, screen.serve is not None, screen.virtual_camera)
    if screen.no_window and not any(seen):
        others = "--output, --record, --on-event, --webhook, --snapshots, --serve or --virtual-camera"
        raise click.UsageError(f"--no-window needs {others}, or nothing would show the result")
    if screen.token is not None and screen.serve is None:
        raise ParameterError("--token needs --serve")
    if outputs.options["event_formats"] and folder is None:
        raise ParameterError("--event-formats needs --output")
    if folder == _STANDARD and len(cameras) > 1:
        raise ParameterError("standard output takes one camera, got several")
    if screen.virtual_camera and len(cameras) > 1:
        raise ParameterError("--virtual-camera takes one camera, got several")


def _folders(cameras: tuple[str, ...]) -> list[str]:
    """Return the folder of each camera: "" for a single one, distinct names for several."""
    if len(cameras) == 1:
        return [""]
    folders: list[str] = []
    for camera in cameras:
        name = f"camera-{int(camera)}" if camera.isdigit() else file_name(without_password(camera))
        taken = sum(folder == name or folder.startswith(f"{name}~") for folder in folders)
        folders.append(f"{name}~{taken + 1}" if taken else name)
    return folders


def _run(
    context: click.Context,
    reporter: RunReporter,
    source: FrameSource,
    subtractor: BackgroundSubtractor,
    sinks: Sequence[Sink],
    **more: Any,
) -> JobResult:
    """Run one opened camera in any thread, with the options of the command."""
    with context.scope(cleanup=False):
        return run_pipeline(source, subtractor, sinks, reporter, **more)


def _report_all(outcomes: list[Outcome], reporter: RunReporter) -> int:
    """Print the result of each camera; return the exit code."""
    failed = [outcome for outcome in outcomes if outcome.error is not None]
    for outcome in outcomes:
        if outcome.result is not None and not Reporting.of().json:  # JSON was printed when the camera ended
            reporter.report(outcome.result)
    for outcome in failed:
        assert outcome.error is not None
        click.echo(f"bgsub: error: {outcome.name}: {exit_status(outcome.error)[0]}", err=True)
    return FAILURE if failed else OK
