"""Settings of the commands from TOML files, and where the value of an option comes from."""

import os
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from bgsub.errors import ParameterError, SourceError, did_you_mean

FILE_NAME, REGIONS_FILE = "bgsub.toml", "bgsub-regions.toml"
FOUND = (FILE_NAME, REGIONS_FILE)  # in the working folder; the page of a live run writes the second one
METHOD = "method"
SETTINGS = f"{__name__}.settings"  # key in the context: the settings behind its `default_map`

Names = Mapping[str, Mapping[str, bool]]  # the options of each command, and whether they are parameters of the method
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


def setting_of(context: click.Context, option: click.Parameter) -> Setting | None:
    """Return the setting that gave an option its value; None for the command line and for defaults."""
    source = context.get_parameter_source(option.name or "")
    if source is ParameterSource.ENVIRONMENT:
        variable = next(variable for variable in option.envvar or () if os.environ.get(variable))
        return Setting(os.environ[variable], variable)
    return context.meta[SETTINGS].get(option.name) if source is ParameterSource.DEFAULT_MAP else None


def called(context: click.Context | None, option: click.Parameter) -> str:
    """Return the name of an option in messages: the setting that gave its value, or else its flag."""
    setting = None if context is None else setting_of(context, option)
    return option.opts[0] if setting is None else setting.name


def find_files(named: Path | None) -> list[Path]:
    """Return the files to read, later ones win: the user's, those of `FOUND` in this folder, and `named`."""
    folder = click.get_app_dir("bgsub")
    # The XDG standard says to ignore a relative path; an empty one would be the working directory.
    user = Path(folder if os.path.isabs(folder) else os.path.expanduser("~/.config/bgsub"), "config.toml")
    # isfile is false, and raises nothing, in a folder that may not be entered.
    found = [path for path in (user, *map(Path, FOUND)) if os.path.isfile(path)]
    return found if named is None else [*(path for path in found if not _same(path, named)), named]


def _same(path: Path, other: Path) -> bool:
    with suppress(OSError):
        return os.path.samefile(path, other)
    return False


def read_file(path: Path) -> dict[str, Any]:
    """Return the content of a TOML file; SourceError if it cannot be read, ParameterError if it is no TOML."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
        repr(content)  # fails for a hexadecimal number of thousands of digits
        return content
    except FileNotFoundError:
        raise SourceError(f"there is no settings file '{path}'") from None
    except OSError as error:
        raise SourceError(f"the settings file '{path}' cannot be read: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        raise ParameterError(f"{path}: this is no TOML: {error}") from None


def read_settings(names: Names, files: Iterable[Path], named: Path | None) -> Settings:
    """Return the settings by command and option from files, later ones win; ParameterError for an unknown key."""
    settings: Settings = {command: {} for command in names}
    for path in files:
        for table, key, value in _entries(path, names):
            option, setting = key.replace("_", "-"), Setting(value, str(path), key, table)
            allowed = {
                command: [one for one, is_method in names[command].items() if is_method or table != METHOD]
                for command in ([table] if table in names else names)
            }
            having = [command for command, options in allowed.items() if option in options]
            if not having:
                elsewhere = [f"[{command}]" for command in names if option in names[command]]
                hint = did_you_mean(option, sorted({one for options in allowed.values() for one in options}))
                hint = f"; it belongs to {' or '.join(elsewhere)}" if elsewhere else hint
                raise ParameterError(f"{path}: unknown key {key!r}{_inside(table)}{hint}")
            if str(path) in FOUND and path != named:
                check_found(option, setting)
            for command in having:
                settings[command][option] = setting
    return settings


def _entries(path: Path, names: Names) -> Iterator[tuple[str, str, Any]]:
    """Yield table, key and value of a file: the top as "", then [method], then the tables of the commands."""
    content, tables = read_file(path), [METHOD, *names]
    for name, value in content.items():
        if isinstance(value, dict) and name not in tables:
            raise ParameterError(f"{path}: unknown table [{name}]{did_you_mean(name, tables)}")
        if not isinstance(value, dict) and name in tables:
            raise ParameterError(f"{path}: {name!r} must be a table, [{name}], got {value!r}")
    yield from (("", key, value) for key, value in content.items() if key not in tables)
    yield from ((name, key, value) for name in tables for key, value in content.get(name, {}).items())


# Limits of a settings file that was only found in the working folder: it may come from a stranger.

_FORBIDDEN = {
    "on-event": "runs programs",
    "webhook": "sends events to an address",
    "scheduler": "has other machines do the work",
    "token": "gives access to the page",
    "insecure": "skips the verification of cameras",
    "overwrite": "replaces results",
}
_PATHS = ("output", "csv", "log", "model", "save-model", "record", "snapshots", "results", "masks", "sheet")
_REGIONS = ("roi", "ignore", "privacy")


def check_found(option: str, setting: Setting) -> None:
    """Raise ParameterError if a file that the user did not name sets something dangerous."""
    for value in setting.value if isinstance(setting.value, list) else [setting.value]:
        if reason := _danger(option, value):
            raise ParameterError(
                f"{setting.name} {reason}: set it on the command line, in your own settings file or in a file "
                f"that --config names, such as --config {setting.place}"
            )


def _danger(option: str, value: Any) -> str:
    """Return why a stranger must not set an option to a value; "" if it is harmless."""
    text = str(value)
    if option in _FORBIDDEN:
        return "" if value is False else _FORBIDDEN[option]
    if option == "serve":
        from bgsub.live.access import is_loopback  # noqa: PLC0415 - few files open a port

        host = text.rpartition(":")[0] or "127.0.0.1"
        return "" if is_loopback(host.strip("[]")) else f"may open a port to this machine only, got {value!r}"
    # A region may be a mask image with or without a name in front.
    files = [text.strip(), text.partition("=")[2].strip()] if option in _REGIONS else [text] * (option in _PATHS)
    outside = next((file for file in files if not _is_in_folder(file)), None)
    return "" if outside is None else f"may name files in this folder only, got {outside!r}"


def _is_in_folder(file: str) -> bool:
    folder = Path.cwd().resolve()
    with suppress(OSError, ValueError, RuntimeError):  # a loop of links, a zero byte
        return (folder / file).resolve().is_relative_to(folder)
    return False
