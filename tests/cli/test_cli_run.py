"""``bgsub run``: outputs and summary for every kind of frames."""

import json
from unittest.mock import Mock

import numpy as np
import pytest
from cli_inputs import QUICK, make_scene, names
from sink_kit import read_images
from video_fakes import read_table, read_video, write_images, write_video

import bgsub
from bgsub.errors import DependencyError, SinkError
from bgsub.parameters import SUBTRACTOR
from bgsub.video import VIEWS


def expected_masks(frames, **parameters):
    subtractor = bgsub.BackgroundSubtractor(**parameters)
    return [subtractor.apply(frame) for frame in frames]


def test_masks_of_a_video_are_lossless(cli, tmp_path, video, frames):
    out = tmp_path / "out"
    answer = cli("run", video, "-o", out, "--save", "mask,mask.png", *QUICK).clean()
    masks = expected_masks(frames, start_frames=10)
    share = 100 * np.mean(np.array(masks) == 255)
    written = f"wrote {out / 'mask.mkv'}, {out / 'mask'}"
    assert answer.out == f"video '{video}': 30 frames of 48x32; foreground {share:.1f} %; {written}\n"
    np.testing.assert_array_equal([frame[:, :, 0] for frame in read_video(out / "mask.mkv")], masks)
    np.testing.assert_array_equal(read_images(out / "mask"), masks)
    assert names(out / "mask") == [f"bin{number:06d}.png" for number in range(30)]
    assert np.count_nonzero(masks[-1][8:18]) == pytest.approx(100, abs=20)
    assert not masks[11].any()


@pytest.mark.parametrize("size", [(32, 48), (1, 1), (2, 3), (31, 47)])
def test_every_view(cli, tmp_path, size):
    write_images(tmp_path / "in", make_scene(20, *size, empty=20))
    out = tmp_path / "out"
    endings = dict.fromkeys(VIEWS, ".mp4") | {"mask": ".mkv", "cutout": ".mov"}
    videos = [f"{view}{ending}" for view, ending in endings.items()]
    answer = cli("run", tmp_path / "in", "-o", out, "--save", ",".join([*VIEWS, *videos]), *QUICK).clean()
    assert f"20 frames of {size[1]}x{size[0]}; foreground 0.0 %; wrote" in answer.out
    assert answer.out.endswith(f"; wrote {', '.join(str(out / view) for view in [*VIEWS, *videos])}\n")
    assert (names(out), {len(read_video(out / video)) for video in videos}) == (sorted([*VIEWS, *videos]), {20})
    images = {view: read_images(out / view) for view in VIEWS}
    assert ({len(found) for found in images.values()}, images["mask"][0].shape) == ({20}, size)
    assert images["panel"][0].shape[:2] == (2 * size[0], 2 * size[1])


@pytest.mark.parametrize(("count", "noun"), [(1, "1 frame"), (50, "50 frames"), (51, "51 frames")])
def test_video_shorter_than_the_start_phase(cli, tmp_path, count, noun):
    write_images(tmp_path / "in", make_scene(count, empty=60))
    answer = cli("run", tmp_path / "in", "-o", tmp_path / "out", "--online").clean()
    warning = "video shorter than the start phase, all masks are provisional; " if count < 51 else ""
    assert f": {noun} of 48x32; foreground 0.0 %; {warning}wrote" in answer.out
    assert len(read_images(tmp_path / "out" / "mask")) == count


def test_events_are_counted(cli, tmp_path):
    frames = make_scene(30, empty=60)
    write_images(tmp_path / "in", np.concatenate([frames, 255 - frames]))
    assert "; 1 scene change; wrote" in cli("run", tmp_path / "in", "-o", tmp_path / "out", *QUICK).out
    write_images(tmp_path / "dark", np.concatenate([frames, np.zeros_like(frames[:3]), frames]))
    assert "; 3 covered frames; wrote" in cli("run", tmp_path / "dark", "-o", tmp_path / "out2", *QUICK).out


@pytest.mark.parametrize("cut", [5, 20])
def test_saved_model_continues(cli, tmp_path, frames, cut):
    write_images(tmp_path / "first", frames[:cut])
    write_images(tmp_path / "second", frames[cut:])
    model = tmp_path / "model.npz"
    first = cli("run", tmp_path / "first", "-o", tmp_path / "b", "--save-model", model, "--rank", 2, *QUICK).ok()
    assert first.out.endswith(f"wrote {tmp_path / 'b' / 'mask'}, {model}\n")
    cli("run", tmp_path / "second", "-o", tmp_path / "c", "--model", model).ok()
    masks = [*read_images(tmp_path / "b" / "mask"), *read_images(tmp_path / "c" / "mask")]
    np.testing.assert_array_equal(masks, expected_masks(frames, rank=2, start_frames=10))


def another(parameter):
    if parameter.kind is bool:
        return not parameter.default
    if parameter.default is None:
        return 2 if parameter.kind is int else 1.07
    return parameter.default + 1 if parameter.kind is int else parameter.default * 1.5


