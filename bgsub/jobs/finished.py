"""What a finished run has made, written down: only where that is still so, the run is done already."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from bgsub.errors import OutputError, ParameterError, SinkError
from bgsub.jobs.identity import JobIdentity
from bgsub.storage.durable_io import unlink, write_whole

Sizes = dict[str, list[int]]


def sizes_of(outputs: Iterable[Path], folder: Path) -> Sizes:
    """Return bytes and number of files of each output, by its path, relative to `folder` where it lies in there.

    OSError where one of them is missing.
    """
    found = {}
    for output in outputs:
        if output.is_dir():
            with os.scandir(output) as entries:
                sizes = [entry.stat().st_size for entry in entries if entry.is_file()]
        else:
            sizes = [output.stat().st_size]
        found[_name(output, folder)] = [sum(sizes), len(sizes)]
    return found


def change_since(sizes: Sizes, folder: Path) -> str:
    """Return which of the outputs is not as it was, and how; empty where all are."""
    for name, (size, count) in sizes.items():
        try:
            [[size_now, count_now]] = sizes_of([folder / name], folder).values()
        except OSError as error:
            return f"'{folder / name}' cannot be read: {error.strerror or error}"
        if (size_now, count_now) != (size, count):
            return f"'{folder / name}' has {_words(size_now, count_now)}, when it was finished {_words(size, count)}"
    return ""


class Record:
    """The note of a finished run with certain outputs, a small file in a folder that other runs may share.

    Parameters
    ----------
    place : Path
        The folder.
    output : Path
        The output folder.
    targets : sequence of Path
        The outputs.
    """

    def __init__(self, place: Path, output: Path, targets: Sequence[Path]) -> None:
        self._names = {_name(target, output) for target in targets}
        digest = hashlib.sha256("\0".join(sorted(self._names)).encode("utf-8", "surrogateescape")).hexdigest()
        self.path = place / f"done-{digest[:12]}.json"
        self._output, self._targets = output, targets

    def write(self, identity: dict[str, Any]) -> None:
        """Write down what the outputs are by now; OutputError when that cannot be done."""
        there = [target for target in self._targets if target.exists()]
        record = {"identity": identity, "outputs": sizes_of(there, self._output)}
        write_whole(self.path, json.dumps(record, indent=1).encode(), OutputError)

    def check(self, identity: JobIdentity, remedy: str) -> None:
        """Refuse outputs that are not what the job would make, by their record or else one of some of them.

        Without either nothing is known against them.

        Raises
        ------
        ParameterError
            If they were made by other options, or from another source.
        SinkError
            If they have changed, or the record cannot be read.
        """
        for path in (self.path, *sorted(self.path.parent.glob("done-*.json"))):
            try:
                record = json.loads(path.read_bytes())
                if path != self.path and self._names.isdisjoint(record["outputs"]):
                    continue
                difference = identity.difference(JobIdentity.from_dict(record["identity"]))
                change = "" if difference else change_since(record["outputs"], self._output)
            except FileNotFoundError:
                continue
            except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
                raise SinkError(f"'{path}' cannot be read: {error}; {remedy}") from None
            if difference:
                raise ParameterError(f"the outputs in '{self._output}' were made {difference}; {remedy}")
            if change:
                raise SinkError(f"{change}; {remedy}")
            return

    def remove(self) -> None:
        """Forget it: the outputs are made anew."""
        unlink(self.path)


def _name(output: Path, folder: Path) -> str:
    return output.relative_to(folder).as_posix() if output.is_relative_to(folder) else os.path.abspath(output)


def _words(size: int, count: int) -> str:
    return f"{size} bytes" if count == 1 else f"{size} bytes in {count} files"
