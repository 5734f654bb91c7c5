"""What is special about each kind of source, and wrong inputs."""

import socket
import struct
import time
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from av_files import copy_packets, cut_packets, film, write_av, write_sound
from video_fakes import COUNT, FakeCapture, FakeSource, read_frames, write_images, write_video

from bgsub._opencv import cv2
from bgsub.errors import ParameterError, SourceError
from bgsub.video import ArraySource, CameraSource, ImageSequenceSource, open_source
from bgsub.video.sinks.create import create_sinks, label_of
from bgsub.video.sources.base import Frame
from bgsub.video.sources.images import read_image


def names(source):
    return [frame.name for frame in source]


def test_a_folder_gives_its_images_in_natural_order(tmp_path, frames):
    folder = write_images(tmp_path / "input", frames, "in{}.png")
    (folder / "in2.png").rename(folder / "in2.PNG")
    (folder / "notes.txt").write_text("no image")
    (folder / "._in1.png").write_bytes(b"left by macOS")
    (folder / "in99.png").mkdir()
    (tmp_path / "groundtruth").mkdir()
    for place in (folder, tmp_path):  # the folder of a sequence means its input
        assert names(open_source(place)) == [f"in{number}" for number in range(1, COUNT + 1)]


def test_depth_and_channels_of_images_are_kept(tmp_path):
    deep = (np.arange(12, dtype=np.uint16) * 5000).reshape(3, 4)
    colour = np.dstack([deep, deep + 1, deep + 2])
    alpha = np.dstack([colour, np.full_like(deep, 9)])
    bilevel = np.where(deep > 9000, 255, 0).astype(np.uint8)
    for name, image in (("a_grey", deep), ("b_colour", colour), ("c_alpha", alpha)):
        cv2.imwrite(str(tmp_path / f"{name}.png"), image)
    cv2.imwrite(str(tmp_path / "d_bilevel.png"), bilevel, [cv2.IMWRITE_PNG_BILEVEL, 1])
    images = [frame.image for frame in open_source(tmp_path)]
    for image, expected in zip(images, [deep, colour, colour, bilevel], strict=True):
        assert image.dtype == expected.dtype
        np.testing.assert_array_equal(image, expected)


def test_pages_of_an_image_are_frames(tmp_path, caplog):
    pages = np.random.default_rng(0).integers(0, 1 << 16, (5, 12, 16), np.uint16)
    path = tmp_path / "stack.tif"
    cv2.imwritemulti(str(path), list(pages))
    np.testing.assert_array_equal([frame.image for frame in read_frames(path, start=1, every=2)], pages[1::2])
    np.testing.assert_array_equal([frame.image for frame in read_frames(tmp_path)], pages[:1])  # a file is one frame
    cv2.imwritemulti(str(path), list(pages), [cv2.IMWRITE_TIFF_COMPRESSION, 1])  # none: a page is found by its bytes
    content = path.read_bytes()
    assert pages[3].tobytes() in content
    path.write_bytes(content.replace(pages[3].tobytes(), b""))  # what follows is not where it should be
    with open_source(path, on_error="skip") as source:
        got = [frame.index for frame in source]
        assert got == list(range(len(got))) == list(range(source.length - source.skipped))
        assert len(got) < len(pages)


def test_jpegs_are_rotated_as_their_exif_data_says(tmp_path, frames):
    cv2.imwrite(str(tmp_path / "plain.jpg"), frames[0])
    data = (tmp_path / "plain.jpg").read_bytes()
    orientation = b"Exif\0\0MM\0*" + struct.pack(">IHHHIHHI", 8, 1, 0x0112, 3, 1, 6, 0, 0)
    segment = b"\xff\xe1" + struct.pack(">H", 2 + len(orientation)) + orientation
    (tmp_path / "turned.jpg").write_bytes(data[:2] + segment + data[2:])
    with open_source(tmp_path / "turned.jpg") as source:
        assert source.size == frames[0].shape[:2]
        upright = np.rot90(read_image(tmp_path / "plain.jpg"), -1)
        np.testing.assert_array_equal(next(iter(source)).image, upright)


