"""Places in a video, and parts of a source: the same frames as of the whole."""

import threading
import time
from fractions import Fraction

import numpy as np
import pytest
from av_files import cut_packets, film, write_av
from hypothesis import given, settings
from hypothesis import strategies as st
from live_fakes import beside, wait_until
from video_fakes import make_frames, read_frames, write_images

from bgsub.errors import ParameterError, SourceError, StoppedError
from bgsub.video import ArraySource, VideoFileSource, open_source
from bgsub.video.concurrency import Channel, in_background
from bgsub.video.sources import images
from bgsub.video.sources.base import SelectedSource, number_name
from bgsub.video.timecode import Part, Selection, Timecode

RATE = 25


def frame(number):
    return Timecode(frame=number)


def seconds(number):
    return Timecode(seconds=Fraction(number))


def indices(source):
    return [frame.index for frame in source]


def numbers(count=100):
    """Return a source whose pixels are the index of the frame."""
    return ArraySource(np.arange(count, dtype=np.uint8).reshape(-1, 1, 1), fps=RATE)


def test_places():
    third = Fraction(1, 3)
    amounts = {"12.5": "12.5", "12.": 12, ".5": "0.5", "12s": 12, "12.5s": "12.5", 12.5: "12.5", third: third}
    amounts |= {"02:03": 123, "90:00": 5400, "2:3.25": "123.25", "1:02:03.5": "3723.5", "100:00:00": 360000}
    expected = {value: seconds(amount) for value, amount in amounts.items()} | {seconds(3): seconds(3)}
    expected |= {"0": frame(0), " 120 ": frame(120), 120: frame(120)}
    assert {value: Timecode.parse(value) for value in expected} == expected
    assert [str(place) for place in (frame(7), seconds(2), seconds("3723.5"))] == ["frame 7", "2 s", "3723.5 s"]
    cases = [(frame(7), None, 7), (frame(7), RATE, 7), (seconds(2), RATE, 50), (seconds("0.05"), RATE, 2)]
    for place, fps, number in [*cases, (seconds(2), Fraction(30000, 1001), 60), (seconds(2), None, None)]:
        assert place.in_frames(fps) == number


def test_wrong_places():
    texts = ["", " ", "-1", "-1.5", "+1", "1e3", "nan", "inf", "12 s", "s", ".", ".s", "1:60", "1:60:00", "1:2:3:4"]
    texts += [":30", "1:", "1::2", "1.5:00", "1:02:03.5s", "0x10", "\u0663", "12,5", "abc"]
    for value in [*texts, -1, -0.5, float("nan"), float("inf"), True, None, b"1", [1]]:
        with pytest.raises(ParameterError, match=r"^--start must be a number of frames.*, seconds.* or h:mm:ss.*, got"):
            Timecode.parse(value, "--start")


@settings(max_examples=20)
@given(st.one_of(st.text(max_size=12), st.from_regex(r"[0-9:.s-]{0,12}", fullmatch=True)))
def test_any_text_is_a_place_or_an_error_of_one_line(text):
    try:
        place = Timecode.parse(text)
    except ParameterError as error:
        assert len(str(error).splitlines()) == 1  # noqa: PT017 - either is right
    else:
        assert (place.frame is None) != (place.seconds is None)
        assert place.amount >= 0


def selected(source, start=None, end=None, duration=None, every=1):
    return SelectedSource(source, Selection.parse(start, end, duration, every))


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"start": "1.61s"}, range(41, 100)),
        ({"end": 1000}, range(100)),
        ({"start": 10, "duration": 7}, range(10, 17)),
        ({"start": 10, "duration": "1s"}, range(10, 35)),
        ({"start": "2s", "duration": 7}, range(50, 57)),
        ({"start": "1.99", "duration": "0.05"}, range(50, 51)),
        ({"start": 7, "end": 20, "every": 4}, range(7, 20, 4)),
        ({"start": 99, "every": 4}, [99]),
    ],
)
def test_frames_of_the_part(options, expected):
    with selected(numbers(), **options) as source:
        frames = list(source)
        assert [frame.index for frame in frames] == list(expected)
        assert [int(frame.image[0, 0]) for frame in frames] == list(expected)
        assert [frame.time for frame in frames] == [index / RATE for index in expected]
        assert [frame.name for frame in frames] == [number_name(index) for index in expected]
        assert source.length == len(expected)
        assert source.fps == Fraction(RATE, options.get("every", 1))
        assert indices(source) == list(expected)


