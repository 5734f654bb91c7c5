"""Files without their end, and whole files whose header has no length."""

import subprocess

import pytest
from av_files import copy_packets, film, write_av
from video_fakes import make_frames, write_video

from bgsub._opencv import cv2
from bgsub.errors import BrokenSourceError
from bgsub.video import open_source
from bgsub.video.sources.file_end import has_counted_frames, is_cut

KINDS = ["avi", "mkv", "mp4", "gif"]


def whole(tmp_path, kind):
    path = tmp_path / f"whole.{kind}"
    if kind == "gif":
        if not hasattr(cv2, "Animation"):
            pytest.skip("this OpenCV writes no GIF")
        animation = cv2.Animation()
        animation.frames, animation.durations = list(make_frames(40)), [40] * 40
        assert cv2.imwriteanimation(str(path), animation)
        return path
    if kind == "mp4":
        made = write_av(tmp_path / "made.mp4", film(40))
        return copy_packets(made, path, lambda _number, packet: packet, movflags="faststart")
    return write_video(path, make_frames(40), codec="MJPG")


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_without_its_end_is_read_up_to_there(tmp_path, caplog, kind):
    path = whole(tmp_path, kind)
    assert not is_cut(path)
    with open_source(path) as source:
        assert len(list(source)) == 40
    assert not caplog.messages
    data = path.read_bytes()
    path.write_bytes(data[: int(0.7 * len(data))])
    assert is_cut(path)
    came = []
    with open_source(path) as source, pytest.raises(OSError, match=r"is cut short|cannot be decoded"):
        came += source
    assert 10 < len(came) < 38
    with open_source(path, on_error="skip") as source:
        assert len(list(source)) >= len(came)
    with open_source(path, end=10) as source:
        assert len(list(source)) == 10


@pytest.mark.parametrize("kind", ["ts", "mpg", "h264", "pipe.mkv", "sound.mkv"])
def test_files_without_a_length_are_not_cut_short(tmp_path, kind):
    """Streams without a length in the header, and sound that is longer than the pictures."""
    path = tmp_path / f"clip.{kind}"
    ffmpeg = ["ffmpeg", "-v", "error", "-f", "lavfi", "-i", "testsrc=d=2:s=64x48:r=25"]
    if kind == "sound.mkv":
        ffmpeg += ["-f", "lavfi", "-i", "sine=d=6"]
    coded = ["-c:v", {"mpg": "mpeg2video"}.get(kind, "libx264"), "-bf", "0"]
    container = {"h264": "h264", "ts": "mpegts", "mpg": "mpeg"}.get(kind, "matroska")
    try:
        with path.open("wb") as file:
            to = ["pipe:1"] if kind == "pipe.mkv" else ["-y", str(path)]
            subprocess.run([*ffmpeg, *coded, "-f", container, *to], stdout=file, check=True)
    except (FileNotFoundError, subprocess.CalledProcessError):
        pytest.skip("no ffmpeg that writes it")
    with open_source(path) as source:
        assert 48 <= len(list(source)) <= 50


def test_a_header_that_counts_more_frames_than_there_are(tmp_path):
    """A file of full length with an empty end, as after a crash or an unfinished download."""
    path = whole(tmp_path, "avi")
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2] + bytes(len(data) - len(data) // 2))
    assert (is_cut(path), has_counted_frames(path)) == (False, True)
    with open_source(path) as source, pytest.raises(BrokenSourceError, match="is cut short"):
        list(source)


def test_unknown_files_are_not_cut(tmp_path):
    for content in (b"", b"GIF", b"RIFF", b"RIFF\xff\xff\xff\xffAVI ", b"\x1a\x45\xdf\xa3", bytes(40)):
        (tmp_path / "file").write_bytes(content)
        assert not is_cut(tmp_path / "file")