@pytest.mark.parametrize("announced", ["pixels", "chunk"])
def test_png_that_cannot_hold_what_it_announces_is_not_decoded(announced, tmp_path, frames, monkeypatch):
    path = write_images(tmp_path / "input", frames[:1]) / "in000001.png"
    data = bytearray(path.read_bytes())
    assert read_image(path).size
    if announced == "pixels":
        data[16:24] = (9000).to_bytes(4, "big") * 2
    else:
        data[33] = 64  # length of the chunk after the header
    path.write_bytes(data)
    monkeypatch.setattr("bgsub.video.sources.images.cv2.imdecode", None)
    with pytest.raises(SourceError, match="cannot be decoded"):
        read_image(path)


def test_a_broken_image_stops_or_is_skipped(tmp_path, frames, caplog):
    folder = write_images(tmp_path / "input", frames[:4])
    broken = folder / "in000002.png"
    broken.write_bytes(broken.read_bytes()[:999])
    with pytest.raises(SourceError, match=r"in000002\.png' cannot be decoded"):
        list(open_source(folder))
    source = open_source(folder, on_error="skip")
    got = [(frame.index, frame.name) for frame in source]
    assert got == [(0, "in000001"), (2, "in000003"), (3, "in000004")]
    assert source.skipped == 1
    assert caplog.messages == [f"image '{broken}' cannot be decoded; skipped"]
    (folder / "in000001.png").write_bytes(b"")  # the size is that of the first good image
    assert open_source(folder, on_error="skip").size == (48, 32)
    with pytest.raises(SourceError, match=r"in000001.png' is empty$"):
        _ = open_source(folder).size


def test_a_folder_without_readable_images(tmp_path, frames, monkeypatch):
    (tmp_path / "a.png").write_text("no image")
    for on_error in ("stop", "skip"):
        for use in (list, lambda source: source.size):
            with pytest.raises(SourceError):
                use(open_source(tmp_path, on_error=on_error))
    source = open_source(folder := write_images(tmp_path / "input", frames[:2]))
    (folder / "in000002.png").unlink()
    with pytest.raises(SourceError, match=r"in000002.png' cannot be read: No such file"):
        list(source)
    monkeypatch.setattr(Path, "iterdir", mock.Mock(side_effect=PermissionError(13, "Permission denied")))
    with pytest.raises(SourceError, match=f"^folder '{tmp_path}' cannot be read: Permission denied"):
        open_source(tmp_path)


def test_a_camera_that_loses_a_frame_or_sends_none(monkeypatch, frames, caplog):
    monkeypatch.setattr(cv2, "VideoCapture", FakeCapture([frames[0], None, frames[1]]))
    source = CameraSource(0, on_error="skip")
    numbers = [frame.index for frame in source]
    assert numbers in ([0, 2], [2])  # the newest frame may overtake the first
    assert source.skipped == 1
    assert caplog.messages == ["frame 1 of camera 0 cannot be read; skipped", "camera 0 ended after 3 frames"]
    for images, words in (([frames[0], None, frames[1]], "frame 1 of camera 0"), ([], "camera 0 sends no frame")):
        monkeypatch.setattr(cv2, "VideoCapture", FakeCapture(images))
        with pytest.raises(SourceError, match=words), CameraSource(0, on_error="stop") as source:
            list(source)


def test_an_address_without_an_answer_is_given_up():
    with socket.socket() as mute:
        mute.bind(("127.0.0.1", 0))
        mute.listen()
        place = f"127.0.0.1:{mute.getsockname()[1]}/stream.mjpg"
        begin = time.monotonic()
        with pytest.raises(SourceError, match=rf"^stream 'http://{place}' .* 0\.3 s"):  # without the password
            CameraSource(f"http://user:secret@{place}", open_timeout=0.3)
        assert time.monotonic() - begin < 5


@pytest.mark.parametrize(
    ("shape", "dtype"),
    [((5, 1, 1), np.uint8), ((5, 4, 6, 1), np.uint16), ((5, 4, 6, 3), np.float32), ((5, 4, 6, 4), np.uint8)],
)
def test_array_shapes(shape, dtype):
    array = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
    images = [frame.image for frame in ArraySource(array)]
    expected = array[..., 0] if shape[-1] == 1 and len(shape) == 4 else array[..., :3] if len(shape) == 4 else array
    np.testing.assert_array_equal(images, expected)
    assert images[0].dtype == dtype


