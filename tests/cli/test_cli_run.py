"""``bgsub run``: outputs and summary for every kind of frames."""

import numpy as np
import pytest
from cli_inputs import QUICK, make_scene, names, read_masks
from video_fakes import read_video, write_images, write_video

import bgsub
from bgsub.cli.method_options import FILE_ONLY
from bgsub.errors import DependencyError, SinkError
from bgsub.events.annotation import COLOURS
from bgsub.parameters import SUBTRACTOR
from bgsub.video import VIEWS

SHORT = "video shorter than the start phase, all masks are provisional"


def expected_masks(frames, **parameters):
    subtractor = bgsub.BackgroundSubtractor(**parameters)
    return [subtractor.apply(frame) for frame in frames]


def test_image_folder_keeps_its_numbers(cli, tmp_path, frames):
    write_images(tmp_path / "in", frames, "in{:06d}.png")
    for number in (1, 2, 3):
        (tmp_path / "in" / f"in{number:06d}.png").unlink()
    cli("run", tmp_path / "in", "-o", tmp_path / "out", *QUICK).clean()
    assert names(tmp_path / "out" / "mask") == [f"bin{number:06d}.png" for number in range(4, 31)]
    np.testing.assert_array_equal(read_masks(tmp_path / "out" / "mask"), expected_masks(frames[3:], start_frames=10))


def test_masks_of_a_video_are_lossless(cli, tmp_path, video, frames):
    out = tmp_path / "out"
    answer = cli("run", video, "-o", out, "--save", "mask,mask.png", *QUICK).clean()
    masks = expected_masks(frames, start_frames=10)
    share = 100 * np.mean(np.array(masks) == 255)
    written = f"wrote {out / 'mask.mkv'}, {out / 'mask'}"
    assert answer.out == f"video '{video}': 30 frames of 48x32; foreground {share:.1f} %; {written}\n"
    np.testing.assert_array_equal([frame[:, :, 0] for frame in read_video(out / "mask.mkv")], masks)
    np.testing.assert_array_equal(read_masks(out / "mask"), masks)
    assert names(out / "mask") == [f"bin{number:06d}.png" for number in range(30)]
    assert np.count_nonzero(masks[-1][8:18]) == pytest.approx(100, abs=20)
    assert not masks[11].any()


@pytest.mark.parametrize("size", [(32, 48), (1, 1), (2, 3), (31, 47)])
@pytest.mark.parametrize("kind", ["images", "video"])
def test_every_view(cli, tmp_path, size, kind):
    write_images(tmp_path / "in", make_scene(20, *size, empty=20))
    out = tmp_path / "out"
    endings = dict.fromkeys(VIEWS, ".mp4") | {"mask": ".mkv", "cutout": ".mov"} if kind == "video" else {}
    views = [f"{view}{endings.get(view, '')}" for view in VIEWS]
    answer = cli("run", tmp_path / "in", "-o", out, "--save", ",".join(views), *QUICK).clean()
    assert f"20 frames of {size[1]}x{size[0]}; foreground 0.0 %; wrote" in answer.out
    assert answer.out.endswith(f"; wrote {', '.join(str(out / view) for view in views)}\n")
    assert names(out) == sorted(views)
    for view in views:
        assert len(read_video(out / view) if kind == "video" else read_masks(out / view)) == 20
    if kind == "images":
        shapes = {view: read_masks(out / view)[0].shape[:2] for view in ("mask", "panel")}
        assert shapes == {"mask": size, "panel": (2 * size[0], 2 * size[1])}


def test_boxes_are_saved_alone_or_on_other_views(cli, tmp_path, folder):
    views = "boxes.png,overlay.png,background.png"
    cli("run", folder, "-o", tmp_path / "a", "--save", views, "--event-formats", "csv", *QUICK).clean()
    cli("run", folder, "-o", tmp_path / "b", "--save", views, "--boxes", *QUICK).clean()
    rows = (tmp_path / "a" / "events.csv").read_text().splitlines()
    assert len([row for row in rows if row.startswith("object,")]) == 1

    def boxed(name):
        return (read_masks(tmp_path / name)[-1] == COLOURS[1]).all(axis=2).sum()

    assert boxed("a/boxes") > 200
    assert boxed("a/overlay") == 0
    assert boxed("b/overlay") > 200
    for name in ("boxes", "background"):
        np.testing.assert_array_equal(read_masks(tmp_path / "a" / name), read_masks(tmp_path / "b" / name))


