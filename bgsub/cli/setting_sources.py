"""Settings of the commands from TOML files, and where the value of an option comes from.

Keys are the long names of the options. Keys at the top of a file apply to every command that has the option, those in
the table of a command, such as ``[run]``, to that command only. ``[method]`` has the parameters of the method. Paths
are relative to the working directory, not to the file.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from bgsub.errors import ParameterError, SourceError, did_you_mean

FILE_NAME = "bgsub.toml"
METHOD = "method"

Names = Mapping[str, Collection[str]]
Settings = dict[str, dict[str, "Setting"]]


@dataclass(frozen=True)
class Setting:
    """A value and its place."""

    value: Any  # from a file in a type of TOML; from a variable a text
    place: str  # the file or the variable
    key: str = ""  # as written in the file; empty for a variable
    table: str = ""  # empty for the top of a file and for a variable

    @property
    def name(self) -> str:
        """The name in messages: ``bgsub.toml: 'rank' in [run]`` or ``BGSUB_RANK``."""
        return f"{self.place}: {self.key!r}{_inside(self.table)}" if self.key else self.place


def _inside(table: str) -> str:
    return f" in [{table}]" if table else ""


def remember(context: click.Context, settings: dict[str, Setting]) -> None:
    """Keep the settings behind the `default_map` of a context for `setting_of`."""
    context.meta[__name__] = settings


def setting_of(context: click.Context, option: click.Parameter) -> Setting | None:
    """Return the setting that gave an option its value; None for the command line and for defaults."""
    source = context.get_parameter_source(option.name or "")
    if source is ParameterSource.ENVIRONMENT:
        variable = next(variable for variable in option.envvar or () if os.environ.get(variable))
        return Setting(os.environ[variable], variable)
    return context.meta[__name__].get(option.name) if source is ParameterSource.DEFAULT_MAP else None


def called(context: click.Context | None, option: click.Parameter) -> str:
    """Return the name of an option in messages: the setting that gave its value, or else its flag."""
    setting = None if context is None else setting_of(context, option)
    return option.opts[0] if setting is None else setting.name


def canonical(key: str) -> str:
    """Return a key with hyphens."""
    return key.replace("_", "-")


def user_file() -> Path:
    """Return the path of the user's settings file, which may be missing."""
    folder = click.get_app_dir("bgsub")
    # The XDG standard says to ignore a relative path; an empty one would be the working directory.
    return Path(folder if os.path.isabs(folder) else os.path.expanduser("~/.config/bgsub"), "config.toml")


def find_files(named: Path | None = None) -> list[Path]:
    """Return the files to read, later ones win: the user's, ``bgsub.toml`` in this folder, and `named`."""
    # isfile is false, and raises nothing, in a folder that may not be entered.
    found = [path for path in (user_file(), Path(FILE_NAME)) if os.path.isfile(path)]
    return found if named is None else [*(path for path in found if not _same(path, named)), named]


def _same(path: Path, other: Path) -> bool:
    with suppress(OSError):
        return os.path.samefile(path, other)
    return False


