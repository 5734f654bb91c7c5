"""Decomposition: readers, masks, the fit, its memory, and outputs that appear together."""

import tracemalloc

import numpy as np
import pytest
from planted_parts import make_matrix, make_pictures, relative_error
from scipy.io import savemat
from video_fakes import write_images

from bgsub import RobustPCA
from bgsub._opencv import cv2
from bgsub.errors import BgsubError, OutputError, ParameterError, SinkError, SourceError
from bgsub.jobs.decomposition import DecompositionJob, run_decomposition
from bgsub.jobs.decomposition.frames import read_frame_masks, read_frames
from bgsub.jobs.decomposition.matrices import read_matrix, read_matrix_mask
from bgsub.jobs.decomposition.run import decompose
from bgsub.jobs.decomposition.samples import MatrixSamples, needed_memory
from bgsub.jobs.decomposition.writing import Target, output_folder
from bgsub.synthetic import low_rank_plus_sparse
from bgsub.video import ArraySource, ImageSequenceSource
from bgsub.video.sources.selection import SelectedSource

X, LOW_RANK = make_matrix()


def samples_of(array):
    return MatrixSamples("matrix", np.array(array), shape=array.shape)


@pytest.mark.parametrize("factor", [1e-6, 255.0])
def test_recovers_a_matrix_of_any_unit(factor):
    parts = decompose(samples_of(X * factor), 2)
    assert relative_error(parts.low_rank, LOW_RANK * factor) < 1e-5
    np.testing.assert_allclose(parts.low_rank + parts.sparse, X * factor, atol=1e-12 * factor)
    np.testing.assert_allclose(parts.coefficients @ parts.components, parts.low_rank, atol=1e-10 * factor)
    np.testing.assert_allclose(parts.singular_values, np.linalg.svd(parts.low_rank)[1][:2])
    wrong = np.abs(X - LOW_RANK) * factor > parts.threshold
    assert parts.outliers == pytest.approx(wrong.mean(), abs=0.01)
    assert 0.05 < parts.outliers < 0.15


def test_uses_robust_pca():
    parts, model = decompose(samples_of(X), 2, iterations=20), RobustPCA(2, iterations=20).fit(X)
    np.testing.assert_array_equal(parts.low_rank, model.low_rank_)
    assert parts.iterations == model.n_iter_


def test_fills_missing_entries():
    gaps = np.random.default_rng(1).random(X.shape) < 0.2
    parts = decompose(samples_of(np.where(gaps, np.nan, X)), 2)
    assert relative_error(parts.low_rank, LOW_RANK) < 1e-5
    assert not parts.sparse[gaps].any()
    wrong = (np.abs(X - LOW_RANK) > parts.threshold)[~gaps]
    assert parts.outliers == pytest.approx(wrong.mean(), abs=0.01)


@pytest.mark.large
@pytest.mark.slow
@pytest.mark.parametrize(("dtype", "missing"), [(np.float32, 0.1), (np.float64, 0.0)])
def test_announced_memory_is_close_to_the_peak(dtype, missing):
    rng = np.random.default_rng(3)
    samples = samples_of(low_rank_plus_sparse(30, 20000, 3, 0.1, seed=3)[0].astype(dtype))
    samples.X[rng.random(samples.X.shape) < missing] = np.nan
    decompose(samples_of(samples.X[:, :50]), 3, iterations=1)  # compiles
    tracemalloc.start()
    decompose(samples, 3)
    peak = tracemalloc.get_traced_memory()[1] + samples.X.nbytes
    tracemalloc.stop()
    needed = needed_memory(samples.X.shape, 3, samples.X.itemsize)
    assert 0.6 * needed < peak < needed


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
def test_reads_all_frames_for_any_announced_length(announced, monkeypatch):
    frames, _ = make_pictures()
    monkeypatch.setattr(ArraySource, "length", announced)
    samples = read_frames(ArraySource(frames, fps=10))
    np.testing.assert_allclose(samples.X, frames.reshape(24, -1) / 255, atol=1e-6)
    assert [frame.index for frame in samples.frames] == list(range(24))
    assert samples.fps == 10


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


def test_images_of_the_sparse_part():
    samples = read_frames(ArraySource(make_pictures()[0]))
    row = np.zeros(samples.X.shape[1], np.float32)
    row[:4] = -0.5, 0.5, -2, 2
    assert samples.image(row, "absolute").reshape(-1)[:5].tolist() == [128, 128, 255, 255, 0]
    assert samples.image(row, "offset").reshape(-1)[:5].tolist() == [64, 191, 0, 255, 128]


def test_refuses_frames_of_different_sizes(tmp_path):
    frames = make_pictures()[0]
    folder = write_images(tmp_path / "frames", frames[:3])
    cv2.imwrite(str(folder / "in000004.png"), frames[3, :20])
    with pytest.raises(SourceError, match=r"in000004 .* 35x20 .* 35x27"):
        read_frames(ImageSequenceSource(folder))


