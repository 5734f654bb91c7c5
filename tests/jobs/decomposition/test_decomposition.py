"""Decomposition: readers, masks, the fit, its memory, and outputs that appear together."""

import numpy as np
import pytest
from planted_parts import LOW_RANK, X, make_pictures, relative_error
from video_fakes import FakeSource

from bgsub import RobustPCA
from bgsub.errors import BgsubError, OutputError, ParameterError, SinkError, SourceError
from bgsub.jobs.decomposition.run import Target, last_mu, outliers, output_folder
from bgsub.jobs.decomposition.samples import Samples, read_frames, read_matrix
from bgsub.video import ArraySource


@pytest.mark.parametrize(("factor", "missing"), [(1e-6, 0), (255.0, 0), (1.0, 0.2)])
def test_recovers_a_matrix_of_any_unit_and_fills_missing_entries(factor, missing):
    gaps = np.random.default_rng(1).random(X.shape) < missing
    samples = Samples("matrix", np.where(gaps, np.nan, X * factor), shape=X.shape)
    parts = RobustPCA(2).fit(samples.X)
    assert relative_error(parts.low_rank_, LOW_RANK * factor) < 1e-5
    assert not parts.sparse_[gaps].any()
    threshold, share = outliers(samples, parts)
    wrong = np.abs(X - LOW_RANK)[~gaps] * factor > threshold
    assert share == pytest.approx(wrong.mean(), abs=0.01)
    assert 0.05 < share < 0.15


def test_refuses_input_larger_than_the_memory(tmp_path, monkeypatch):
    monkeypatch.setattr("bgsub.numerics.memory.available_memory", lambda: 2_000_000)
    frames = np.zeros((30, 64, 48, 3), np.uint8)
    with pytest.raises(ParameterError, match=r"30 frames of 48x64x3, needs about 8 MB .* 2 MB .* --scale"):
        read_frames(ArraySource(frames), rank=3)
    assert read_frames(ArraySource(frames), scale=0.25).X.shape == (30, 16 * 12 * 3)
    np.save(tmp_path / "x.npy", np.zeros((300, 200)))
    with pytest.raises(ParameterError, match=r"3 MB .* 2 MB .* --float32"):
        read_matrix(tmp_path / "x.npy")
    assert read_matrix(tmp_path / "x.npy", float32=True).X.dtype == np.float32


@pytest.mark.parametrize("announced", [None, 3, 40])
def test_reads_all_frames_for_any_announced_length(announced):
    frames, _ = make_pictures()
    source = ArraySource(frames, fps=10)
    source.length = announced
    samples = read_frames(source)
    np.testing.assert_allclose(samples.X, frames.reshape(24, -1) / 255, atol=1e-6)
    assert [frame.index for frame in samples.frames] == list(range(24))
    assert samples.fps == 10
    with pytest.raises(SourceError, match="fake has no frame"):
        read_frames(FakeSource(0))


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.float16, np.float64])
def test_restores_frames_of_every_type(dtype):
    given = make_pictures()[0]
    frames = (given / 255).astype(dtype) if np.dtype(dtype).kind == "f" else given.astype(dtype)
    samples = read_frames(ArraySource(frames))
    assert samples.X.dtype == np.float32
    back = samples.image(samples.X[3])
    assert back.dtype == dtype
    np.testing.assert_allclose(back.astype(float), frames[3].astype(float), atol=1e-3 if back.dtype.kind == "f" else 0)
    grey = read_frames(ArraySource(frames), scale=0.5, grey=True)
    assert grey.format.shape == (14, 18)
    assert grey.X.mean() == pytest.approx(samples.X.mean(), rel=0.05)


def test_refuses_damaged_files(tmp_path):
    for name in ("x.npy", "x.npz", "x.mat"):
        for content in (b"", b"junk" * 99):
            (tmp_path / name).write_bytes(content)
            with pytest.raises(SourceError, match=rf"{name}' is not a \{name[1:]} file of numbers"):
                read_matrix(tmp_path / name)


def test_writes_all_outputs_or_none(tmp_path):
    targets = [Target("a.txt", pytest.fail), Target("b", pytest.fail, is_folder=True)]
    folder = tmp_path / "deep" / "out"
    for error in (KeyboardInterrupt, ValueError, BgsubError):
        with pytest.raises(error), output_folder(folder, targets, None, False) as place:  # noqa: PT012
            (place / "a.txt").write_text("half")
            raise error
        assert not folder.parent.exists()

    def refused(error, message, source=None):
        with pytest.raises(error, match=message), output_folder(folder, targets, source, True):
            pass  # no output is written

    refused(OutputError, "cannot be written")
    assert not folder.parent.exists()
    for _ in range(2):
        with output_folder(folder, targets, None, True) as place:
            (place / "a.txt").write_text("new")
            (place / "b").mkdir()
            (place / "b" / "1.png").write_text("new")
        assert sorted(path.name for path in folder.rglob("*")) == ["1.png", "a.txt", "b"]
    (folder / "b" / "notes.txt").write_text("mine")
    refused(SinkError, r"more than images .*notes.txt")
    refused(SinkError, "is the input itself", source=folder / "a.txt")
    targets = [Target("b", pytest.fail)]
    refused(SinkError, "b' is a folder already")
    assert (folder / "a.txt").read_text() == "new"


def test_frames_of_8_bits_end_at_one_grey_level():
    seen = []
    frames = read_frames(ArraySource(make_pictures(n=12)[0]))
    for parameters, end in (({}, (2.4 / 255) ** 2), ({"surrogate": "atan"}, 2.4 / 255), ({"mu_end": 1e-4}, 1e-4)):
        last = last_mu(frames, parameters)
        RobustPCA(1, quality="fast", callback=lambda step: seen.append(step.mu), **last, **parameters).fit(frames.X)
        assert seen[-1] == pytest.approx(end)
