"""One contract for all file outputs: whole or not at all, closed twice, aborted, without frames, resumed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
from saying import says
from sink_kit import fed, feed, feed_and_raise, files, make, read_images, small_frames
from video_fakes import COUNT, HEIGHT, WIDTH, content, read_video

from bgsub._opencv import cv2
from bgsub.errors import SinkError

AV = ["mask.mkv", "mask.avi", "panel.mp4", "panel.mkv", "overlay.m4v", "panel.webm", "cutout.mkv", "cutout.mov"]
OTHERS = ["mask", "cutout", "mask.npz", "panel.npz", "background-image.png", "background-image.tif"]
SINGLE = ("background-image.png", "background-image.tif")
STREAMS = ["panel.mkv stream", "mask.mkv stream", "mask.raw stream", "cutout.raw stream"]  # have a name in tests only
ALL = [*AV, "cutout.webm", *OTHERS]


@pytest.fixture(params=ALL)
def kind(request):
    return request.param


def count(folder, kind, partial=False):
    """How many frames the result holds."""
    path = folder / kind.split()[0]
    if not path.suffix:
        return len(read_images(path))
    if partial:
        path = path.with_name(f"{path.stem}.partial{path.suffix}")
    if path.suffix == ".raw":
        return path.stat().st_size / (HEIGHT * WIDTH * (1 if path.stem == "mask" else 4))
    if path.suffix == ".npz":
        with np.load(path) as data:
            return len(data["index"])
    if kind in SINGLE:
        return COUNT if cv2.imread(str(path)) is not None else 0
    return len(read_video(path))


@pytest.mark.parametrize("kind", [*ALL, *STREAMS])
@pytest.mark.parametrize("end", ["close", "Ctrl-C"])
def test_finished_output_is_there_under_its_name_only(tmp_path, kind, frames, end):
    sink = make(kind, tmp_path)
    if end == "close":
        with sink:
            feed(sink, frames)
    else:
        with pytest.raises(KeyboardInterrupt), sink:
            feed_and_raise(sink, frames, KeyboardInterrupt())
    before = content(tmp_path)
    sink.close()
    sink.abort()
    assert content(tmp_path) == before
    assert count(tmp_path, kind) == COUNT
    assert not any("partial" in name for name in before)


def test_aborted_output_is_not_under_its_name(tmp_path, kind, frames):
    with pytest.raises(RuntimeError), make(kind, tmp_path) as sink:
        feed_and_raise(sink, frames, RuntimeError())
    sink.close()
    if "." in kind:
        assert files(tmp_path) != []
        assert all("partial" in name for name in files(tmp_path))
    if not kind.endswith(".npz"):
        assert count(tmp_path, kind, partial=True) == COUNT


def test_old_output_is_replaced_at_the_end(tmp_path, kind, frames):
    fed(make(kind, tmp_path), frames[:5])
    if "." not in kind or kind in SINGLE:
        return  # images are replaced one by one; a single one has no length
    with make(kind, tmp_path) as sink:
        feed(sink, frames)
        assert count(tmp_path, kind) == 5
    assert count(tmp_path, kind) == COUNT


def test_without_frames_there_is_no_output(tmp_path, kind, frames):
    with make(kind, tmp_path):
        pass
    assert files(tmp_path) == []
    fed(make(kind, tmp_path), frames)
    before = content(tmp_path)
    with make(kind, tmp_path):
        pass
    assert content(tmp_path) == before


@pytest.mark.parametrize("other", [*AV, *OTHERS, *STREAMS])
def test_equal_frames_give_equal_bytes(tmp_path, other, frames):
    for folder in ("a", "b"):
        fed(make(other, tmp_path / folder), frames, fps=30)
    assert content(tmp_path / "a") == content(tmp_path / "b")


def test_place_that_cannot_be_written(tmp_path, kind):
    (tmp_path / "out").touch()
    with pytest.raises(SinkError, match=r"^cannot write into folder '"):
        make(kind, tmp_path / "out" / "deeper")


# Resuming


def uninterrupted(kind, folder, images):
    fed(make(kind, folder), images, fps=30)
    return content(folder)


@pytest.fixture
def short_segments(monkeypatch):
    monkeypatch.setattr("bgsub.video.sinks.video._SEGMENT", 20)
    return 20


@pytest.mark.parametrize("kind", [*AV, "cutout.webm", *OTHERS])
@pytest.mark.parametrize(("stops", "lost"), [((20, 40), 3), ((1, 2, 19, 33), 30), ((13, 20, 21, 47), 3)])
def test_a_resumed_output_is_the_same_byte_for_byte(tmp_path, kind, stops, lost, short_segments):
    images = small_frames(47)
    expected = uninterrupted(kind, tmp_path / "whole", images)
    folder = tmp_path / "resumed"
    sink, state, done = make(kind, folder), None, 0
    for stop in stops:
        if state is None:
            sink.checkpoint()
        else:
            sink = make(kind, folder)
            sink.resume(state)
        feed(sink, images[done:stop], done, fps=30)
        state, done = json.loads(json.dumps(sink.checkpoint())), stop
        # What comes after the checkpoint is lost with the process, or worse, is half there.
        feed(sink, images[:lost], done + 7, fps=30)
        sink.abort()
        for path in folder.rglob("*.partial"):
            path.write_bytes(path.read_bytes() + b"garbage")
    sink = make(kind, folder)
    sink.resume(state)
    feed(sink, images[done:], done, fps=30)
    sink.close()
    found = content(folder)
    # Of a folder of images, later ones are removed by a sink that cleans.
    assert all(name.startswith(f"{kind}/") for name in set(found) - set(expected))
    assert {name: found[name] for name in expected} == expected


@pytest.mark.parametrize("kind", [*AV, *OTHERS])
def test_a_checkpoint_before_the_first_frame_changes_nothing(tmp_path, kind, frames):
    expected = uninterrupted(kind, tmp_path / "whole", frames)
    sink = make(kind, tmp_path / "checked")
    state = sink.checkpoint()
    feed(sink, frames, fps=30)
    sink.close()
    assert content(tmp_path / "checked") == expected
    sink = make(kind, tmp_path / "resumed")
    sink.resume(json.loads(json.dumps(state)))
    feed(sink, frames, fps=30)
    sink.close()
    assert content(tmp_path / "resumed") == expected


@pytest.mark.parametrize("kind", ["mask.mkv", "panel.mp4", "cutout.mov", "mask.npz", "background-image.png"])
def test_what_was_written_before_must_be_there(tmp_path, kind):
    sink = make(kind, tmp_path)
    sink.checkpoint()
    feed(sink, small_frames(260))
    state = sink.checkpoint()
    sink.abort()
    for name in files(tmp_path):
        (tmp_path / name).unlink()
    with pytest.raises(SinkError, match=rf"^'{tmp_path / kind}' cannot be continued: '.*partial.*'") as caught:
        make(kind, tmp_path).resume(state)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kind", STREAMS)
def test_a_stream_without_frames_is_empty_and_never_resumed(tmp_path, kind):
    with make(kind, tmp_path) as sink:
        with says(SinkError, "standard output cannot be continued"):
            sink.checkpoint()
        sink.abort()
    assert (tmp_path / kind.split()[0]).read_bytes() == b""


def test_frames_that_were_kept_and_are_damaged_are_told_in_one_line(tmp_path):
    sink = make("panel.mp4", tmp_path)
    sink.checkpoint()
    feed(sink, small_frames(12))
    state = sink.checkpoint()
    sink.abort()
    kept = next(tmp_path.glob("*.frames-*.partial"))
    kept.write_bytes(b"\xff" * kept.stat().st_size)
    with pytest.raises(SinkError, match=r"panel\.mp4' cannot be ") as caught:
        make("panel.mp4", tmp_path).resume(state)
    assert "\n" not in str(caught.value)


def test_what_a_kill_left_beside_a_still_picture_goes_with_it(tmp_path, frames):
    (tmp_path / "background-image.partial.png.partial").write_bytes(b"half")
    fed(make("background-image.png", tmp_path), frames)
    assert files(tmp_path) == ["background-image.png"]


def test_little_lies_beside_a_video_that_grows(tmp_path, short_segments):
    sink = make("panel.mp4", tmp_path)
    sink.checkpoint()
    images, largest = small_frames(10 * short_segments, 64, 64), 0
    for begin in range(0, len(images), 10):
        feed(sink, images[begin : begin + 10], begin, fps=30)
        sink.checkpoint()
        largest = max(largest, sum(path.stat().st_size for path in tmp_path.glob("*.frames-*")))
    assert 0 < largest < 2.1 * short_segments * 64 * 64 * 1.5
    sink.close()
    assert files(tmp_path) == ["panel.mp4"]


def test_a_video_is_resumed_only_with_a_checkpoint_before_its_first_frame(tmp_path):
    sink = make("mask.mkv", tmp_path)
    feed(sink, small_frames(20))
    with says(SinkError, f"'{tmp_path / 'mask.mkv'}' can be resumed only with a checkpoint before the first frame"):
        sink.checkpoint()
    sink.abort()


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL")
def test_after_a_kill(tmp_path):
    kinds = ["mask.mkv", "panel.mp4", "mask.npz", "mask", "background-image.png"]
    images = small_frames(290)
    for kind in kinds:
        uninterrupted(kind, tmp_path / "whole", images)
    script = f"""
        import json, sys, time
        sys.path.insert(0, {str(Path(__file__).parent)!r})
        from pathlib import Path
        from sink_kit import feed, make, small_frames
        sinks = [make(kind, Path({str(tmp_path / "killed")!r})) for kind in {kinds!r}]
        images = small_frames({len(images)})
        for sink in sinks:
            sink.checkpoint()
            feed(sink, images[:270], fps=30)
        print(json.dumps([sink.checkpoint() for sink in sinks]), flush=True)
        for sink in sinks:
            feed(sink, images[270:279], 270, fps=30)
        print("written", flush=True)
        time.sleep(60)
    """
    process = subprocess.Popen([sys.executable, "-c", textwrap.dedent(script)], stdout=subprocess.PIPE, text=True)
    states = json.loads(process.stdout.readline())
    assert process.stdout.readline() == "written\n"
    os.kill(process.pid, signal.SIGKILL)
    process.communicate(timeout=60)
    assert "mask.mkv" not in files(tmp_path / "killed")
    for kind, state in zip(kinds, states, strict=True):
        sink = make(kind, tmp_path / "killed")
        sink.resume(state)
        feed(sink, images[270:], 270, fps=30)
        sink.close()
    assert content(tmp_path / "killed") == content(tmp_path / "whole")
