"""Commands whose options can also be set in files and in the environment.

Both are click's own means: the files become the `default_map` of a context, and every option has its variables.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from bgsub.cli.help import FileOption, HelpfulCommand
from bgsub.cli.logs import Reporting, logged, logger, reporting_options
from bgsub.cli.progress import show_compilation
from bgsub.cli.setting_sources import (
    FILE_NAME,
    METHOD,
    Setting,
    Settings,
    find_files,
    read_settings,
    remember,
    setting_of,
)
from bgsub.errors import ParameterError, did_you_mean

_PREFIX = "BGSUB_"
_OF_THE_PROGRAM = ("BGSUB_CONFIG", "BGSUB_NO_CONFIG")


class Command(HelpfulCommand):
    """A command with the options of every command; files and variables set its options if it `takes_settings`."""

    def __init__(
        self,
        *args: Any,
        params: Sequence[click.Parameter] | None = None,
        takes_settings: bool = True,
        **options: Any,
    ) -> None:
        super().__init__(*args, params=[*(params or ()), *reporting_options()], **options)
        self.takes_settings = takes_settings
        for option in self.params if takes_settings else ():
            if isinstance(option, click.Option) and not isinstance(option, FileOption):
                keys = _keys(option)
                own = [] if self.name == METHOD else [variable(f"{self.name}-{key}") for key in keys]
                option.envvar = own + [variable(key) for key in keys]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the command line on top of the settings."""
        asks_help = {*ctx.help_option_names, "--help-all"} & set(args)
        if self.takes_settings and not (asks_help or ctx.resilient_parsing):
            apply(ctx, load(ctx))
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        with logged(Reporting.of(ctx)), show_compilation():
            given = {key_of(one): setting_of(ctx, one) for one in self.params if isinstance(one, click.Option)}
            found = {key: setting for key, setting in given.items() if setting is not None}
            if places := {setting.place for setting in found.values()}:
                logger.info("settings from %s", ", ".join(sorted(places)))
            here = sorted(key for key, setting in found.items() if setting.place == FILE_NAME)
            if here and ctx.find_root().params.get("config") != Path(FILE_NAME):
                logger.warning("settings from %s in this folder: %s", FILE_NAME, ", ".join(here))
            self.prepare(ctx)
            return super().invoke(ctx)

    def prepare(self, ctx: click.Context) -> None:
        """Change the parsed values before the command runs."""


def commands(context: click.Context) -> dict[str, Command]:
    """Return the commands that take settings, by name."""
    program = context.find_root().command
    found = program.commands if isinstance(program, click.Group) else {program.name or "": program}
    return {name: one for name, one in found.items() if isinstance(one, Command) and one.takes_settings}


def load(context: click.Context) -> Settings:
    """Return the settings of all commands from the files of this run; ParameterError for an unknown variable."""
    taking = commands(context)
    names: dict[str, list[str]] = {METHOD: []}
    of_method = []
    for name, command in taking.items():
        options = long_names(command)
        names[name] = [key for key, one in options.items() if not isinstance(one, FileOption)]
        if own := [key for key, one in options.items() if getattr(one, "of_method", False)]:
            names[METHOD] = own
            of_method.append(name)
    settings = read_settings(names, of_method, files(context), context.find_root().params.get("config"))
    known = {name for command in taking.values() for option in command.params for name in option.envvar or ()}
    known |= set(_OF_THE_PROGRAM)
    for name in sorted(os.environ):
        if name.startswith(_PREFIX) and os.environ[name] and name not in known:
            raise ParameterError(f"environment: unknown variable {name!r}{did_you_mean(name, sorted(known))}")
    return settings


def files(context: click.Context) -> list[Path]:
    """Return the settings files of this run."""
    own = context.find_root().params
    return [] if own.get("no_config") else find_files(own.get("config"))


def _keys(option: click.Option) -> list[str]:
    return [name.removeprefix("--") for name in option.opts if name.startswith("--")]


def key_of(option: click.Option) -> str:
    """Return the key of an option in a settings file."""
    return _keys(option)[0]


def long_names(command: click.Command) -> dict[str, click.Option]:
    """Return the options of a command by their long names without hyphens in front."""
    return {key: one for one in command.params if isinstance(one, click.Option) for key in _keys(one)}


def variable(key: str) -> str:
    """Return the environment variable of a key."""
    return _PREFIX + key.replace("-", "_").upper()


def apply(context: click.Context, settings: Mapping[str, Mapping[str, Setting]]) -> None:
    """Use the settings of a command as defaults, which variables and the command line override."""
    options = long_names(context.command)
    own = [(options[key], setting) for key, setting in settings.get(context.command.name or "", {}).items()]
    remember(context, {option.name or "": setting for option, setting in own})
    context.default_map = {option.name or "": as_typed(option, setting) for option, setting in own}


def as_typed(option: click.Option, setting: Setting) -> str | list[str]:
    """Return a value of a file as it would be typed; ParameterError for a TOML type that the option cannot have."""
    value, allowed = setting.value, _allowed(option)
    several = option.multiple or option.nargs != 1
    items = value if isinstance(value, list) and (several or _takes_commas(option)) else [value]
    for item in items:
        wrong = "true or false" not in allowed if isinstance(item, bool) else allowed == "true or false"
        if wrong or not isinstance(item, (str, int, float)):
            came = f"'{value}'" if isinstance(value, str) else _text(value)
            raise ParameterError(f"{setting.name} must be {allowed}, got {came}")
    texts = [_text(item) for item in items]
    return texts if several else ",".join(texts)


def _allowed(option: click.Option) -> str:
    """Return the allowed values of an option in a file, in words."""
    parameter = getattr(option.type, "parameter", None)
    if parameter is not None:
        return parameter.allowed.removesuffix(" or None")
    if option.is_flag or option.type is click.BOOL:
        return "true or false"
    if option.multiple or option.nargs != 1 or _takes_commas(option):
        return "a text, a number or a list of them"
    return {"integer": "an integer", "float": "a number"}.get(option.type.name.removesuffix(" range"), "a text")


def _takes_commas(option: click.Option) -> bool:
    return (option.metavar or "").endswith(",...")


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
