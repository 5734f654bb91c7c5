"""Options in blocks: several added at once, and their values passed on as one."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import click

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

PATH = click.Path(path_type=Path)


def block(*options: Decorator) -> Decorator:
    """Return a decorator that adds several options, in this order."""

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        """Decorate one command."""
        for option in reversed(options):
            command = option(command)
        return command

    return add


def packed(name: str, kind: type[Any], *options: Decorator) -> Decorator:
    """Return a decorator that adds several options; the command gets their values as one dataclass under `name`."""

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        """Decorate one command."""

        @wraps(command)
        def call(*arguments: Any, **given: Any) -> Any:
            """Call the command with the values in one."""
            own = {field.name: given.pop(field.name) for field in dataclasses.fields(kind)}
            return command(*arguments, **given, **{name: kind(**own)})

        return block(*options)(call)

    return add
