"""``bgsub config``: the settings that hold, and where each of them stands."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from bgsub.cli.blocks import option
from bgsub.cli.help import OUTPUT, RUNNING, Example
from bgsub.cli.options import MethodCommand, MethodParameter
from bgsub.cli.origins import Setting, setting_of
from bgsub.cli.settings import METHOD_PARAMETERS, Command, CommandOfItself, apply, commands, files, load, long_names
from bgsub.cli.settings_files import FILE_NAME, METHOD, Settings
from bgsub.errors import SinkError, did_you_mean
from bgsub.storage.durable_io import as_sink_error, sync_file, sync_folder

_SECRET = "***"  # in place of what nobody should read over the shoulder


@dataclass(frozen=True)
class Row:
    """An option in the list: its key, the value in a type of TOML or None, where that stands, the help."""

    key: str
    value: Any
    setting: Setting | None
    help: str

    @property
    def place(self) -> str:
        """The file or the variable, or "default"."""
        return "default" if self.setting is None else self.setting.place


def _complete(context: click.Context, _argument: click.Parameter, begun: str) -> list[str]:
    return [name for name in commands(context) if name.startswith(begun)]


@click.command(
    cls=CommandOfItself,
    short_help="Show the settings that hold, and where they stand.",
    examples=(
        Example("bgsub config run", "What bgsub run would do, and where that is written"),
        Example("bgsub config --init", "A bgsub.toml with every option, to be changed"),
    ),
)
@click.argument("command", required=False, shell_complete=_complete)
@option("--json", "as_json", group=RUNNING, is_flag=True, help="Print one JSON object.")
@option(
    "--init",
    "template",
    group=OUTPUT,
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
    the working folder, as on the command line. A bgsub.toml that --config does not name may come from a stranger: it
    opens no port to the network, sets no token, runs no programs, sends nothing and names no file outside the folder.
    """
    known = {name: one for name, one in commands(context).items() if isinstance(one, Command) and one.takes_settings}
    if command is not None and command not in known:
        hint = did_you_mean(command, known)
        raise click.UsageError(f"COMMAND must be one of {', '.join(known)}, got {command!r}{hint}")
    wanted = list(known.values()) if command is None else [known[command]]
    if template is not None:
        _write_template(template, _tables(wanted, None))
        return
    tables = _tables(wanted, load(context))
    if as_json:
        click.echo(json.dumps(_as_json(tables, [str(path) for path in files(context)])))
    else:
        click.echo("\n\n".join(_lines_of(name, rows) for name, rows in tables.items()))


def _tables(wanted: list[Command], settings: Settings | None) -> dict[str, list[Row]]:
    """Return the rows of the commands, then those of the method; a command repeats only what differs from the latter.

    Without `settings` the rows show the defaults.
    """
    method = [row for row in _rows(MethodCommand(METHOD), settings) if row.key.replace("-", "_") in METHOD_PARAMETERS]
    tables = {command.name or "": [row for row in _rows(command, settings) if row not in method] for command in wanted}
    return {**tables, METHOD: method} if any(isinstance(command, MethodCommand) for command in wanted) else tables


def _rows(command: Command, settings: Settings | None) -> list[Row]:
    """Return what holds for the options of a command."""
    context = click.Context(command, info_name=command.name)
    apply(context, settings or {})
    rows = []
    for key, one in long_names(command).items():
        setting = None if settings is None else _held(context, one)
        if one.hidden and setting is None:
            continue
        value = _plain(_value(context, one, setting))
        shown = _SECRET if one.hide_input and value is not None else value
        rows.append(Row(key, shown, setting, one.help or ""))
    return rows


def _held(context: click.Context, option: click.Option) -> Setting | None:
    """Return the setting that an option has its value from, None for its default; a wrong value is refused."""
    value, source = option.consume_value(context, {})
    context.set_parameter_source(option.name or "", source)
    setting = setting_of(context, option)
    if setting is not None:
        option.process_value(context, value)
    return setting


def _value(context: click.Context, option: click.Option, setting: Setting | None) -> Any:
    if setting is None:
        kind = option.type
        return kind.parameter.default if isinstance(kind, MethodParameter) else option.get_default(context)
    return setting.value if setting.key else option.type_cast_value(context, option.value_from_envvar(context))


def _plain(value: Any) -> Any:
    """Return a value in a type that TOML and JSON know; None for what Click takes for "not set"."""
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, Path):
        return str(value)
    return value if isinstance(value, (bool, int, float, str)) else None


def _lines_of(table: str, rows: list[Row]) -> str:
    return "\n".join([f"[{table}]", *map(_line, rows)])


def _line(row: Row) -> str:
    return f"# {row.key} is not set" if row.value is None else f"{row.key} = {toml(row.value)}  # {row.place}"


def toml(value: bool | float | str | list[Any]) -> str:
    """Return a value as TOML writes it."""
    if isinstance(value, list):
        return f"[{', '.join(map(toml, value))}]"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return str(value).lower() if isinstance(value, bool) else repr(value)


def _as_json(tables: dict[str, list[Row]], read: list[str]) -> dict[str, Any]:
    found = {
        table: {row.key: {"value": _finite(row.value), "source": row.place} for row in rows}
        for table, rows in tables.items()
    }
    return {"files": read, "settings": found}


def _finite(value: Any) -> Any:
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _write_template(path: Path, tables: dict[str, list[Row]]) -> None:
    """Write all options, commented out, into a new file; SinkError when it is there already or cannot be written."""
    sections = []
    for table, rows in tables.items():
        options = [f"# {' '.join(row.help.split())}\n# {row.key} = {_example(row.value)}".rstrip() for row in rows]
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
        with as_sink_error(path):
            with file:
                file.write(text)
            sync_file(path)
            sync_folder(path.parent)
    except BaseException:
        path.unlink()
        raise
    click.echo(f"wrote {path}")


def _example(value: Any) -> str:
    return "" if value is None else toml(value)
