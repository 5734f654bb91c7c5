"""Facts on the how-to pages and the tuning page that the code blocks do not cover."""

import importlib.util
import re
import shlex
import sys
from pathlib import Path

import cv2
import numpy as np
import pytest
from pages import DOCS, ROOT, blocks

from bgsub import synthetic
from bgsub.cli import program
from bgsub.events import clips, region_counts, writers
from bgsub.jobs.batch import manifest
from bgsub.live.viewer import KEYS
from bgsub.parameters import SUBTRACTOR


def read(page):
    return (DOCS / page).read_text(encoding="utf-8")


def table(page, after):
    """Return the code words in the first column of the table that follows a text."""
    rows = re.search(r"\n\|.*?(?=\n\n|\Z)", read(page).partition(after)[2], re.DOTALL)[0].strip().splitlines()[2:]
    return [word for row in rows for word in re.findall(r"`([^`]+)`", row.split(" |")[0])]


@pytest.mark.parametrize(
    ("after", "columns"),
    [
        ("`events.csv`, a line", writers.COLUMNS),
        ("`regions.csv`, a line", region_counts.COLUMNS),
        ("`clips.csv`, a line", clips._COLUMNS),
    ],
)
def test_event_file_columns_are_documented(after, columns):
    assert sorted(table("howto-events.md", after)) == sorted(columns)


def test_manifest_columns_are_documented():
    (line,) = (line for line in read("howto-hours-of-files.md").splitlines() if "manifest.csv" in line)
    assert {*manifest._COLUMNS, "error"} <= set(re.findall(r"`(\w+)`", line))


def test_window_keys_match_the_page():
    known = {key for keys, _ in KEYS for key in re.split(r", | |\.\.", keys)}
    told = set(table("howto-network-camera.md", "## In the window"))
    assert told <= known | {"1"}  # "v, 0..9"


def test_the_systemd_unit_has_a_valid_command(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("gate").mkdir()
    (unit,) = (block.code for block in blocks("howto-network-camera.md") if block.language == "ini")
    words = shlex.split(re.search(r"ExecStart=((?:.*\\\n)*.*)", unit)[1].replace("\\\n", " ").replace("%h/", ""))
    assert words[0].endswith("bin/bgsub")
    command = program.get_command(program.make_context("bgsub", [], resilient_parsing=True), words[1])
    context = command.make_context("bgsub live", words[2:])
    assert context.params["cameras"] == ("rtsp://gate.local/stream",)


def test_the_counts_on_the_page_match_the_scene():
    page, (width, height) = read("howto-counting.md"), (240, 180)
    made = 'scene("street", size=(240, 180), length=400, seed=1, walkers=2)'
    assert made in page
    street = synthetic.scene("street", size=(width, height), length=400, seed=1, walkers=2)
    before, left, right = {}, 0, 0
    for index in range(len(street)):
        for key, pixels in street.movers(index).items():
            now = float(np.nonzero(pixels)[1].mean())
            then = before.get(key, now)
            left, right = left + (then >= width / 2 > now), right + (then < width / 2 <= now)
            before[key] = now
    assert f"{left} to the left, {right} to the right" in page


@pytest.fixture(scope="module")
def tuning():
    sys.path.append(str(ROOT / "scripts"))
    spec = importlib.util.spec_from_file_location("docs_tuning", ROOT / "scripts" / "docs_tuning.py")
    script = sys.modules["docs_tuning"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    return script


def test_each_tuning_parameter_has_a_picture(tuning):
    page = read("tuning.md")
    for name, case in tuning.CASES.items():
        (values,) = re.findall(
            rf"^## {name}$.*?^!\[{name} ([^\]]+)\]\(pictures/tuning-{name}\.jpg\)$", page, re.M | re.S
        )
        told = [
            {"off": "False", "on": "True"}.get(word, word) for word in re.findall(r"[\w.]+", values) if word != "and"
        ]
        if name != "shadows":
            assert told == [f"{value:g}" if isinstance(value, float) else str(value) for value in case.values]
        assert SUBTRACTOR[name].default in case.values
        picture = DOCS / "pictures" / f"tuning-{name}.jpg"
        assert picture.stat().st_size < 150_000
        assert cv2.imread(str(picture)).shape == (2 * (240 + 26), 2 * 320 + 8, 3)


def test_the_defaults_on_the_tuning_page_are_correct():
    page = read("tuning.md")
    for name in ("threshold", "noise_factor", "neighbours", "median", "min_area", "rank", "forgetting", "absorb_after",
                 "scale", "start_frames"):  # fmt: skip
        section = re.search(rf"^## {name}$(.*?)(?=^## )", page, re.M | re.S)[1]
        assert f"Default {SUBTRACTOR[name].default:g}" in section, name


def test_the_script_draws_small_pictures(tuning, tmp_path, capsys):
    tuning.main(["--output", str(tmp_path), "--size", "80x60", "--frames", "70", "threshold", "light"])
    assert {path.name for path in tmp_path.iterdir()} == {"tuning-threshold.jpg", "tuning-light.jpg"}
    assert cv2.imread(str(tmp_path / "tuning-light.jpg")).shape == (2 * (60 + 26), 2 * 80 + 8, 3)
    threshold, light = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"threshold +0\.03: \d\.\d{3}  0\.08: \d\.\d{3}  0\.3: \d\.\d{3}", threshold)
    assert re.fullmatch(r"light +false: \d\.\d{3}  true: \d\.\d{3}", light)


def test_stabilise_scores_higher_on_a_shaking_scene(tuning):
    _, (off, on) = tuning.drawn("stabilise", tuning.CASES["stabilise"], (160, 120), 120)
    assert on > off + 0.1
