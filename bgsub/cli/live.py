"""``bgsub live``: cameras in windows, on a page and in files."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from bgsub import live as sessions
from bgsub.cli import options as opt
from bgsub.cli import output_options as out
from bgsub.cli.help import SCREEN
from bgsub.cli.method_options import MethodCommand, model_option, save_model_option
from bgsub.cli.pipeline import RunReporter, check_whole, run_pipeline
from bgsub.cli.reporting import FAILURE, OK, Reporting, exit_status, json_option, logger
from bgsub.cli.setting_sources import REGIONS_FILE, called, setting_of
from bgsub.cli.settings import Command, as_toml
from bgsub.errors import ParameterError, SinkError, printable
from bgsub.jobs.controls import LIVE_VIEWS, Controls
from bgsub.jobs.job import Job, JobResult
from bgsub.storage.durable_io import write_whole
from bgsub.video.sources.camera_address import file_name, without_password

if TYPE_CHECKING:
    from bgsub.live.session import Outcome
    from bgsub.video.timecode import Timecode

_PLACE = re.compile(r"(?:(?P<host>\[[0-9a-fA-F:]+\]|[^:\[\]]+):)?(?P<port>\d{1,5})")
_STANDARD = Path("-")


def parse_host_and_port(context: click.Context, option: click.Parameter, value: str | None) -> tuple[str, int] | None:
    """Return host and port of ``8765``, ``0.0.0.0:8765`` or ``[::1]:8765``."""
    if value is None:
        return None
    match = _PLACE.fullmatch(value)
    if match is None or int(match["port"]) > 65535:
        raise ParameterError(f"{called(context, option)} takes a port up to 65535, or host:port, got '{value}'")
    return (match["host"] or "127.0.0.1").strip("[]"), int(match["port"])


_of_screen = partial(opt.option, group=SCREEN)
_serve = partial(_of_screen, "--serve", metavar="[HOST:]PORT", callback=parse_host_and_port)
_token = _of_screen(
    "--token", metavar="TEXT", hide_input=True, help="Password of the page.  [default: random on the network]"
)
_screen_options = opt.combine(
    opt.choice(
        "--view",
        group=SCREEN,
        of=LIVE_VIEWS,
        metavar="VIEW",
        help=f"View at the start; the keys 1 to 9 and 0 change it: {', '.join(LIVE_VIEWS)}.",
    ),
    opt.flag("--no-window", group=SCREEN, help="Open no window; needs another output, such as --serve."),
    _serve(
        help="Show and control the run in a browser: on this machine only or, with a token, on the network "
        "(0.0.0.0:8765). Port 0 selects a free port."
    ),
    _token,
    opt.flag("--fast", group=SCREEN, help="Show a file as fast as possible instead of in real time."),
)


@click.command(
    cls=MethodCommand,
    short_help="Show cameras and their masks in a window or browser.",
    common="view no-window serve output save event-formats roi record webhook threshold min-area shadows absorb-after",
    examples={
        "bgsub live": "The first camera of this machine, in a window",
        "bgsub live rtsp://camera/stream --no-window --serve 8765": "A network camera, in a browser",
        "bgsub live 0 --record clips --snapshots pictures": "A clip and a picture of each motion",
    },
)
@click.argument("cameras", nargs=-1, metavar="[CAMERA]...", type=opt.SOURCE)
@_screen_options
@opt.output_option(callback=opt.check_no_file, help="Folder for the --save views, or - for standard output.")
@out.save_option
@out.boxes_option
@out.name_option
@opt.overwrite_option(help="Replace recordings, event files and a model that exist.")
@out.event_options
@out.motion_options
@opt.duration_option()
@opt.rate_option
@opt.reconnect_option
@opt.insecure_option
@opt.on_error_option
@model_option
@save_model_option
@json_option()
def live(*, cameras: tuple[str, ...], duration: Timecode | None, **options: Any) -> int:
    """Show cameras, and separate their frames, in real time.

    CAMERA is the number of a camera (0, the default, is the first) or an address such as rtsp://... or
    http://...; it can also be a file, a named pipe, or - for standard input. If frames come too fast, the oldest
    are dropped and counted. Each camera has its own window and its own folder of files; the page shows all cameras.

    q in the window, Ctrl-C, SIGTERM and SIGHUP end the run of a camera with exit code 0. If a signal comes before the
    end of a file, or of --duration, the exit code is 130, 143 or 129.

    Keys in the window: h shows them all; q quit, space pause, s snapshot, v view, b boxes, r reset the model,
    f freeze it.
    """
    cameras = cameras or ("0",)
    jobs = [_job(source, folder, options) for source, folder in zip(cameras, _folders(cameras), strict=True)]
    _check(cameras, options)
    context = click.get_current_context()
    host, port = options["serve"] or (None, None)
    page = None if port is None else {"host": host, "port": port, "token": options["token"]}
    reporter = RunReporter(len(cameras) > 1, duration)
    shown = {name: options[name] for name in ("fast", "view", "boxes")}
    run, regions = partial(_run, context, reporter=reporter), _regions(context, options)
    start = partial(sessions.LiveSession, jobs, page=page, regions=regions, runner=run, **shown)
    with _start(start, not options["no_window"], page is not None) as session:
        if session.server is not None:
            is_taken = Reporting.of().json or options["output"] == _STANDARD
            click.echo(f"watch at {session.server.address}", err=is_taken)
        outcomes = session.run()
        code = _report_all(outcomes, replace(reporter, is_one_of_many=False)) if len(cameras) > 1 else OK
    for outcome in outcomes:
        if outcome.result is not None:
            check_whole(outcome.result, ends=duration is not None)
    return code


@click.command(
    cls=Command,
    short_help="Draw regions on a picture of a video or camera.",
    examples={
        "bgsub regions video.mp4": "Open the printed address, draw, save; Ctrl-C ends",
        "bgsub regions video.mp4 --start 1:30 --serve 8765": "On another picture, at a fixed port",
    },
)
@click.argument("source", metavar="VIDEO", type=opt.SOURCE)
@_serve(help="Address of the page.  [default: any]")
@_token
@opt.start_option
@opt.insecure_option
@out.region_options
def regions(
    *, source: str, serve: tuple[str, int] | None, token: str | None, start: str | None, insecure: bool, **texts: Any
) -> None:
    """Draw regions of interest, ignored and privacy regions on a picture of VIDEO, in a browser.

    The regions are saved in bgsub-regions.toml in the current folder. Other commands that run there use this file.
    """
    host, port = serve or ("127.0.0.1", 0)
    job = Job(source, Path(), save=(), start=start, privacy=texts["privacy"], insecure=insecure)
    page, store = {"host": host, "port": port, "token": token}, _regions(click.get_current_context(), texts)

    def hold(*opened: Any, controls: Controls, **options: Any) -> JobResult:
        """Process one frame, show the address and wait until the user ends the run."""
        from bgsub.jobs.run import execute  # noqa: PLC0415 - it imports the pipeline

        def pause(*_: Any) -> None:
            assert session.server is not None
            if controls.statistics.as_dict()["frames"] == 1:
                click.echo(f"draw regions at {session.server.address}; Ctrl-C ends")
            controls.paused = True

        return execute(*opened, watch=lambda _source: nullcontext(pause), controls=controls, **options)

    with sessions.LiveSession([job], window=False, view="input", page=page, regions=store, runner=hold) as session:
        session.run()


_ABOVE_FILES = (ParameterSource.COMMANDLINE, ParameterSource.ENVIRONMENT)


def _regions(context: click.Context, options: dict[str, Any]) -> sessions.RegionStore:
    """Return the regions of the run, and the function that writes drawn ones into `REGIONS_FILE`."""
    from bgsub.live.page_commands import KINDS  # noqa: PLC0415 - few runs need it

    config = str(context.find_root().params.get("config"))

    def overrides(option: click.Parameter) -> bool:
        setting = setting_of(context, option)
        above = context.get_parameter_source(option.name or "") in _ABOVE_FILES
        return above or (setting is not None and setting.place == config)

    def save(texts: Mapping[str, Sequence[str]]) -> str:
        lines = [f"{kind} = {as_toml(regions)}\n" for kind, regions in texts.items()]
        write_whole(Path(REGIONS_FILE), "".join(lines).encode())
        above = [called(context, one) for one in context.command.params if one.name in texts and overrides(one)]
        return f"{REGIONS_FILE}, which {' and '.join(above)} overrides" if above else REGIONS_FILE

    return sessions.RegionStore({kind: options[kind] for kind in KINDS}, save)


def _start(start: Callable[..., sessions.LiveSession], window: bool, page: bool) -> sessions.LiveSession:
    """Start a session; without a screen only with a page, or raise SinkError with advice."""
    from bgsub.live.window import NoWindowError  # noqa: PLC0415 - it imports OpenCV

    try:
        return start(window=window)
    except NoWindowError as error:
        if not page:
            advice = "--serve PORT shows the run in a browser, --no-window with --output or --record needs no screen"
            raise SinkError(f"{error}; {advice}") from None
        logger.info("%s; the run is shown in the browser only", error)
        return start(window=False)


def _job(source: str, folder: str, options: dict[str, Any]) -> Job:
    """Return the job of a camera, with its files in `folder` below those of the options."""
    output = options["output"]
    inside = {name: options[name] and options[name] / folder for name in ("record", "snapshots")}
    views = () if output is None else options["views"]
    return out.make_job(source, output and output / folder, {**options, **inside, "views": views})


def _check(cameras: tuple[str, ...], options: dict[str, Any]) -> None:
    """Raise an error for options that exclude or need each other."""
    folder, serve = options["output"], options["serve"]
    if options["no_window"] and folder is None and not out.reacts_to_motion(options) and serve is None:
        others = "--output, --record, --on-event, --webhook, --snapshots or --serve"
        raise click.UsageError(f"--no-window needs {others}, or nothing would show the result")
    if options["token"] is not None and serve is None:
        raise ParameterError("--token needs --serve")
    if options["event_formats"] and folder is None:
        raise ParameterError("--event-formats needs --output")
    if folder == _STANDARD and len(cameras) > 1:
        raise ParameterError("standard output takes one camera, got several")


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


def _run(context: click.Context, *opened: Any, **more: Any) -> JobResult:
    """Run one opened camera in any thread, with the options of the command; arguments as for `run_pipeline`."""
    with context.scope(cleanup=False):
        return run_pipeline(*opened, **more)


def _report_all(outcomes: list[Outcome], reporter: RunReporter) -> int:
    errors = [(outcome.name, outcome.error) for outcome in outcomes if outcome.error is not None]
    for outcome in outcomes:
        if outcome.result is not None and not Reporting.of().json:  # JSON was printed when the camera ended
            reporter.report(outcome.result)
    for name, error in errors:
        click.echo(printable(f"bgsub: error: {name}: {exit_status(error)[0]}"), err=True)
    return FAILURE if errors else OK