@pytest.mark.slow
def test_every_parameter_reaches_the_method(cli, settings, folder):
    values = {"surrogate": "log", "metric": "canonical", "line_search": "sample"}
    values |= {"gradient_carry": "unchanged", "shadows": "merged", "scale": 0.5, "device": "cpu"}  # "cuda" needs a GPU
    offered = {name: parameter for name, parameter in SUBTRACTOR.items() if name != "on_change"}
    values = {name: values[name] if name in values else another(parameter) for name, parameter in offered.items()}
    typed = {f"--{name.replace('_', '-')}": value for name, value in values.items()}
    words = [str(word).lower() for pair in typed.items() for word in pair]
    cli("run", folder, "-o", "out", "--save-model", "m.npz", *words).ok()
    assert bgsub.BackgroundSubtractor.load("m.npz").get_params() == {**values, "on_change": "error"}


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (DependencyError("no such library"), "no such library"),
        (RuntimeError("it\nbroke"), "RuntimeError: it broke (bgsub --verbose shows the traceback)"),
    ],
)
def test_other_failures(cli, tmp_path, folder, monkeypatch, error, message):
    monkeypatch.setattr("bgsub.subtractor.subtractor.BackgroundSubtractor.process", Mock(side_effect=error))
    cli("run", folder, "-o", tmp_path / "out").refused(message, code=1)
    answer = cli("--verbose", "run", folder, "-o", tmp_path / "out", "--fps", 25)
    assert answer.code == 1
    assert answer.err.startswith("Traceback")
    assert answer.err.endswith(f"\nbgsub: error: {message}\n")


FIRST, COME = 10, 30  # the first frame of the run, and the first with an object
OUTPUTS = ("--start-frames", 5, "--save", "mask.png,mask.npz", "--event-formats", "csv,jsonl")


@pytest.mark.parametrize(
    ("form", "start", "number"),  # the number in the name of the first mask
    [("clip.avi", FIRST, FIRST), ("clip.avi", "1.0s", FIRST), ("in{:06d}.jpg", FIRST, FIRST + 1)],
)
def test_numbers_and_times_of_a_part(cli, tmp_path, form, start, number):
    pictures, out = make_scene(56, 48, 64, empty=COME), tmp_path / "out"
    is_video = form.endswith("avi")
    place = write_video(tmp_path / form, pictures, 10) if is_video else write_images(tmp_path / "in", pictures, form)
    cli("run", place, "-o", out, "--start", start, *OUTPUTS).ok()
    (row,) = read_table(out / "events.csv")
    event = json.loads((out / "events.jsonl").read_text())
    index = np.load(out / "mask.npz")["index"]
    mask = next(n for n, image in enumerate(read_images(out / "mask")) if (image == 255).sum() > 50)
    assert (index[0], names(out / "mask")[0]) == (FIRST, f"bin{number:06d}.png")
    assert [int(row["start_frame"]), event["start_frame"], event["track"]["frame"][0], index[mask]] == [COME] * 4
    assert names(out / "mask")[mask] == f"bin{number + COME - FIRST:06d}.png"
    if is_video:
        assert float(row["start_time"]) == event["start_time"] == COME / 10


@pytest.fixture
def day(cli):
    """A function that runs a daily command with further options."""
    numbers = iter(range(99))

    def call(*words, source="frames"):
        return cli("run", source, "-o", f"out{next(numbers)}", "--model", "m.npz", "--save-model", "m.npz", *words)

    return call


def test_same_command_starts_and_continues_a_model_which_a_failed_run_keeps(day, settings, folder, monkeypatch):
    models = []
    for _ in range(2):
        assert day(*QUICK).clean().out.endswith(", m.npz\n")
        models.append((settings / "m.npz").read_bytes())
    assert models[0] != models[1]
    monkeypatch.setattr("bgsub.video.sinks.images.write_image", Mock(side_effect=[None] * 7 + [SinkError("full")]))
    assert day(*QUICK).code == 1
    assert (settings / "m.npz").read_bytes() == models[1]


def test_model_of_a_damaged_source_and_of_other_frames(day, settings, folder):
    (settings / "frames" / "in000027.png").write_bytes(b"no image")
    assert day(*QUICK).code == 1
    assert bgsub.BackgroundSubtractor.load("m.npz").phase == "tracking"
    write_images(settings / "small", make_scene(3, 30, 40))
    day(*QUICK, source="small").refused("the saved model, uint8 of shape (32, 48, 3), got uint8 of shape (30, 40, 3)")
    day(*QUICK, "--min-area", "0.1").refused("made with --min-area 0.0002, so --min-area 0.1 cannot be given")
    day(*QUICK, "--preset", "calm").refused("so --preset with its --min-area 0.001 cannot be given")


def test_parameters_from_a_file_apply_to_new_models(cli, day, settings, folder):
    (settings / "bgsub.toml").write_text("[method]\nstart-frames = 10\nrank = 2")
    message = "bgsub: settings from bgsub.toml in this folder: rank, start-frames\n"
    assert day().err == message
    assert day().err == message
    (settings / "bgsub.toml").write_text("[method]\nstart-frames = 10\nrank = 4")
    ignored = "bgsub: the model m.npz keeps its rank = 2; bgsub.toml: 'rank' in [method] is ignored\n"
    assert day().ok().err == message + ignored
    assert bgsub.BackgroundSubtractor.load("m.npz").get_params()["rank"] == 2
    (settings / "bgsub.toml").write_text("rank = 4")
    answer = cli("run", "frames", "-o", "x", "--model", "m.npz").ok()
    assert "keeps its rank = 2; bgsub.toml: 'rank' is ignored\n" in answer.err
