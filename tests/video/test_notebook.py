"""Pictures and videos in a notebook, and the example notebook."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType

import cv2
import numpy as np
import pytest
from video_fakes import separate

from bgsub.errors import DependencyError, ParameterError
from bgsub.video import notebook

EXAMPLE = Path(__file__).parents[2] / "scripts" / "examples" / "notebook.ipynb"


class Handle:
    def __init__(self, first):
        self.shown = [first]

    def update(self, picture):
        self.shown.append(picture)


@pytest.fixture
def handles(monkeypatch):
    """The pictures that were displayed in a notebook, each with its updates."""
    shown = []

    def display(picture, display_id):
        assert display_id is True
        shown.append(Handle(picture))
        return shown[-1]

    module = ModuleType("IPython.display")
    module.display = display
    monkeypatch.setitem(sys.modules, "IPython", ModuleType("IPython"))
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    return shown


def test_pictures_are_pngs_and_a_video_updates_one_picture(frames, handles):
    separation = separate(frames[0])
    data = notebook.picture(separation, "background")._repr_png_()
    image = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_UNCHANGED)
    np.testing.assert_array_equal(image, separation.background)
    notebook.play(((None, separate(frame)) for frame in frames), view="mask", every=5)
    assert len(handles) == 1
    assert len(handles[0].shown) == 3  # frames 0, 5 and 10


def test_wrong_use(monkeypatch):
    with pytest.raises(ParameterError, match="every must be at least 1, got 0"):
        notebook.play([], every=0)
    with pytest.raises(ParameterError, match=r"^view must be one of"):
        notebook.play([], view="halo")
    monkeypatch.setitem(sys.modules, "IPython.display", None)
    with pytest.raises(DependencyError, match="pip install notebook"):
        notebook.play([])


@pytest.mark.slow
def test_the_example_runs(monkeypatch, handles):
    monkeypatch.chdir(EXAMPLE.parent)  # as Jupyter does
    cells = json.loads(EXAMPLE.read_text())["cells"]
    assert len({cell["id"] for cell in cells}) == len(cells)
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    assert len(code) >= 3
    names: dict[str, object] = {}
    for cell in code:
        *body, last = cell.rstrip().splitlines()
        exec("\n".join(body), names)
        if last.startswith("notebook.picture"):
            assert eval(last, names)._repr_png_().startswith(b"\x89PNG")
        else:
            exec(last, names)
    assert len(handles[0].shown) > 3
