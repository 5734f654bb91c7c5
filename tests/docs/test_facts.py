"""Names, columns, defaults and numbers on the pages that their code blocks do not cover."""

import inspect
import re

import click
import docs_tutorials as script
import pytest
from pages import DOCS, ROOT

from bgsub import BackgroundSubtractor, RobustPCA, Separation
from bgsub.cli import program
from bgsub.parameters import SUBTRACTOR


def read(page):
    return (DOCS / page).read_text(encoding="utf-8")


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
