"""Settings of the commands from TOML files.

Keys are the long names of the options. Those at the top of a file hold for every command that has the option, those
in the table of a command, as ``[run]``, for that command only; ``[method]`` holds the parameters of the method. A value
means what it means on the command line: paths are relative to the working directory, not to the file.
"""

from __future__ import annotations

import os
import sys
import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from bgsub.cli.origins import Setting, inside
from bgsub.cli.settings_limits import check_found
from bgsub.errors import ParameterError, SourceError, did_you_mean

FILE_NAME = "bgsub.toml"
METHOD = "method"

Options = Mapping[str, Collection[str]]
Settings = dict[str, dict[str, Setting]]


def user_file() -> Path:
    """Return where the settings of the user stand, whether the file is there or not.

    ``$XDG_CONFIG_HOME/bgsub/config.toml``, where that variable is not set ``%APPDATA%`` on Windows,
    ``~/Library/Application Support`` on macOS and ``~/.config`` elsewhere.
    """
    folder = os.environ.get("XDG_CONFIG_HOME", "")
    if os.path.isabs(folder):  # the standard says to ignore it otherwise
        return Path(folder, "bgsub", "config.toml")
    usual = click.get_app_dir("bgsub") if sys.platform in ("win32", "darwin") else "~/.config/bgsub"
    return Path(os.path.expanduser(usual), "config.toml")


def find_files(named: Path | None = None) -> list[Path]:
    """Return the files to read, the later ones winning: the user's, ``bgsub.toml`` in this folder, and `named`."""
    # In a folder that may not be entered, such as another user's home, there is none for this one.
    found = [path for path in (user_file(), Path(FILE_NAME)) if os.path.isfile(path)]
    return found if named is None else [*(path for path in found if not _same(path, named)), named]


def _same(path: Path, other: Path) -> bool:
    with suppress(OSError):
        return os.path.samefile(path, other)
    return False


def read_file(path: Path) -> dict[str, Any]:
    """Return the content of a TOML file; SourceError when it cannot be read, ParameterError when it is no TOML."""
    try:
        text = path.read_text(encoding="utf-8")
        content = tomllib.loads(text)
        repr(content)  # a number of thousands of digits can be read in hexadecimal, but not be told
        return content
    except FileNotFoundError:
        raise SourceError(f"there is no settings file '{path}'") from None
    except OSError as error:
        raise SourceError(f"the settings file '{path}' cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise ParameterError(f"{path}: this is no TOML: the text is not in UTF-8") from None
    except RecursionError:
        raise ParameterError(f"{path}: this is no TOML: it is nested too deeply") from None
    except tomllib.TOMLDecodeError as error:
        message = str(error).replace("at end of document", f"at the end of line {len(text.splitlines())}")
        raise ParameterError(f"{path}: this is no TOML: {message}") from None
    except ValueError:  # of an integer that Python takes for an attack
        raise ParameterError(f"{path}: this is no TOML: it has a number of thousands of digits") from None


def read_settings(options: Options, files: Iterable[Path], named: Path | None = None) -> Settings:
    """Return the settings that hold, by command and option.

    Parameters
    ----------
    options : mapping of str to collection of str
        Long names of the options, with hyphens, of every command; those of the method under "method".
    files : iterable of Path
        The later ones win.
    named : Path, optional
        The one that the user has named.

    Raises
    ------
    ParameterError
        For an unknown key or table, naming the nearest one; for what `settings_limits` refuses, in a file of this
        folder that the user has not named.
    SourceError, ParameterError
        As `read_file` does.
    """
    settings: Settings = {command: {} for command in options}
    for path in files:
        for table, entries in _tables(str(path), read_file(path), options):
            for option, setting in _entries(str(path), table, entries, options):
                if path == Path(FILE_NAME) != named:
                    check_found(option, setting)
                for command in _holders(table, option, options):
                    settings[command][option] = setting
    return settings


def canonical(key: str) -> str:
    """Return the name of an option as `read_settings` has it: with hyphens."""
    return key.replace("_", "-")


def _tables(place: str, content: dict[str, Any], options: Options) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the tables of a file, "" for its top, the more special ones later."""
    for name, value in content.items():
        if isinstance(value, dict) and name not in options:
            raise ParameterError(f"{place}: unknown table [{name}]{did_you_mean(name, options)}")
        if not isinstance(value, dict) and name in options:
            raise ParameterError(f"{place}: {name!r} must be a table, [{name}], got {value!r}")
    yield "", {name: value for name, value in content.items() if name not in options}
    for name in sorted(options, key=lambda name: name != METHOD):
        yield name, content.get(name, {})


def _entries(place: str, table: str, entries: dict[str, Any], options: Options) -> Iterator[tuple[str, Setting]]:
    allowed = options[table] if table else {name for names in options.values() for name in names}
    seen: dict[str, str] = {}
    for key, value in entries.items():
        option = canonical(key)
        if option not in allowed:
            raise ParameterError(f"{place}: unknown key {key!r}{inside(table)}{_hint(key, allowed, options)}")
        if option in seen:
            raise ParameterError(f"{place}: {seen[option]!r} and {key!r}{inside(table)} are the same")
        seen[option] = key
        yield option, Setting(value, place, key, table)


def _holders(table: str, option: str, options: Options) -> list[str]:
    """Return the commands for which an entry of a table holds."""
    if table == METHOD:  # a command may have an option of the same name for something else
        return [command for command, names in options.items() if set(options[METHOD]) <= set(names)]
    return [table] if table else [command for command, names in options.items() if option in names]


def _hint(key: str, allowed: Collection[str], options: Options) -> str:
    """Return the commands that have the option, or the nearest name in the spelling of `key`."""
    others = [f"[{command}]" for command, names in options.items() if canonical(key) in names]
    if others:
        return f"; it belongs to {' or '.join(others)}"
    return did_you_mean(key, (name.replace("-", "_") if "_" in key else name for name in allowed))