@settings(max_examples=40)
@given(st.integers(0, 40), st.integers(1, 60), st.integers(1, 9), st.booleans(), st.booleans())
def test_any_part_is_a_slice(start, count, every, start_in_seconds, end_in_seconds):
    end = start + count
    first = f"{start / RATE}s" if start_in_seconds else start
    last = f"{end / RATE}s" if end_in_seconds else end
    source = selected(numbers(50), first, last, every=every)
    expected = list(range(50))[start:end:every]
    assert indices(source) == expected
    assert source.length == len(expected)


@pytest.mark.parametrize("bframes", ["0", "2"])
def test_the_length_of_a_part_at_a_variable_rate(tmp_path, bframes):
    stamps = [*range(0, 2000, 40), *range(2000, 22000, 1000)]
    path = write_av(tmp_path / "v.mp4", film(70), stamps, bf=bframes)
    for part in ({"start": "1s"}, {"end": "2s"}, {"start": "1s", "end": "5s"}, {"duration": "3.5s"}, {"end": "60s"}):
        with open_source(path, **part) as source:
            assert source.length == len(list(source))


def test_wrong_parts():
    for options, words in (
        ({"start": "abc"}, r"^start must be a number of frames .*, got 'abc'$"),
        ({"end": -1}, r"^end must be a number of frames .*, got -1$"),
        ({"end": 5, "duration": 5}, "^use either end or duration, got end frame 5 and duration frame 5$"),
        ({"end": 0}, r"^end must come after start \(frame 0\), got frame 0$"),
        ({"end": "0.0"}, r"^end must come after start \(0 s\), got 0 s$"),
        ({"start": "2:00", "end": "12.5"}, r"end must come after start \(120 s\), got 12.5 s$"),
        ({"duration": 0}, "^duration must be more than 0, got frame 0$"),
        *(({"every": every}, rf"^every must be .* 1 or more, got {every}$") for every in (0, 2.5, True)),
    ):
        with pytest.raises(ParameterError, match=words):
            selected(numbers(), **options)
        with pytest.raises(ParameterError, match=words):
            open_source("missing.mp4", **options)


def test_parts_without_frames():
    for options, words in (
        ({"start": 100}, r"^nothing between frame 100 and the end: array ends at 3.960 s \(frame 99\)$"),
        ({"start": "4s", "end": "5s"}, r"^nothing between 4 s and 5 s: array ends at 3.960 s \(frame 99\)$"),
        ({"start": "1.01s", "duration": "0.02s"}, r"1.01 s and 1.03 s: array is at 1.040 s \(frame 26\)$"),
        ({"start": 50, "end": "1s"}, r"frame 50 and 1 s: array is at 1.000 s \(frame 25\)$"),
    ):
        source = selected(numbers(), **options)
        with pytest.raises(SourceError, match=words):
            list(source)
        assert source.length == 0
    source = selected(ArraySource(make_frames()), start="1.5")
    assert source.length is None
    with pytest.raises(ParameterError, match="array has no frame rate"):
        list(source)


def test_properties_of_the_source_are_kept(tmp_path, frames, monkeypatch):
    folder = write_images(tmp_path / "input", frames)
    (folder / "in000005.png").write_bytes(b"no image")
    with open_source(folder, on_error="skip", start=2, every=2) as source:
        assert isinstance(source, SelectedSource)
        assert source.numbered
        assert (source.name, source.path) == (f"images '{folder}'", folder)
        assert (source.live, source.has_audio, source.dropped) == (False, False, 0)
        assert [frame.name for frame in source] == ["in000003", "in000007", "in000009", "in000011"]
        assert source.skipped == 1
        assert list(source)
        assert source.skipped == 1
    read, seen = images.read_image, []
    monkeypatch.setattr(images, "read_image", lambda path: seen.append(path.stem) or read(path))
    assert indices(open_source(folder, start=5, end=10, every=2)) == [5, 7, 9]
    assert seen == ["in000006", "in000008", "in000010"]  # no others are read


def check_equal(frames, others):
    for frame, other in zip(frames, others, strict=True):
        assert (frame.index, frame.name, frame.time) == (other.index, other.name, other.time)
        np.testing.assert_array_equal(frame.image, other.image)


STYLES = {
    "b-frames": {"bf": "3", "g": "20", "refs": "4", "x264-params": "b-pyramid=normal:scenecut=0"},
    "open-gop": {"bf": "3", "g": "20", "x264-params": "open-gop=1:scenecut=0"},
    "intra-refresh": {"g": "20", "x264-params": "intra-refresh=1:keyint=20:scenecut=0:bframes=0"},
    "variable": {"bf": "2", "g": "20"},
    "mpeg4": {"bf": "2", "g": "20", "codec": "mpeg4"},
    "mjpeg": {"codec": "mjpeg", "pix_fmt": "yuvj420p"},
}


