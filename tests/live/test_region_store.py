"""Regions drawn on the page: description, checks, storage."""

import json
from types import SimpleNamespace

import pytest
from live_fakes import Saved

from bgsub.errors import ParameterError, SinkError
from bgsub.live.page_commands import RegionStore, run_command

SQUARE = "door=10%,10%;20%,10%;20%,20%;10%,20%"
EMPTY = {"roi": [], "ignore": [], "privacy": []}


@pytest.fixture
def saved():
    return Saved()


@pytest.fixture
def store(saved, here):
    for name in ("m.png", "other.png"):
        (here / name).write_bytes(b"1")
    return RegionStore({"roi": [SQUARE, f"wall={here / 'm.png'}"], "privacy": ["0,0,10,20"]}, saved.save)


def test_regions_are_described_in_percent(store):
    door, wall, private = store.describe(100, 50)
    assert (door["kind"], door["name"], door["text"]) == ("roi", "door", SQUARE)
    assert door["points"] == [[10, 10], [20, 10], [20, 20], [10, 20]]
    assert (wall["name"], wall["points"]) == ("wall", None)
    assert (private["kind"], private["name"]) == ("privacy", "region1")
    assert private["points"] == [[0, 0], [10, 0], [10, 40], [0, 40]]
    assert store.describe(0, 0)[2]["points"] is None  # before the first frame


def test_all_regions_are_replaced(store, saved):
    wall = store.texts["roi"][1]
    told = store.replace({**EMPTY, "roi": [wall], "privacy": [SQUARE]})
    assert told == "regions saved in bgsub.toml; used from the next start"
    assert saved == [{"roi": (wall,), "ignore": (), "privacy": (SQUARE,)}]
    assert store.texts == saved[0]
    store.replace({**EMPTY, "privacy": [SQUARE, wall]})  # a mask image may change its purpose
    assert store.describe(10, 10)[1]["name"] == "wall"


def test_invalid_regions_change_nothing(store, saved):
    before = store.texts
    for texts, message in (
        *((wrong, "regions must be an object") for wrong in (None, {}, {"roi": []}, {**EMPTY, "more": []})),
        ({**EMPTY, "privacy": [SQUARE] * 101}, "privacy must be a list of at most 100 texts"),
        *(({**EMPTY, "roi": wrong}, "roi must be a list of at most 100 texts") for wrong in ("a=1,2,3,4", [1])),
        ({**EMPTY, "roi": ["a=1,2,3"]}, r"roi: a region must be \[NAME=\]x,y,w,h or "),
        ({**EMPTY, "roi": [SQUARE, SQUARE]}, "roi: regions must have different names, got 'door' twice"),
        *(({**EMPTY, "roi": [f"a{bad}b=1,2,3,4"]}, "roi: a region's name must be printable") for bad in "\n\ud800"),
        *(({**EMPTY, "roi": [bad]}, f"roi: a region must be drawn, got '{bad}'") for bad in ("x=/etc/x", "other.png")),
    ):
        with pytest.raises(ParameterError, match=f"^{message}"):
            store.replace(texts)
        assert (store.texts, saved) == (before, [])


def test_regions_outside_the_frames_are_refused(store, saved):
    numbers = SimpleNamespace(as_dict=lambda: {"width": 48, "height": 32})
    camera = SimpleNamespace(controls=SimpleNamespace(statistics=numbers, notice=""))

    def send(region, **more):
        run_command(json.dumps({"regions": {**EMPTY, "roi": [region]}, **more}).encode(), [camera], store)

    with pytest.raises(ParameterError, match=r"roi: region 'far' .* 48x32: it lies outside of the frame"):
        send("far=40,40,5,5")
    for more in ({"paused": True}, {"camera": 0}):
        with pytest.raises(ParameterError):
            send("near=40,0,5,5", **more)
    assert (saved, camera.controls.notice) == ([], "")
    send("near=40,0,5,5")
    assert saved == [{"roi": ("near=40,0,5,5",), "ignore": (), "privacy": ()}]
    assert "bgsub.toml" in camera.controls.notice


def test_ignored_regions_that_leave_nothing_are_refused(store, saved):
    """The next run would refuse them."""
    for roi, ignored in (([], "0,0,100%,100%"), (["a=0,0,50%,50%"], "0,0,30,20")):
        with pytest.raises(ParameterError, match="the ignored regions cover all that is processed"):
            store.replace({**EMPTY, "roi": roi, "ignore": [ignored]}, [(32, 48)])
    assert saved == []
    store.replace({**EMPTY, "ignore": ["0,0,100%,90%"]}, [(32, 48)])


def test_regions_that_cannot_be_stored_are_discarded(store, saved):
    saved.error = "the disk is full"
    with pytest.raises(SinkError, match="the disk is full"):
        store.replace(EMPTY)
    assert len(store.texts["roi"]) == 2
    with pytest.raises(ParameterError, match="cannot be stored"):
        RegionStore().replace(EMPTY)
