"""The pictures of the tutorials are up to date with their pages."""

import importlib.util
import re

import pytest
from pages import DOCS, ROOT

from bgsub._opencv import cv2

PICTURES = DOCS / "pictures"
PAGES = ("tutorial-files", "tutorial-live", "tutorial-python", "howto-matrices")
SCREENS = {"tutorial-files-summary", "tutorial-live-page", "tutorial-live-window"}


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("docs_tutorials", ROOT / "scripts" / "docs_tutorials.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("page", PAGES)
def test_pages_show_all_their_pictures(page):
    shown = re.findall(r"\(pictures/(.*?)\)", (DOCS / f"{page}.md").read_text(encoding="utf-8"))
    assert sorted(shown) == sorted(path.name for path in PICTURES.glob(f"{page}-*"))
    for name in shown:
        assert (PICTURES / name).stat().st_size < 150_000
        assert min(cv2.imread(str(PICTURES / name)).shape[:2]) >= 240


@pytest.mark.parametrize("page", PAGES)
def test_pictures_can_be_regenerated(page, script, tmp_path, monkeypatch):
    """With short scenes, and without browser and window."""
    monkeypatch.setattr(script, "BROWSER", None)
    monkeypatch.setattr(script, "WINDOW_TOOLS", ("no-such-tool",))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    left = script.make(page, tmp_path, length="10s")
    made = {path.stem for path in tmp_path.iterdir()}
    assert {line.partition(":")[0] for line in left} == {name for name in SCREENS if name.startswith(page)}
    assert made == {path.stem for path in PICTURES.glob(f"{page}-*")} - SCREENS


def test_a_missing_tool_is_named(script, monkeypatch):
    monkeypatch.setattr(script, "WINDOW_TOOLS", ("no-such-tool",))
    with pytest.raises(script.CannotError, match="needs no-such-tool"):
        script.window()
