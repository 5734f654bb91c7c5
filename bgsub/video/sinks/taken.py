"""The names that a run has given to its images, in little memory however long it runs."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable
from typing import Any

_NUMBERED = re.compile(r"(.*?)([0-9]+)", re.DOTALL)


class TakenNames:
    """A set of names that keeps numbers that follow each other as one run: ``bin000001`` to ``bin002000``.

    `ranges` are what the method of that name returned.
    """

    def __init__(self, ranges: Iterable[Iterable[Any]] = ()) -> None:
        self._runs: dict[tuple[str, int], list[list[int]]] = {}
        self._count = 0
        for before, digits, first, last in ranges:
            self._runs.setdefault((before, digits), []).append([first, last])
            self._count += last - first + 1

    def __len__(self) -> int:
        return self._count

    def __contains__(self, name: str) -> bool:
        key, number = _split(name)
        runs = self._runs.get(key, [])
        at = bisect_right(runs, number, key=lambda run: run[0])
        return at > 0 and number <= runs[at - 1][1]

    def add(self, name: str) -> None:
        """Take a name that is not taken yet."""
        key, number = _split(name)
        runs = self._runs.setdefault(key, [])
        at = bisect_right(runs, number, key=lambda run: run[0])
        after_last = at > 0 and runs[at - 1][1] == number - 1
        before_next = at < len(runs) and runs[at][0] == number + 1
        if after_last and before_next:
            runs[at - 1][1] = runs.pop(at)[1]
        elif after_last:
            runs[at - 1][1] = number
        elif before_next:
            runs[at][0] = number
        else:
            runs.insert(at, [number, number])
        self._count += 1

    def ranges(self) -> list[list[Any]]:
        """Return the runs as (before, digits, first, last), in types that JSON knows."""
        return [[*key, *run] for key, runs in self._runs.items() for run in runs]


def _split(name: str) -> tuple[tuple[str, int], int]:
    """Return what stands before the number at the end of a name, the digits of that number, and the number."""
    match = _NUMBERED.fullmatch(name)
    return ((match[1], len(match[2])), int(match[2])) if match else ((name, 0), 0)
