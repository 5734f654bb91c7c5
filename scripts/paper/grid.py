"""Cells x methods x repetitions in several processes, each result written to a CSV file at once.

The file begins with lines ``# name: value`` that hold the settings all rows share. An interrupted run continues; a file
of other settings is refused. During a run, rows are in the order of completion; at its end the file is rewritten in the
order of the tasks.
"""

from __future__ import annotations

import csv
import io
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context, parent_process
from pathlib import Path
from typing import Any, TextIO

import timing
from tqdm import tqdm

from bgsub.errors import OutputError, SinkError, SourceError
from bgsub.numerics.threads import limit_threads
from bgsub.storage.durable_io import write_whole

Row = dict[str, str]
Task = dict[str, Any]


@dataclass(frozen=True)
class Table:
    """A CSV file of results.

    Parameters
    ----------
    path : Path
        Where it lies.
    settings : dict
        What all rows share; a file with others is refused.
    keys : tuple of str
        Columns that tell rows apart.
    values : tuple of str
        Columns that hold results.
    """

    path: Path
    settings: dict[str, Any]
    keys: tuple[str, ...]
    values: tuple[str, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns."""
        return self.keys + self.values

    def key(self, row: Task | Row) -> tuple[str, ...]:
        """Return the key of a row, as written in the file."""
        return tuple(_text(row[name]) for name in self.keys)

    def read(self) -> dict[tuple[str, ...], Row]:
        """Return the whole rows of the file by their key, none if there is no file.

        Raises
        ------
        SourceError
            If the file holds other settings or columns, or cannot be read.
        """
        if not self.path.exists():
            return {}
        try:
            text = self.path.read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise SourceError(f"'{self.path}' cannot be read: {error}") from None
        text = text[: text.rfind("\n") + 1]  # a line that an interrupted run has begun does not count
        lines = text.splitlines()
        found = dict(line[2:].split(": ", 1) for line in lines if line.startswith("# ") and ": " in line)
        wanted = {name: _text(value) for name, value in self.settings.items()}
        if found != wanted:
            raise SourceError(
                f"'{self.path}' holds results of other settings ({_listed(found)}; wanted: {_listed(wanted)}): "
                "give another folder or --fresh"
            )
        rows = list(csv.reader(line for line in lines if not line.startswith("#")))
        if rows and tuple(rows[0]) != self.columns:
            raise SourceError(
                f"'{self.path}' has the columns {','.join(rows[0])}, wanted {','.join(self.columns)}: "
                "give another folder or --fresh"
            )
        whole = [dict(zip(self.columns, row, strict=True)) for row in rows[1:] if len(row) == len(self.columns)]
        return {self.key(row): row for row in whole}

    def write(self, rows: Iterable[Row]) -> None:
        """Write the file so that it appears whole; SinkError where that cannot be done."""
        file = io.StringIO()
        file.writelines(f"# {name}: {_text(value)}\n" for name, value in self.settings.items())
        writer = csv.DictWriter(file, self.columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        write_whole(self.path, file.getvalue().encode())

    @contextmanager
    def appending(self) -> Iterator[Callable[[Row], None]]:
        """Yield a function that adds one row to the end of the file at once."""
        try:
            file = self.path.open("a", newline="")
        except OSError as error:
            raise SinkError(f"'{self.path}' cannot be written: {error.strerror or error}") from None
        with file:
            yield lambda row: self._append(file, row)

    def _append(self, file: TextIO, row: Row) -> None:
        try:
            csv.DictWriter(file, self.columns, lineterminator="\n").writerow(row)
            file.flush()
        except OSError as error:
            raise SinkError(f"'{self.path}' cannot be written: {error.strerror or error}") from None


def run(
    table: Table,
    tasks: list[Task],
    evaluate: Callable[[Task], dict[str, Any]],
    *,
    jobs: int = 1,
    fresh: bool = False,
    redo: Iterable[str] = (),
) -> list[Row]:
    """Evaluate the tasks that the table does not hold yet; return the rows of all of them, in their order.

    Parameters
    ----------
    table : Table
        Where results lie; rows of it that are not asked for are kept.
    tasks : list of dict
        The values of the key columns, one of them ``method``.
    evaluate : callable
        Takes a task and returns the values of the other columns; must be importable by name.
    jobs : int
        Number of processes, each with one thread; 1 computes in this one.
    fresh : bool
        Forget what the file holds, whatever its settings.
    redo : iterable of str
        Methods to compute again.

    Raises
    ------
    SourceError, SinkError
        For a file of other settings, and one that cannot be written.
    """
    rows = {} if fresh else table.read()
    rows = {key: row for key, row in rows.items() if row["method"] not in set(redo)}
    todo = [task for task in tasks if table.key(task) not in rows]
    make_folder(table.path.parent)
    table.write(rows.values())
    with table.appending() as append:
        for task, values in _results(todo, evaluate, jobs):
            row = as_text({**task, **values})
            rows[table.key(task)] = row
            append(row)
    wanted = [table.key(task) for task in tasks]
    asked = set(wanted)
    table.write([rows[key] for key in wanted] + [row for key, row in rows.items() if key not in asked])
    return [rows[key] for key in wanted]


def _results(
    tasks: list[Task], evaluate: Callable[[Task], dict[str, Any]], jobs: int
) -> Iterator[tuple[Task, dict[str, Any]]]:
    """Yield each task with its values as soon as they are there."""
    bar = tqdm(total=len(tasks), unit="cell", mininterval=1.0, disable=not tasks)
    with bar:
        computed = _in_process(tasks, evaluate) if jobs == 1 else _in_processes(tasks, evaluate, jobs)
        for task, values in computed:
            bar.set_postfix_str(str(task["method"]), refresh=False)
            bar.update()
            yield task, values


def _in_process(tasks: list[Task], evaluate: Callable[[Task], dict[str, Any]]) -> Iterator[tuple[Task, dict[str, Any]]]:
    with timing.threads(1):
        for task in tasks:
            yield task, evaluate(task)


def _in_processes(
    tasks: list[Task], evaluate: Callable[[Task], dict[str, Any]], jobs: int
) -> Iterator[tuple[Task, dict[str, Any]]]:
    with timing.threads_of_children(1):
        pool = ProcessPoolExecutor(jobs, get_context("spawn"), initializer=_start_worker)
        try:
            futures = {pool.submit(evaluate, task): task for task in tasks}
            for future in as_completed(futures):
                yield futures[future], future.result()
        except BrokenProcessPool:
            raise OutputError("a process that computes has died (out of memory?); run again to go on") from None
        finally:
            pool.shutdown(cancel_futures=True)


def _start_worker() -> None:
    limit_threads(1)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """End this process when the one that started it has been killed, which otherwise leaves it waiting for ever."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def make_folder(path: Path) -> None:
    """Make a folder and those above it; SinkError where that cannot be done."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SinkError(f"the folder '{path}' cannot be made: {error.strerror or error}") from None


def as_text(row: dict[str, Any]) -> Row:
    """Return a row as it is written: floats with six digits."""
    return {name: _text(value) for name, value in row.items()}


def _text(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _listed(settings: dict[str, str]) -> str:
    return ", ".join(f"{name} {value}" for name, value in settings.items()) or "none"
