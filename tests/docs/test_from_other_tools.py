"""Every bgsub name on the page exists, and its OpenCV rows match the table in the code."""

import inspect
import re

import click
import pytest
from pages import DOCS

from bgsub import BackgroundSubtractor, RobustPCA, Separation
from bgsub.cli import program
from bgsub.parameters import SUBTRACTOR
from bgsub.subtractor.opencv_names import OPENCV_NAMES

PAGE = (DOCS / "from-other-tools.md").read_text(encoding="utf-8")
SECTIONS = {part.partition("\n")[0].partition(":")[0]: part for part in PAGE.split("\n## ")[1:]}
OPTIONS = {
    name
    for command in ("run", "live")
    for option in program.commands[command].params
    if isinstance(option, click.Option)
    for name in option.opts
}


def rows(section):
    """Return the cells of the table rows of a section, without headers."""
    lines = [line for line in SECTIONS[section].splitlines() if line.startswith("| ")]
    return [cells for line in lines if (cells := line.strip("| ").split(" | "))[0] != section]


def ours(cell):
    """Return the bgsub names in a cell."""
    return re.findall(r"`([^`]+)`", cell)


def is_known(section, name):
    if name.startswith("--"):
        return name in OPTIONS
    if section in ("scikit-learn", "pyrpca"):
        parameters = inspect.signature(RobustPCA).parameters
        return name in parameters or hasattr(RobustPCA, name) or re.search(rf"\b{name}\b.* : ", RobustPCA.__doc__)
    fields = Separation.__dataclass_fields__
    return name in SUBTRACTOR or hasattr(BackgroundSubtractor, name) or name in fields


@pytest.mark.parametrize("section", SECTIONS)
def test_every_bgsub_name_exists(section):
    column = 2 if section == "OpenCV" else 1
    cells = [row[min(column, len(row) - 2)] for row in rows(section)]
    assert len(cells) > 5
    for cell in cells:
        names = ours(cell)
        assert names or cell == "none", cell
        assert all(is_known(section, name) for name in names), cell


def test_an_unknown_name_is_detected():
    assert not is_known("DVR-Scan", "--motions")
    assert not is_known("OpenCV", "ranks")
    assert not is_known("pyrpca", "low_rank")


def _default(value):
    return str(value).lower() if isinstance(value, bool) else value if isinstance(value, str) else f"{value:g}"


def test_opencv_rows_match_the_table():
    expected = []
    for row in OPENCV_NAMES:
        there = f"`{row.name}`" + (f" ({_default(row.default)})" if row.default is not None else "")
        defaults = [(name, SUBTRACTOR[name].default) for name in row.ours if row.default is not None]
        here = [f"`{name}` ({_default(value)})" for name, value in defaults] or [f"`{name}`" for name in row.ours]
        expected.append([there, ", ".join(row.of), ", ".join(here) or "none", row.text])
    assert [row for row in rows("OpenCV") if len(row) == 4] == expected


def test_converted_values_match_the_page():
    assert BackgroundSubtractor(varThreshold=64).get_params()["noise_factor"] == 2 * SUBTRACTOR["noise_factor"].default
    scan = dict(re.findall(r"^\| `([\w-]+)`.*\| `(--[\w-]+)` \|", SECTIONS["DVR-Scan"], re.MULTILINE))
    assert scan["variance-threshold"] == "--noise-factor"
