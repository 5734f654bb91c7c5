"""Options of the usual kinds, and in blocks: several added at once, their values passed on as one."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import Any

import click

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

PATH = click.Path(path_type=Path)


def count(*names: str, least: int, default: int, text: str, most: int | None = None) -> Decorator:
    """Return an option that takes a whole number; `text` is its help."""
    kind = click.IntRange(least, most)
    return click.option(*names, type=kind, default=default, show_default=True, metavar="N", help=text)


def choice(*names: str, of: Sequence[str], text: str, **more: Any) -> Decorator:
    """Return an option that takes one of several words, by default the first; `text` is its help."""
    return click.option(*names, type=click.Choice(of), default=of[0], show_default=True, help=text, **more)


def block(*options: Decorator) -> Decorator:
    """Return a decorator that adds several options, in this order."""

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            command = option(command)
        return command

    return add


def packed(name: str, kind: type[Any], *options: Decorator) -> Decorator:
    """Return a decorator that adds several options; the command gets their values as one dataclass under `name`."""

    def add(command: Callable[..., Any]) -> Callable[..., Any]:

        @wraps(command)
        def call(*arguments: Any, **given: Any) -> Any:
            own = {field.name: given.pop(field.name) for field in dataclasses.fields(kind) if field.name in given}
            return command(*arguments, **given, **{name: kind(**own)})

        return block(*options)(call)

    return add
