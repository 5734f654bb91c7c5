"""The contract of all outputs: complete or absent, closed twice, aborted, without frames, resumed."""

import json

import numpy as np
import pytest
from sink_kit import fed, feed, feed_and_raise, files, make
from video_fakes import COUNT, content, make_frames, read_frames

from bgsub.errors import SinkError
from bgsub.storage.durable_io import remove_partials

KINDS = [*("mask.mkv", "panel.mp4", "cutout.mov"), *("mask", "mask.npz", "background-image.png")]
SINGLE = "background-image.png"
STREAMS = ["panel.mkv stream", "mask.mkv stream"]  # files in these tests only


@pytest.fixture(params=KINDS)
def kind(request):
    return request.param


def checkpoint(sink):
    """Return the state of a sink as it is read from a file."""
    return json.loads(json.dumps(sink.checkpoint()))


def resumed(kind, folder, state):
    sink = make(kind, folder)
    sink.resume(state)
    return sink


def count(folder, kind, partial=False):
    path = folder / kind.split()[0]
    if partial and path.suffix:
        path = path.with_name(f"{path.stem}.partial{path.suffix}")
    if path.suffix == ".npz":
        with np.load(path) as data:
            return len(data["index"])
    return len(read_frames(path)) * (COUNT if kind == SINGLE else 1)


@pytest.mark.parametrize("kind", [*KINDS, *STREAMS])
def test_a_complete_output_has_its_final_name_only(tmp_path, kind, frames):
    folder = tmp_path / "closed"
    sink = fed(make(kind, folder), frames, fps=30)
    before = content(folder)
    sink.close()
    sink.abort()
    assert content(folder) == before
    assert count(folder, kind) == COUNT
    assert not any("partial" in name for name in before)
    with pytest.raises(KeyboardInterrupt), make(kind, tmp_path / "interrupted") as sink:
        feed_and_raise(sink, frames, KeyboardInterrupt(), fps=30)
    assert content(tmp_path / "interrupted") == before  # equal frames give equal bytes


def test_an_aborted_output_does_not_have_its_final_name(tmp_path, kind, frames):
    with pytest.raises(RuntimeError), make(kind, tmp_path) as sink:
        feed_and_raise(sink, frames, RuntimeError())
    sink.close()
    if "." in kind:
        assert files(tmp_path) != []
        assert all("partial" in name for name in files(tmp_path))
    if not kind.endswith(".npz"):
        assert count(tmp_path, kind, partial=True) == COUNT


def test_only_a_complete_output_replaces_the_old_one(tmp_path, kind, frames):
    with make(kind, tmp_path):
        pass
    assert files(tmp_path) == []
    fed(make(kind, tmp_path), frames[:5])
    before = content(tmp_path)
    with make(kind, tmp_path):
        pass
    assert content(tmp_path) == before
    if "." in kind and kind != SINGLE:  # images are replaced one by one; a still image has no length
        with make(kind, tmp_path) as sink:
            feed(sink, frames)
            assert count(tmp_path, kind) == 5
        assert count(tmp_path, kind) == COUNT
    (tmp_path / "out").touch()
    with pytest.raises(SinkError, match=r"^cannot write into folder '"):
        make(kind, tmp_path / "out" / "deeper")


def repeated(count, height=12, width=16):
    """Return `count` pictures, of which few differ."""
    return np.resize(make_frames(7, height, width), (count, height, width, 3))


@pytest.fixture
def short_segments(monkeypatch):
    monkeypatch.setattr("bgsub.video.sinks.video._SEGMENT", 20)
    monkeypatch.setattr("bgsub.video.sinks.images._SYNCED_TOGETHER", 5)
    return 20


STOPS = [((0, 20, 40), 3), ((0, 1, 2, 19, 33), 30), ((0, 13, 20, 21, 47), 3)]
RESUMED = [*KINDS, "panel.mkv", "cutout.mkv", "cutout"]


@pytest.mark.parametrize(
    ("kind", "stops", "lost"),
    [(kind, *STOPS[index % 3]) for index, kind in enumerate(RESUMED)] + [("panel.mp4", *stop) for stop in STOPS[:2]],
)
def test_a_resumed_output_is_the_same_byte_for_byte(tmp_path, kind, stops, lost, short_segments):
    images = repeated(47)
    fed(make(kind, tmp_path / "whole"), images, fps=30)
    expected = content(tmp_path / "whole")
    folder, done = tmp_path / "resumed", 0
    sink = make(kind, folder)
    sink.checkpoint()
    for stop in stops:
        feed(sink, images[done:stop], done, fps=30)
        state, done = checkpoint(sink), stop
        # Frames after the checkpoint are lost, or stored in part.
        feed(sink, images[:lost], done + 7, fps=30)
        sink.abort()
        for path in folder.rglob("*.partial"):
            path.write_bytes(path.read_bytes() + b"garbage")
        sink = resumed(kind, folder, state)
    fed(sink, images[done:], first=done, fps=30)
    found = content(folder)
    # Only a sink with `clean` removes later images of a folder.
    assert all(name.startswith(f"{kind}/") for name in set(found) - set(expected))
    assert {name: found[name] for name in expected} == expected


@pytest.mark.parametrize("kind", ["mask.mkv", "panel.mp4", "mask.npz", "background-image.png"])
def test_missing_and_damaged_files_of_a_checkpoint(tmp_path, kind, short_segments):
    sink = make(kind, tmp_path)
    sink.checkpoint()
    feed(sink, repeated(26))
    state = sink.checkpoint()
    sink.abort()
    if kind == "panel.mp4":
        kept = next(path for path in tmp_path.glob("*.frames-*.partial") if path.stat().st_size)
        kept.write_bytes(b"\xff" * kept.stat().st_size)
        with pytest.raises(SinkError, match=r"^[^\n]*panel\.mp4' cannot be [^\n]*\Z"):
            resumed("panel.mp4", tmp_path, state)
    for name in files(tmp_path):
        (tmp_path / name).unlink()
    with pytest.raises(SinkError, match=rf"^'{tmp_path / kind}' cannot be continued: '[^\n]*partial[^\n]*\Z"):
        resumed(kind, tmp_path, state)


def test_streams_and_videos_without_an_early_checkpoint_cannot_be_resumed(tmp_path):
    for kind in STREAMS:
        with make(kind, tmp_path) as sink:
            with pytest.raises(SinkError, match="standard output cannot be continued"):
                sink.checkpoint()
            sink.abort()
        assert (tmp_path / kind.split()[0]).read_bytes() == b""
    sink = make("mask.mkv", tmp_path)
    feed(sink, repeated(20))
    with pytest.raises(SinkError, match=r"mask\.mkv' can be resumed only with a checkpoint before the first frame"):
        sink.checkpoint()
    sink.abort()


def test_the_files_beside_a_growing_video_stay_small(tmp_path, short_segments):
    sink = make("panel.mp4", tmp_path)
    sink.checkpoint()
    images, largest = repeated(10 * short_segments, 32, 48), 0
    for begin in range(0, len(images), 10):
        feed(sink, images[begin : begin + 10], begin, fps=30)
        sink.checkpoint()
        largest = max(largest, sum(path.stat().st_size for path in tmp_path.glob("*.frames-*")))
    assert 0 < largest < 2.1 * short_segments * 64 * 64 * 1.5
    sink.close()
    remove_partials(sink.path)  # as at the end of the run
    assert files(tmp_path) == ["panel.mp4"]
