"""Names, columns, defaults and numbers on the pages that their code blocks do not cover."""

import inspect
import re

import click
import docs_tutorials as script
import pytest
from pages import DOCS, ROOT

from bgsub import BackgroundSubtractor, RobustPCA, Separation
from bgsub.cli import program
from bgsub.events import clips, feed, writers
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
    if name.startswith("bgsub "):
        return name.removeprefix("bgsub ") in program.commands
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
        "`regions.csv`, a line": feed.COLUMNS,
        "`clips.csv`, a line": clips._COLUMNS,
    }.items():
        assert sorted(table("howto-events.md", after)) == sorted(columns)
    (line,) = (line for line in read("howto-hours-of-files.md").splitlines() if "manifest.csv" in line)
    assert {*manifest._COLUMNS, "error"} <= set(re.findall(r"`(\w+)`", line))


def test_window_keys_match_the_page():
    known = {key for keys, _ in KEYS for key in re.split(r", | |\.\.", keys)}
    assert set(table("howto-network-camera.md", "## In the window")) <= known | {"1"}  # "v, 0..9"


def test_the_defaults_on_the_tuning_page_are_correct():
    for name in ("threshold", "noise_factor", "neighbours", "median", "min_area", "rank", "forgetting", "absorb_after",
                 "scale", "start_frames"):  # fmt: skip
        section = re.search(rf"^## {name}$(.*?)(?=^## )", read("tuning.md"), re.M | re.S)[1]
        default = SUBTRACTOR[name].default
        assert f"Default {default if isinstance(default, str) else format(default, 'g')}" in section, name


@pytest.mark.large
def test_pictures_of_a_tutorial_can_be_made_again(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    page = "tutorial-python"
    assert script.make(page, tmp_path, length="10s") == []
    assert {path.name for path in tmp_path.iterdir()} == {path.name for path in (DOCS / "pictures").glob(f"{page}-*")}
    monkeypatch.setattr(script, "WINDOW_TOOLS", ("no-such-tool",))
    with pytest.raises(script.CannotError, match="needs no-such-tool"):
        script.window()
