"""Results of runs in folders: where they are, and the events in them."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bgsub.errors import SourceError
from bgsub.events.recorder import LIST_NAME
from bgsub.storage.durable_io import os_errors_as
from bgsub.video.output_names import EVENT_FORMATS

Record = dict[str, Any]
_LONGEST_LINE = 1 << 26  # bytes


@dataclass(frozen=True)
class Result:
    """The files of events of one run."""

    name: str  # folder below the one that was searched, or its own name
    folder: Path
    events: Path | None = None  # events.jsonl
    clips: Path | None = None  # clips.csv


def find_results(folder: Path) -> list[Result]:
    """Return the results in a folder and below it, in the order of their names; SourceError if there are none.

    Clips in a folder of their own belong to the result that it lies in.
    """
    if not folder.is_dir():
        raise SourceError(f"no such folder: '{folder}'")
    found: dict[Path, dict[str, Path]] = {}
    with os_errors_as(SourceError, f"folder '{folder}' cannot be read"):
        for place, folders, names in os.walk(folder):
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            if EVENT_FORMATS["jsonl"] in names:
                found.setdefault(Path(place), {})["events"] = Path(place, EVENT_FORMATS["jsonl"])
            if LIST_NAME in names:
                parent = Path(place).parent
                owner = parent if parent in found and Path(place) != folder else Path(place)
                found.setdefault(owner, {})["clips"] = Path(place, LIST_NAME)
    if not found:
        raise SourceError(f"no events.jsonl and no clips.csv in folder '{folder}' or below")
    named = Path(os.path.abspath(folder)).name
    return [
        Result(named if place == folder else place.relative_to(folder).as_posix(), place, **files)
        for place, files in sorted(found.items())
    ]


def read_objects(path: Path) -> Iterator[Record]:
    """Yield the objects of an events.jsonl; SourceError for a line that is none of such a file."""
    with os_errors_as(SourceError, f"'{path}' cannot be read"), path.open("rb") as file:
        for number, line in enumerate(iter(lambda: file.readline(_LONGEST_LINE), b""), 1):
            try:
                record = json.loads(line)
                is_object = record["type"] == "object"
                int(record["start_frame"]), int(record["end_frame"])
                if is_object:
                    int(record["id"]), record["track"]["box"], record["track"]["frame"]
            except (ValueError, TypeError, KeyError, RecursionError):
                raise SourceError(f"'{path}', line {number}: this is no event") from None
            if is_object:
                yield record


def read_clips(path: Path) -> Iterator[dict[str, str]]:
    """Yield the rows of a clips.csv; SourceError if it cannot be read."""
    try:
        with os_errors_as(SourceError, f"'{path}' cannot be read"), path.open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file):
                if row.get("file"):
                    yield {key: value or "" for key, value in row.items() if isinstance(key, str)}
    except (UnicodeDecodeError, csv.Error) as error:
        raise SourceError(f"'{path}' cannot be read: {error}") from None
