"""Commands with settings from files (click's `default_map`) and from the environment; ``bgsub config``."""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from bgsub.cli.help import HelpfulCommand
from bgsub.cli.reporting import Reporting, logged, logger, reporting_options
from bgsub.cli.setting_sources import FOUND, SETTINGS, Setting, Settings, find_files, read_settings, setting_of
from bgsub.errors import ParameterError, did_you_mean

_PREFIX = "BGSUB_"
_OF_THE_PROGRAM = ("BGSUB_CONFIG", "BGSUB_NO_CONFIG")


class Command(HelpfulCommand):
    """A command with the options of every command; files and variables set its options if it `takes_settings`."""

    def __init__(
        self, *args: Any, params: Sequence[click.Parameter] | None = None, takes_settings: bool = True, **options: Any
    ) -> None:
        super().__init__(*args, params=[*(params or ()), *reporting_options()], **options)
        self.takes_settings = takes_settings
        for option in self.params if takes_settings else ():
            keys = keys_of(option)
            names = [*(f"{self.name}-{key}" for key in keys), *keys]
            option.envvar = [_PREFIX + name.replace("-", "_").upper() for name in names]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the command line on top of the settings."""
        asks_help = {*ctx.help_option_names, "--help-all"} & set(args)
        if self.takes_settings and not (asks_help or ctx.resilient_parsing):
            apply(ctx, load(ctx).get(self.name or "", {}))
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        with logged(Reporting.of(ctx)):
            places: dict[str, list[str]] = {}
            for one in self.params:
                if setting := setting_of(ctx, one):
                    places.setdefault(setting.place, []).append(keys_of(one)[0])
            if places:
                logger.info("settings from %s", ", ".join(sorted(places)))
            for name in FOUND:
                if name in places and ctx.find_root().params.get("config") != Path(name):
                    logger.warning("settings from %s in this folder: %s", name, ", ".join(sorted(places[name])))
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
    names = {
        name: {key: getattr(one, "of_method", False) for key, one in long_names(command).items()}
        for name, command in taking.items()
    }
    own = context.find_root().params
    files = [] if own.get("no_config") else find_files(own.get("config"))
    settings = read_settings(names, files, own.get("config"))
    known = {name for command in taking.values() for option in command.params for name in option.envvar or ()}
    known |= set(_OF_THE_PROGRAM)
    for name in sorted(os.environ):
        if name.startswith(_PREFIX) and os.environ[name] and name not in known:
            raise ParameterError(f"environment: unknown variable {name!r}{did_you_mean(name, sorted(known))}")
    return settings


def keys_of(option: click.Parameter) -> list[str]:
    """Return the long names of an option without hyphens in front; the first one is its key in a settings file."""
    return [name.removeprefix("--") for name in option.opts if name.startswith("--")]


def long_names(command: click.Command) -> dict[str, click.Parameter]:
    """Return the options of a command by their long names without hyphens in front."""
    return {key: one for one in command.params for key in keys_of(one)}


def apply(context: click.Context, settings: Mapping[str, Setting]) -> None:
    """Use the settings of a command as defaults, which variables and the command line override."""
    options = long_names(context.command)
    own = [(options[key], setting) for key, setting in settings.items()]
    context.meta[SETTINGS] = {option.name or "": setting for option, setting in own}
    context.default_map = {option.name or "": as_typed(option, setting) for option, setting in own}


def as_typed(option: click.Parameter, setting: Setting) -> str | list[str]:
    """Return a value of a file as it would be typed; ParameterError for a TOML type that the option cannot have."""
    value, several = setting.value, getattr(option, "multiple", False)
    takes_list = several or (option.metavar or "").endswith(",...")
    takes_bool = getattr(option, "is_flag", False) or getattr(option, "of_method", False)  # the method checks its own
    items = value if isinstance(value, list) and takes_list else [value]
    for item in items:
        if not isinstance(item, (str, int, float)) or (isinstance(item, bool) and not takes_bool):
            kinds = "a text or a number" + (", or a list of them" if takes_list else "")
            raise ParameterError(f"{setting.name} must be {kinds}, got {as_text(value)}")
    texts = [as_text(item) for item in items]
    return texts if several else ",".join(texts)


def as_text(value: Any) -> str:
    """Return a value as it would be typed."""
    return str(value).lower() if isinstance(value, bool) else str(value)


@click.command(
    cls=Command,
    takes_settings=False,
    short_help="Show the settings from files and variables, and their sources.",
    examples={"bgsub config run": "The settings of bgsub run and where they come from"},
)
@click.argument("command", required=False)
@click.pass_context
def config(context: click.Context, command: str | None) -> None:
    """Print the settings of COMMAND, by default of all commands, as TOML with their sources.

    \b
    Later sources override earlier ones:
      the defaults, which "bgsub COMMAND --help-all" shows
      the user's file, such as ~/.config/bgsub/config.toml
      bgsub.toml in this folder
      bgsub-regions.toml in this folder: regions drawn on the page of bgsub live
      the file of bgsub --config FILE, or of the variable BGSUB_CONFIG
      variables: BGSUB_OPTION for all commands, BGSUB_COMMAND_OPTION for one
      the command line

    In a file, keys at the top apply to every command that has the option, those in [run] to run only. [method] has
    the parameters of bgsub.BackgroundSubtractor. A key is the long name of an option; _ may replace the hyphens. An
    option without a value is true or false; an option that can be repeated takes a list. Paths are relative to the
    working folder, as on the command line. A bgsub.toml that --config does not name may come from a stranger: it
    cannot open ports to the network, set a token, run programs, send anything, or name files outside the folder.
    """
    known = commands(context)
    if command is not None and command not in known:
        hint = did_you_mean(command, known)
        raise click.UsageError(f"COMMAND must be one of {', '.join(known)}, got {command!r}{hint}")
    settings, tables = load(context), []
    for name in known if command is None else [command]:
        own = click.Context(known[name], info_name=name)
        apply(own, settings[name])
        lines = [line for one in known[name].params if (line := _line(own, one))]
        if lines:
            tables.append("\n".join([f"[{name}]", *lines]))
    none = "# no settings in files or variables; bgsub COMMAND --help-all shows the defaults"
    click.echo("\n\n".join(tables) or none)


def _line(context: click.Context, option: click.Parameter) -> str:
    """Return the line of an option that is set, after a check of its value; empty for its default."""
    value, source = option.consume_value(context, {})
    context.set_parameter_source(option.name or "", source)
    setting = setting_of(context, option)
    if setting is None:
        return ""
    option.process_value(context, value)
    shown = "***" if getattr(option, "hide_input", False) else setting.value
    return f"{keys_of(option)[0]} = {as_toml(shown)}  # {setting.place}"


def as_toml(value: Any) -> str:
    """Return a value in TOML."""
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(as_toml, value))}]"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else as_text(value)
