"""``bgsub decompose``: each kind of input and output, and refused inputs."""

import json
import re
import struct
import sys
from pathlib import Path

import numpy as np
import pytest
from planted_parts import LOW_RANK, X, make_pictures, relative_error
from scipy.io import loadmat, savemat
from video_fakes import content, read_video, write_images, write_video

from bgsub._opencv import cv2
from bgsub.cli import reporting
from bgsub.video import open_source

SHORT = ("--iterations", 15)


@pytest.fixture
def place(here):
    np.save("x.npy", X)
    np.savez("two.npz", data=X, other=X[:3])
    savemat("x.mat", {"data": X, "lambda": 0.1, "title": "a text"})
    return here


@pytest.fixture
def decompose(cli):
    """A function that decomposes an input into a folder and returns the summary."""
    return lambda source, *words, out="out": cli("decompose", source, "-o", out, *words).clean().out


def files(folder="out"):
    return sorted(content(Path(folder)))


def test_array(decompose, place):
    summary = decompose("x.npy", "--rank", 2)
    assert summary.startswith("matrix 'x.npy': 40 samples of 60 values in ")
    assert re.search(r" s; rank 2, outliers 10\.\d % \(beyond 0\.00\d+\); wrote out/low_rank.npy, out/spar", summary)
    low_rank, sparse = np.load("out/low_rank.npy"), np.load("out/sparse.npy")
    assert relative_error(low_rank, LOW_RANK) < 1e-3
    assert relative_error(sparse, X - LOW_RANK) < 2e-3
    np.testing.assert_allclose(low_rank + sparse, X, atol=1e-12)
    assert files() == ["low_rank.npy", "sparse.npy"]


def test_columns_as_samples(decompose, place):
    np.save("turned.npy", X.T)
    decompose("x.npy", "--rank", 2, "--save-arrays", *SHORT, out="rows")
    decompose("turned.npy", "--rank", 2, "--samples", "columns", "--save-arrays", *SHORT, out="columns")
    np.testing.assert_array_equal(np.load("columns/low_rank.npy"), np.load("rows/low_rank.npy").T)
    turned, straight = np.load("columns/decomposition.npz"), np.load("rows/decomposition.npz")
    np.testing.assert_array_equal(turned["components"], straight["components"])
    np.testing.assert_array_equal(turned["sparse"], straight["sparse"].T)


@pytest.mark.parametrize(("name", "words"), [("two.npz", ("--key", "data")), ("x.mat", ())])
def test_named_arrays(decompose, place, name, words):
    decompose(name, "--rank", 2, *words)
    ending = Path(name).suffix
    assert files() == [f"decomposition{ending}"]
    arrays = np.load("out/decomposition.npz") if ending == ".npz" else loadmat("out/decomposition.mat")
    assert relative_error(arrays["low_rank"], LOW_RANK) < 1e-3
    np.testing.assert_allclose(arrays["low_rank"] + arrays["sparse"], X, atol=1e-12)
    np.testing.assert_allclose(arrays["coefficients"] @ arrays["components"], arrays["low_rank"], atol=1e-12)
    values = np.linalg.svd(arrays["low_rank"])[1][:2]
    np.testing.assert_allclose(arrays["singular_values"].reshape(-1), values)


@pytest.mark.parametrize(("dtype", "channels"), [(np.uint8, 3), (np.uint16, 1)])
def test_images(decompose, place, dtype, channels):
    frames, scene = make_pictures(channels=channels, dtype=dtype)
    write_images(place / "frames", frames, "shot {:02d}.png")
    assert "24 frames of 35x27" in decompose("frames", "--rank", 1)
    images = [f"shot {number:02d}.png" for number in range(1, 25)]
    assert files() == [f"{part}/{name}" for part in ("low_rank", "sparse") for name in images]
    top = np.iinfo(dtype).max
    for name, frame, truth in zip(images, frames, scene, strict=True):
        low_rank, sparse = (cv2.imread(f"out/{part}/{name}", cv2.IMREAD_UNCHANGED) for part in ("low_rank", "sparse"))
        assert low_rank.dtype == sparse.dtype == dtype
        assert np.abs(low_rank.astype(float) - truth).max() < 0.006 * top
        np.testing.assert_allclose(sparse, np.abs(low_rank.astype(float) - frame), atol=3)


def test_video(decompose, place):
    frames, scene = make_pictures(height=28, width=36)
    write_video(place / "v.avi", frames, fps=10)
    assert "video 'v.avi': 24 frames of 36x28x3" in decompose("v.avi", "--rank", 1, "--save-arrays")
    assert files() == ["decomposition.npz", "low_rank.mp4", "sparse.mp4"]
    arrays = np.load("out/decomposition.npz")
    assert np.abs(arrays["low_rank"] - scene / 255).max() < 0.006
    assert np.abs(arrays["low_rank"] + arrays["sparse"] - frames / 255).max() < 1e-5
    for part in ("low_rank", "sparse"):  # the video is lossy
        pictures = np.array(read_video(Path(f"out/{part}.mp4")))
        expected = np.abs(255 * arrays[part])
        assert pictures.shape == frames.shape
        assert np.abs(pictures.mean(axis=(1, 2)) - expected.mean(axis=(1, 2))).max() < 6
    with open_source("out/sparse.mp4") as written:
        assert written.fps == 10
    words = ("--start", 3, "--duration", 12, "--every", 2, "--scale", 0.5, "--gray")
    assert "6 frames of 18x14" in decompose("v.avi", *words, *SHORT, out="part")
    assert len(read_video(Path("part/low_rank.mp4"))) == 6


