"""Names of outputs, and the sinks that are made for them."""

from __future__ import annotations

import subprocess
import sys
from datetime import datetime
from pathlib import Path

import numpy as np
import pytest
from saying import says
from sink_kit import feed, files, run
from video_fakes import COUNT, FakeSource, write_images, write_video

from bgsub.errors import ParameterError, SinkError
from bgsub.video import ArraySource, create_sinks, open_source, output_names
from bgsub.video.output_names import OutputSpec, check_name, expand_name, parse_output, parse_outputs
from bgsub.video.views import VIEWS

NOW = datetime(2026, 3, 4, 5, 6, 7)

# Names


def test_the_views_are_those_that_there_are():
    assert tuple(VIEWS) == output_names.VIEWS


@pytest.mark.parametrize(
    ("code", "absent"),
    [
        ("import bgsub.video.output_names", {"numpy", "cv2", "numba", "av"}),
        ("import bgsub.video.timecode", {"numpy", "cv2", "numba"}),
        ("from bgsub.video.regions import Regions; Regions(['a=0,0,5,5','10%,0;5,5;0,9'])", {"numpy"}),
        ("import bgsub.video", {"av"}),
    ],
)
def test_parsing_imports_nothing_heavy(code, absent):
    code = f"{code}; import sys; print(sorted({absent} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize(
    ("text", "spec", "kind"),
    [
        ("mask", OutputSpec("mask"), None),
        ("mask.mkv", OutputSpec("mask", ".mkv"), "video"),
        (" panel.MP4 ", OutputSpec("panel", ".mp4"), "video"),
        ("cutout.mov", OutputSpec("cutout", ".mov"), "video"),
        ("cutout.webm", OutputSpec("cutout", ".webm"), "video"),
        ("cutout.png", OutputSpec("cutout", ".png"), "images"),
        ("panel.jpg", OutputSpec("panel", ".jpg"), "images"),
        ("mask.npz", OutputSpec("mask", ".npz"), "array"),
        ("background-image", OutputSpec("background-image", ".png"), "still"),
        ("background-image.tif", OutputSpec("background-image", ".tif"), "still"),
    ],
)
def test_outputs(text, spec, kind):
    assert parse_output(text) == spec
    assert spec.kind == kind
    assert str(spec) == spec.view + (spec.ending or "")


ALL = (
    "mask, background, foreground, residual, probability, cutout, overlay, contours, panel, boxes, input, "
    "background-image"
)
VIDEO = ".mkv, .avi, .mp4, .m4v, .mov, .webm"
LOSSLESS = ".png, .tif, .webp, .npz"
PANEL = f"{VIDEO}, {LOSSLESS}".replace(".png", ".png, .jpg")
ALPHA = f".mkv, .mov, .webm, {LOSSLESS}"
BELOW = "a name must be that of a file below the output folder"
FIELDS = "a name can have the fields {view}, {source}, {date}, {time}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("maks", f"an output must be one of {ALL}, got 'maks'; did you mean 'mask'?"),
        ("qqqq.mp4", f"an output must be one of {ALL}, got 'qqqq'"),
        ("", f"an output must be one of {ALL}, got ''"),
        (".mp4", f"an output must be one of {ALL}, got ''"),
        (
            "panel.mp5",
            f"panel can end in {VIDEO}, .png, .jpg, .tif, .webp, .npz, got 'panel.mp5'; did you mean '.mp4'?",
        ),
        ("mask.jpg", f"mask can end in {VIDEO}, {LOSSLESS}, got 'mask.jpg', which blurs the labels"),
        ("cutout.mp4", f"cutout can end in {ALPHA}, got 'cutout.mp4', which has no alpha channel"),
        ("cutout.jpg", f"cutout can end in {ALPHA}, got 'cutout.jpg', which has no alpha channel"),
        ("background-image.mkv", "background-image can end in .png, .jpg, .tif, got 'background-image.mkv'"),
    ],
)
def test_wrong_outputs(text, message):
    with says(ParameterError, message):
        parse_output(text)


def test_several_outputs():
    assert parse_outputs(["mask", "panel.mp4", "mask"]) == [OutputSpec("mask"), OutputSpec("panel", ".mp4")]
    with pytest.raises(ParameterError, match=rf"^at least one output is needed out of {ALL}$"):
        parse_outputs([" "])


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("{view}", "panel"),
        ("{source}/{view}", "camera-0/panel"),
        ("{date}_{time}-{view}", "2026-03-04_050607-panel"),
        ("all", "all"),
        ("a.b {view}", "a.b panel"),
        ("{{{view}}}", "{panel}"),
    ],
)
def test_templates(template, expected):
    check_name(template)
    assert expand_name(template, view="panel", source="camera 0", started=NOW) == Path(expected)


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("{veiw}", FIELDS + ", got {veiw}; did you mean 'view'?"),
        ("{}", FIELDS + ", got {}"),
        ("{view:>9}", FIELDS + ", got {view:>9}"),
        ("{view.upper}", FIELDS + ", got {view.upper}"),
        ("../{view}", BELOW + ", got '../{view}'"),
        ("a/../../{view}", BELOW + ", got 'a/../../{view}'"),
        ("/tmp/{view}", BELOW + ", got '/tmp/{view}'"),
        ("C:\\{view}", BELOW + ", got 'C:\\{view}'"),
        ("{view}/", BELOW + ", got '{view}/'"),
        ("", BELOW + ", got ''"),
        ("{view", "a name must be a template such as {source}-{view}, got '{view': expected '}' before end of string"),
    ],
)
def test_wrong_templates(template, message):
    with says(ParameterError, message):
        check_name(template)