def test_wrong_arrays_and_other_types():
    for wrong in (None, True, 1.5, object, ""):
        with pytest.raises(ParameterError, match=r"a source is a camera index, an address, a path, .*, got "):
            open_source(wrong)
    for wrong in (1, np.zeros((4, 5), np.uint8)):
        with pytest.raises(ParameterError, match=f"paths, got {type(wrong).__name__}"):
            open_source([wrong])
    for shape in ((4, 6), (0, 4, 6), (5, 4, 6, 2)):
        with pytest.raises(ParameterError, match=r"array must have shape .* with c 1, 3 or 4, got"):
            open_source(np.zeros(shape, np.uint8))
    with pytest.raises(ParameterError, match="array must be uint8, uint16 or floating, got int64"):
        open_source(np.zeros((5, 4, 6), np.int64))


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (Path("0"), "^no such file or folder: '0'$"),
        ("empty", "^no images in folder 'empty'$"),
        ("texts", "^no images in folder 'texts'; bgsub batch takes folders of videos$"),
        ("*.jpg", r"^no image matches '\*.jpg'$"),
        ("no/folder/img_%04d.png", "^no image matches 'no/folder/img_%04d.png'$"),
        ([], "list of images is empty"),
        ("97", "^camera 97 cannot be opened"),
        (str(2**31), "^camera 2147483648 cannot be opened"),
        ("ftp://me:secret@host/a.avi", "rtsp://, .*http://, https://.*; got 'ftp://host/a.avi'$"),
        ("missing.avi", "^no such file or folder: 'missing.avi'$"),
        ("empty.mp4", "^video 'empty.mp4' is empty$"),
        ("texts/a.txt", "^'texts/a.txt' is not a video that can be read"),
        ("sound.m4a", "^'sound.m4a' is not a video that can be read"),
    ],
)
def test_wrong_sources(spec, words, here, capfd):
    Path("empty").mkdir()
    Path("texts").mkdir()
    Path("texts/a.txt").write_text("no video\n" * 50)
    Path("empty.mp4").touch()
    write_sound(Path("sound.m4a"))
    capfd.readouterr()
    with pytest.raises(SourceError, match=words):
        open_source(spec)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(("wrong", "at"), [(np.nan, 0), (np.inf, 2)])
def test_frames_that_are_not_finite_can_be_skipped(wrong, at, caplog, tmp_path):
    frames = np.full((4, 32, 48), 0.5, np.float32)
    frames[at, 3, 4] = wrong
    write_images(tmp_path, frames, "in{}.tif")
    source = open_source(tmp_path, on_error="skip")
    assert [frame.index for frame in source.alike(source)] == [index for index in range(4) if index != at]
    assert source.skipped == 1
    assert caplog.messages == [f"frame in{at + 1} of {source.name} has NaN or infinity; skipped"]
    source = open_source(tmp_path)
    assert len(list(source.alike(source))) == 4  # the subtractor refuses that frame


def test_many_unreadable_frames_do_not_fill_the_log(caplog):
    source, image = FakeSource(), np.full((4, 4), np.nan, np.float32)
    source.on_error = "skip"
    assert list(source.alike(Frame(index, str(index), None, image) for index in range(100))) == []
    assert source.skipped == 100
    assert [int(message.split()[1]) for message in caplog.messages] == [*range(10), 15, 31, 63]


