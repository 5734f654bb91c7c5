"""Options shared by the commands; those of the method come from the table of parameters."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bgsub.parameters import SUBTRACTOR, Parameter

if TYPE_CHECKING:
    from bgsub.subtractor import BackgroundSubtractor

VIEWS = ("mask", "background", "foreground", "residual", "panel")

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def method_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add an option for every parameter of the subtractor, in the order of the table."""
    for name, parameter in reversed(SUBTRACTOR.items()):
        command = click.option(
            f"--{name.replace('_', '-')}",
            name,
            type=parameter.kind,
            default=None,
            metavar=_metavar(parameter),
            help=_help(parameter),
        )(command)
    return command


def _metavar(parameter: Parameter) -> str:
    return "|".join(parameter.choices) or {int: "N", float: "X"}[parameter.kind]


def _help(parameter: Parameter) -> str:
    symbol = f" ({parameter.symbol} in the paper)" if parameter.symbol else ""
    default = "" if parameter.default is None else f"; default {parameter.default}"
    return f"{parameter.help[0].upper()}{parameter.help[1:]}{symbol}: {parameter.allowed}{default}."


def given(options: dict[str, Any]) -> dict[str, Any]:
    """Return the method parameters among `options` that were given on the command line."""
    return {name: value for name, value in options.items() if name in SUBTRACTOR and value is not None}


def make_subtractor(options: dict[str, Any], model: Path | None = None) -> BackgroundSubtractor:
    """Return the subtractor that the options ask for: a new one, or the saved `model`.

    Raises
    ------
    ParameterError
        For a bad parameter, and for parameters given beside a saved model.
    """
    from bgsub.errors import ParameterError  # noqa: PLC0415
    from bgsub.subtractor import BackgroundSubtractor  # noqa: PLC0415 - it brings Numba along

    parameters = given(options)
    if model is None:
        return BackgroundSubtractor(**parameters)
    if parameters:
        raise ParameterError(f"--model brings its own parameters, so --{next(iter(parameters))} cannot be given")
    return BackgroundSubtractor.load(model)


def split_views(_context: click.Context, _option: click.Parameter, value: str) -> list[str]:
    """Turn ``mask,panel`` into a list of views; a wrong one is a usage error."""
    views = [view.strip() for view in value.split(",") if view.strip()]
    for view in views:
        if view not in VIEWS:
            raise click.BadParameter(f"a view is one of {', '.join(VIEWS)}, got {view!r}")
    if not views:
        raise click.BadParameter(f"name at least one view out of {', '.join(VIEWS)}")
    return list(dict.fromkeys(views))


def save_option(default: str) -> Decorator:
    """Return the option ``--save`` with its default views."""
    return click.option(
        "--save",
        "views",
        default=default,
        show_default=True,
        callback=split_views,
        metavar="VIEW,...",
        help=f"What to write: {', '.join(VIEWS)}.",
    )


format_option = click.option(
    "--format",
    "kind",
    type=click.Choice(["auto", "video", "images"]),
    default="auto",
    show_default=True,
    help="Kind of output: auto makes images of images and video of video.",
)
on_error_option = click.option(
    "--on-error",
    type=click.Choice(["stop", "skip"]),
    default="stop",
    show_default=True,
    help="What to do at a frame that cannot be read; it is named either way.",
)
rate_option = click.option(
    "--rate", type=click.FloatRange(0, min_open=True), help="Frames per second, where the source does not tell."
)
quiet_option = click.option("-q", "--quiet", is_flag=True, help="No progress bar and no summary.")
