"""``--privacy``: nothing that is made holds a pixel of what is hidden."""

from __future__ import annotations

import io
import json
import urllib.request

import numpy as np
import pytest
from cli_inputs import make_scene
from video_fakes import FakeDisplay, write_video

from bgsub._opencv import cv2
from bgsub.live.server import LiveServer
from bgsub.video import VIEWS

QUICK = ("--start-frames", 10)
HIDDEN = "28%,0,40%,100%"  # columns 13 to 32 of 48; the square walks through
WALL = slice(13, 32)
MAGENTA = (255, 0, 255)


def secret_scene(kind: str, count: int = 60) -> np.ndarray:
    """A scene whose hidden columns show one secret or another."""
    frames = make_scene(count, empty=12)
    rng = np.random.default_rng({"noise": 1, "other": 2}.get(kind, 3))
    if kind == "magenta":
        frames[:, :, WALL] = MAGENTA
        frames[::2, 8:20, WALL] = (200, 0, 200)
    else:
        frames[:, :, WALL] = rng.integers(0, 256, frames[:, :, WALL].shape)
    return frames


def files(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def everything(cli, tmp_path, kind, *more):
    """All that a run can write, of one secret."""
    video, out = tmp_path / "video.avi", tmp_path / f"out-{kind}"
    write_video(video, secret_scene(kind))
    views = [f"{view}{ending}" for view in VIEWS for ending in (".png", ".npz")]
    views += ["background-image.png", "panel.mp4"]
    options = ("--save", ",".join(views), "--boxes", "--event-formats", "csv,jsonl,coco,html")
    out.mkdir()
    options += ("--save-model", out / "m.npz", "--snapshots", out / "pictures", "--record", out / "clips")
    cli("run", video, "-o", out, *options, "--post-roll", 0, *QUICK, *more).clean()
    return files(out)


def test_outputs_do_not_depend_on_what_is_hidden(cli, tmp_path):
    noise, other = (everything(cli, tmp_path, kind, "--privacy", HIDDEN) for kind in ("noise", "other"))
    assert len(noise) > 60 * len(VIEWS)
    assert {name.split("/")[0] for name in noise} >= {
        *("m.npz", "clips", "pictures", "background-image.png", "objects.json", "summary.html"),
    }
    assert any(name.startswith("clips/") and name.endswith(".mp4") for name in noise)
    assert [name for name in noise if noise[name] != other[name]] == []


def test_without_the_option_they_do(cli, tmp_path):
    noise, other = (everything(cli, tmp_path, kind) for kind in ("noise", "other"))
    assert noise["m.npz"] != other["m.npz"]
    assert noise["background-image.png"] != other["background-image.png"]


def test_hidden_regions_are_black_and_the_rest_is_as_it_was(cli, tmp_path):
    found = everything(cli, tmp_path, "magenta", "--privacy", HIDDEN)
    frames = secret_scene("magenta")
    shown = np.load(io.BytesIO(found["background.npz"]))["background"][-1]
    assert not shown[:, WALL].any()
    assert np.abs(shown[:, 36:].astype(int) - frames[5, :, 36:]).max() < 12
    masks = np.load(io.BytesIO(found["mask.npz"]))["mask"]
    assert not masks[:, :, WALL].any()
    assert masks.any()


def test_all_commands_and_the_settings_file_take_it(cli, tmp_path, monkeypatch):
    video = write_video(tmp_path / "video.avi", secret_scene("magenta"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("BGSUB_NO_CONFIG")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    (tmp_path / "bgsub.toml").write_text(f"privacy = ['{HIDDEN}']\n")
    save = ("--save", "background-image.png", "--overwrite", *QUICK)
    for words in (
        ("run", video, "-o", "run", *save),
        ("live", video, "--fast", "--no-window", "-o", "live", *save),
        ("track", video, "-o", "track", "--event-formats", "jsonl", *QUICK),
    ):
        assert cli(*words).ok().err == "bgsub: settings from bgsub.toml in this folder: privacy\n"
    for name in ("run", "live"):
        assert not cv2.imread(f"{name}/background-image.png")[:, WALL].any()
    for line in (tmp_path / "track" / "events.jsonl").read_text().splitlines():
        for left, _, width, _ in json.loads(line).get("track", {}).get("box", []):
            assert left + width <= WALL.start or left >= WALL.stop


def is_secret(image: np.ndarray) -> bool:
    blue, green, red = (image[..., band].astype(int) for band in range(3))
    return bool(((blue > 120) & (red > 120) & (green < 90)).any())


def test_window_and_snapshots(cli, tmp_path, monkeypatch):
    video = write_video(tmp_path / "video.avi", secret_scene("magenta"))
    monkeypatch.chdir(tmp_path)
    display = FakeDisplay([-1] * 20 + ["s", "2", -1, "s", "7", -1, "b", "s", "0", -1, -1, "s"])
    monkeypatch.setattr("bgsub.live.window.CvDisplay", lambda: display)
    words = ("live", video, "--fast", "--privacy", HIDDEN, *QUICK)
    cli(*words).ok()
    snapshots = [cv2.imread(str(path)) for path in tmp_path.glob("snapshot-*.png")]
    assert len(snapshots) >= 6
    assert not any(is_secret(image) for image in [*display.shown, *snapshots])
    display = FakeDisplay([-1] * 20 + ["2"])
    cli("live", video, "--fast", *QUICK).ok()
    assert any(is_secret(image) for image in display.shown)  # it would have been found


def test_page(cli, tmp_path, monkeypatch):
    video, seen = write_video(tmp_path / "video.avi", secret_scene("magenta", 200)), []

    class Visited(LiveServer):
        def close(self):
            for view in ("panel", "input", "background", "boxes", "residual"):
                with urllib.request.urlopen(f"{self.address}snapshot.png?view={view}") as answer:
                    seen.append(cv2.imdecode(np.frombuffer(answer.read(), np.uint8), 1))
            seen.append(cv2.imdecode(np.frombuffer(self.broadcasts[0].next_jpeg("panel")[1], np.uint8), 1))
            super().close()

    monkeypatch.setattr("bgsub.live.session.LiveServer", Visited)
    cli("live", video, "--fast", "--no-window", "--serve", 0, "--privacy", HIDDEN, *QUICK).ok()
    assert len(seen) >= 6
    assert all(image.max() > 60 for image in seen[:2])
    assert not any(is_secret(image) for image in seen)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--privacy", "1,2,3"), "--privacy: a region must be "),
        (
            ("--privacy", "99,0,9,9"),
            "privacy: region 'region1' must hold pixels of the frame, which is 48x32: it lies outside",
        ),
        (("--privacy", "none.png"), "--privacy: a region's mask must be an image file, got 'none.png'"),
    ],
)
@pytest.mark.parametrize("command", ["run", "live"])
def test_wrong_regions(cli, tmp_path, video, command, words, message):
    window = ("--no-window",) if command == "live" else ()
    cli(command, video, "-o", tmp_path / "out", *window, *words).refused_with(message, end="\n")
    assert not list((tmp_path / "out").rglob("*.*"))


def test_a_model_that_knows_the_place_is_refused(cli, tmp_path):
    video = write_video(tmp_path / "video.avi", secret_scene("magenta"))
    words = ("run", video, "-o", tmp_path / "out", "--overwrite")
    door = f"door={HIDDEN}"
    cli(*words, "--save-model", tmp_path / "open.npz", *QUICK).clean()
    cli(*words, "--save-model", tmp_path / "closed.npz", "--privacy", door, *QUICK).clean()
    cli(*words, "--model", tmp_path / "open.npz", "--privacy", door).refused_with(
        f"the model {tmp_path / 'open.npz'} was made without the privacy region '{door}'"
    )
    cli(*words, "--model", tmp_path / "closed.npz", "--privacy", door).clean()
    again = ("--model", tmp_path / "closed.npz", "--save-model", tmp_path / "next.npz", "--privacy", door)
    cli(*words, *again).clean()
    cli(*words, "--model", tmp_path / "next.npz", "--privacy", door).clean()
