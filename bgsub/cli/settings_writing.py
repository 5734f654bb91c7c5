"""Keys written into a settings file that people write, too: what else it holds stays as it is."""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from bgsub.cli.config import toml
from bgsub.cli.settings_files import canonical, read_file
from bgsub.errors import ParameterError
from bgsub.storage.durable_io import write_whole


class _Statement(NamedTuple):
    """What stands in the lines from `begin` to `end`: the head of a table, or keys of the one that it is in."""

    begin: int
    end: int
    table: str
    keys: list[str]


def store(path: Path, table: str, lists: Mapping[str, Sequence[str]]) -> None:
    """Write lists of texts under their keys, whole or not at all.

    A key that is in the table of the command is replaced there, any other one at the top, for all commands. An empty
    list is written only in place of another.

    Raises
    ------
    SourceError, ParameterError
        As `read_file`, and where the file is written in a way in which the keys cannot be replaced.
    SinkError
        If it cannot be written.
    """
    before = read_file(path) if path.exists() else {}
    lines = path.read_bytes().decode().splitlines(keepends=True) if path.exists() else []
    for key, texts in lists.items():
        found = {statement.table: statement for statement in _statements(lines) if [key] == statement.keys}
        place = found.get(table) or found.get("")
        if place is not None:
            lines[place.begin : place.end] = [_line(key, texts)]
        elif texts:
            _append(lines, _line(key, texts))
    after = _parsed(lines) or {}
    held = {**after, **after.get(table, {})}
    is_right = all(held.get(key, []) == list(texts) for key, texts in lists.items())
    if not is_right or _without(before, lists, table) != _without(after, lists, table):
        keys = " and ".join(lists)
        raise ParameterError(f"'{path}' is written in a way in which {keys} cannot be replaced: it stays as it is")
    write_whole(path, "".join(lines).encode())


def _without(content: dict[str, Any], keys: Collection[str], table: str) -> dict[str, Any]:
    """Return what a file holds beside those keys at the top and in the table."""
    rest = {key: value for key, value in content.items() if canonical(key) not in keys}
    own = {key: value for key, value in rest.get(table, {}).items() if canonical(key) not in keys}
    return {**rest, table: own}


def _statements(lines: Sequence[str]) -> Iterator[_Statement]:
    """Yield the statements in order: each takes as many lines as are needed to make sense."""
    table, begin = "", 0
    while begin < len(lines):
        if not lines[begin].strip() or lines[begin].lstrip().startswith("#"):
            begin += 1
            continue
        end, parsed = begin + 1, _parsed(lines[begin : begin + 1])
        while parsed is None and end < len(lines):
            end += 1
            parsed = _parsed(lines[begin:end])
        is_head = lines[begin].lstrip().startswith("[")
        table = ".".join(parsed or ()) if is_head else table
        yield _Statement(begin, end, table, [] if is_head else [canonical(key) for key in parsed or ()])
        begin = end


def _parsed(lines: Sequence[str]) -> dict[str, Any] | None:
    try:
        return tomllib.loads("".join(lines))
    except tomllib.TOMLDecodeError:
        return None


def _append(lines: list[str], line: str) -> None:
    """Put a line behind the keys at the top."""
    top = [statement for statement in _statements(lines) if not statement.table]
    place = top[-1].end if top else 0
    if place and not lines[place - 1].endswith("\n"):
        lines[place - 1] += "\n"
    lines.insert(place, line)


def _line(key: str, texts: Sequence[str]) -> str:
    if len(texts) < 2:
        return f"{key} = {toml(list(texts))}\n"
    return "".join([f"{key} = [\n", *(f"    {toml(text)},\n" for text in texts), "]\n"])
