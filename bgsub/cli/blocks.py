"""Options of the usual kinds, and in blocks: several added at once, their values passed on as one."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from functools import partial, wraps
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from bgsub.cli.help import Option

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]
Completer = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]

PATH = click.Path(path_type=Path)
FOLDER = click.Path(path_type=Path, file_okay=False)
option = partial(click.option, cls=Option)
"""As `click.option`, with the `group` of the option in the help."""


def count(*names: str, group: str, least: int, default: int, text: str, most: int | None = None) -> Decorator:
    """Return an option that takes a whole number; `text` is its help."""
    kind = click.IntRange(least, most)
    return option(*names, group=group, type=kind, default=default, show_default=True, metavar="N", help=text)


def choice(*names: str, group: str, of: Sequence[str], text: str, **more: Any) -> Decorator:
    """Return an option that takes one of several words, by default the first; `text` is its help."""
    kind = click.Choice(of)
    return option(*names, group=group, type=kind, default=of[0], show_default=True, help=text, **more)


def one_of_files(*words: str) -> Completer:
    """Return what completes the name of a file, or one of those words."""

    def complete(_context: click.Context, _option: click.Parameter, begun: str) -> list[CompletionItem]:
        named = [CompletionItem(word) for word in words if begun and word.startswith(begun)]
        return named or [CompletionItem(begun, type="file")]

    return complete


def list_of(words: Callable[[str], Iterable[str]]) -> Completer:
    """Return what completes the last word of ``mask,panel``; `words` returns what may be there, of what has begun."""

    def complete(_context: click.Context, _option: click.Parameter, begun: str) -> list[CompletionItem]:
        before, comma, last = begun.rpartition(",")
        left = (word for word in words(last) if word.startswith(last) and word not in before.split(","))
        return [CompletionItem(f"{before}{comma}{word}") for word in left]

    return complete


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