@pytest.mark.parametrize(("channels", "dtype"), [(1, np.uint8), (1, np.uint16), (3, np.uint16)])
def test_grey_and_deep_images(cli, tmp_path, channels, dtype):
    frames = make_scene(30, channels=channels, dtype=dtype, empty=12)
    write_images(tmp_path / "in", frames)
    cli("run", tmp_path / "in", "-o", tmp_path / "out", "--save", "mask,background", *QUICK).clean()
    masks = read_masks(tmp_path / "out" / "mask")
    np.testing.assert_array_equal(masks, expected_masks(frames, start_frames=10))
    assert np.count_nonzero(masks[-1]) == pytest.approx(100, abs=20)
    background = read_masks(tmp_path / "out" / "background")[-1]
    assert (background.shape, background.dtype) == (frames.shape[1:], dtype)


@pytest.mark.parametrize("value", [0, 255])
def test_constant_video_has_no_foreground(cli, tmp_path, value):
    write_video(tmp_path / "in.avi", np.full((70, 32, 48, 3), value, np.uint8))
    answer = cli("run", tmp_path / "in.avi", "-o", tmp_path / "out").clean()
    assert "70 frames of 48x32; foreground 0.0 %; wrote" in answer.out
    assert not np.any(read_video(tmp_path / "out" / "mask.mkv"))


@pytest.mark.parametrize(("count", "noun"), [(1, "1 frame"), (50, "50 frames"), (51, "51 frames")])
def test_video_shorter_than_the_start_phase(cli, tmp_path, count, noun):
    write_images(tmp_path / "in", make_scene(count, empty=60))
    answer = cli("run", tmp_path / "in", "-o", tmp_path / "out").clean()
    assert f": {noun} of 48x32; foreground 0.0 %; {f'{SHORT}; ' if count < 51 else ''}wrote" in answer.out
    assert len(read_masks(tmp_path / "out" / "mask")) == count


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
    masks = [*read_masks(tmp_path / "b" / "mask"), *read_masks(tmp_path / "c" / "mask")]
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
    values |= {"gradient_carry": "unchanged", "shadows": "merged", "scale": 0.5}
    offered = {name: parameter for name, parameter in SUBTRACTOR.items() if name != "on_change"}
    values = {name: values[name] if name in values else another(parameter) for name, parameter in offered.items()}
    lines = [f"{name} = {str(values[name]).lower()!r}" for name in FILE_ONLY if isinstance(values[name], str)]
    lines += [f"{name} = {str(values[name]).lower()}" for name in FILE_ONLY if not isinstance(values[name], str)]
    (settings / "bgsub.toml").write_text("\n".join(["[method]", *lines]))
    typed = {f"--{name.replace('_', '-')}": value for name, value in values.items() if name not in FILE_ONLY}
    words = [str(word).lower() for pair in typed.items() for word in pair]
    cli("run", folder, "-o", "out", "--save-model", "m.npz", *words).ok()
    assert bgsub.BackgroundSubtractor.load("m.npz").get_params() == {**values, "on_change": "error"}


def test_quiet(cli, tmp_path, folder):
    assert cli("run", folder, "-o", tmp_path / "out", "--quiet", *QUICK).clean().out == ""
    assert len(read_masks(tmp_path / "out" / "mask")) == 30


def test_output_that_fails_midway(cli, tmp_path, folder, monkeypatch):
    def write_image(path, image, durable):
        if path.stem == "bin000004":
            raise SinkError(f"'{path}' cannot be written: No space left on device")

    monkeypatch.setattr("bgsub.video.sinks.images.write_image", write_image)
    answer = cli("run", folder, "-o", tmp_path / "out", "--save-model", tmp_path / "m.npz")
    answer.refused("bin000004.png' cannot be written: No space left on device", code=1)
    assert not (tmp_path / "m.npz").exists()


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (DependencyError("no such library"), "no such library"),
        (RuntimeError("it\nbroke"), "RuntimeError: it broke (bgsub --verbose shows the traceback)"),
    ],
)
def test_other_failures(cli, tmp_path, folder, monkeypatch, error, message):
    def process(self, image, learningRate=-1):
        raise error

    monkeypatch.setattr("bgsub.subtractor.subtractor.BackgroundSubtractor.process", process)
    cli("run", folder, "-o", tmp_path / "out").refused(message, code=1)
    answer = cli("--verbose", "run", folder, "-o", tmp_path / "out", "--fps", 25)
    assert answer.code == 1
    assert answer.err.startswith("Traceback")
    assert answer.err.endswith(f"\nbgsub: error: {message}\n")
