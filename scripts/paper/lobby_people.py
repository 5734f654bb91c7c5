"""Boxes of the people in some frames of a lobby: their file, and how much foreground lies within and outside."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from bgsub.errors import SourceError

COLUMNS = ("frame", "x0", "y0", "x1", "y1")

People = dict[int, np.ndarray]  # position of a frame -> boxes, (number of people, 4), int; none where it is empty


def read_people(path: Path, numbers: Sequence[int], shape: tuple[int, int]) -> People:
    """Read the boxes of the people.

    Parameters
    ----------
    path : Path
        A table with the columns frame, x0, y0, x1, y1, one person per row: the pixels x0 <= x < x1 and y0 <= y < y1
        of the frame of that number. A row without a box says that the frame is empty.
    numbers : sequence of int
        The numbers of the frames.
    shape : (int, int)
        Height and width of the frames.

    Returns
    -------
    dict of int to ndarray, (n, 4), int
        Boxes by position in `numbers`, of the frames in the file and no others.

    Raises
    ------
    SourceError
        If the file cannot be read or holds something else, with its line.
    """
    try:
        with path.open(newline="") as file:
            table = csv.DictReader(file)
            if tuple(table.fieldnames or ()) != COLUMNS:
                raise SourceError(f"'{path}' must have the columns {','.join(COLUMNS)}, got {table.fieldnames}")
            rows = [(table.line_num, row) for row in table]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise SourceError(f"'{path}' cannot be read: {error}") from None
    position = {number: i for i, number in enumerate(numbers)}
    boxes: dict[int, list[tuple[int, ...]]] = {}
    for line, row in rows:
        try:
            at, box = _person(row, position, shape)
        except ValueError as error:
            raise SourceError(f"'{path}', line {line}: {error}") from None
        boxes.setdefault(at, []).extend([box] if box else [])
    return {at: np.array(some, np.intp).reshape(-1, 4) for at, some in boxes.items()}


def _person(row: dict, position: dict[int, int], shape: tuple[int, int]) -> tuple[int, tuple[int, ...]]:
    """Return the position of the frame of a row and its box, () for none; ValueError where they do not fit."""
    texts = [row[name] for name in COLUMNS]
    if None in row or None in texts:
        raise ValueError(f"a row must have {len(COLUMNS)} values")
    number, *corners = texts
    if not number.isdecimal() or int(number) not in position:
        raise ValueError(f"frame must be the number of one of the {len(position)} frames, got {number!r}")
    if not any(corners):
        return position[int(number)], ()
    height, width = shape
    box = tuple(int(text) if text.isdecimal() else -1 for text in corners)
    x0, y0, x1, y1 = box
    if not (0 <= x0 < x1 <= width and 0 <= y0 < y1 <= height):
        raise ValueError(f"x0 < x1 must lie in 0..{width} and y0 < y1 in 0..{height}, got {','.join(corners)}")
    return position[int(number)], box


def shares(above: np.ndarray, boxes: np.ndarray) -> tuple[list[float], float]:
    """Return the share of foreground within each box, and outside all of them.

    Parameters
    ----------
    above : ndarray, (h, w), bool
        Foreground.
    boxes : ndarray, (n, 4), int
        Rows x0, y0, x1, y1.

    Returns
    -------
    list of float, float
        Shares of the pixels of each box, which a person fills in part, and of all other pixels.
    """
    outside = np.ones_like(above)
    for x0, y0, x1, y1 in boxes:
        outside[y0:y1, x0:x1] = False
    return [float(above[y0:y1, x0:x1].mean()) for x0, y0, x1, y1 in boxes], float(above[outside].mean())