def test_existing_names_are_no_patterns_and_lists_keep_their_order(tmp_path, frames):
    folder = write_images(tmp_path / "in [1] %d", frames[:3])
    assert names(open_source(str(folder))) == ["in000001", "in000002", "in000003"]
    source = open_source(folder / "in000001.png")
    assert isinstance(source, ImageSequenceSource)
    assert names(source) == ["in000001"]
    assert names(open_source([folder / "in000003.png", str(folder / "in000001.png")])) == ["in000003", "in000001"]


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
        assert (source.size, source.fps, source.length) == ((48, 32), 10, 39)
        assert source.name == f"3 videos '{paths[0]}' to 'cam-11.avi'"
        assert label_of(source) == "cam"
        for _ in range(2):  # each iteration starts over
            frames = list(source)
            assert [frame.index for frame in frames] == list(range(39))
            assert [frame.name for frame in frames] == [f"{number:06d}" for number in range(39)]
            assert [frame.time for frame in frames] == pytest.approx([index / 10 for index in range(39)])
            assert [int(frame.image[0, 0, 0]) for frame in frames] == [5 * index for index in range(39)]
            assert [part.path for part in source.files] == paths
            assert [part.begin for part in source.files] == pytest.approx([0, 1.2, 1.9])


def test_address_in_file_names():
    source = FakeSource()
    for source.name in ("stream 'http://gate:80'", "stream 'http://gate:80/'"):
        assert label_of(source) == "gate:80"


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
    write_images(tmp_path, np.array([level(3)]), "cam-{}.png")  # a pattern of images is one of images
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


def test_files_that_begin_within_a_group_of_pictures_keep_the_times(tmp_path):
    whole, paths = write_av(tmp_path / "whole.ts", film(150), g="25", bf="0"), []
    for part in (range(60), range(60, 110), range(110, 150)):
        paths.append(tmp_path / f"{part.start}.ts")
        copy_packets(whole, paths[-1], lambda number, packet, part=part: packet if number in part else None)
    frames, times = read_frames(paths), {frame.image.tobytes(): frame.time for frame in read_frames(whole)}
    assert [frame.time for frame in frames] == pytest.approx([times[frame.image.tobytes()] for frame in frames])


def test_errors_name_the_damaged_file_and_skipped_frames_are_counted(tmp_path):
    whole = write_av(tmp_path / "a.mp4", film(20))
    broken = cut_packets(write_av(tmp_path / "b.mp4", film(20), g="1"), tmp_path / "c.mp4", {4})
    with pytest.raises(SourceError, match=f"frame 4 of video '{broken}' cannot"):
        read_frames([whole, broken])
    with open_source([whole, broken, whole], on_error="skip") as source:
        assert [frame.index for frame in source] == [*range(24), *range(25, 60)]
        assert source.skipped == 1
    with open_source([whole, broken], on_error="skip", end=30) as source:  # before the end of the damaged file
        assert len(list(source)) == 29
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


def test_a_file_without_readable_frames_can_be_skipped(tmp_path, caplog):
    whole = write_av(tmp_path / "a.mp4", film(20))
    broken = cut_packets(write_av(tmp_path / "b.mp4", film(5), g="1"), tmp_path / "c.mp4", set(range(5)))
    frame = read_frames([whole, broken, whole], on_error="skip")[20]
    assert (frame.index, frame.time) == (20, pytest.approx(0.8))
    assert caplog.messages == [f"no frame of video '{broken}' can be decoded; skipped"]
    for files, on_error in (([whole, broken], "stop"), ([broken, broken], "skip")):
        with pytest.raises(SourceError, match="no frame of"):
            read_frames(files, on_error=on_error)


def test_only_files_with_the_same_encoding_can_be_copied(tmp_path, caplog):
    one, same = (write_av(tmp_path / name, film(20), sound=True) for name in ("a.mp4", "b.mp4"))
    silent = write_av(tmp_path / "c.mp4", film(20))
    other = write_av(tmp_path / "d.mp4", film(20), codec="mpeg4", sound=True)
    cases = [((one, same), {}, True), ((one, silent), {}, False), ((one, other), {}, False)]
    for files, options, is_copyable in [*cases, ((one, same), {"fps": 5}, False)]:
        with open_source(files, **options) as source:
            assert source.is_copyable == is_copyable
    part, joined = write_av(tmp_path / "part.ts", film(50)), tmp_path / "joined.ts"
    joined.write_bytes(2 * part.read_bytes())  # its clock starts over
    assert [open_source(path).is_copyable for path in (part, joined)] == [True, False]
    with open_source([one, same]) as source:
        for sink in create_sinks(tmp_path / "out", ["panel.mp4"], source):
            sink.abort()
    assert caplog.messages == [f"no sound in the output: {source.name} are several files"]
