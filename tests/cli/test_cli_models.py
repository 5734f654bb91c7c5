"""``--model`` and ``--save-model``: one file for a daily command; a model and settings together."""

import pytest
from cli_inputs import QUICK, make_scene
from video_fakes import write_images

import bgsub
from bgsub.errors import SinkError

FOUND = "bgsub: settings from bgsub.toml in this folder: "


@pytest.fixture
def place(settings, folder):
    return settings


@pytest.fixture
def day(cli):
    """A function that runs a daily command with further options."""
    numbers = iter(range(99))

    def call(*words, source="frames"):
        return cli("run", source, "-o", f"out{next(numbers)}", "--model", "m.npz", "--save-model", "m.npz", *words)

    return call


def parameters(path="m.npz"):
    return bgsub.BackgroundSubtractor.load(path).get_params()


def test_same_command_starts_and_continues_a_model(day, place):
    assert day(*QUICK).clean().out.endswith(", m.npz\n")
    before = (place / "m.npz").read_bytes()
    write_images(place / "three", make_scene(3, empty=3))
    second = day(*QUICK, source="three").clean()
    assert "shorter than the start phase" not in second.out
    assert second.out.endswith(", m.npz\n")
    assert (place / "m.npz").read_bytes() != before
    assert bgsub.BackgroundSubtractor.load("m.npz").phase == "tracking"


def test_failed_run_keeps_the_old_model(day, place, monkeypatch):
    def write(path, image):
        if path.stem.endswith("7"):
            raise SinkError("no space left")

    assert day(*QUICK).code == 0
    before = (place / "m.npz").read_bytes()
    monkeypatch.setattr("bgsub.video.sinks.images.write_image", write)
    assert day(*QUICK).code == 1
    assert (place / "m.npz").read_bytes() == before


def test_model_of_a_damaged_source_and_of_other_frames(day, place):
    (place / "frames" / "in000027.png").write_bytes(b"no image")
    assert day(*QUICK).code == 1
    assert bgsub.BackgroundSubtractor.load("m.npz").phase == "tracking"
    write_images(place / "small", make_scene(3, 30, 40))
    day(*QUICK, source="small").refused("the saved model, uint8 of shape (32, 48, 3), got uint8 of shape (30, 40, 3)")
    day(*QUICK, "--min-area", "0.1").refused("made with --min-area 0.0002, so --min-area 0.1 cannot be given")


def test_parameters_from_a_file_apply_to_new_models(cli, day, place):
    (place / "bgsub.toml").write_text("[method]\nstart-frames = 10\nrank = 2")
    message = f"{FOUND}rank, start-frames\n"
    assert day().err == message
    assert day().err == message
    (place / "bgsub.toml").write_text("[method]\nstart-frames = 10\nrank = 4")
    ignored = "bgsub: the model m.npz keeps its rank = 2; bgsub.toml: 'rank' in [method] is ignored\n"
    assert day().ok().err == message + ignored
    assert parameters()["rank"] == 2
    (place / "bgsub.toml").write_text("rank = 4")
    answer = cli("run", "frames", "-o", "x", "--model", "m.npz").ok()
    assert "keeps its rank = 2; bgsub.toml: 'rank' is ignored\n" in answer.err


def test_other_frame_rate_than_that_of_the_model(cli, day, place):
    day(*QUICK, "--fps", 10, "--every", 2).clean()
    for words in (["--fps", 10, "--every", 2], ["--fps", 5], []):
        cli("run", "frames", "-o", "x", "--overwrite", "--model", "m.npz", *words).clean()
    answer = cli("run", "frames", "-o", "x", "--overwrite", "--model", "m.npz", "--fps", 25).ok()
    message = "times of the method keep its 5 frames per second; --fps 25 applies to times and outputs only"
    assert answer.err == f"bgsub: the model m.npz: {message}\n"


def test_only_the_saved_model_may_be_missing(day, place):
    day("--save-model", "n.npz").refused("there is no model file m.npz")
    assert day("--model", place / "m.npz", *QUICK).code == 0
    (place / "m.npz").write_text("junk")
    day(*QUICK).refused("m.npz is not a bgsub model, or it is damaged")


def test_typed_model_overrides_the_settings_file(cli, day, place):
    assert day(*QUICK).code == 0
    (place / "bgsub.toml").write_text("[run]\nmodel = 'kept.npz'\nsave-model = 'kept.npz'")
    assert cli("run", "frames", "-o", "x", *QUICK).ok().err == f"{FOUND}model, save-model\n"
    (place / "kept.npz").unlink()
    answer = cli("run", "frames", "-o", "y", "--model", "m.npz").ok()
    assert "shorter than the start phase" not in answer.out
    assert (place / "kept.npz").exists()
