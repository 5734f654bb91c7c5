"""``bgsub run``: what is written, what is said, for every kind of frames."""

import numpy as np
import pytest
from cli_inputs import make_scene
from video_fakes import read_video, write_images, write_video

import bgsub
from bgsub._opencv import cv2
from bgsub.errors import DependencyError, SinkError
from bgsub.events.annotation import COLOURS
from bgsub.parameters import SUBTRACTOR
from bgsub.video import VIEWS

QUICK = ("--start-frames", 10)
SHORT = "video shorter than the start phase, all masks are provisional"


def expected_masks(frames, **parameters):
    subtractor = bgsub.BackgroundSubtractor(**parameters)
    return [subtractor.apply(frame) for frame in frames]


def read_masks(folder):
    return [cv2.imread(str(path), cv2.IMREAD_UNCHANGED) for path in sorted(folder.iterdir())]


def test_an_image_folder_keeps_its_numbers(cli, tmp_path, frames):
    write_images(tmp_path / "in", frames, "in{:06d}.png")
    for number in (1, 2, 3):
        (tmp_path / "in" / f"in{number:06d}.png").unlink()
    cli("run", tmp_path / "in", "-o", tmp_path / "out", *QUICK).clean()
    names = [path.name for path in sorted((tmp_path / "out" / "mask").iterdir())]
    assert names == [f"bin{number:06d}.png" for number in range(4, 31)]
    np.testing.assert_array_equal(read_masks(tmp_path / "out" / "mask"), expected_masks(frames[3:], start_frames=10))


def test_a_video_gives_a_video_without_loss(cli, tmp_path, video, frames):
    answer = cli("run", video, "-o", tmp_path / "out", *QUICK).clean()
    masks = expected_masks(frames, start_frames=10)
    share = 100 * np.mean(np.array(masks) == 255)
    assert answer.out == (
        f"video '{video}': 30 frames of 48x32; foreground {share:.1f} %; wrote {tmp_path / 'out' / 'mask.mkv'}\n"
    )
    written = [frame[:, :, 0] for frame in read_video(tmp_path / "out" / "mask.mkv")]
    np.testing.assert_array_equal(written, masks)
    square = masks[-1][8:18]
    assert np.count_nonzero(square) == pytest.approx(100, abs=20)
    assert not masks[11].any()


@pytest.mark.parametrize("suffix", ["", ".mp4"])
def test_every_view_of_images(cli, tmp_path, folder, suffix):
    out = tmp_path / "out"
    endings = {"mask": ".mkv", "cutout": ".mov"} if suffix else {}
    names = [f"{view}{endings.get(view, suffix)}" for view in VIEWS]
    answer = cli("run", folder, "-o", out, "--save", ",".join(names), *QUICK).ok()
    targets = [out / name for name in names]
    assert answer.out.endswith(f"; wrote {', '.join(map(str, targets))}\n")
    assert sorted(out.iterdir()) == sorted(targets)
    for view, target in zip(VIEWS, targets, strict=True):
        images = read_video(target) if suffix else read_masks(target)
        assert len(images) == 30
        sizes = {"panel": (64, 96), "boxes": (7 * 32, 7 * 48)}
        assert images[0].shape[:2] == sizes.get(view, (32, 48))


def test_boxes_are_saved_alone_or_on_other_views(cli, tmp_path, folder):
    views = "boxes.png,overlay.png,background.png"
    cli("run", folder, "-o", tmp_path / "a", "--save", views, "--event-formats", "csv", *QUICK).clean()
    cli("run", folder, "-o", tmp_path / "b", "--save", views, "--boxes", *QUICK).clean()
    rows = (tmp_path / "a" / "events.csv").read_text().splitlines()
    assert len([row for row in rows if row.startswith("object,")]) == 1

    def boxed(name):
        image = read_masks(tmp_path / name)[-1]
        return (image == COLOURS[1]).all(axis=2).sum()

    assert boxed("a/boxes") > 200
    assert boxed("a/overlay") == 0
    assert boxed("b/overlay") > 200
    for name in ("boxes", "background"):
        np.testing.assert_array_equal(read_masks(tmp_path / "a" / name), read_masks(tmp_path / "b" / name))


def test_a_video_gives_images_if_wanted(cli, tmp_path, video):
    assert cli("run", video, "-o", tmp_path / "out", "--save", "mask.png", *QUICK).code == 0
    names = [path.name for path in sorted((tmp_path / "out" / "mask").iterdir())]
    assert names == [f"bin{number:06d}.png" for number in range(30)]


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


@pytest.mark.parametrize(("height", "width"), [(1, 1), (2, 3), (1, 40), (31, 47)])
@pytest.mark.parametrize("kind", ["images", "video"])
def test_odd_and_tiny_frames(cli, tmp_path, height, width, kind):
    write_images(tmp_path / "in", make_scene(20, height, width, empty=20))
    out = tmp_path / "out"
    endings = dict.fromkeys(VIEWS, ".mp4") | {"mask": ".mkv", "cutout": ".mov"} if kind == "video" else {}
    views = ",".join(f"{view}{endings.get(view, '')}" for view in VIEWS)
    answer = cli("run", tmp_path / "in", "-o", out, "--save", views, *QUICK).clean()
    assert f"20 frames of {width}x{height}; foreground 0.0 %; wrote" in answer.out
    masks = read_masks(out / "mask") if kind == "images" else read_video(out / "mask.mkv")
    assert len(masks) == 20
    if kind == "images":
        assert {mask.shape for mask in masks} == {(height, width)}


