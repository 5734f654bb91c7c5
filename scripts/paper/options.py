"""The options that the experiments share."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from pathlib import Path
from typing import Any

import click
import methods

from bgsub.errors import BgsubError

RESULTS = Path(__file__).parent / "results"


def methods_or_none(context: click.Context, parameter: click.Parameter, text: str) -> tuple[str, ...]:
    """Return the methods named in a comma-separated list, none for an empty one (click callback)."""
    return methods.chosen(context, parameter, text) if text else ()


def common(default_methods: Iterable[str]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add --size, --seeds, --seed, --methods, --out, --jobs, --fresh and --redo; errors become one line."""
    listed = ",".join(default_methods)
    decorators = [
        click.option("--size", default=400, show_default=True, type=click.IntRange(8), help="m = n."),
        click.option("--seeds", default=1, show_default=True, type=click.IntRange(1), help="Matrices per cell."),
        click.option("--seed", default=0, show_default=True, type=click.IntRange(0), help="The first seed."),
        click.option(
            "--methods", "names", default=listed, show_default=True, callback=methods.chosen, help="Which, with commas."
        ),
        click.option("--jobs", default=1, show_default=True, type=click.IntRange(1), help="Processes of one thread."),
        out,
        click.option("--resume/--fresh", default=True, show_default=True, help="Continue the table, or begin again."),
        click.option("--redo", default="", callback=methods_or_none, help="Methods to compute again, with commas."),
    ]

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        function = one_line_errors(function)
        for decorator in reversed(decorators):
            function = decorator(function)
        return function

    return decorate


def out(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add --out, the folder of the results."""
    return click.option(
        "--out",
        "folder",
        default=RESULTS,
        show_default="scripts/paper/results",
        type=click.Path(file_okay=False, path_type=Path),
        help="Folder of the table and the figure.",
    )(function)


def one_line_errors(function: Callable[..., Any]) -> Callable[..., Any]:
    """Show errors that bgsub raises on purpose in one line."""

    @wraps(function)
    def wrapped(*arguments: Any, **options: Any) -> Any:
        try:
            return function(*arguments, **options)
        except BgsubError as error:
            raise click.ClickException(str(error)) from None

    return wrapped
