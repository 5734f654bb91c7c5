"""``bgsub config``: the current settings and their sources, and writing settings files."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from bgsub.cli.help import OUTPUT, RUNNING, Example, FileOption
from bgsub.cli.method_options import MethodCommand, MethodParameter
from bgsub.cli.options import option
from bgsub.cli.setting_sources import FILE_NAME, METHOD, Setting, Settings, canonical, read_file, setting_of
from bgsub.cli.settings import Command, apply, commands, files, key_of, load
from bgsub.errors import ParameterError, SinkError, did_you_mean
from bgsub.storage.durable_io import as_sink_error, sync_file, sync_folder, write_whole

_SECRET = "***"


@dataclass(frozen=True)
class Row:
    """An option in the list: key, value in a type of TOML or None, setting, help."""

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
    cls=Command,
    takes_settings=False,
    short_help="Show the current settings and where they come from.",
    examples=(
        Example("bgsub config run", "The settings of bgsub run and their files"),
        Example("bgsub config --init", "Write a bgsub.toml with every option to edit"),
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
    """Print the settings of COMMAND, by default of all commands, as TOML with their sources.

    \b
    Later ones win:
      the defaults
      the user's file, such as ~/.config/bgsub/config.toml
      bgsub.toml in this folder
      the file of bgsub --config FILE, or of the variable BGSUB_CONFIG
      variables: BGSUB_OPTION for all commands, BGSUB_COMMAND_OPTION for one
      the command line

    In a file, keys at the top apply to every command that has the option, those in [run] to run only. [method] has
    the parameters of the method, also those without an option. A key is the long name of an option, with - or _. An
    option without a value is true or false; an option that can be repeated takes a list. Paths are relative to the
    working folder, as on the command line. A bgsub.toml that --config does not name may come from a stranger: it
    cannot open ports to the network, set a token, run programs, send anything, or name files outside the folder.
    """
    known = commands(context)
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
        click.echo("\n\n".join("\n".join([f"[{name}]", *map(_line, rows)]) for name, rows in tables.items()))


def _tables(wanted: list[Command], settings: Settings | None) -> dict[str, list[Row]]:
    """Return the rows of the commands, as far as they differ from the method, and of the method."""
    method = _rows(MethodCommand(METHOD), settings, of_method=True)
    tables = {command.name or "": [row for row in _rows(command, settings) if row not in method] for command in wanted}
    return {**tables, METHOD: method} if any(isinstance(command, MethodCommand) for command in wanted) else tables


def _rows(command: Command, settings: Settings | None, of_method: bool = False) -> list[Row]:
    """Return the values of the options of a command."""
    context = click.Context(command, info_name=command.name)
    apply(context, settings or {})
    rows = []
    for one in command.params:
        if not isinstance(one, click.Option) or (of_method and not getattr(one, "of_method", False)):
            continue
        setting = None if settings is None else _setting(context, one)
        if one.hidden and setting is None and not isinstance(one, FileOption):
            continue
        value = _plain(_value(context, one, setting))
        shown = _SECRET if one.hide_input and value is not None else value
        rows.append(Row(key_of(one), shown, setting, one.help or ""))
    return rows


def _setting(context: click.Context, option: click.Option) -> Setting | None:
    """Return the setting of an option, None for its default; check its value."""
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
    """Return a value in a type of TOML and JSON, or None for click's "not set"."""
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, Path):
        return str(value)
    return value if isinstance(value, (bool, int, float, str)) else None


def _line(row: Row) -> str:
    return f"# {row.key} is not set" if row.value is None else f"{row.key} = {_toml(row.value)}  # {row.place}"


def _toml(value: Any) -> str:
    import tomlkit  # noqa: PLC0415 - it is slow to import

    return tomlkit.item(value).as_string()


def _as_json(tables: dict[str, list[Row]], read: list[str]) -> dict[str, Any]:
    found = {
        table: {row.key: {"value": _finite(row.value), "source": row.place} for row in rows}
        for table, rows in tables.items()
    }
    return {"files": read, "settings": found}


def _finite(value: Any) -> Any:
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _write_template(path: Path, tables: dict[str, list[Row]]) -> None:
    """Write all options, commented out, into a new file; SinkError if it exists or cannot be written."""
    sections = []
    for table, rows in tables.items():
        options = [f"# {' '.join(row.help.split())}\n# {row.key} = {_example(row.value)}".rstrip() for row in rows]
        sections.append("\n".join([f"[{table}]", *options]))
    head = "# Settings of bgsub; see bgsub config --help. Keys before the first table apply to all commands."
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
    return "" if value is None else _toml(value)


def store(path: Path, table: str, lists: Mapping[str, Sequence[str]]) -> None:
    """Write lists of texts under their keys, and keep the rest of the file.

    A key in the table of the command is replaced there, any other key at the top, for all commands. An empty list is
    written only if it replaces another.

    Raises
    ------
    SourceError, ParameterError
        As `read_file`, and if the table is written in a way that cannot be changed.
    SinkError
        If the file cannot be written.
    """
    import tomlkit  # noqa: PLC0415 - as above

    before = read_file(path) if path.exists() else {}
    document = tomlkit.parse(path.read_bytes() if path.exists() else b"")
    own = document.get(table, {})
    for key, texts in lists.items():
        place = own if key in own else document
        if key in place or texts:
            place[key] = tomlkit.item(list(texts)).multiline(len(texts) > 1)
    text = document.as_string()
    after = tomlkit.parse(text).unwrap()
    values = {**after, **after.get(table, {})}
    is_right = all(values.get(key, []) == list(texts) for key, texts in lists.items())
    if not is_right or _without(before, lists, table) != _without(after, lists, table):
        raise ParameterError(f"{' and '.join(lists)} in '{path}' cannot be replaced; the file stays as it is")
    write_whole(path, text.encode())


def _without(content: dict[str, Any], keys: Collection[str], table: str) -> dict[str, Any]:
    """Return the content of a file without some keys at the top and in the table."""
    rest = {key: value for key, value in content.items() if canonical(key) not in keys}
    own = {key: value for key, value in rest.get(table, {}).items() if canonical(key) not in keys}
    return {**rest, table: own}