def test_results_are_replaced_only_with_overwrite(cli, decompose, place):
    write_images(place / "frames", make_pictures()[0])
    for source, output in (("x.npy", "a/low_rank.npy"), ("frames", "b/low_rank")):
        decompose(source, *SHORT, out=output[0])
        before = files(output[0])
        cli("decompose", source, "-o", output[0]).refused(f"'{output}' exists already", "--overwrite")
        Path("frames/in000024.png").unlink(missing_ok=True)
        decompose(source, *SHORT, "--overwrite", out=output[0])
        assert files(output[0]) == [name for name in before if "000024" not in name]


def test_json_and_progress(cli, place, monkeypatch):
    answer = cli("decompose", "x.npy", "-o", "out", "--rank", 2, "--json", "-q").clean()
    result = json.loads(answer.out)
    assert result["outputs"] == ["out/low_rank.npy", "out/sparse.npy"]
    assert (result["samples"], result["features"], result["rank"]) == (40, 60, 2)
    assert 10 < result["iterations"] < 100
    assert result["outliers"] == pytest.approx(0.1, abs=0.05)
    assert len(result["singular_values"]) == 2
    again = ("decompose", "x.npy", "-o", "out", "--overwrite", *SHORT)
    assert cli(*again, "-q").clean().out == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert "0 steps [00:00, ? steps/s]" in cli(*again, "--progress", "bar").ok().err


def test_phases_and_the_estimated_number_of_steps_of_frames_are_shown(cli, place, monkeypatch):
    # as there are far more pixels than frames, a part of them is fitted first
    frames = np.random.default_rng(0).normal(np.linspace(50, 200, 160), 2, (30, 128, 160)).astype(np.uint8)
    for i, frame in enumerate(frames):
        frame[20:60, 2 * i : 2 * i + 30] = 0
    write_images(place / "frames", frames)
    monkeypatch.setattr(reporting, "INTERVAL", 0.0)
    lines = cli("decompose", "frames", "-o", "out", "--rank", 1).ok().err.splitlines()
    pattern = r"bgsub: images 'frames', \d+ MB: (\d+)( of (\d+))? steps \((.*)\), .*"
    steps = [re.fullmatch(pattern, line).groups() for line in lines]
    phases = [phase for *_, phase in steps]
    assert phases == sorted(phases)
    assert set(phases) == {"a random part first", "all values"}
    for phase in set(phases):
        estimated = [(int(done), int(length)) for done, _, length, name in steps if name == phase and length]
        assert estimated
        done, length = estimated[len(estimated) // 2]
        last = int([step for step in steps if step[3] == phase][-1][0])
        assert done <= length <= 2 * last


def test_wrong_inputs(cli, place):
    write_images(place / "frames", make_pictures()[0][:4])
    arrays = {"line": np.ones(9), "words": [["a", "b"]], "objects": [[None, 1]], "cube": np.ones((2, 3, 4))}
    for name, array in (arrays | {"gap": [[1.0, 2], [np.nan, np.nan], [3, 4]]}).items():
        np.save(f"{name}.npy", np.array(array), allow_pickle=True)
    np.savez("empty.npz")
    Path("new.mat").write_bytes(b"MATLAB 7.3 MAT-file".ljust(124) + struct.pack("<H", 0x0200) + b"IM" + b"x" * 400)
    for source, words, message in (
        ("missing.npy", (), "no such file: 'missing.npy'"),
        ("0", (), "must be a file or images, got the camera '0'"),
        ("two.npz", (), "'two.npz' holds the arrays data, other: choose one with --key"),
        ("two.npz", ("--key", "dat"), "got 'dat'; did you mean 'data'?"),
        ("two.npz", ("--key", "other", "--rank", 9), "matrix 'other' of 'two.npz': rank must be in 1..3 "),
        ("line.npy", (), "got an array of shape (9,)"),
        ("words.npy", (), "'words.npy' must hold real numbers, got type <U1"),
        ("objects.npy", (), "'objects.npy' is not a .npy file of numbers, or it is damaged"),
        ("cube.npy", ("--samples", "columns"), "only a matrix has columns as samples"),
        ("new.mat", (), "MATLAB file of version 7.3 (HDF5)"),
        ("x.npy", ("--rank", 41), "rank must be in 1..40 for n_samples=40 and n_features=60, got 41"),
        ("x.npy", ("--key", "a"), "--key is for .npz and .mat, 'x.npy' holds one array"),
        ("empty.npz", (), "'empty.npz' holds no matrix"),
        ("x.npy", ("--every", 2), "--every is for frames, got 'x.npy'"),
        ("frames", ("--samples", "rows"), "--samples is for matrices, got 'frames'"),
        ("gap.npy", (), "matrix 'gap.npy': each sample must have an observed entry, got none in sample 1"),
        ("x.npy", ("--rank", 0), "'--rank': 0 is not in the range x>=1; see bgsub decompose --help"),
    ):
        cli("decompose", source, "-o", "out", *words).refused(message)
    cli("decompose", "x.npy").refused("Missing option '-o' / '--output'", "; see bgsub decompose --help")
    assert not Path("out").exists()
