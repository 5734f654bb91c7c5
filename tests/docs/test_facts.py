"""Names, columns, defaults and numbers on the pages that their code blocks do not cover."""

import inspect
import re
import shlex
from pathlib import Path

import click
import numpy as np
import pytest
from pages import DOCS, blocks

from bgsub import BackgroundSubtractor, RobustPCA, Separation, synthetic
from bgsub.cli import program
from bgsub.events import clips, region_counts, writers
from bgsub.jobs.batch import manifest
from bgsub.live.viewer import KEYS
from bgsub.parameters import SUBTRACTOR
from bgsub.subtractor.opencv_names import OPENCV_NAMES


def read(page):
    return (DOCS / page).read_text(encoding="utf-8")


# -- from other tools

SECTIONS = {part.partition("\n")[0].partition(":")[0]: part for part in read("from-other-tools.md").split("\n## ")[1:]}
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


def is_known(section, name):
    if name.startswith("--"):
        return name in OPTIONS
    if section in ("scikit-learn", "pyrpca"):
        parameters = inspect.signature(RobustPCA).parameters
        return name in parameters or hasattr(RobustPCA, name) or re.search(rf"\b{name}\b.* : ", RobustPCA.__doc__)
    return (
        name == "[method]"
        or name.replace("-", "_") in SUBTRACTOR
        or hasattr(BackgroundSubtractor, name)
        or name in Separation.__dataclass_fields__
    )


@pytest.mark.parametrize("section", SECTIONS)
def test_every_name_in_a_table_exists(section):
    column = 2 if section == "OpenCV" else 1
    cells = [row[min(column, len(row) - 2)] for row in rows(section)]
    assert len(cells) > 5
    for cell in cells:
        names = re.findall(r"`([^`]+)`", cell)
        assert names or cell == "none", cell
        assert all(is_known(section, name) for name in names), cell
    assert not is_known(section, "--motions")


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
    assert BackgroundSubtractor(varThreshold=64).get_params()["noise_factor"] == 2 * SUBTRACTOR["noise_factor"].default
    scan = dict(re.findall(r"^\| `([\w-]+)`.*\| `(--[\w-]+)` \|", SECTIONS["DVR-Scan"], re.MULTILINE))
    assert scan["variance-threshold"] == "--noise-factor"


# -- how-tos


def table(page, after):
    """Return the code words in the first column of the table that follows a text."""
    lines = re.search(r"\n\|.*?(?=\n\n|\Z)", read(page).partition(after)[2], re.DOTALL)[0].strip().splitlines()[2:]
    return [word for line in lines for word in re.findall(r"`([^`]+)`", line.split(" |")[0])]


def test_columns_of_files_are_documented():
    for after, columns in {
        "`events.csv`, a line": writers.COLUMNS,
        "`regions.csv`, a line": region_counts.COLUMNS,
        "`clips.csv`, a line": clips._COLUMNS,
    }.items():
        assert sorted(table("howto-events.md", after)) == sorted(columns)
    (line,) = (line for line in read("howto-hours-of-files.md").splitlines() if "manifest.csv" in line)
    assert {*manifest._COLUMNS, "error"} <= set(re.findall(r"`(\w+)`", line))


def test_window_keys_match_the_page():
    known = {key for keys, _ in KEYS for key in re.split(r", | |\.\.", keys)}
    assert set(table("howto-network-camera.md", "## In the window")) <= known | {"1"}  # "v, 0..9"


def test_the_systemd_unit_has_a_valid_command(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("gate").mkdir()
    (unit,) = (block.code for block in blocks("howto-network-camera.md") if block.language == "ini")
    words = shlex.split(re.search(r"ExecStart=((?:.*\\\n)*.*)", unit)[1].replace("\\\n", " ").replace("%h/", ""))
    assert words[0].endswith("bin/bgsub")
    command = program.get_command(program.make_context("bgsub", [], resilient_parsing=True), words[1])
    assert command.make_context("bgsub live", words[2:]).params["cameras"] == ("rtsp://gate.local/stream",)


def test_the_counts_on_the_page_match_the_scene():
    page, middle = read("howto-counting.md"), 120
    assert 'scene("street", size=(240, 180), length=400, seed=1, walkers=2)' in page
    street = synthetic.scene("street", size=(240, 180), length=400, seed=1, walkers=2)
    before, left, right = {}, 0, 0
    for index in range(len(street)):
        for key, pixels in street.movers(index).items():
            now = float(np.nonzero(pixels)[1].mean())
            then = before.get(key, now)
            left, right = left + (then >= middle > now), right + (then < middle <= now)
            before[key] = now
    assert f"{left} to the left, {right} to the right" in page


def test_the_defaults_on_the_tuning_page_are_correct():
    for name in ("threshold", "noise_factor", "neighbours", "median", "min_area", "rank", "forgetting", "absorb_after",
                 "scale", "start_frames"):  # fmt: skip
        section = re.search(rf"^## {name}$(.*?)(?=^## )", read("tuning.md"), re.M | re.S)[1]
        assert f"Default {SUBTRACTOR[name].default:g}" in section, name
