"""One file for ``--model`` and ``--save-model``: the same command every day; and settings beside a saved model."""

import pytest
from cli_inputs import make_scene
from video_fakes import write_images

import bgsub
from bgsub.errors import SinkError

QUICK = ("--start-frames", 10)
SHORT = "shorter than the start phase"
FOUND = "bgsub: settings from bgsub.toml in this folder: "


@pytest.fixture
def place(tmp_path, monkeypatch, folder):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("BGSUB_NO_CONFIG")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path


@pytest.fixture
def day(cli):
    """A function that runs the command of every day, with options."""
    numbers = iter(range(99))

    def call(*words, source="frames"):
        return cli("run", source, "-o", f"out{next(numbers)}", "--model", "m.npz", "--save-model", "m.npz", *words)

    return call


def test_the_same_command_starts_and_goes_on(day, place):
    first = day(*QUICK).clean()
    assert first.out.endswith(", m.npz\n")
    before = (place / "m.npz").read_bytes()
    write_images(place / "three", make_scene(3, empty=3))
    second = day(*QUICK, source="three").clean()
    assert SHORT not in second.out
    assert second.out.endswith(", m.npz\n")
    assert (place / "m.npz").read_bytes() != before
    assert bgsub.BackgroundSubtractor.load("m.npz").phase == "tracking"


def test_a_run_that_fails_keeps_the_old_model(day, place, monkeypatch):
    def write(path, image):
        if path.stem.endswith("7"):
            raise SinkError("no space left")

    assert day(*QUICK).code == 0
    before = (place / "m.npz").read_bytes()
    monkeypatch.setattr("bgsub.video.sinks.images.write_image", write)
    assert day(*QUICK).code == 1
    assert (place / "m.npz").read_bytes() == before


def test_a_source_that_breaks_off_leaves_the_model_of_what_it_gave(day, place):
    (place / "frames" / "in000027.png").write_bytes(b"no image")
    assert day(*QUICK).code == 1
    assert bgsub.BackgroundSubtractor.load("m.npz").phase == "tracking"


def test_frames_of_another_format_are_refused_by_name(day, place):
    assert day(*QUICK).code == 0
    write_images(place / "small", make_scene(3, 30, 40))
    answer = day(*QUICK, source="small")
    assert (answer.code, answer.out, answer.err.count("\n")) == (2, "", 1)
    assert answer.err.endswith(
        "every frame must be like those of the saved model, uint8 of shape (32, 48, 3), "
        "got uint8 of shape (30, 40, 3)\n"
    )


def test_another_parameter_than_the_models_own_is_refused(day, place):
    assert day(*QUICK).code == 0
    day(*QUICK, "--min-area", "0.1").refused(
        "the model m.npz was made with --min-area 0.0002, so --min-area 0.1 cannot be given"
    )


def test_parameters_from_a_file_hold_for_new_models(day, place):
    (place / "bgsub.toml").write_text("[method]\nstart-frames = 10\nrank = 2")
    told = f"{FOUND}rank, start-frames\n"
    assert day().err == told
    assert day().err == told
    (place / "bgsub.toml").write_text("[method]\nstart-frames = 10\nrank = 4")
    answer = day().ok()
    assert answer.err == (
        f"{told}bgsub: the model m.npz keeps its rank = 2; bgsub.toml: 'rank' in [method] is ignored\n"
    )
    assert bgsub.BackgroundSubtractor.load("m.npz").get_params()["rank"] == 2


def test_a_model_that_is_typed_goes_before_parameters_of_a_file(cli, day, place):
    assert day(*QUICK).code == 0
    (place / "bgsub.toml").write_text("rank = 4")
    answer = cli("run", "frames", "-o", "x", "--model", "m.npz").ok()
    assert answer.err == (f"{FOUND}rank\nbgsub: the model m.npz keeps its rank = 3; bgsub.toml: 'rank' is ignored\n")


def test_a_rate_beside_a_model_of_another_one_is_told(cli, day, place):
    assert day(*QUICK, "--fps", 10, "--every", 2).clean()
    for words in (["--fps", 10, "--every", 2], ["--fps", 5], []):
        cli("run", "frames", "-o", "x", "--overwrite", "--model", "m.npz", *words).clean()
    answer = cli("run", "frames", "-o", "x", "--overwrite", "--model", "m.npz", "--fps", 25).ok()
    told = "times of the method keep its 5 frames per second; --fps 25 applies to times and outputs only"
    assert answer.err == f"bgsub: the model m.npz: {told}\n"


def test_only_the_model_that_is_saved_may_be_missing(day, place):
    day("--save-model", "n.npz").refused("there is no model file m.npz")
    assert day("--model", place / "m.npz", *QUICK).code == 0
    (place / "m.npz").write_text("junk")
    day().refused("m.npz is not a bgsub model, or it is damaged")
    day(*QUICK).refused("m.npz is not a bgsub model, or it is damaged")


def test_what_is_typed_goes_before_the_file_of_settings(cli, day, place):
    assert day(*QUICK).code == 0
    (place / "bgsub.toml").write_text("[run]\nmodel = 'kept.npz'\nsave-model = 'kept.npz'")
    assert cli("run", "frames", "-o", "x", *QUICK).ok().err == f"{FOUND}model, save-model\n"
    assert (place / "kept.npz").exists()
    (place / "kept.npz").unlink()
    answer = cli("run", "frames", "-o", "y", "--model", "m.npz").ok()
    assert SHORT not in answer.out
    assert (place / "kept.npz").exists()
