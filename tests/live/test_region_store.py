"""Regions on their way from a screen into a settings file."""

from __future__ import annotations

import json
from types import SimpleNamespace

import numpy as np
import pytest
from saying import says

from bgsub.errors import ParameterError, SinkError
from bgsub.live.commands import run_command
from bgsub.live.region_store import RegionStore, corners, text_of
from bgsub.video.regions import parse_region

SQUARE = "door=10%,10%;20%,10%;20%,20%;10%,20%"


@pytest.fixture
def saved():
    return []


@pytest.fixture
def store(saved, tmp_path):
    mask = tmp_path / "m.png"
    mask.write_bytes(b"1")
    (tmp_path / "other.png").write_bytes(b"1")

    def save(texts):
        saved.append(texts)
        return "bgsub.toml"

    return RegionStore({"roi": [SQUARE, f"wall={mask}"], "privacy": ["0,0,10,20"]}, save)


def test_regions_are_described_in_percent(store):
    door, wall, private = store.describe(100, 50)
    assert door["points"] == [[10, 10], [20, 10], [20, 20], [10, 20]]
    assert (door["kind"], door["name"], door["text"]) == ("roi", "door", SQUARE)
    assert (wall["name"], wall["points"]) == ("wall", None)
    assert (private["kind"], private["name"]) == ("privacy", "region1")
    assert private["points"] == [[0, 0], [10, 0], [10, 40], [0, 40]]
    assert store.describe(0, 0)[2]["points"] is None  # before the first frame


@pytest.mark.parametrize("text", [SQUARE, "5%,5%,30%,40%", "1,2;30,4;5,40"])
def test_text_and_corners_agree(text):
    points = corners(parse_region(text), 200, 100)
    again = corners(parse_region(text_of("x", points)), 640, 480)
    assert np.allclose(again, points, atol=0.01)


def test_all_regions_are_replaced(store, saved):
    texts = {"roi": [store.texts["roi"][1]], "privacy": [SQUARE]}
    assert store.replace(texts) == "regions saved in bgsub.toml; used from the next start"
    assert saved == [{kind: tuple(of_kind) for kind, of_kind in texts.items()}]
    assert store.texts == saved[0]
    store.replace({"roi": [], "privacy": [SQUARE, store.texts["roi"][0]]})  # a mask image may change its purpose
    assert store.describe(10, 10)[1]["name"] == "wall"


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (None, "regions must be an object with roi and privacy, each a list of texts"),
        ({}, "regions must be an object"),
        ({"roi": []}, "regions must be an object"),
        ({"roi": [], "privacy": [], "more": []}, "regions must be an object"),
        ({"roi": "a=1,2,3,4", "privacy": []}, "roi must be a list of at most 100 texts"),
        ({"roi": [1], "privacy": []}, "roi must be a list of at most 100 texts"),
        ({"roi": [], "privacy": [SQUARE] * 101}, "privacy must be a list of at most 100 texts"),
        ({"roi": ["a=1,2,3"], "privacy": []}, "roi: a region must be [NAME=]x,y,w,h or "),
        ({"roi": [SQUARE, SQUARE], "privacy": []}, "roi: regions must have different names, got 'door' twice"),
        ({"roi": ["a\n=1,2,3,4"], "privacy": []}, "roi: a region must be printable"),
        ({"roi": ["a\ud800=1,2,3,4"], "privacy": []}, "roi: a region must be printable"),
        ({"roi": ["x=/etc/passwd"], "privacy": []}, "roi: a region must be drawn, got 'x=/etc/passwd'"),
        ({"roi": ["other.png"], "privacy": []}, "roi: a region must be drawn, got 'other.png'"),
    ],
)
def test_invalid_regions_change_nothing(store, saved, texts, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before = store.texts
    with pytest.raises(ParameterError) as caught:
        store.replace(texts)
    assert str(caught.value).startswith(message)
    assert (store.texts, saved) == (before, [])


def test_regions_outside_the_frames_are_refused(store, saved):
    numbers = SimpleNamespace(as_dict=lambda: {"width": 48, "height": 32})
    camera = SimpleNamespace(controls=SimpleNamespace(statistics=numbers, notice=""))

    def ask(region):
        run_command(json.dumps({"regions": {"roi": [region], "privacy": []}}).encode(), [camera], store)

    with says(
        ParameterError, "roi: region 'far' must hold pixels of the frame, which is 48x32: it lies outside of the frame"
    ):
        ask("far=40,40,5,5")
    assert (saved, camera.controls.notice) == ([], "")
    ask("far=40,0,5,5")
    assert saved == [{"roi": ("far=40,0,5,5",), "privacy": ()}]


def test_regions_that_cannot_be_stored_are_discarded(store):
    def fail(_texts):
        raise SinkError("the disk is full")

    store._save = fail
    with says(SinkError, "the disk is full"):
        store.replace({"roi": [], "privacy": []})
    assert len(store.texts["roi"]) == 2
    with says(ParameterError, "the regions of this run cannot be stored"):
        RegionStore().replace({"roi": [], "privacy": []})
