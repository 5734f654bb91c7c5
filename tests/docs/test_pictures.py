"""The pictures of the pages exist, are small, and can be made again with short scenes."""

import re
import sys
from importlib import import_module

import pytest
from numba import config
from pages import DOCS, ROOT

from bgsub._opencv import cv2
from bgsub.parameters import SUBTRACTOR

PICTURES = DOCS / "pictures"
PAGES = ("tutorial-files", "tutorial-live", "tutorial-python", "howto-matrices")
FIGURES = {"costs.svg", "line_searches.svg", "chain.png", "lamps.svg"}
compiled = pytest.mark.skipif(config.DISABLE_JIT, reason="hundreds of frames without compiled kernels")


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


def test_pictures_of_a_tutorial_can_be_made_again(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    script, page = import_module("docs_tutorials"), "tutorial-python"
    assert script.make(page, tmp_path, length="10s") == []
    assert {path.name for path in tmp_path.iterdir()} == {path.name for path in PICTURES.glob(f"{page}-*")}
    monkeypatch.setattr(script, "WINDOW_TOOLS", ("no-such-tool",))
    with pytest.raises(script.CannotError, match="needs no-such-tool"):
        script.window()


@compiled
def test_figures_are_reproducible(tmp_path):
    script = import_module("docs_figures")
    script.main(["--output", str(tmp_path), "--size", "64", "--length", "60"], standalone_mode=False)
    assert {path.name for path in tmp_path.iterdir()} == FIGURES <= {path.name for path in PICTURES.iterdir()}
    before = (tmp_path / "costs.svg").read_bytes()
    script.costs(tmp_path / "costs.svg")
    assert (tmp_path / "costs.svg").read_bytes() == before
    assert max(path.stat().st_size for path in PICTURES.iterdir()) < 150_000


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


@compiled
def test_tuning_pictures_can_be_made_again(tmp_path, capsys):
    tuning = import_module("docs_tuning")
    tuning.main(["--output", str(tmp_path), "--size", "80x60", "--frames", "70", "threshold", "light"])
    assert {path.name for path in tmp_path.iterdir()} == {"tuning-threshold.jpg", "tuning-light.jpg"}
    assert cv2.imread(str(tmp_path / "tuning-light.jpg")).shape == (2 * (60 + 26), 2 * 80 + 8, 3)
    threshold, light = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"threshold +0\.03: \d\.\d{3}  0\.08: \d\.\d{3}  0\.3: \d\.\d{3}", threshold)
    assert re.fullmatch(r"light +false: \d\.\d{3}  true: \d\.\d{3}", light)
    _, (off, on) = tuning.drawn("stabilise", tuning.CASES["stabilise"], (160, 120), 120)
    assert on > off + 0.1
