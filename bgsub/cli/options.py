"""Parts of options: kinds, groups of options, completion and checks of values."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from functools import partial, wraps
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from bgsub.cli.help import INPUT, OUTPUT, Option
from bgsub.cli.setting_sources import called
from bgsub.errors import ParameterError, did_you_mean
from bgsub.video.output_names import ENDINGS

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]
Callback = Callable[[click.Context, click.Parameter, Any], Any]
Completer = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]

PATH = click.Path(path_type=Path)
FOLDER = click.Path(path_type=Path, file_okay=False)
option = partial(click.option, cls=Option)
"""As `click.option`, with the `group` of the option in the help."""


def count(*names: str, group: str, least: int, default: int, text: str, most: int | None = None) -> Decorator:
    """Return an option that takes an integer; `text` is its help."""
    kind = click.IntRange(least, most)
    return option(*names, group=group, type=kind, default=default, show_default=True, metavar="N", help=text)


def choice(*names: str, group: str, of: Sequence[str], text: str, **more: Any) -> Decorator:
    """Return an option that takes one of several words, by default the first; `text` is its help."""
    kind = click.Choice(of)
    return option(*names, group=group, type=kind, default=of[0], show_default=True, help=text, **more)


def combine(*options: Decorator) -> Decorator:
    """Return a decorator that adds several options in this order."""

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            command = option(command)
        return command

    return add


def collect(name: str, kind: type[Any], *options: Decorator) -> Decorator:
    """Return a decorator that adds options and passes their values to the command as one dataclass `name`."""

    def add(command: Callable[..., Any]) -> Callable[..., Any]:

        @wraps(command)
        def call(*arguments: Any, **given: Any) -> Any:
            own = {field.name: given.pop(field.name) for field in dataclasses.fields(kind) if field.name in given}
            return command(*arguments, **given, **{name: kind(**own)})

        return combine(*options)(call)

    return add


def one_of_files(*words: str) -> Completer:
    """Return a completer of file names and of some words."""

    def complete(_context: click.Context, _option: click.Parameter, begun: str) -> list[CompletionItem]:
        named = [CompletionItem(word) for word in words if begun and word.startswith(begun)]
        return named or [CompletionItem(begun, type="file")]

    return complete


def list_of(words: Callable[[str], Iterable[str]]) -> Completer:
    """Return a completer of the last word of ``mask,panel``; `words` gets the beginning of that word."""

    def complete(_context: click.Context, _option: click.Parameter, begun: str) -> list[CompletionItem]:
        before, comma, last = begun.rpartition(",")
        left = (word for word in words(last) if word.startswith(last) and word not in before.split(","))
        return [CompletionItem(f"{before}{comma}{word}") for word in left]

    return complete


def converted(convert: Callable[[Any], Any]) -> Callback:
    """Return a callback that converts the value of an option; errors name the option."""

    def callback(context: click.Context, option: click.Parameter, value: Any) -> Any:
        try:
            return value if context.resilient_parsing else convert(value)  # import nothing heavy for a completion
        except ParameterError as error:
            raise ParameterError(f"{called(context, option)}: {error}") from None

    return callback


def checked(check: Callable[[Any], Any]) -> Callback:
    """Return a callback that checks the value of an option if there is one; errors name the option."""

    def pass_on(value: Any) -> Any:
        if value not in (None, ()):
            check(value)
        return value

    return converted(pass_on)


def names_from(allowed: Sequence[str]) -> Callback:
    """Return a callback that splits ``mask,panel`` into a list without duplicates; it raises ParameterError."""

    def split(context: click.Context, option: click.Parameter, value: str | Sequence[str]) -> list[str]:
        names = split_at_commas(value)
        for name in names:
            if name not in allowed:
                came = f"{name!r}{did_you_mean(name, allowed)}"
                raise ParameterError(f"{called(context, option)} takes {', '.join(allowed)}, got {came}")
        return names

    return split


def split_at_commas(value: str | Sequence[str]) -> list[str]:
    """Return the words of ``mask,panel``, or of several such texts, without duplicates."""
    texts = [value] if isinstance(value, str) else value
    words = (word.strip() for text in texts for word in text.split(","))
    return list(dict.fromkeys(word for word in words if word))


def check_folder(context: click.Context, option: click.Parameter, value: Path) -> Path | None:
    """Return the path of a folder; ParameterError for standard output and for the name of a file."""
    if str(value) == "-":
        raise ParameterError(f"{called(context, option)} takes a folder here; bgsub run writes to standard output")
    return check_no_file(context, option, value)


def check_no_file(context: click.Context, option: click.Parameter, value: Path | None) -> Path | None:
    """Return the path of a folder; ParameterError for the name of a file."""
    if value is not None and value.suffix.lower() in ENDINGS and not value.is_dir():
        raise ParameterError(f"{called(context, option)} takes a folder, got the name of a file, '{value}'")
    return value


def check_file(context: click.Context, option: click.Parameter, path: Path | None) -> Path | None:
    """Return the path of a file; ParameterError for a folder and for a file in a folder that is missing."""
    if path is not None and path.is_dir():
        raise ParameterError(f"{called(context, option)} takes a file, got the folder '{path}'")
    if path is not None and not path.parent.is_dir():
        raise ParameterError(f"{called(context, option)} takes a file in a folder that exists, got '{path}'")
    return path


folder_option = option(
    "-o", "--output", group=OUTPUT, required=True, type=PATH, callback=check_folder, help="Folder for the results."
)
scene_option = choice(
    "--scene", group=INPUT, of=["lobby", "street"], text="A room with switching lamps, or a road under moving clouds."
)
