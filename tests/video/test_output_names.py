"""Names of outputs, and the sinks that are made for them."""

import re
from datetime import datetime
from pathlib import Path
from unittest import mock

import pytest
from sink_kit import files, run
from video_fakes import COUNT, FakeSource, write_images, write_video

from bgsub.errors import ParameterError, SinkError
from bgsub.video import create_sinks, open_source, output_names
from bgsub.video.output_names import OutputSpec, check_name, expand_name, parse_output, parse_outputs
from bgsub.video.views import VIEWS

NOW = datetime(2026, 3, 4, 5, 6, 7)


def test_outputs():
    assert tuple(VIEWS) == output_names.VIEWS
    expected = {
        "mask": (OutputSpec("mask"), None),
        " panel.MP4 ": (OutputSpec("panel", ".mp4"), "video"),
        "cutout.mov": (OutputSpec("cutout", ".mov"), "video"),
        "panel.jpg": (OutputSpec("panel", ".jpg"), "images"),
        "mask.npz": (OutputSpec("mask", ".npz"), "array"),
        "background-image": (OutputSpec("background-image", ".png"), "still"),
    }
    for text, (spec, kind) in expected.items():
        assert parse_output(text) == spec
        assert (spec.kind, str(spec)) == (kind, spec.view + (spec.ending or ""))
    assert parse_outputs(["mask", "panel.mp4", "mask"]) == [OutputSpec("mask"), OutputSpec("panel", ".mp4")]
    with pytest.raises(ParameterError, match=r"^at least one output is needed .* mask, background"):
        parse_outputs([" "])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("maks", r"one of mask, .*, background-image, got 'maks'; did you mean 'mask'\?$"),
        ("qqqq.mp4", "one of mask, .*, got 'qqqq'$"),
        (".mp4", "one of mask, .*, got ''$"),
        ("panel.mp5", r"^panel can end in \.mkv, .*, \.jpg, .*, got 'panel\.mp5'; did you mean '\.mp4'\?$"),
        ("mask.jpg", r"^mask can end in .*\.mov, \.png, \.tif, \.webp, \.npz, got 'mask\.jpg', which blurs"),
        ("cutout.mp4", r"^cutout can end in \.mkv, \.mov, \.png, .*, got 'cutout\.mp4', .* alpha channel$"),
        ("cutout.jpg", "alpha channel$"),
        ("background-image.mkv", r"can end in \.png, \.jpg, \.tif, got 'background-image\.mkv'$"),
    ],
)
def test_wrong_outputs(text, words):
    with pytest.raises(ParameterError, match=words):
        parse_output(text)


def test_templates():
    expected = {
        "{view}": "panel",
        "{source}/{view}": "camera-0/panel",
        "{date}_{time}-{view}": "2026-03-04_050607-panel",
        "all": "all",
        "a.b {view}": "a.b panel",
        "{{{view}}}": "{panel}",
    }
    for template, name in expected.items():
        check_name(template)
        assert expand_name(template, view="panel", source="camera 0", started=NOW) == Path(name)
    for source in ("..", "../../etc", "/", "", "rtsp://10.0.0.1:554/live?x=1", "a\\b"):
        path = expand_name("{source}", view="mask", source=source, started=NOW)
        assert len(path.parts) == 1
        assert path.name not in ("", ".", "..")


def test_wrong_templates():
    wrong = {name: f"{{time}}, got {name}" for name in ("{}", "{view:>9}", "{view.upper}")}
    outside = ["../{view}", "a/../../{view}", "/tmp/{view}", "C:\\{view}", "{view}/", ""]
    wrong |= {name: f"below the output folder, got '{name}'" for name in outside}
    wrong |= {"{veiw}": "got {veiw}; did you mean 'view'?", "{view": "got '{view': expected '}' before end of string"}
    for template, words in wrong.items():
        with pytest.raises(ParameterError, match=f"{re.escape(words)}$"):
            check_name(template)


@pytest.fixture
def numbered(tmp_path, frames):
    return open_source(write_images(tmp_path / "input", frames), fps=10)


def numbers(stem, ending=".png", first=1):
    return [f"{stem}{number:06d}{ending}" for number in range(first, first + COUNT)]