@pytest.mark.parametrize("source", ["..", "../../etc", "/", "", "rtsp://10.0.0.1:554/live?x=1", "a\\b"])
def test_a_source_never_leads_out_of_the_folder(source):
    path = expand_name("{source}", view="mask", source=source, started=NOW)
    assert len(path.parts) == 1
    assert path.name not in ("", ".", "..")


# The sinks


@pytest.fixture
def numbered(tmp_path, frames):
    return open_source(write_images(tmp_path / "input", frames), fps=10)


def numbers(stem, ending=".png", first=1):
    return [f"{stem}{number:06d}{ending}" for number in range(first, first + COUNT)]


def test_images_for_numbered_sources(tmp_path, numbered):
    run(create_sinks(tmp_path / "out", ["mask", "panel"], numbered), numbered)
    assert files(tmp_path / "out") == numbers("mask/bin") + numbers("panel/panel")


@pytest.mark.parametrize("kind", ["fake", "video"])
def test_video_for_others(tmp_path, frames, kind):
    source = FakeSource() if kind == "fake" else open_source(write_video(tmp_path / "a.avi", frames, 10))
    run(create_sinks(tmp_path / "out", ["mask", "panel", "residual"], source), source)
    assert files(tmp_path / "out") == ["mask.mkv", "panel.mp4", "residual.mp4"]
    with open_source(tmp_path / "out" / "mask.mkv") as result:
        assert result.fps == (25 if kind == "fake" else 10)
        assert len(list(result)) == COUNT


@pytest.mark.parametrize("name", ["mask.mkv", "mask"])
def test_overwriting_can_be_forbidden(tmp_path, numbered, name):
    create_sinks(tmp_path / "out", [name], numbered, overwrite=False)
    run(create_sinks(tmp_path / "out", [name], numbered), numbered)
    target = tmp_path / "out" / name
    with says(SinkError, f"the output '{target}' exists already; --overwrite replaces it"):
        create_sinks(tmp_path / "out", [name], numbered, overwrite=False)


def test_the_input_is_never_the_output(tmp_path, frames):
    folder = write_images(tmp_path / "mask", frames)
    with says(SinkError, f"the output '{folder}' is the input itself"):
        create_sinks(tmp_path, ["mask"], open_source(folder))
    partial = write_video(tmp_path / "panel.partial.avi", frames)
    before = partial.read_bytes()
    with open_source(partial) as source, pytest.raises(SinkError, match=r"would grow under the name of the input, '"):
        create_sinks(tmp_path, ["panel.avi"], source)
    assert partial.read_bytes() == before
    video = write_video(tmp_path / "mask.mkv", frames)
    with open_source(video) as source, pytest.raises(SinkError, match=r"is the input itself$"):
        create_sinks(tmp_path, ["mask"], source)


def test_folder_that_is_a_file(tmp_path):
    (tmp_path / "out").touch()
    for folder in (tmp_path / "out", tmp_path / "out" / "deeper"):
        with pytest.raises(SinkError, match=f"^cannot write into folder '{folder}': "):
            create_sinks(folder, ["mask"], FakeSource())


def test_folder_without_permission(tmp_path, monkeypatch):
    def refuse(dir):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("tempfile.TemporaryFile", refuse)
    with says(SinkError, f"cannot write into folder '{tmp_path}': Permission denied"):
        create_sinks(tmp_path, ["mask"], FakeSource())


def test_every_kind_of_output(tmp_path):
    assert len(create_sinks(tmp_path, ["mask", "mask.mkv", "mask"], FakeSource())) == 1
    names = ["mask.mkv", "panel.mp4", "cutout.mov", "cutout.png", "overlay.jpg", "mask.npz", "background-image"]
    run(create_sinks(tmp_path, names, FakeSource()), FakeSource())
    single = ["background-image.png", "cutout.mov", "mask.mkv", "mask.npz", "panel.mp4"]
    assert files(tmp_path) == sorted(
        single + numbers("cutout/cutout", first=0) + numbers("overlay/overlay", ".jpg", first=0)
    )


