"""``--privacy``: no output contains a pixel of the hidden regions."""

import urllib.request

import numpy as np
import pytest
from cli_inputs import QUICK, make_scene
from live_fakes import FakeDisplay
from video_fakes import content, write_video

from bgsub._opencv import cv2
from bgsub.live.server import LiveServer
from bgsub.video import VIEWS

HIDDEN = "28%,0,40%,100%"  # columns 13 to 32 of 48; the square crosses them
WALL = slice(13, 32)


def secret_scene(kind: str) -> np.ndarray:
    """A scene whose hidden columns show one secret or another."""
    frames = make_scene(40, empty=12)
    if kind == "magenta":
        frames[:, :, WALL] = (255, 0, 255)
        frames[::2, 8:20, WALL] = (200, 0, 200)
    else:
        rng = np.random.default_rng({"noise": 1, "other": 2}[kind])
        frames[:, :, WALL] = rng.integers(0, 256, frames[:, :, WALL].shape)
    return frames


@pytest.fixture
def magenta(here):
    return write_video(here / "video.avi", secret_scene("magenta"))


def all_outputs(cli, tmp_path, kind, views, *more):
    """The files of a run with all kinds of outputs, by name."""
    video, out = tmp_path / "video.avi", tmp_path / f"out-{kind}"
    write_video(video, secret_scene(kind))
    out.mkdir()
    options = ("--save", ",".join(views), "--event-formats", "csv,jsonl,html")
    options += ("--save-model", out / "m.npz", "--snapshots", out / "pictures", "--record", out / "clips")
    cli("run", video, "-o", out, *options, "--post-roll", 0, *QUICK, *more).clean()
    return content(out)


@pytest.mark.slow
def test_outputs_do_not_depend_on_hidden_pixels(cli, tmp_path):
    views = [*(f"{view}{ending}" for view in VIEWS for ending in (".png", ".npz")), "background-image.png", "panel.mp4"]
    more = ("--boxes", "--privacy", HIDDEN)
    noise, other = (all_outputs(cli, tmp_path, kind, views, *more) for kind in ("noise", "other"))
    assert len(noise) > 40 * len(VIEWS)
    expected = {"m.npz", "clips", "pictures", "background-image.png", "events.jsonl", "summary.html"}
    assert {name.split("/")[0] for name in noise} >= expected
    assert any(name.startswith("clips/") and name.endswith(".mp4") for name in noise)
    assert [name for name in noise if noise[name] != other[name]] == []


def test_outputs_without_the_option_depend_on_them(cli, tmp_path):
    noise, other = (all_outputs(cli, tmp_path, kind, ["background-image.png"]) for kind in ("noise", "other"))
    assert noise["m.npz"] != other["m.npz"]
    assert noise["background-image.png"] != other["background-image.png"]


def is_secret(image: np.ndarray) -> bool:
    blue, green, red = (image[..., band].astype(int) for band in range(3))
    return bool(((blue > 120) & (red > 120) & (green < 90)).any())


def test_window_and_snapshots(cli, here, magenta, monkeypatch):
    display = FakeDisplay([-1] * 20 + ["s", "2", -1, "s", "7", -1, "b", "s", "0", -1, -1, "s"])
    monkeypatch.setattr("bgsub.live.window.CvDisplay", lambda: display)
    cli("live", magenta, "--fast", "--privacy", HIDDEN, *QUICK).ok()
    snapshots = [cv2.imread(str(path)) for path in here.glob("snapshot-*.png")]
    assert len(snapshots) >= 6
    assert not any(is_secret(image) for image in [*display.shown, *snapshots])
    display = FakeDisplay([-1] * 20 + ["2"])
    cli("live", magenta, "--fast", *QUICK).ok()
    assert any(is_secret(image) for image in display.shown)  # the check detects the secret


def test_page(cli, magenta, monkeypatch):
    seen = []

    class Visited(LiveServer):
        def close(self):
            for view in ("panel", "input", "background", "boxes", "residual"):
                with urllib.request.urlopen(f"{self.address}snapshot.png?view={view}") as answer:
                    seen.append(cv2.imdecode(np.frombuffer(answer.read(), np.uint8), 1))
            seen.append(cv2.imdecode(np.frombuffer(self.broadcasts[0].next_jpeg("panel")[1], np.uint8), 1))
            super().close()

    monkeypatch.setattr("bgsub.live.session.LiveServer", Visited)
    cli("live", magenta, "--fast", "--no-window", "--serve", 0, "--privacy", HIDDEN, *QUICK).ok()
    assert len(seen) >= 6
    assert all(image.max() > 60 for image in seen[:2])
    assert not any(is_secret(image) for image in seen)


def test_model_made_with_other_regions_is_refused(cli, here, magenta):
    words, door = ("run", magenta, "-o", "out", "--overwrite"), f"door={HIDDEN}"
    made = {"open": (), "closed": ("--privacy", door), "left": ("--roi", "0,0,16,48")}
    for model, regions in made.items():
        cli(*words, "--save-model", f"{model}.npz", *regions, *QUICK).clean()
    for model, regions, message in (
        ("open", made["closed"], f"without the privacy region '{door}'"),
        ("open", made["left"], "with no --roi, got --roi 0,0,16,48"),
        ("left", ("--roi", "32,0,16,48"), "with --roi 0,0,16,48, got --roi 32,0,16,48"),
        ("left", (), "with --roi 0,0,16,48, got no --roi"),
    ):
        cli(*words, "--model", f"{model}.npz", *regions).refused(f"the model {model}.npz was made {message}")
    for model in ("closed", "left"):
        cli(*words, "--model", f"{model}.npz", "--save-model", f"{model}-next.npz", *made[model]).clean()
        cli(*words, "--model", f"{model}-next.npz", *made[model]).clean()
