"""Options that take their values from files and the environment as well: the base class of the commands.

Both are Click's own: the files become the `default_map` of a command's context, and every option has its variables.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from bgsub.cli.help import HelpfulCommand
from bgsub.cli.logs import Reporting, logged, logger, shared_options
from bgsub.cli.origins import Setting, remember, setting_of
from bgsub.cli.progress import compilation_told
from bgsub.cli.settings_files import FILE_NAME, METHOD, Settings, canonical, find_files, read_settings
from bgsub.errors import ParameterError, did_you_mean
from bgsub.parameters import SUBTRACTOR

_PREFIX = "BGSUB_"
_OF_THE_PROGRAM = ("BGSUB_CONFIG", "BGSUB_NO_CONFIG")
_TRUTH = "true or false"

METHOD_PARAMETERS = {name: parameter for name, parameter in SUBTRACTOR.items() if name not in ("fps", "on_change")}
"""What the commands offer of the parameters of the method; the frame rate is that of the source, ``--fps``.

The frames of a source are all of one size and type, so `on_change` is for Python.
"""


class Command(HelpfulCommand):
    """A command whose options can be set in files and in the environment, with the options of every command.

    The options are found by themselves; an option needs no more than its declaration.
    """

    takes_settings = True

    def __init__(self, *args: Any, params: Sequence[click.Parameter] | None = None, **options: Any) -> None:
        names = {parameter.name for parameter in params or ()}
        shared = [option for option in shared_options() if option.name not in names]
        super().__init__(*args, params=[*(params or ()), *shared], **options)
        if self.takes_settings:
            for key, option in long_names(self).items():
                own = [] if self.name == METHOD else [_variable(f"{self.name}-{key}")]
                option.envvar = [*own, _variable(key)]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the command line, over the settings."""
        asks = {*ctx.help_option_names, "--help-all"} & set(args)
        if self.takes_settings and not (asks or ctx.resilient_parsing):  # as where words are completed
            apply(ctx, load(ctx))
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        with logged(Reporting.of(ctx)), compilation_told():
            given = {key: setting_of(ctx, option) for key, option in long_names(self).items()}
            found = {key: setting for key, setting in given.items() if setting is not None}
            if places := {setting.place for setting in found.values()}:
                logger.info("settings from %s", ", ".join(sorted(places)))
            here = sorted(key for key, setting in found.items() if setting.place == FILE_NAME)
            if here and ctx.find_root().params.get("config") != Path(FILE_NAME):
                logger.warning("settings from %s in this folder: %s", FILE_NAME, ", ".join(here))
            self.prepare(ctx)
            return super().invoke(ctx)

    def prepare(self, ctx: click.Context) -> None:
        """Do what comes between the command line and the command; nothing here."""


class CommandOfItself(Command):
    """A command that no file and no variable changes."""

    takes_settings = False


def load(context: click.Context) -> Settings:
    """Return the settings of all commands from the files of this run; a variable that nobody knows is refused."""
    options = {METHOD: [canonical(name) for name in METHOD_PARAMETERS]}
    taking = [command for command in commands(context).values() if getattr(command, "takes_settings", False)]
    options |= {command.name or "": list(long_names(command)) for command in taking}
    settings = read_settings(options, files(context), context.find_root().params.get("config"))
    known = {name for command in taking for option in command.params for name in option.envvar or ()}
    _check_variables([*sorted(known), *_OF_THE_PROGRAM])
    return settings


def files(context: click.Context) -> list[Path]:
    """Return the files that hold for this run."""
    own = context.find_root().params
    return [] if own.get("no_config") else find_files(own.get("config"))


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


def apply(context: click.Context, settings: Settings) -> None:
    """Let the settings of the command of a context hold in it, as defaults that yield to variables and words."""
    options = long_names(context.command)
    own = [(options[key], setting) for key, setting in settings.get(context.command.name or "", {}).items()]
    remember(context, {option.name or "": setting for option, setting in own})
    context.default_map = {option.name or "": as_typed(option, setting) for option, setting in own}


def as_typed(option: click.Option, setting: Setting) -> str | list[str]:
    """Return a value of a file as it would have been typed on the command line.

    Raises
    ------
    ParameterError
        For a TOML type that the option cannot have.
    """
    value, allowed = setting.value, _allowed(option)
    several = option.multiple or option.nargs != 1
    items = value if isinstance(value, list) and (several or _takes_commas(option)) else [value]
    for item in items:
        wrong = _TRUTH not in allowed if isinstance(item, bool) else allowed == _TRUTH
        if wrong or not isinstance(item, (str, int, float)):
            came = f"'{value}'" if isinstance(value, str) else _text(value)
            raise ParameterError(f"{setting.name} must be {allowed}, got {came}")
    texts = [_text(item) for item in items]
    return texts if several else ",".join(texts)


def _allowed(option: click.Option) -> str:
    """Return in words what a file may give for an option."""
    parameter = getattr(option.type, "parameter", None)
    if parameter is not None:
        return parameter.allowed.removesuffix(" or None")
    if option.is_flag or option.type is click.BOOL:
        return _TRUTH
    if option.multiple or option.nargs != 1 or _takes_commas(option):
        return "a text, a number or a list of them"
    return {"integer": "an integer", "float": "a number"}.get(option.type.name.removesuffix(" range"), "a text")


def _takes_commas(option: click.Option) -> bool:
    return (option.metavar or "").endswith(",...")


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _variable(key: str) -> str:
    return _PREFIX + key.replace("-", "_").upper()


def _check_variables(known: list[str]) -> None:
    for variable in sorted(os.environ):
        if variable.startswith(_PREFIX) and os.environ[variable] and variable not in known:
            raise ParameterError(f"environment: unknown variable {variable!r}{did_you_mean(variable, known)}")