def test_an_ending_counts_more_than_the_source(tmp_path, numbered):
    run(create_sinks(tmp_path / "a", ["mask.avi", "panel"], numbered), numbered)
    assert files(tmp_path / "a")[:2] == ["mask.avi", "panel/panel000001.png"]
    run(create_sinks(tmp_path / "b", ["mask.tif", "panel"], FakeSource(1)), FakeSource(1))
    assert files(tmp_path / "b") == ["mask/bin000000.tif", "panel.mp4"]


def test_names_by_a_template(tmp_path, numbered, frames):
    names = ["mask.mkv", "panel.png", "background-image"]
    run(create_sinks(tmp_path / "a", names, numbered, name="{source}/{date}/{time}-{view}", started=NOW), numbered)
    stem = "input/2026-03-04/050607-"
    singles = [f"{stem}background-image.png", f"{stem}mask.mkv"]
    assert files(tmp_path / "a") == [*singles, *numbers(f"{stem}panel/panel")]
    with open_source(write_video(tmp_path / "lobby cam.avi", frames)) as source:
        run(create_sinks(tmp_path / "b", ["mask"], source, name="{source}"), source)
    assert files(tmp_path / "b") == ["lobby-cam.mkv"]


def test_two_outputs_of_one_name(tmp_path):
    target = tmp_path / "out" / "fake.mp4"
    with says(ParameterError, f"overlay.mp4 and panel.mp4 would both be '{target}': the name needs the field {{view}}"):
        create_sinks(tmp_path / "out", ["overlay.mp4", "panel.mp4"], FakeSource(), name="{source}")
    assert not (tmp_path / "out").exists()
    # In one folder images of several views have names of their own.
    run(create_sinks(tmp_path, ["mask.png", "panel.png", "mask.tif"], FakeSource(1), name="all"), FakeSource(1))
    assert files(tmp_path) == ["all/bin000000.png", "all/bin000000.tif", "all/panel000000.png"]


def test_images_of_an_older_run_go_with_overwriting(tmp_path):
    run(create_sinks(tmp_path, ["mask.png"], FakeSource(5)), FakeSource(5))
    run(create_sinks(tmp_path, ["mask.png"], FakeSource(2)), FakeSource(2))
    assert files(tmp_path) == ["mask/bin000000.png", "mask/bin000001.png"]


@pytest.mark.parametrize("name", ["mask.npz", "background-image.jpg", "mask.tif"])
def test_other_outputs_are_not_replaced_either(tmp_path, name):
    run(create_sinks(tmp_path, [name], FakeSource(1), overwrite=False), FakeSource(1))
    with pytest.raises(SinkError, match=r" exists already; --overwrite replaces it$"):
        create_sinks(tmp_path, [name], FakeSource(1), overwrite=False)


@pytest.mark.parametrize("name", ["mask", "mask.tif", "background-image"])
def test_no_images_into_the_folder_that_is_read(tmp_path, frames, name):
    folder = write_images(tmp_path / "in", frames)
    before = files(folder)
    view = name.partition(".")[0]
    told = f"the images of {view} would go into the folder that is read: '{folder}'"
    with open_source(folder) as source, says(SinkError, told):
        create_sinks(folder, [name], source)
    with open_source(folder) as source, pytest.raises(SinkError, match=r"the folder that is read|is the input itself"):
        create_sinks(tmp_path, [name], source, name="in/x" if view == "background-image" else "in")
    assert files(folder) == before
    with open_source(folder) as source:
        assert len(create_sinks(folder, ["mask.mkv"], source)) == 1


def test_wrong_view_and_name(tmp_path):
    for wrong, message in (
        ({"outputs": ["mask", "maks"]}, f"an output must be one of {ALL}, got 'maks'; did you mean 'mask'?"),
        ({"outputs": ["mask"], "name": "../x"}, "a name must be that of a file below the output folder, got '../x'"),
    ):
        with says(ParameterError, message):
            create_sinks(tmp_path / "out", source=FakeSource(), **wrong)
    assert not (tmp_path / "out").exists()


def test_grey_and_deep_frames(tmp_path):
    images = (np.random.default_rng(0).random((3, 20, 30)) * 65535).astype(np.uint16)
    names = ["mask.mkv", "panel.mp4", "cutout.png", "background.png", "background.npz", "background-image.tif"]
    with ArraySource(images, fps=5) as source:
        sinks = create_sinks(tmp_path, names, source)
        for sink in sinks:
            feed(sink, images)
            sink.close()
    with np.load(tmp_path / "background.npz", allow_pickle=False) as data:
        assert data["background"].dtype == np.uint16


def test_a_container_without_times_says_so(tmp_path, frames, caplog):
    class Varying(ArraySource):
        is_variable_rate = True

    source = Varying(frames, fps=10)
    with caplog.at_level("WARNING", "bgsub"):
        sinks = create_sinks(tmp_path, ["mask.avi", "panel.npz"], source)
    assert caplog.messages == [f"'{tmp_path / 'mask.avi'}' is at a constant rate, unlike array"]
    for sink in sinks:
        sink.abort()
