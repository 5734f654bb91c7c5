"""``bgsub config``: the settings that hold, and where each of them stands."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from bgsub.cli.settings import Command, as_typed, commands, complaint, files, load, long_names, schema
from bgsub.cli.settings_files import FILE_NAME, METHOD, Resolved, Setting
from bgsub.errors import ParameterError, SinkError
from bgsub.parameters import SUBTRACTOR

Row = tuple[str, Any, str, str]  # key, value, where it stands, help

_SECRET = "***"  # in place of what nobody should read over the shoulder


class SettingsCommand(Command):
    """The command that shows the settings of the others and has none of its own."""

    takes_settings = False


@click.command(cls=SettingsCommand, short_help="Show the settings that hold, and where they stand.")
@click.argument("command", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option(
    "--init",
    "template",
    is_flag=False,
    flag_value=FILE_NAME,
    type=click.Path(path_type=Path),
    metavar="[FILE]",
    help=f"Write a file with every option, commented out; by default {FILE_NAME}.",
)
@click.pass_context
def config(context: click.Context, command: str | None, as_json: bool, template: Path | None) -> None:
    """Print the settings of COMMAND, by default of all commands, as TOML; behind each stands where it comes from.

    \b
    The later ones win:
      the defaults
      the user's file, such as ~/.config/bgsub/config.toml
      bgsub.toml in this folder
      the file of bgsub --config FILE, or of the variable BGSUB_CONFIG
      variables: BGSUB_OPTION for all commands, BGSUB_COMMAND_OPTION for one
      the command line

    In a file, keys at the top hold for every command that has the option, those in [run] for run only, and
    [method] is the place for the parameters of the method. A key is the long name of an option, with - or _. An
    option that needs no value is true or false; one that takes several values takes a list. Paths are relative to
    the working folder, as on the command line.
    """
    settings = load(context) if template is None else {name: {} for name in schema(context)}
    names = [name for name in settings if name != METHOD]
    if command is not None and command not in names:
        from bgsub.nearest import did_you_mean  # noqa: PLC0415

        hint = did_you_mean(command, names)
        raise click.UsageError(f"COMMAND must be one of {', '.join(names)}, got {command!r}{hint}")
    tables = dict(_tables(context, settings, names if command is None else [command]))
    if template is not None:
        _write_template(template, tables)
    elif as_json:
        click.echo(json.dumps(_as_json(tables, [str(path) for path in files(context)])))
    else:
        click.echo("\n\n".join(_lines_of(name, rows) for name, rows in tables.items()))


def _tables(context: click.Context, settings: Resolved, names: list[str]) -> Iterator[tuple[str, list[Row]]]:
    """Yield the rows of the commands, then those of the method; a command repeats only what differs from the latter."""
    known = commands(context)
    for name in names:
        yield name, list(_rows(known[name], settings[name], settings[METHOD]))
    if any(option in SUBTRACTOR for name in names for option in _parameters(known[name])):
        from bgsub.cli.options import method_options  # noqa: PLC0415

        method = Command(METHOD, params=method_options(lambda: None).__click_params__[::-1])  # type: ignore[attr-defined]
        yield METHOD, [row for row in _rows(method, settings[METHOD], {}) if row[0].replace("-", "_") in SUBTRACTOR]


def _parameters(command: click.Command) -> list[str]:
    return [parameter.name or "" for parameter in command.params]


def _rows(command: click.Command, settings: dict[str, Setting], general: dict[str, Setting]) -> Iterator[Row]:
    """Yield what holds for the options of a command; those of `general` only where the command differs from it."""
    context = click.Context(command, info_name=command.name)
    for key, option in long_names(command).items():
        setting = settings.get(key)
        if option.hidden and setting is None:
            continue
        if option.name in SUBTRACTOR and command.name != METHOD and setting == general.get(key):
            continue
        yield key, _value(context, option, setting), "default" if setting is None else setting.place, option.help or ""


def _value(context: click.Context, option: click.Option, setting: Setting | None) -> Any:
    """Return the value of an option in a type that TOML and JSON know, None when it has none."""
    if setting is None:
        value = option.get_default(context)
        if option.name in SUBTRACTOR:
            value = SUBTRACTOR[option.name].default
    else:
        typed = as_typed(option, setting)
        try:
            option.process_value(context, typed)
            value = setting.value if setting.key else option.type_cast_value(context, typed)
        except (click.BadParameter, ParameterError) as error:
            raise ParameterError(complaint(context.command, option.name or "", setting, error)) from None
    value = _plain(value)
    return _SECRET if option.hide_input and value is not None else value


def _plain(value: Any) -> Any:
    """Return a value in a type that TOML and JSON know; None for what Click takes for "not set"."""
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, Path):
        return str(value)
    return value if isinstance(value, (bool, int, float, str)) else None


def _lines_of(table: str, rows: list[Row]) -> str:
    return "\n".join([f"[{table}]", *(_line(key, value, place) for key, value, place, _ in rows)])


def _line(key: str, value: Any, place: str) -> str:
    if value is None:
        return f"# {key} is not set"
    return f"{key} = {toml(value)}  # {place}"


def toml(value: bool | float | str | list[Any]) -> str:
    """Return a value as TOML writes it."""
    if isinstance(value, list):
        return f"[{', '.join(map(toml, value))}]"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return str(value).lower() if isinstance(value, bool) else repr(value)


def _as_json(tables: dict[str, list[Row]], read: list[str]) -> dict[str, Any]:
    found = {
        table: {key: {"value": _finite(value), "source": place} for key, value, place, _ in rows}
        for table, rows in tables.items()
    }
    return {"files": read, "settings": found}


def _finite(value: Any) -> Any:
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _write_template(path: Path, tables: dict[str, list[Row]]) -> None:
    """Write all options, commented out, into a new file; SinkError when it is there already or cannot be written."""
    sections = []
    for table, rows in tables.items():
        options = [f"# {' '.join(text.split())}\n# {key} = {_example(value)}".rstrip() for key, value, _, text in rows]
        sections.append("\n".join([f"[{table}]", *options]))
    head = "# Settings of bgsub; see bgsub config --help. Keys before the first table hold for all commands."
    text = "\n\n".join([head, *sections]) + "\n"
    try:
        file = path.open("x", encoding="utf-8")
    except FileExistsError:
        raise SinkError(f"'{path}' exists already and is not overwritten") from None
    except OSError as error:
        raise SinkError(f"'{path}' cannot be written: {error.strerror or error}") from None
    try:
        with file:
            file.write(text)
    except BaseException:
        path.unlink()
        raise
    click.echo(f"wrote {path}")


def _example(value: Any) -> str:
    return "" if value is None else toml(value)
