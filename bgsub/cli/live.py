"""``bgsub live``: cameras, shown in windows and on a page, written to files, or all of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from bgsub import live as sessions
from bgsub.cli.blocks import PATH, one_of_files, option
from bgsub.cli.event_options import boxes_option, event_options
from bgsub.cli.help import OUTPUT, Example
from bgsub.cli.job_options import name_option
from bgsub.cli.live_options import Screen, VirtualCamera, screen_options, virtual_camera_options
from bgsub.cli.logs import Reporting, logger, report_options
from bgsub.cli.model_options import model_option, save_model_option
from bgsub.cli.options import MethodCommand, check_model, check_no_file, given, save_option
from bgsub.cli.pipeline import Telling, check_whole, run_pipeline
from bgsub.cli.record_options import Clips, motion_options
from bgsub.cli.settings_files import FILE_NAME
from bgsub.cli.settings_writing import store
from bgsub.cli.source_options import (
    BEGINNINGS,
    duration_option,
    on_error_option,
    rate_option,
    raw_option,
    reconnect_option,
)
from bgsub.cli.verdict import FAILURE, OK, verdict
from bgsub.errors import ParameterError, SinkError
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


@click.command(
    cls=MethodCommand,
    short_help="Separate cameras' pictures in windows, a browser, files.",
    common=(
        *("view", "no-window", "serve", "virtual-camera", "backdrop", "output", "save", "event-formats", "roi"),
        *("record", "webhook", "threshold", "min-area", "shadows", "absorb-after"),
    ),
    examples=(
        Example("bgsub live", "The first camera of this machine, in a window"),
        Example("bgsub live rtsp://camera/stream --no-window --serve 8765", "A network camera, in a browser"),
        Example("bgsub live 0 --record clips --snapshots pictures", "A clip and a picture of each moment with motion"),
    ),
)
@click.argument("cameras", nargs=-1, metavar="[CAMERA]...", shell_complete=one_of_files(*BEGINNINGS))
@screen_options
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
@option(
    "--overwrite",
    group=OUTPUT,
    is_flag=True,
    help="Replace recordings, event files and a model that exist.",
)
@event_options
@motion_options
@virtual_camera_options
@duration_option()
@raw_option
@rate_option
@reconnect_option
@on_error_option
@model_option
@save_model_option
@report_options
def live(
    *,
    cameras: tuple[str, ...],
    screen: Screen,
    clips: Clips,
    virtual: VirtualCamera,
    duration: Timecode | None,
    quiet: bool,
    **options: Any,
) -> int:
    """Separate cameras' pictures while they come in.

    CAMERA is the number of a camera (0, the default, is the first) or an address such as rtsp://... or
    http://...; a file works as well, a named pipe, and - for standard input. Where frames come too fast, the oldest
    are dropped and counted. Several cameras have a window each and share the page; their files go into a folder
    each.

    A camera has no end: q in the window, Ctrl-C and SIGTERM end it well. Before the end of a file, or of --duration,
    the two signals make the exit code 130 and 143.

    Keys in the window: h shows them all; q quit, space pause, s snapshot, v view, b boxes, e edit the regions,
    r reset the model, f freeze it.
    """
    cameras = cameras or ("0",)
    from bgsub.storage.file_lock import Claims  # noqa: PLC0415 - it takes a while

    context = click.get_current_context()
    claims = context.with_resource(Claims())
    outputs = _Outputs(clips, virtual, datetime.now(), options, claims)
    _check(cameras, screen, outputs)
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
            clips.of_job["motion"],
        )
        for source, folder in zip(cameras, _folders(cameras), strict=True)
    ]
    page = None if screen.serve is None else {"host": screen.serve[0], "port": screen.serve[1], "token": screen.token}
    telling = Telling(quiet, duration)
    runner = partial(_run, context, replace(telling, quiet=quiet or len(cameras) > 1), claims=claims)
    start = partial(
        sessions.LiveSession,
        described,
        view=screen.view,
        boxes=options["boxes"],
        page=page,
        backdrop=virtual.backdrop,
        regions=_regions(context, options),
        runner=runner,
    )
    with _advised(start, not screen.no_window, page is not None) as session:
        if session.server is not None:
            click.echo(f"watch at {session.server.address}", err=Reporting.of().json or _is_standard(options["output"]))
        outcomes = session.run()
        code = _tell_several(outcomes, telling) if len(cameras) > 1 else OK
    for outcome in outcomes:
        if outcome.result is not None:
            check_whole(outcome.result, ends=duration is not None)
    return code


# Than a settings file.
_STRONGER = (ParameterSource.COMMANDLINE, ParameterSource.ENVIRONMENT)


def _regions(context: click.Context, options: dict[str, Any]) -> sessions.RegionStore:
    """Return the regions of the run, and where those that are drawn go: the named file, or the one in this folder."""
    file = context.find_root().params.get("config") or Path(FILE_NAME)

    def save(texts: Mapping[str, Sequence[str]]) -> str:
        store(file, context.command.name or "", texts)
        stronger = [kind for kind in texts if context.get_parameter_source(kind) in _STRONGER]
        return f"{file}, where {' and '.join(f'--{kind}' for kind in stronger)} is stronger" if stronger else str(file)

    return sessions.RegionStore({kind: options[kind] for kind in ("roi", "privacy")}, save)


def _advised(start: Callable[..., sessions.LiveSession], window: bool, page: bool) -> sessions.LiveSession:
    """Start a session; where there is no screen the page has to do, and without one the message says how."""
    from bgsub.live.window import NoWindowError  # noqa: PLC0415 - it imports OpenCV

    try:
        return start(window=window)
    except NoWindowError as error:
        if not page:
            raise SinkError(f"{error}; --serve PORT shows the run in a browser, --no-window does without") from None
        logger.info("%s; the page has to do", error)
        return start(window=False)


@dataclass(frozen=True)
class _Outputs:
    """What the cameras of a run leave beside windows and page; `started` stands in all names of the run."""

    clips: Clips
    virtual: VirtualCamera
    started: datetime
    options: dict[str, Any]
    claims: Claims

    def sinks(self, source: FrameSource, feed: EventFeed | None, folder: str) -> list[Sink]:
        """Return the outputs of a camera, in that folder below those of the options."""
        sinks: list[Sink] = []
        try:
            if self.virtual.virtual_camera:
                backdrop, device = self.virtual.backdrop or "blur", self.virtual.virtual_device
                sinks.append(sessions.VirtualCameraSink(backdrop, source.fps, device, source.size))
            sinks += self._files(source, feed, folder)
        except BaseException:
            for sink in sinks:
                sink.abort()
            raise
        return sinks

    def _files(self, source: FrameSource, feed: EventFeed | None, folder: str) -> list[Sink]:
        from bgsub.jobs.outputs import make_sinks  # noqa: PLC0415 - it imports OpenCV

        output, clips = self.options["output"], self.clips.moved(lambda place: place / folder)
        job = Job(
            source.name,
            (output or Path()) / folder,
            save=() if output is None else clips.views(self.options["views"]),
            name=self.options["name"],
            boxes=self.options["boxes"],
            event_formats=tuple(self.options["event_formats"]),
            model=self.options["model"],
            save_model=self.options["save_model"],
            **clips.of_job,
        )
        regions = Regions(self.options["roi"]) if self.options["roi"] else None
        return make_sinks(job, source, self.options["overwrite"], self.started, regions, feed, self.claims)


def _is_standard(output: Path | None) -> bool:
    return str(output) == "-"


def _check(cameras: tuple[str, ...], screen: Screen, outputs: _Outputs) -> None:
    """Refuse what does not go together."""
    folder, virtual = outputs.options["output"], outputs.virtual
    seen = (folder is not None, outputs.clips.is_wanted, screen.serve is not None, virtual.virtual_camera)
    if screen.no_window and not any(seen):
        others = "--output, --record, --on-event, --webhook, --snapshots, --serve or --virtual-camera"
        raise click.UsageError(f"--no-window needs {others}, or nothing would be seen of the result")
    if screen.token is not None and screen.serve is None:
        raise ParameterError("--token needs --serve")
    if outputs.options["event_formats"] and folder is None:
        raise ParameterError("--event-formats needs --output")
    if _is_standard(folder) and len(cameras) > 1:
        raise ParameterError("standard output takes one camera, got several")
    if virtual.virtual_camera and len(cameras) > 1:
        raise ParameterError("--virtual-camera takes one camera, got several")
    if virtual.virtual_device is not None and not virtual.virtual_camera:
        raise ParameterError("--virtual-device needs --virtual-camera")


def _folders(cameras: tuple[str, ...]) -> list[str]:
    """Return the folder of each camera below that of the outputs: none for one, different ones for several."""
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
    telling: Telling,
    source: FrameSource,
    subtractor: BackgroundSubtractor,
    sinks: Sequence[Sink],
    **more: Any,
) -> JobResult:
    """Run one opened camera, in whatever thread, by the options of the command."""
    with context.scope(cleanup=False):
        return run_pipeline(source, subtractor, sinks, telling, **more)


def _tell_several(outcomes: list[Outcome], telling: Telling) -> int:
    """Print what became of each camera; return the exit code."""
    failed = [outcome for outcome in outcomes if outcome.error is not None]
    for outcome in outcomes:
        if outcome.result is not None and not Reporting.of().json:  # in JSON it was told when the camera ended
            telling.report(outcome.result)
    for outcome in failed:
        assert outcome.error is not None
        click.echo(f"bgsub: error: {outcome.name}: {verdict(outcome.error)[0]}", err=True)
    return FAILURE if failed else OK