def test_numbered_sources_give_images_and_others_videos(tmp_path, numbered, frames):
    run(create_sinks(tmp_path / "out", ["mask", "panel"], numbered), numbered)
    assert files(tmp_path / "out") == numbers("mask/bin") + numbers("panel/panel")
    for source, fps in ((FakeSource(), 25), (open_source(write_video(tmp_path / "a.avi", frames, 10)), 10)):
        run(create_sinks(tmp_path / str(fps), ["mask", "mask.mkv", "panel", "residual"], source), source)
        assert files(tmp_path / str(fps)) == ["mask.mkv", "panel.mp4", "residual.mp4"]
        with open_source(tmp_path / str(fps) / "mask.mkv") as result:
            assert result.fps == fps
            assert len(list(result)) == COUNT
    run(create_sinks(tmp_path / "a", ["mask.mkv", "panel"], numbered), numbered)
    assert files(tmp_path / "a")[:2] == ["mask.mkv", "panel/panel000001.png"]
    run(create_sinks(tmp_path / "b", ["mask.tif", "panel"], FakeSource(1)), FakeSource(1))
    assert files(tmp_path / "b") == ["mask/bin000000.tif", "panel.mp4"]


def test_the_input_is_never_the_output(tmp_path, frames):
    folder = write_images(tmp_path / "mask", frames)
    with pytest.raises(SinkError, match=f"the output '{folder}' is the input itself"):
        create_sinks(tmp_path, ["mask"], open_source(folder))
    partial = write_video(tmp_path / "panel.partial.mkv", frames)
    before = partial.read_bytes()
    with open_source(partial) as source, pytest.raises(SinkError, match="would grow under the name of the input, '"):
        create_sinks(tmp_path, ["panel.mkv"], source)
    assert partial.read_bytes() == before
    video = write_video(tmp_path / "mask.mkv", frames)
    with open_source(video) as source, pytest.raises(SinkError, match=r"is the input itself$"):
        create_sinks(tmp_path, ["mask"], source)


def test_folders_that_cannot_be_written(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.TemporaryFile", mock.Mock(side_effect=PermissionError(13, "Permission denied")))
    with pytest.raises(SinkError, match=f"^cannot write into folder '{tmp_path}': Permission denied"):
        create_sinks(tmp_path, ["mask"], FakeSource())


def test_names_by_a_template(tmp_path, numbered, frames):
    names = ["mask.mkv", "panel.png", "background-image"]
    run(create_sinks(tmp_path / "a", names, numbered, name="{source}/{date}/{time}-{view}", started=NOW), numbered)
    stem = "input/2026-03-04/050607-"
    singles = [f"{stem}background-image.png", f"{stem}mask.mkv"]
    assert files(tmp_path / "a") == [*singles, *numbers(f"{stem}panel/panel")]
    with open_source(write_video(tmp_path / "lobby cam.avi", frames)) as source:
        run(create_sinks(tmp_path / "b", ["mask"], source, name="{source}"), source)
    assert files(tmp_path / "b") == ["lobby-cam.mkv"]


def test_outputs_with_the_same_name(tmp_path):
    with pytest.raises(ParameterError, match=r"^overlay\.mp4 and panel\.mp4 would both be '.*fake\.mp4': .*{view}"):
        create_sinks(tmp_path / "out", ["overlay.mp4", "panel.mp4"], FakeSource(), name="{source}")
    for wrong in ({"outputs": ["mask", "maks"]}, {"outputs": ["mask"], "name": "../x"}):
        with pytest.raises(ParameterError, match=r"'mask'\?$|below the output folder, got '\.\./x'$"):
            create_sinks(tmp_path / "out", source=FakeSource(), **wrong)
    assert not (tmp_path / "out").exists()
    # Images of several views in one folder have different names.
    run(create_sinks(tmp_path, ["mask.png", "panel.png", "mask.tif"], FakeSource(1), name="all"), FakeSource(1))
    assert files(tmp_path) == ["all/bin000000.png", "all/bin000000.tif", "all/panel000000.png"]
    for count in (5, 2):  # the second run removes the images of the first
        run(create_sinks(tmp_path / "again", ["mask.png"], FakeSource(count)), FakeSource(count))
    assert files(tmp_path / "again") == ["mask/bin000000.png", "mask/bin000001.png"]


@pytest.mark.parametrize("name", ["mask", "mask.tif", "background-image"])
def test_no_images_into_the_folder_that_is_read(tmp_path, frames, name):
    folder = write_images(tmp_path / "in", frames)
    before = files(folder)
    view = name.partition(".")[0]
    words = f"images of {view} would go into the folder that is read: '{folder}'"
    with open_source(folder) as source, pytest.raises(SinkError, match=words):
        create_sinks(folder, [name], source)
    with open_source(folder) as source, pytest.raises(SinkError, match=r"the folder that is read|is the input itself"):
        create_sinks(tmp_path, [name], source, name="in/x" if view == "background-image" else "in")
    assert files(folder) == before
    with open_source(folder) as source:
        assert len(create_sinks(folder, ["mask.mkv"], source)) == 1
