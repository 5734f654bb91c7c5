"""Options that take their values from files and the environment as well: the base class of the commands."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from bgsub.cli.logs import Reporting, logged, logger, shared_options
from bgsub.cli.settings_files import METHOD, Resolved, Setting, canonical, find_files, resolve
from bgsub.cli.verdict import choice_hint
from bgsub.errors import ParameterError
from bgsub.parameters import SUBTRACTOR, Parameter

_FLAGS = {"true": True, "false": False}


class _Context(click.Context):
    """A context that knows which parameter is being processed."""

    processed = ""

    def set_parameter_source(self, name: str, source: ParameterSource) -> None:
        """Take note of the parameter; Click calls this before it converts the value."""
        self.processed = name
        super().set_parameter_source(name, source)


class Command(click.Command):
    """A command whose options can be set in files and in the environment, with the options of every command.

    The options are found by themselves; an option needs no more than its declaration.
    """

    context_class = _Context
    takes_settings = True

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        names = {parameter.name for parameter in self.params}
        self.params.extend(option for option in shared_options() if option.name not in names)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the command line, over the settings."""
        settings: dict[str, Setting] = {}
        if self.takes_settings and not set(ctx.help_option_names) & set(args):
            settings = by_parameter(self, load(ctx)[self.name or ""])
            ctx.default_map = {name: _value(self, name, setting) for name, setting in settings.items()}
        ctx.meta[__name__] = settings
        with _named(ctx, settings):
            return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command with its log."""
        with logged(Reporting.of(ctx)):
            places = {setting.place for name in ctx.params if (setting := setting_of(ctx, name))}
            if places:
                logger.info("settings from %s", ", ".join(sorted(places)))
            self.prepare(ctx)
            return super().invoke(ctx)

    def prepare(self, ctx: click.Context) -> None:
        """Do what comes between the command line and the command; nothing here."""


def setting_of(context: click.Context, name: str) -> Setting | None:
    """Return the setting that gave the parameter `name` its value, None where it came from elsewhere."""
    if context.get_parameter_source(name) is not ParameterSource.DEFAULT_MAP:
        return None
    return context.meta.get(__name__, {}).get(name)


def load(context: click.Context) -> Resolved:
    """Return the settings of all commands, from the files that the program was told and the environment."""
    return resolve(schema(context), files(context))


def files(context: click.Context) -> list[Path]:
    """Return the files that hold for this run."""
    own = context.find_root().params
    return [] if own.get("no_config") else find_files(own.get("config"))


def schema(context: click.Context) -> dict[str, list[str]]:
    """Return the long names of the options of every command, and those of the method."""
    found = {METHOD: [canonical(name) for name in SUBTRACTOR]}
    for command in commands(context).values():
        if getattr(command, "takes_settings", False):
            found[command.name or ""] = list(long_names(command))
    return found


def commands(context: click.Context) -> Mapping[str, click.Command]:
    """Return the commands of the program, or the command that runs without one."""
    program = context.find_root().command
    return program.commands if isinstance(program, click.Group) else {program.name or "": program}


def long_names(command: click.Command) -> dict[str, click.Option]:
    """Return the options of a command by their long names without the hyphens in front."""
    return {
        name.removeprefix("--"): option
        for option in command.params
        if isinstance(option, click.Option)
        for name in option.opts
        if name.startswith("--")
    }


def by_parameter(command: click.Command, settings: dict[str, Setting]) -> dict[str, Setting]:
    """Return the settings of a command by the names that Click gives its parameters."""
    options = long_names(command)
    return {options[key].name or "": setting for key, setting in settings.items()}


def _value(command: click.Command, name: str, setting: Setting) -> Any:
    (option,) = (one for one in command.params if isinstance(one, click.Option) and one.name == name)
    return as_typed(option, setting)


def as_typed(option: click.Option, setting: Setting) -> Any:
    """Return the value of a setting as if it had been typed on the command line.

    Raises
    ------
    ParameterError
        For a TOML type that the option cannot have.
    """
    value = setting.value
    if not setting.key:
        return _from_variable(option, value)
    if option.is_flag and option.is_bool_flag:
        return _checked(option, setting, isinstance(value, bool))
    if isinstance(value, bool) and _has_optional_value(option):
        return option.flag_value if value else None
    if isinstance(value, list):
        several = option.multiple or option.nargs != 1
        _checked(option, setting, (several or _takes_commas(option)) and all(map(_is_scalar, value)))
        texts = [_text(item) for item in value]
        return texts if several else ",".join(texts)
    _checked(option, setting, isinstance(value, bool) if _is_truth(option) else _is_scalar(value))
    return [_text(value)] if option.multiple else _text(value)


def _from_variable(option: click.Option, text: str) -> Any:
    if option.multiple or option.nargs != 1:
        return [text] if _takes_commas(option) else option.type.split_envvar_value(text)
    if _has_optional_value(option) and text.lower() in _FLAGS:
        return option.flag_value if _FLAGS[text.lower()] else None
    return text


def _checked(option: click.Option, setting: Setting, good: bool) -> Any:
    if good:
        return setting.value
    parameter = _parameter(option)
    if parameter is not None:
        allowed = parameter.allowed.removesuffix(" or None")
    elif option.is_flag or option.type is click.BOOL:
        allowed = "true or false"
    elif option.multiple or option.nargs != 1 or _takes_commas(option):
        allowed = "a text, a number or a list of them"
    else:
        allowed = {"integer": "an integer", "float": "a number"}.get(option.type.name.removesuffix(" range"), "a text")
    came = f"'{setting.value}'" if isinstance(setting.value, str) else _text(setting.value)
    raise ParameterError(f"{setting.name} must be {allowed}, got {came}")


def _is_scalar(value: Any) -> bool:
    return isinstance(value, (str, int, float)) and not isinstance(value, bool)


def _is_truth(option: click.Option) -> bool:
    """Whether the value, not the presence, of the option is true or false."""
    parameter = _parameter(option)
    return option.type is click.BOOL or (parameter is not None and parameter.kind is bool)


def _parameter(option: click.Option) -> Parameter | None:
    """Return the parameter of the method that an option gives."""
    return getattr(option.type, "parameter", None)


def _has_optional_value(option: click.Option) -> bool:
    """Whether the option can be given with a value and without."""
    value = option.flag_value  # a bool stands for none in old versions of Click
    return not option.is_flag and isinstance(value, (str, int, float, Path)) and not isinstance(value, bool)


def _takes_commas(option: click.Option) -> bool:
    return (option.metavar or "").endswith(",...")


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


@contextmanager
def _named(ctx: click.Context, settings: dict[str, Setting]) -> Iterator[None]:
    """Say where a wrong value stands if it was not typed."""
    try:
        yield
    except (click.BadParameter, ParameterError) as error:
        name = getattr(ctx, "processed", "")
        setting = setting_of(ctx, name)
        if setting is None:
            raise
        raise ParameterError(complaint(ctx.command, name, setting, error)) from None


def complaint(command: click.Command, name: str, setting: Setting, error: click.BadParameter | ParameterError) -> str:
    """Return the message of an error about a value, with the place of the value instead of the option."""
    option = next(option for option in command.params if option.name == name)
    if isinstance(error, click.BadParameter):
        message = error.message.rstrip(".")
        return f"{setting.name}: {message}{choice_hint(message, option)}"
    message = str(error)
    for flag in option.opts:
        if message.startswith((f"{flag} ", f"{flag}: ")):
            return setting.name + message.removeprefix(flag)
    return f"{setting.name}: {message}"


def config_options(command: Any) -> Any:
    """Add ``--config`` and ``--no-config`` to the program."""
    named = click.option(
        "--config",
        type=click.Path(path_type=Path),
        envvar="BGSUB_CONFIG",
        metavar="FILE",
        help="Settings in TOML; before them come those of the user and bgsub.toml in this folder.",
    )
    none = click.option(
        "--no-config",
        is_flag=True,
        envvar="BGSUB_NO_CONFIG",
        help="Read no settings from files.",
    )
    return named(none(command))
