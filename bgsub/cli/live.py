"""``bgsub live``: cameras, shown in windows and on a page, written to files, or all of it."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bgsub.cli.camera_options import reconnect_option
from bgsub.cli.live_options import screen_options, virtual_camera_options
from bgsub.cli.logs import Reporting
from bgsub.cli.options import (
    MethodCommand,
    check_model,
    format_option,
    given,
    keep_model_option,
    method_options,
    model_options,
    on_error_option,
    report_options,
    save_option,
)
from bgsub.cli.record_options import check_record_options, make_recorder, record_options
from bgsub.cli.verdict import FAILURE, OK, verdict
from bgsub.errors import ParameterError

if TYPE_CHECKING:
    from bgsub.jobs import JobResult
    from bgsub.live.session import Outcome
    from bgsub.video import FrameSource, Sink


@click.command(cls=MethodCommand, short_help="Separate cameras' pictures in windows, a browser, files, or all of it.")
@click.argument("cameras", nargs=-1, metavar="[CAMERA]...")
@screen_options
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Folder for recordings of the --save views.")
@save_option("mask")
@format_option
@record_options
@virtual_camera_options
@click.option("--frames", "limit", type=click.IntRange(1), metavar="N", help="Stop after so many frames.")
@reconnect_option
@on_error_option
@model_options
@keep_model_option
@report_options
@method_options
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

    described = [
        LiveCamera(
            source,
            given(options),
            model,
            save_model,
            partial(_make_sinks, several=len(cameras) > 1, options=options),
            {"on_error": on_error, "reconnect": reconnect},
            fast,
        )
        for source in cameras
    ]
    page = None if serve is None else {"host": serve[0], "port": serve[1], "token": token}
    runner = partial(_run, click.get_current_context(), quiet=quiet or len(cameras) > 1, limit=limit)
    with (
        termination_as_interrupt(),
        LiveSession(
            described, view=view, window=not no_window, page=page, backdrop=options["backdrop"], runner=runner
        ) as session,
    ):
        if session.server is not None:
            click.echo(f"watch at {session.server.address}", err=Reporting.of().json)
        outcomes = session.run()
        return _tell_several(outcomes, quiet) if len(cameras) > 1 else OK


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
    if virtual and len(cameras) > 1:
        raise ParameterError("--virtual-camera takes one camera, got several")
    if options["virtual_device"] is not None and not virtual:
        raise ParameterError("--virtual-device needs --virtual-camera")


def _make_sinks(source: FrameSource, several: bool, options: dict[str, Any]) -> list[Sink]:
    """Return the outputs of a camera beside window and page; those of one of several in a folder of their own."""
    from bgsub.live.session import file_name  # noqa: PLC0415
    from bgsub.video import create_sinks  # noqa: PLC0415

    def place(path: Path) -> Path:
        return path / file_name(source.name.removeprefix("stream ")) if several else path

    sinks: list[Sink] = []
    if options["virtual_camera"]:
        from bgsub.live.virtual_camera import VirtualCameraSink  # noqa: PLC0415

        backdrop = options["backdrop"] or "blur"
        sinks.append(VirtualCameraSink(backdrop, source.rate, options["virtual_device"], source.size))
    if options["output"] is not None:
        sinks.extend(create_sinks(place(options["output"]), options["views"], source, options["kind"]))
    if options["record"] is not None:
        wanted = {name: options[name] for name in ("pre_roll", "post_roll", "motion")}
        recorder = make_recorder(source, record=place(options["record"]), **wanted)
        assert recorder is not None
        sinks.append(recorder)
    return sinks


def _run(context: click.Context, *arguments: Any, quiet: bool, limit: int | None, **more: Any) -> JobResult:
    """Run one opened camera, in whatever thread, by the options of the command."""
    from bgsub.cli.pipeline import run_pipeline  # noqa: PLC0415

    with context.scope(cleanup=False):
        return run_pipeline(*arguments, quiet=quiet, limit=limit, **more)


def _tell_several(outcomes: list[Outcome], quiet: bool) -> int:
    """Print what became of each camera; return the exit code."""
    from bgsub.cli.report import report  # noqa: PLC0415

    failed = [outcome for outcome in outcomes if outcome.error is not None]
    for outcome in outcomes:
        if outcome.result is not None and not Reporting.of().json:  # in JSON it was told when the camera ended
            report(outcome.result, quiet=quiet)
    for outcome in failed:
        assert outcome.error is not None
        click.echo(f"bgsub: error: {outcome.name}: {verdict(outcome.error)[0]}", err=True)
    return FAILURE if failed else OK
