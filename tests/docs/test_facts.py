"""Names, columns, defaults and numbers on the pages that their code blocks do not cover."""

import inspect
import re
import sys
from importlib import import_module

import click
import pytest
from pages import DOCS, ROOT

from bgsub import BackgroundSubtractor, RobustPCA, Separation
from bgsub._opencv import cv2
from bgsub.cli import program
from bgsub.events import clips, feed, tables
from bgsub.jobs.batch import files
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
        "`events.csv`, a line": tables.COLUMNS,
        "`regions.csv`, a line": feed.COLUMNS,
        "`clips.csv`, a line": clips._COLUMNS,
    }.items():
        assert sorted(table("howto-events.md", after)) == sorted(columns)
    (line,) = (line for line in read("howto-hours-of-files.md").splitlines() if "manifest.csv" in line)
    assert {*files._COLUMNS, "error"} <= set(re.findall(r"`(\w+)`", line))


def test_window_keys_match_the_page():
    known = {key for keys, _ in KEYS for key in re.split(r", | |\.\.", keys)}
    assert set(table("howto-network-camera.md", "## In the window")) <= known | {"1"}  # "v, 0..9"


def test_the_defaults_on_the_tuning_page_are_correct():
    for name in ("threshold", "noise_factor", "neighbours", "median", "min_area", "rank", "forgetting", "absorb_after",
                 "scale", "start_frames"):  # fmt: skip
        section = re.search(rf"^## {name}$(.*?)(?=^## )", read("tuning.md"), re.M | re.S)[1]
        default = SUBTRACTOR[name].default
        assert f"Default {default if isinstance(default, str) else format(default, 'g')}" in section, name


PICTURES = DOCS / "pictures"
PAGES = ("tutorial-files", "tutorial-live", "tutorial-python", "howto-matrices")


@pytest.fixture(scope="module", autouse=True)
def scripts():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "scripts")
        yield
        for name in ("docs_tutorials", "docs_tuning", "docs_figures"):
            sys.modules.pop(name, None)


@pytest.mark.parametrize("page", PAGES)
def test_pages_show_all_their_pictures(page):
    shown = re.findall(r"\(pictures/(.*?)\)", (DOCS / f"{page}.md").read_text(encoding="utf-8"))
    assert sorted(shown) == sorted(path.name for path in PICTURES.glob(f"{page}-*"))
    for name in shown:
        assert (PICTURES / name).stat().st_size < 150_000
        assert min(cv2.imread(str(PICTURES / name)).shape[:2]) >= 240


@pytest.mark.large
def test_pictures_of_a_tutorial_can_be_made_again(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    script, page = import_module("docs_tutorials"), "tutorial-python"
    assert script.make(page, tmp_path, length="10s") == []
    assert {path.name for path in tmp_path.iterdir()} == {path.name for path in PICTURES.glob(f"{page}-*")}
    monkeypatch.setattr(script, "WINDOW_TOOLS", ("no-such-tool",))
    with pytest.raises(script.CannotError, match="needs no-such-tool"):
        script.window()


def test_each_tuning_parameter_has_a_picture():
    page = (DOCS / "tuning.md").read_text(encoding="utf-8")
    for name, case in import_module("docs_tuning").CASES.items():
        (values,) = re.findall(
            rf"^## {name}$.*?^!\[{name} ([^\]]+)\]\(pictures/tuning-{name}\.jpg\)$", page, re.M | re.S
        )
        shown = [{"off": "False", "on": "True"}.get(word, word) for word in re.findall(r"[\w.]+", values)]
        if name != "shadows":
            expected = [f"{value:g}" if isinstance(value, float) else str(value) for value in case.values]
            assert [word for word in shown if word != "and"] == expected
        assert SUBTRACTOR[name].default in case.values
        assert cv2.imread(str(PICTURES / f"tuning-{name}.jpg")).shape == (2 * (240 + 26), 2 * 320 + 8, 3)