@pytest.mark.parametrize("value", [0, 255, 77])
def test_a_constant_video_has_no_foreground(cli, tmp_path, value):
    write_video(tmp_path / "in.avi", np.full((70, 32, 48, 3), value, np.uint8))
    answer = cli("run", tmp_path / "in.avi", "-o", tmp_path / "out").clean()
    assert "70 frames of 48x32; foreground 0.0 %; wrote" in answer.out
    assert not np.any(read_video(tmp_path / "out" / "mask.mkv"))


@pytest.mark.parametrize(("count", "noun"), [(1, "1 frame"), (49, "49 frames"), (50, "50 frames"), (51, "51 frames")])
def test_a_video_that_is_not_longer_than_the_start_phase_is_called_short(cli, tmp_path, count, noun):
    write_images(tmp_path / "in", make_scene(count, empty=60))
    answer = cli("run", tmp_path / "in", "-o", tmp_path / "out").clean()
    assert f": {noun} of 48x32; foreground 0.0 %; {f'{SHORT}; ' if count < 51 else ''}wrote" in answer.out
    assert (SHORT in answer.out) == (count < 51)
    assert len(read_masks(tmp_path / "out" / "mask")) == count


def test_events_are_counted_by_name(cli, tmp_path):
    frames = make_scene(30, empty=60)
    write_images(tmp_path / "in", np.concatenate([frames, 255 - frames]))
    assert "; 1 scene change; wrote" in cli("run", tmp_path / "in", "-o", tmp_path / "out", *QUICK).out
    write_images(tmp_path / "dark", np.concatenate([frames, np.zeros_like(frames[:3]), frames]))
    assert "; 3 covered frames; wrote" in cli("run", tmp_path / "dark", "-o", tmp_path / "out2", *QUICK).out


@pytest.mark.parametrize("cut", [5, 10, 20])
def test_a_saved_model_goes_on_where_it_stood(cli, tmp_path, frames, cut):
    parts = {"whole": frames, "first": frames[:cut], "second": frames[cut:]}
    for name, part in parts.items():
        write_images(tmp_path / name, part)
    model = tmp_path / "model.npz"
    assert cli("run", tmp_path / "whole", "-o", tmp_path / "a", "--rank", 2, *QUICK).code == 0
    first = cli("run", tmp_path / "first", "-o", tmp_path / "b", "--save-model", model, "--rank", 2, *QUICK).ok()
    assert first.out.endswith(f"wrote {tmp_path / 'b' / 'mask'}, {model}\n")
    assert cli("run", tmp_path / "second", "-o", tmp_path / "c", "--model", model).code == 0
    whole = read_masks(tmp_path / "a" / "mask")
    np.testing.assert_array_equal([*read_masks(tmp_path / "b" / "mask"), *read_masks(tmp_path / "c" / "mask")], whole)


def test_every_parameter_reaches_the_method(cli, tmp_path, folder):
    other = {"surrogate": "log", "metric": "canonical", "line_search": "sample"}
    other |= {"gradient_carry": "unchanged", "shadows": "merged", "scale": 0.5}
    offered = {name: parameter for name, parameter in SUBTRACTOR.items() if name != "on_change"}
    values = {name: other[name] if name in other else _another(parameter) for name, parameter in offered.items()}
    typed = {name: str(value).lower() if isinstance(value, bool) else value for name, value in values.items()}
    words = [word for name, value in typed.items() for word in (_flag(name), value)]
    model = tmp_path / "m.npz"
    assert cli("run", folder, "-o", tmp_path / "out", "--save-model", model, *words).code == 0
    assert bgsub.BackgroundSubtractor.load(model).get_params() == {**values, "on_change": "error"}


def _flag(name):
    return "--fps" if name == "fps" else f"--{name.replace('_', '-')}"


def _another(parameter):
    if parameter.kind is bool:
        return not parameter.default
    if parameter.default is None:
        return 2 if parameter.kind is int else 1.07
    value = parameter.default
    return value + 1 if parameter.kind is int else value * 1.5


def test_quiet_says_nothing(cli, tmp_path, folder):
    answer = cli("run", folder, "-o", tmp_path / "out", "--quiet", *QUICK)
    assert (answer.code, answer.out, answer.err) == (0, "", "")
    assert len(read_masks(tmp_path / "out" / "mask")) == 30


def test_an_output_that_fails_midway_is_a_failure(cli, tmp_path, folder, monkeypatch):
    written = []

    def write_image(path, image, durable):
        if len(written) == 3:
            raise SinkError(f"'{path}' cannot be written: No space left on device")
        written.append(path)

    monkeypatch.setattr("bgsub.video.sinks.images.write_image", write_image)
    answer = cli("run", folder, "-o", tmp_path / "out", "--save-model", tmp_path / "m.npz")
    target = tmp_path / "out" / "mask" / "bin000004.png"
    answer.refused(f"'{target}' cannot be written: No space left on device", code=1)
    assert not (tmp_path / "m.npz").exists()


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (DependencyError("no such library"), "no such library"),
        (RuntimeError("it\nbroke"), "RuntimeError: it broke (bgsub --verbose shows the traceback)"),
    ],
)
def test_any_other_failure_is_told_in_one_line(cli, tmp_path, folder, monkeypatch, error, told):
    def process(self, image, learningRate=-1):
        raise error

    monkeypatch.setattr("bgsub.subtractor.subtractor.BackgroundSubtractor.process", process)
    cli("run", folder, "-o", tmp_path / "out").refused(told, code=1)
    answer = cli("--verbose", "run", folder, "-o", tmp_path / "out", "--fps", 25)  # a folder tells none
    assert answer.code == 1
    assert answer.err.startswith("Traceback")
    assert answer.err.endswith(f"\nbgsub: error: {told}\n")
