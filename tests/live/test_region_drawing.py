"""Regions drawn in a window: mouse, keys, picture, storage."""

from __future__ import annotations

import numpy as np
import pytest
from live_fakes import Saved
from video_fakes import FakeDisplay, make_frames, separate

from bgsub.jobs.controls import Controls
from bgsub.live.region_drawing import RegionDrawing
from bgsub.live.region_store import RegionStore
from bgsub.live.window import KeyCommands, WindowSink
from bgsub.video import Frame
from bgsub.video.regions import parse_region

TAB, ENTER, ESCAPE, RUB_OUT, DELETE = 9, 13, 27, 8, 255
FACTOR = 7  # a frame of 48x32 is enlarged
DOOR = "door=10%,20%,30%,40%"


class Bench:
    """A window with a fake screen, and the regions that it saves."""

    def __init__(self, texts=None) -> None:
        self.saved = Saved()
        self.controls, self.display = Controls("mask"), FakeDisplay()
        self.controls.show_statistics = False
        keys = KeyCommands(self.controls, drawing=RegionDrawing(RegionStore(texts or {}, self.saved.save)))
        self.window = WindowSink(controls=self.controls, keys=keys, display=self.display)
        image = make_frames(1)[0]
        frame, separation = Frame(0, "000001", 0.0, image), separate(image)
        self.controls.statistics.update(frame, separation)
        self.window.write(frame, separation)

    def press(self, *keys) -> None:
        self.display.keys += [ord(key) if isinstance(key, str) else key for key in keys]
        for _ in keys:
            self.window.idle()

    def drag(self, *places) -> None:
        """Drag the mouse over places in percent of the frame."""
        pixels = [(round(x / 100 * 48 * FACTOR), round(y / 100 * 32 * FACTOR)) for x, y in places]
        self.display.use_mouse("press", *pixels[0])
        for pixel in pixels[1:]:
            self.display.use_mouse("move", *pixel)
        self.display.use_mouse("release", *pixels[-1])
        self.window.idle()

    @property
    def shown(self) -> np.ndarray:
        return self.display.shown[-1][: 32 * FACTOR, : 48 * FACTOR]

    def regions(self, kind="roi"):
        """Return names and corners that were saved last."""
        made = [parse_region(text) for text in self.saved[-1][kind]]
        return {one.name: [(x.value, y.value) for x, y in one.points] for one in made}


@pytest.fixture
def bench():
    return Bench()


def same(points, *expected) -> bool:
    return np.allclose(points, expected, atol=0.6)


def test_rectangle_is_drawn_named_and_saved(bench):
    before = bench.shown
    bench.press("e")
    assert (bench.shown != before).any()  # the input, with words
    bench.drag((20, 40), (30, 50), (60, 90))
    bench.press(*[RUB_OUT] * 7, *"Gate 2", ENTER)
    assert same(bench.regions()["Gate 2"], (20, 40), (60, 40), (60, 90), (20, 90))
    assert "regions saved in bgsub.toml" in bench.controls.notice
    assert bench.controls.view == "mask"
    bench.controls.notice = ""
    bench.window.idle()
    np.testing.assert_array_equal(bench.shown, before)


def test_corners_sides_and_whole_regions_are_dragged():
    bench = Bench({"roi": [DOOR]})
    bench.press("e")
    bench.drag((40, 60), (50, 70))  # a corner
    bench.drag((25, 20), (25, 10))  # the middle of the upper side: one more
    bench.press(ENTER)
    assert same(bench.regions()["door"], (10, 20), (25, 10), (40, 20), (50, 70), (10, 60))
    bench.press("e")
    bench.drag((25, 10), (39.5, 19.5))  # onto the next one
    bench.drag((25, 40), (35, 50))  # the whole region
    bench.press(ENTER)
    assert same(bench.regions()["door"], (20, 30), (50, 30), (60, 80), (20, 70))


def test_privacy_regions_are_black_and_clipped_to_the_frame(bench):
    bench.press("e")
    bench.drag((50, 50), (400, 400))
    inside = np.s_[int(0.6 * 32 * FACTOR) : int(0.7 * 32 * FACTOR), int(0.6 * 48 * FACTOR) : int(0.8 * 48 * FACTOR)]
    assert bench.shown[inside].any()
    bench.press("/")
    assert not bench.shown[inside].any()
    bench.press(ENTER)
    assert same(bench.regions("privacy")["region1"], (50, 50), (100, 50), (100, 100), (50, 100))


def test_purpose_selection_and_removal():
    bench = Bench({"roi": [DOOR, "lane=50%,50%;90%,50%;90%,90%"], "privacy": ["x=0,0,5,5"]})
    bench.press("e", TAB, "/", TAB, DELETE, ENTER)  # door is private, lane is gone
    # The texts of unchanged regions are kept.
    assert bench.saved[-1] == {"roi": (), "privacy": (DOOR, "x=0,0,5,5")}


def test_escape_discards_changes(bench):
    bench.press("e")
    bench.drag((20, 20), (60, 60))
    bench.press(ESCAPE)
    assert (bench.saved, bench.controls.quitting) == ([], False)
    bench.press("e", ENTER)
    assert bench.saved == [{"roi": (), "privacy": ()}]
    bench.press(ESCAPE)
    assert bench.controls.quitting


def test_keys_have_no_other_effect_while_editing(bench):
    bench.press("e")
    bench.drag((20, 20), (60, 60))
    bench.press(*"qpf1-", TAB)
    assert not any(getattr(bench.controls, name) for name in ("quitting", "paused", "frozen"))
    bench.press(ENTER)
    assert list(bench.regions()) == ["region1qpf1-"]


def test_clicks_draw_nothing(bench):
    bench.drag((20, 20), (60, 60))
    bench.press("e")
    bench.drag((20, 20), (20.2, 20.2))
    bench.display.use_mouse("move", 100, 100)
    bench.display.use_mouse("release", 100, 100)
    bench.display.use_mouse("press", 48 * FACTOR + 50, 5)  # beside the frame
    bench.display.use_mouse("move", 5, 5)
    bench.press(TAB, DELETE, "/", RUB_OUT, ENTER)
    assert bench.saved == [{"roi": (), "privacy": ()}]


@pytest.mark.parametrize("error", ["the disk is full", ""])
def test_errors_are_shown_and_keep_the_drawing(error):
    bench = Bench({"roi": [DOOR]})
    bench.saved.error = error
    bench.press("e")
    bench.drag((60, 60), (80, 80))
    bench.press(*[RUB_OUT] * 7, *("a" if error else "door"), ENTER)
    assert bench.saved == []
    assert (error or "different names, got 'door' twice") in bench.controls.notice
    bench.saved.error = ""
    bench.press(*[RUB_OUT] * 7, ENTER)
    assert list(bench.regions()) == ["door", ""]


@pytest.mark.parametrize("size", [(1, 1), (30, 500), (1080, 1920)])
def test_sizes(size):
    drawing = RegionDrawing(RegionStore({"roi": [DOOR], "privacy": ["0%,0%,50%,50%"]}))
    drawing.begin(size[1], size[0])
    picture = np.full((*size, 3), 90, np.uint8)
    shown = drawing.draw(picture, picture.shape)
    assert shown.shape[0] > size[0]
    assert shown.shape[1] == size[1]
    assert (picture == 90).all()