def test_frame_masks_from_images_and_arrays(tmp_path):
    frames = make_pictures()[0]
    samples = read_frames(ArraySource(frames))
    mask = np.ones(frames.shape[1:3], np.uint8)
    mask[:5, :7] = 0
    cv2.imwrite(str(tmp_path / "one.png"), 255 * mask)
    np.save(tmp_path / "same.npy", mask)
    np.savez(tmp_path / "many.npz", other=1, each=np.repeat(mask[None], 24, axis=0) > 0)
    colours = np.repeat(mask[None, ..., None], 24, axis=0).repeat(3, axis=3)
    np.save(tmp_path / "colours.npy", colours)
    write_images(tmp_path / "folder", 255 * colours)
    expected = colours.reshape(24, -1) > 0
    for name in ("one.png", "same.npy", "many.npz", "colours.npy", "folder"):
        key = "each" if name == "many.npz" else None
        np.testing.assert_array_equal(read_frame_masks(tmp_path / name, samples, key), expected)
    part = read_frames(ArraySource(frames), scale=0.5, grey=True)
    known = read_frame_masks(tmp_path / "colours.npy", part, scale=0.5).reshape(24, *part.format.shape)
    assert not known[:, :3, :4].any()  # observed only if all original pixels are
    assert known[:, 3:].all()
    assert known[:, :, 4:].all()


def test_frame_masks_of_selected_frames_go_by_index(tmp_path):
    frames = make_pictures()[0]
    samples = read_frames(SelectedSource(ArraySource(frames), start=4, every=5))
    masks = np.zeros((24, *frames.shape[1:3]), bool)
    masks[[4, 9, 14, 19]] = True
    np.save(tmp_path / "all.npy", masks)
    assert read_frame_masks(tmp_path / "all.npy", samples).all()
    np.save(tmp_path / "few.npy", masks[:9])
    with pytest.raises(ParameterError, match=r"one image, or one for each of 4 frames, got 9"):
        read_frame_masks(tmp_path / "few.npy", samples)


def test_matrix_masks(tmp_path):
    known = np.random.default_rng(4).random(X.shape) < 0.8
    savemat(tmp_path / "m.mat", {"known": known.astype(np.uint8)})
    np.save(tmp_path / "x.npy", X)
    rows, columns = read_matrix(tmp_path / "x.npy"), read_matrix(tmp_path / "x.npy", columns=True)
    np.testing.assert_array_equal(read_matrix_mask(tmp_path / "m.mat", rows), known)
    np.testing.assert_array_equal(read_matrix_mask(tmp_path / "m.mat", columns), known.T)
    np.save(tmp_path / "nan.npy", np.full(X.shape, np.nan))
    with pytest.raises(ParameterError, match="got NaN"):
        read_matrix_mask(tmp_path / "nan.npy", rows)


@pytest.mark.extras
def test_singular_values_of_the_input(monkeypatch):
    drawing = pytest.importorskip("bgsub.jobs.decomposition.drawing", exc_type=ImportError)
    samples = samples_of(X)
    parts = decompose(samples, 2, iterations=3)
    expected = np.linalg.svd(X)[1]
    np.testing.assert_allclose(drawing.input_singular_values(samples, parts), expected)
    monkeypatch.setattr("bgsub.jobs.decomposition.drawing._SMALL_SIDE", 10)
    monkeypatch.setattr("bgsub.jobs.decomposition.drawing._MOST_VALUES", 5)
    np.testing.assert_allclose(drawing.input_singular_values(samples, parts), expected[:5])


@pytest.mark.parametrize("content", [b"", b"junk" * 99])
def test_refuses_damaged_files(tmp_path, content):
    for name in ("x.npy", "x.npz", "x.mat"):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(SourceError, match=rf"{name}' is not a \{name[1:]} file of numbers"):
            read_matrix(tmp_path / name)


def write_text(target, samples=None, parts=None):
    target.write_text("new")


def test_writes_all_outputs_or_none(tmp_path):
    targets = [Target("a.txt", write_text), Target("b", write_text, is_folder=True)]
    folder = tmp_path / "deep" / "out"
    for error in (KeyboardInterrupt, ValueError, BgsubError):
        with pytest.raises(error), output_folder(folder, targets, None, False) as place:  # noqa: PT012
            (place / "a.txt").write_text("half")
            raise error
        assert not folder.parent.exists()

    def refused(error, message, overwrite=True, source=None):
        with pytest.raises(error, match=message), output_folder(folder, targets, source, overwrite):
            pass  # no output is written

    refused(OutputError, "cannot be written", overwrite=False)
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
    assert (folder / "a.txt").read_text() == "new"


def test_runs_a_job_from_python(tmp_path):
    np.save(tmp_path / "x.npy", X)
    said = []
    result = run_decomposition(DecompositionJob(str(tmp_path / "x.npy"), tmp_path / "out", rank=2), tell=said.append)
    assert relative_error(np.load(tmp_path / "out" / "low_rank.npy"), LOW_RANK) < 1e-5
    assert result.outputs == [tmp_path / "out" / "low_rank.npy", tmp_path / "out" / "sparse.npy"]
    (sentence,) = said
    assert sentence.startswith(f"matrix '{tmp_path / 'x.npy'}': 40 samples of 60 values take about 1 MB of ")


def test_frames_of_8_bits_end_at_one_grey_level():
    seen = []
    frames = read_frames(ArraySource(make_pictures(n=12)[0]))
    for parameters, end in (({}, (2.4 / 255) ** 2), ({"surrogate": "atan"}, 2.4 / 255), ({"mu_end": 1e-4}, 1e-4)):
        decompose(frames, 1, quality="fast", callback=lambda step: seen.append(step.mu), **parameters)
        assert seen[-1] == pytest.approx(end)