@pytest.fixture(
    scope="module", params=[(style, ("mp4", "mkv")[number % 2]) for number, style in enumerate(STYLES)], ids="-".join
)
def long_video(request, tmp_path_factory):
    """Return the style, the file and the frames of a video of 160 frames."""
    style, suffix = request.param
    uneven = np.cumsum([0, *np.random.default_rng(3).integers(5, 90, 159)]).tolist()
    stamps = uneven if style == "variable" else None
    path = write_av(tmp_path_factory.mktemp("long") / f"clip.{suffix}", film(160), stamps, **STYLES[style])
    return style, path, read_frames(path)


def test_a_shortcut_gives_the_same_frames(long_video):
    style, path, frames = long_video
    for start in (1, 77, 119, 159):
        for place in (start, frames[start].time, max(frames[start].time - 0.002, 0.0)):
            check_equal(read_frames(path, start=place), frames[start:])
    with VideoFileSource(path) as source:
        shortcut = source._shortcut(Part(Selection(start=frame(130))))
        assert (shortcut is None) == (style == "mpeg4")
        if shortcut is not None:
            # After a seek, a decoder with gradual refresh shows nothing until a picture is complete: after the target.
            first = next(iter(source._from_shortcut(shortcut)), None)
            assert (first is None) == (style == "intra-refresh")
            if first is not None:
                assert first[0] == 130
                assert source._seconds_at(*first) == frames[130].time
        assert source._shortcut(Part(Selection(start=frame(15)))) is None or style == "mjpeg"


def test_given_rates_and_ends_of_a_video(long_video):
    _, path, frames = long_video
    part = read_frames(path, fps=10, start="13.0", duration="0.2")
    assert [(frame.index, frame.time) for frame in part] == [(130, 13.0), (131, 13.1)]
    np.testing.assert_array_equal([frame.image for frame in part], [frame.image for frame in frames[130:132]])
    place = rf"{frames[-1].time:.3f} s \(frame 159\)"
    with pytest.raises(SourceError, match=f"nothing between 3600 s and the end: video '{path}' ends at {place}"):
        read_frames(path, start="1:00:00")


def test_damage_after_a_shortcut(tmp_path):
    whole = write_av(tmp_path / "whole.mkv", film(80), codec="mjpeg", pix_fmt="yuvj420p")
    path = cut_packets(whole, tmp_path / "clip.mkv", {10, 60})
    frames = read_frames(path, on_error="skip")
    part = read_frames(path, on_error="skip", start=50)
    assert [frame.index for frame in part] == [index for index in range(50, 80) if index != 60]
    check_equal(part, frames[49:])


@pytest.mark.parametrize(("end", "answer"), [(next, True), (Channel.cancel, False)])
def test_put_waits_for_room_until_a_cancellation(end, answer):
    channel, answers = Channel(1), []
    channel.put(1)
    with beside(lambda: answers.append(channel.put(2))):
        time.sleep(0.05)
        assert answers == []
        end(channel)
    assert answers == [answer]


def test_errors_come_after_the_items_and_only_the_first_end_counts():
    channel, error = Channel(3), ValueError("broken")
    channel.put(1)
    channel.close(error)
    assert not channel.put(2)
    assert next(channel) == 1
    for _ in range(2):
        with pytest.raises(ValueError, match="broken") as caught:
            next(channel)
        assert caught.value is error
    channel = Channel(1)
    channel.close()
    channel.close(ValueError())
    assert list(channel) == []


def test_ready_waits_for_an_item_or_the_end():
    channel = Channel(2)
    assert not channel.ready(0.01)
    with beside(lambda: channel.put(1)):
        assert channel.ready(5)
    assert next(channel) == 1
    assert not channel.ready(0)
    with beside(channel.close):
        assert channel.ready(5)
    assert list(channel) == []


def test_errors_of_a_background_task_are_raised():
    with pytest.raises(ZeroDivisionError):
        in_background(lambda: 1 / 0, pytest.fail)


@pytest.mark.parametrize("error", [KeyboardInterrupt, StoppedError])
@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("is_late", [False, True])
def test_unused_results_are_released(error, fails, is_late):
    begin, ended, released = threading.Event(), threading.Event(), []

    def make():
        begin.wait()
        ended.set()
        if fails:
            raise SourceError("it is not there")
        return "camera"

    def attend():
        if not is_late:
            begin.set()
            ended.wait()
        raise error

    with pytest.raises(error):
        in_background(make, released.append, attend)
    begin.set()
    wait_until(lambda: not [thread for thread in threading.enumerate() if thread.name == "bgsub-open"])
    assert released == ([] if fails else ["camera"])
