"""Several video files as one source."""

from __future__ import annotations

import numpy as np
import pytest
from av_files import cut_packets, film, write_av
from video_fakes import write_images, write_video

from bgsub.errors import SinkError, SourceError
from bgsub.video import open_source
from bgsub.video.sinks.create import create_sinks, label_of

COUNTS = (12, 7, 20)


def level(index):
    return np.full((32, 48, 3), 5 * index, np.uint8)


@pytest.fixture
def paths(tmp_path):
    """Three files with 10 frames per second, in which each frame is brighter than the one before."""
    images = np.split(np.array([level(index) for index in range(sum(COUNTS))]), np.cumsum(COUNTS)[:-1])
    return [write_video(tmp_path / f"cam-{n}.avi", part, 10) for n, part in enumerate(images, 9)]


def test_frames_and_times_go_on_from_file_to_file(paths):
    with open_source(paths) as source:
        assert (source.size, source.fps, source.length, source.is_variable_rate) == ((48, 32), 10, 39, False)
        assert source.duration == pytest.approx(3.9)
        assert source.name == f"3 videos '{paths[0]}' to 'cam-11.avi'"
        assert label_of(source) == "cam"
        for _ in range(2):  # each iteration starts over
            frames = list(source)
            assert [frame.index for frame in frames] == list(range(39))
            assert [frame.name for frame in frames] == [f"{number:06d}" for number in range(39)]
            assert [frame.time for frame in frames] == pytest.approx([index / 10 for index in range(39)])
            assert [int(frame.image[0, 0, 0]) for frame in frames] == [5 * index for index in range(39)]
            assert [(part.path, part.begin) for part in source.files] == [
                (path, pytest.approx(begin)) for path, begin in zip(paths, (0, 1.2, 1.9), strict=True)
            ]


def test_parts_patterns_and_lists(paths, tmp_path):
    with open_source(paths, start="1.0", end="1.5") as source:
        assert [frame.index for frame in source] == [10, 11, 12, 13, 14]
        assert list(source.paths) == paths
    for pattern in ("cam-*.avi", "cam-%d.avi", "*"):
        with open_source(str(tmp_path / pattern)) as source:
            assert list(source.paths) == paths
    for single in (str(tmp_path / "cam-9*"), [paths[0]]):
        with open_source(single) as source:
            assert source.path == paths[0]
    with open_source([paths[1], paths[0]]) as source:
        assert int(next(iter(source)).image[0, 0, 0]) == 60


def test_a_pattern_of_images_is_one_of_images(paths, tmp_path):
    write_images(tmp_path, np.array([level(3)]), "cam-{}.png")
    with open_source(str(tmp_path / "cam-*")) as source:
        assert (source.numbered, source.length) == (True, 1)


def test_files_that_cannot_follow_each_other(paths, tmp_path):
    small = write_video(tmp_path / "small.avi", np.zeros((3, 16, 24, 3), np.uint8))
    image = write_images(tmp_path / "frames", np.array([level(3)])) / "in000001.png"
    text, missing = tmp_path / "words.txt", tmp_path / "none.avi"
    text.write_text("no video")
    wrong = {
        small: f"one size: video '{small}' has 24x16, before it 48x32",
        image: f"'{image}' is no video file: several sources are the video files, or the images, of one camera",
        image.parent: f"'{image.parent}' is no video file: several sources",
        missing: f"'{missing}' does not exist: several sources",
        text: f"'{text}' is not a video that can be read",
    }
    for path, words in wrong.items():
        with pytest.raises(SourceError, match=words):
            open_source([paths[0], path])


def test_errors_name_the_damaged_file(tmp_path):
    whole = write_av(tmp_path / "a.mp4", film(20))
    broken = cut_packets(write_av(tmp_path / "b.mp4", film(20), g="1"), tmp_path / "c.mp4", {4})
    with (
        open_source([whole, broken]) as source,
        pytest.raises(SourceError, match=f"frame 4 of video '{broken}' cannot"),
    ):
        list(source)
    with open_source([whole, broken, whole], on_error="skip") as source:
        assert [frame.index for frame in source] == [*range(24), *range(25, 60)]
        assert source.skipped == 1


def test_a_file_that_cannot_be_opened_can_be_skipped(paths, tmp_path, caplog):
    broken = tmp_path / "cut.avi"
    broken.write_bytes(paths[1].read_bytes()[:200])
    message = f"'{broken}' is not a video that can be read, or it is damaged"
    for files in ([paths[0], broken, paths[1]], [broken, paths[0], paths[1]]):
        caplog.clear()
        with pytest.raises(SourceError, match=message):
            open_source(files)
        with open_source(files, on_error="skip") as source:
            assert [frame.index for frame in source] == list(range(19))
            assert list(source.paths) == [paths[0], paths[1]]
        assert caplog.messages == [f"{message}; skipped"]
    with pytest.raises(SourceError, match=f"none of 2 videos '{broken}' to 'cut.avi' can be read"):
        open_source([broken, broken], on_error="skip")


def test_only_files_with_the_same_encoding_can_be_copied(tmp_path, caplog):
    one, same = (write_av(tmp_path / name, film(20), sound=True) for name in ("a.mp4", "b.mp4"))
    silent = write_av(tmp_path / "c.mp4", film(20))
    other = write_av(tmp_path / "d.mp4", film(20), codec="mpeg4", sound=True)
    cases = [((one, same), {}, True), ((one, silent), {}, False), ((one, other), {}, False)]
    for files, options, is_copyable in [*cases, ((one, same), {"fps": 5}, False)]:
        with open_source(files, **options) as source:
            assert source.is_copyable == is_copyable
    with open_source([one, same]) as source:
        for sink in create_sinks(tmp_path / "out", ["panel.mp4"], source):
            sink.abort()
    assert caplog.messages == [f"no sound in the output: {source.name} are several files"]


def test_outputs_never_replace_one_of_the_files(paths, tmp_path):
    with open_source(paths) as source, pytest.raises(SinkError, match="is the input itself"):
        create_sinks(tmp_path, ["mask.avi"], source, name="cam-10")
