"""``bgsub live``: cameras, shown in windows and on a page, written to files, or all of it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bgsub.cli.camera_options import reconnect_option
from bgsub.cli.event_options import event_options
from bgsub.cli.job_options import name_option
from bgsub.cli.live_options import screen_options, virtual_camera_options
from bgsub.cli.logs import Reporting, logger
from bgsub.cli.options import (
    MethodCommand,
    check_model,
    format_option,
    given,
    keep_model_option,
    model_options,
    on_error_option,
    report_options,
    save_option,
)
from bgsub.cli.record_options import check_record_options, make_recorder, record_options
from bgsub.cli.verdict import FAILURE, OK, verdict
from bgsub.errors import ParameterError, SinkError
from bgsub.video.regions import Regions

if TYPE_CHECKING:
    from bgsub.jobs.job import Job, JobResult
    from bgsub.live.session import LiveSession, Outcome
    from bgsub.video.sinks.base import Sink
    from bgsub.video.sources.base import FrameSource


@click.command(cls=MethodCommand, short_help="Separate cameras' pictures in windows, a browser, files, or all of it.")
@click.argument("cameras", nargs=-1, metavar="[CAMERA]...")
@screen_options
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Folder for recordings of the --save views.")
@save_option("mask")
@format_option
@name_option
@click.option("--overwrite", is_flag=True, help="Replace recordings and event files that exist.")
@event_options
@record_options
@virtual_camera_options
@click.option("--frames", "limit", type=click.IntRange(1), metavar="N", help="Stop after so many frames.")
@reconnect_option
@on_error_option
@model_options
@keep_model_option
@report_options
def live(
    *,
    cameras: tuple[str, ...],
    view: str,
    no_window: bool,
    serve: tuple[str, int] | None,
    token: str | None,
    fast: bool,
    limit: int | None,
    reconnect: float | None,
    on_error: str,
    model: Path | None,
    save_model: Path | None,
    quiet: bool,
    **options: Any,
) -> int:
    """Separate cameras' pictures while they come in.

    CAMERA is the number of a camera (0, the default, is the first) or an address such as rtsp://... or
    http://...; a file works as well. Where frames come too fast, the oldest are dropped and counted. Several
    cameras have a window each and share the page; their files go into a folder each.

    Keys in the window: h shows them all; q quit, space pause, s snapshot, v view, r reset the model, f freeze it.
    """
    cameras = cameras or ("0",)
    _check(cameras, no_window, serve, token, options)
    check_model(options, model)
    from bgsub.cli.pipeline import termination_as_interrupt  # noqa: PLC0415
    from bgsub.live.session import LiveCamera, LiveSession  # noqa: PLC0415

    # The same moment in all names of the run.
    make_sinks = partial(_make_sinks, started=datetime.now(), options=options)
    described = [
        LiveCamera(
            source,
            given(options),
            model,
            save_model,
            partial(make_sinks, folder=folder),
            {"on_error": on_error, "reconnect": reconnect},
            fast,
            options["roi"],
        )
        for source, folder in zip(cameras, _folders(cameras), strict=True)
    ]
    page = None if serve is None else {"host": serve[0], "port": serve[1], "token": token}
    runner = partial(_run, click.get_current_context(), quiet=quiet or len(cameras) > 1, limit=limit)
    start = partial(LiveSession, described, view=view, page=page, backdrop=options["backdrop"], runner=runner)
    with termination_as_interrupt(), _advised(start, window=not no_window, page=page is not None) as session:
        if session.server is not None:
            click.echo(f"watch at {session.server.address}", err=Reporting.of().json)
        outcomes = session.run()
        return _tell_several(outcomes, quiet, limit) if len(cameras) > 1 else OK


def _advised(start: Callable[..., LiveSession], window: bool, page: bool) -> LiveSession:
    """Start a session; where there is no screen the page has to do, and without one the message says how."""
    from bgsub.live.display import NoWindowError  # noqa: PLC0415

    try:
        return start(window=window)
    except NoWindowError as error:
        if not page:
            raise SinkError(f"{error}; --serve PORT shows the run in a browser, --no-window does without") from None
        logger.info("%s; the page has to do", error)
        return start(window=False)


def _check(
    cameras: tuple[str, ...],
    no_window: bool,
    serve: tuple[str, int] | None,
    token: str | None,
    options: dict[str, Any],
) -> None:
    """Refuse what does not go together."""
    virtual = options["virtual_camera"]
    check_record_options(*(options[name] for name in ("record", "pre_roll", "post_roll", "motion")))
    outputs = (options["output"], options["record"], serve, virtual or None)
    if no_window and all(output is None for output in outputs):
        raise click.UsageError(
            "--no-window needs --output, --record, --serve or --virtual-camera, or nothing would be seen of the result"
        )
    if token is not None and serve is None:
        raise ParameterError("--token needs --serve")
    for name, wanted in (("event-files", options["event_files"]), ("plot", options["plot"])):
        if wanted and options["output"] is None:
            raise ParameterError(f"--{name} needs --output")
    if virtual and len(cameras) > 1:
        raise ParameterError("--virtual-camera takes one camera, got several")
    if options["virtual_device"] is not None and not virtual:
        raise ParameterError("--virtual-device needs --virtual-camera")


def _folders(cameras: tuple[str, ...]) -> list[str]:
    """Return the folder of each camera below that of the outputs: none for one, different ones for several."""
    from bgsub.live.session import file_name  # noqa: PLC0415
    from bgsub.video.sources.camera_address import without_password  # noqa: PLC0415

    if len(cameras) == 1:
        return [""]
    folders: list[str] = []
    for camera in cameras:
        name = f"camera-{int(camera)}" if camera.isdigit() else file_name(without_password(camera))
        taken = sum(folder == name or folder.startswith(f"{name}~") for folder in folders)
        folders.append(f"{name}~{taken + 1}" if taken else name)
    return folders


def _make_sinks(source: FrameSource, folder: str, started: datetime, options: dict[str, Any]) -> list[Sink]:
    """Return the outputs of a camera beside window and page."""
    from bgsub.jobs.outputs import make_sinks  # noqa: PLC0415

    sinks: list[Sink] = []
    try:
        if options["virtual_camera"]:
            sinks.append(_virtual_camera(source, options))
        if options["output"] is not None:
            job = _job(source, options["output"] / folder, options)
            regions = Regions(options["roi"]) if options["roi"] else None
            sinks += make_sinks(job, source, options["overwrite"], started, regions)
        if options["record"] is not None:
            wanted = {name: options[name] for name in ("pre_roll", "post_roll", "motion")}
            recorder = make_recorder(source, record=options["record"] / folder, **wanted)
            assert recorder is not None
            sinks.append(recorder)
    except BaseException:
        for sink in sinks:
            sink.abort()
        raise
    return sinks


def _job(source: FrameSource, output: Path, options: dict[str, Any]) -> Job:
    """Return what the recordings and event files of a camera are, for what makes them."""
    from bgsub.jobs.job import Job  # noqa: PLC0415

    return Job(
        source.name,
        output,
        save=tuple(options["views"]),
        format=options["kind"],
        name=options["name"],
        event_files=tuple(options["event_files"]),
        plot=options["plot"],
    )


def _virtual_camera(source: FrameSource, options: dict[str, Any]) -> Sink:
    from bgsub.live.virtual_camera import VirtualCameraSink  # noqa: PLC0415

    return VirtualCameraSink(options["backdrop"] or "blur", source.rate, options["virtual_device"], source.size)


def _run(context: click.Context, *arguments: Any, quiet: bool, limit: int | None, **more: Any) -> JobResult:
    """Run one opened camera, in whatever thread, by the options of the command."""
    from bgsub.cli.pipeline import run_pipeline  # noqa: PLC0415

    with context.scope(cleanup=False):
        return run_pipeline(*arguments, quiet=quiet, limit=limit, **more)


def _tell_several(outcomes: list[Outcome], quiet: bool, limit: int | None) -> int:
    """Print what became of each camera; return the exit code."""
    from bgsub.cli.report import report  # noqa: PLC0415

    failed = [outcome for outcome in outcomes if outcome.error is not None]
    for outcome in outcomes:
        if outcome.result is not None and not Reporting.of().json:  # in JSON it was told when the camera ended
            limited = limit is not None and outcome.result.summary.frames >= limit
            report(outcome.result, quiet=quiet, limited=limited)
    for outcome in failed:
        assert outcome.error is not None
        click.echo(f"bgsub: error: {outcome.name}: {verdict(outcome.error)[0]}", err=True)
    return FAILURE if failed else OK