def read_file(path: Path) -> dict[str, Any]:
    """Return the content of a TOML file; SourceError if it cannot be read, ParameterError if it is no TOML."""
    try:
        text = path.read_text(encoding="utf-8")
        content = tomllib.loads(text)
        repr(content)  # fails for a hexadecimal number of thousands of digits
        return content
    except FileNotFoundError:
        raise SourceError(f"there is no settings file '{path}'") from None
    except OSError as error:
        raise SourceError(f"the settings file '{path}' cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        reason = "the text is not in UTF-8"
    except RecursionError:
        reason = "it is nested too deeply"
    except tomllib.TOMLDecodeError as error:
        reason = str(error).replace("at end of document", f"at the end of line {len(text.splitlines())}")
    except ValueError:  # Python limits the digits of an integer
        reason = "it has a number of thousands of digits"
    raise ParameterError(f"{path}: this is no TOML: {reason}")


def read_settings(
    names: Names, of_method: Collection[str], files: Iterable[Path], named: Path | None = None
) -> Settings:
    """Return the settings by command and option.

    Parameters
    ----------
    names : mapping of str to collection of str
        The keys of each table: the long names of the options of every command, and of the parameters under "method".
    of_method : collection of str
        The commands that take the parameters of the method.
    files : iterable of Path
        Later ones win.
    named : Path, optional
        The file that the user named; limits apply to ``bgsub.toml`` unless it is this one.

    Raises
    ------
    ParameterError
        For an unknown key or table, for a value that `check_found` refuses, and as `read_file`.
    SourceError
        As `read_file`.
    """
    settings: Settings = {command: {} for command in names}
    for path in files:
        for table, entries in _tables(str(path), read_file(path), names):
            for option, setting in _entries(str(path), table, entries, names):
                if path == Path(FILE_NAME) != named:
                    check_found(option, setting)
                holders = [METHOD, *of_method] if table == METHOD else [table] if table else _having(option, names)
                for command in holders:
                    settings[command][option] = setting
    return settings


def _having(option: str, names: Names) -> list[str]:
    return [table for table, options in names.items() if option in options]


def _tables(place: str, content: dict[str, Any], names: Names) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the tables of a file: the top as "", then [method], then those of the commands."""
    for name, value in content.items():
        if isinstance(value, dict) and name not in names:
            raise ParameterError(f"{place}: unknown table [{name}]{did_you_mean(name, names)}")
        if not isinstance(value, dict) and name in names:
            raise ParameterError(f"{place}: {name!r} must be a table, [{name}], got {value!r}")
    yield "", {name: value for name, value in content.items() if name not in names}
    for name in sorted(names, key=lambda name: name != METHOD):
        yield name, content.get(name, {})


def _entries(place: str, table: str, entries: dict[str, Any], names: Names) -> Iterator[tuple[str, Setting]]:
    of_commands = {option for command, options in names.items() if command != METHOD for option in options}
    allowed = names[table] if table else of_commands
    seen: dict[str, str] = {}
    for key, value in entries.items():
        option = canonical(key)
        if option not in allowed:
            raise ParameterError(f"{place}: unknown key {key!r}{_inside(table)}{_hint(key, allowed, names)}")
        if option in seen:
            raise ParameterError(f"{place}: {seen[option]!r} and {key!r}{_inside(table)} are the same")
        seen[option] = key
        yield option, Setting(value, place, key, table)


def _hint(key: str, allowed: Collection[str], names: Names) -> str:
    """Return the tables that have a key, or the nearest key in the same spelling."""
    if tables := _having(canonical(key), names):
        return f"; it belongs to {' or '.join(f'[{table}]' for table in tables)}"
    return did_you_mean(key, (name.replace("-", "_") if "_" in key else name for name in allowed))


# Limits of a settings file that was only found in the working folder: it may come from a stranger.

_Reason = Callable[[Any], str]  # returns the reason to refuse a value, "" if it is allowed


def check_found(option: str, setting: Setting) -> None:
    """Raise ParameterError if a file that the user did not name sets something dangerous."""
    for value in setting.value if isinstance(setting.value, list) else [setting.value]:
        if reason := _LIMITS.get(option, _allow)(value):
            raise ParameterError(
                f"{setting.name} {reason}: set it on the command line, in your own settings file or in a file "
                f"that --config names, such as --config {setting.place}"
            )


def _allow(_value: Any) -> str:
    return ""


def _never(reason: str) -> _Reason:
    return lambda value: "" if value is False else reason


def _in_folder(value: Any) -> str:
    folder = Path.cwd().resolve()
    try:
        inside = (folder / str(value)).resolve().is_relative_to(folder)
    except (OSError, ValueError, RuntimeError):  # a loop of links, a zero byte
        inside = False
    return "" if inside else f"may name files in this folder only, got {str(value)!r}"


def _region_in_folder(value: Any) -> str:
    """Check a region, which may be a mask image with or without a name in front."""
    text = str(value)
    return _in_folder(text.strip()) or _in_folder(text.partition("=")[2].strip())


def _on_loopback(value: Any) -> str:
    from bgsub.live.access import is_loopback  # noqa: PLC0415 - few files open a port

    host = str(value).rpartition(":")[0] or "127.0.0.1"
    return "" if is_loopback(host.strip("[]")) else f"may open a port to this machine only, got {value!r}"


_PATHS = "output log model save-model record snapshots observed results masks csv sheet backdrop"
_LIMITS: dict[str, _Reason] = {
    "on-event": _never("runs programs"),
    "webhook": _never("sends events to an address"),
    "scheduler": _never("has other machines do the work"),
    "token": _never("gives access to the page"),
    "overwrite": _never("replaces results"),
    "serve": _on_loopback,
    **dict.fromkeys(_PATHS.split(), _in_folder),
    **dict.fromkeys(("roi", "privacy"), _region_in_folder),
}
"""By option, for all commands. Options that are not listed have no limits."""
