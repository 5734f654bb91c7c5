"""``bgsub decompose``: every kind of input and output, what is refused, and interruptions."""

import json
import os
import re
import signal
import struct
import sys
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from planted_parts import make_matrix, make_pictures, relative_error
from scipy.io import loadmat, savemat
from video_fakes import read_video, write_images, write_video

from bgsub._opencv import cv2
from bgsub.jobs.decomposition import DecompositionJob, run_decomposition

command = sys.modules["bgsub.cli.decompose"]  # the package has the command itself under this name
X, LOW_RANK = make_matrix()
SHORT = ("--iterations", 15)


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", X)
    np.savez("two.npz", data=X, other=X[:3])
    np.savez("one.npz", data=X)
    savemat("x.mat", {"data": X, "lambda": 0.1, "title": "a text"})
    return tmp_path


def files(folder="out"):
    return sorted(str(path.relative_to(folder)) for path in Path(folder).rglob("*") if path.is_file())


def done(answer):
    """The sentence of a run that went well, without its time."""
    assert answer.code == 0, answer.err
    assert re.fullmatch(r"bgsub: .* take about \d+ MB of [\d.]+ [MG]B of memory\n", answer.err), answer.err
    return re.sub(r" in \d+\.\d s", "", answer.out)


def refuse(answer, message, code=2):
    assert answer.err.splitlines()[-1] == f"bgsub: error: {message}"
    assert (answer.code, answer.out) == (code, "")
    assert not Path("out").exists()


def test_an_array(cli, place):
    said = done(cli("decompose", "x.npy", "-o", "out", "--rank", 2))
    assert re.fullmatch(
        r"matrix 'x.npy': 40 samples of 60 values; rank 2, outliers 10\.\d % \(beyond 0\.00\d+\); "
        r"wrote out/low_rank.npy, out/sparse.npy\n",
        said,
    )
    low_rank, sparse = np.load("out/low_rank.npy"), np.load("out/sparse.npy")
    assert relative_error(low_rank, LOW_RANK) < 1e-3
    assert relative_error(sparse, X - LOW_RANK) < 2e-3
    np.testing.assert_allclose(low_rank + sparse, X, atol=1e-12)
    assert files() == ["low_rank.npy", "sparse.npy"]


def test_columns_as_samples_give_the_same(cli, place):
    np.save("turned.npy", X.T)
    done(cli("decompose", "x.npy", "-o", "rows", "--rank", 2, "--save-arrays", *SHORT))
    done(cli("decompose", "turned.npy", "-o", "columns", "--rank", 2, "--samples", "columns", "--save-arrays", *SHORT))
    np.testing.assert_array_equal(np.load("columns/low_rank.npy"), np.load("rows/low_rank.npy").T)
    turned, straight = np.load("columns/decomposition.npz"), np.load("rows/decomposition.npz")
    np.testing.assert_array_equal(turned["components"], straight["components"])
    np.testing.assert_array_equal(turned["sparse"], straight["sparse"].T)


def test_arrays_of_more_dimensions_and_other_types(cli, place):
    frames = make_pictures()[0].astype(np.float32)
    np.save("stack.npy", frames)
    done(cli("decompose", "stack.npy", "-o", "out", "--rank", 1, "--save-arrays", *SHORT))
    arrays = np.load("out/decomposition.npz")
    assert arrays["sparse"].shape == np.load("out/low_rank.npy").shape == frames.shape
    assert arrays["components"].shape == (1, *frames.shape[1:])
    assert arrays["low_rank"].dtype == np.float32
    np.save("whole.npy", np.rint(50 * X).astype(np.int16))
    done(cli("decompose", "whole.npy", "-o", "whole", "--float32", *SHORT))
    assert np.load("whole/sparse.npy").dtype == np.float32


@pytest.mark.parametrize("name", ["one.npz", "two.npz", "x.mat"])
def test_named_arrays(cli, place, name):
    done(cli("decompose", name, "-o", "out", "--rank", 2, *(["--key", "data"] if name == "two.npz" else [])))
    ending = Path(name).suffix
    assert files() == [f"decomposition{ending}"]
    arrays = np.load("out/decomposition.npz") if ending == ".npz" else loadmat("out/decomposition.mat")
    assert relative_error(arrays["low_rank"], LOW_RANK) < 1e-3
    np.testing.assert_allclose(arrays["low_rank"] + arrays["sparse"], X, atol=1e-12)
    np.testing.assert_allclose(arrays["coefficients"] @ arrays["components"], arrays["low_rank"], atol=1e-12)
    values = np.linalg.svd(arrays["low_rank"])[1][:2]
    np.testing.assert_allclose(arrays["singular_values"].reshape(-1), values)


def test_missing_entries(cli, place):
    known = np.random.default_rng(1).random(X.shape) < 0.8
    np.save("gaps.npy", np.where(known, X, np.nan))
    np.savez("masked.npz", X=np.where(known, X, 1e6), known=known)
    done(cli("decompose", "gaps.npy", "-o", "a", "--rank", 2))
    words = ("--key", "X", "--observed", "masked.npz", "--observed-key", "known")
    done(cli("decompose", "masked.npz", "-o", "b", "--rank", 2, *words))
    low_rank, sparse = np.load("a/low_rank.npy"), np.load("a/sparse.npy")
    assert relative_error(low_rank, LOW_RANK) < 2e-3
    assert not sparse[~known].any()
    np.testing.assert_allclose(np.load("b/decomposition.npz")["low_rank"], low_rank, atol=1e-6)


@pytest.mark.parametrize(("dtype", "channels"), [(np.uint8, 1), (np.uint8, 3), (np.uint16, 1), (np.uint16, 3)])
def test_images(cli, place, dtype, channels):
    frames, scene = make_pictures(channels=channels, dtype=dtype)
    write_images(place / "frames", frames, "shot {:02d}.png")
    assert "24 frames of 35x27" in done(cli("decompose", "frames", "-o", "out", "--rank", 1, "--sparse-as", "offset"))
    names = [f"shot {number:02d}.png" for number in range(1, 25)]
    assert files() == [f"{part}/{name}" for part in ("low_rank", "sparse") for name in names]
    top = np.iinfo(dtype).max
    for name, frame, truth in zip(names, frames, scene, strict=True):
        low_rank, sparse = (cv2.imread(f"out/{part}/{name}", cv2.IMREAD_UNCHANGED) for part in ("low_rank", "sparse"))
        assert low_rank.dtype == sparse.dtype == dtype
        assert np.abs(low_rank.astype(float) - truth).max() < 0.006 * top
        np.testing.assert_allclose(low_rank + 2.0 * sparse - top, frame, atol=3)  # the sign is kept


def test_names_that_come_twice(cli, place):
    frames = make_pictures()[0]
    for name in ("a", "b"):
        write_images(place / name, frames[:4])
    done(cli("decompose", "[ab]/*.png", "-o", "out", *SHORT))
    assert len(files("out/low_rank")) == 8


def test_a_video(cli, place):
    frames, scene = make_pictures(height=28, width=36)
    write_video(place / "v.avi", frames, fps=10)
    said = done(cli("decompose", "v.avi", "-o", "out", "--rank", 1, "--save-arrays"))
    assert said.startswith("video 'v.avi': 24 frames of 36x28x3; rank 1, outliers ")
    assert files() == ["decomposition.npz", "low_rank.mp4", "sparse.mp4"]
    arrays = np.load("out/decomposition.npz")
    assert arrays["low_rank"].shape == frames.shape
    assert np.abs(arrays["low_rank"] - scene / 255).max() < 0.006
    assert np.abs(arrays["low_rank"] + arrays["sparse"] - frames / 255).max() < 1e-5
    for part in ("low_rank", "sparse"):  # the video is not without loss
        pictures = np.array(read_video(Path(f"out/{part}.mp4")))
        expected = np.abs(255 * arrays[part])
        assert pictures.shape == frames.shape
        assert np.abs(pictures.mean(axis=(1, 2)) - expected.mean(axis=(1, 2))).max() < 6
    capture = cv2.VideoCapture("out/sparse.mp4")
    assert capture.get(cv2.CAP_PROP_FPS) == pytest.approx(10)
    capture.release()


def test_a_part_of_a_video_smaller_and_grey(cli, place):
    write_video(place / "v.avi", make_pictures(height=28, width=36)[0])
    words = ("--start", 3, "--duration", 12, "--every", 2, "--scale", 0.5, "--gray")
    assert "6 frames of 18x14" in done(cli("decompose", "v.avi", "-o", "out", *words, *SHORT))
    assert len(read_video(Path("out/low_rank.mp4"))) == 6


def test_odd_sizes_of_a_video(cli, place):
    write_images(place / "frames", make_pictures()[0])
    parameters = {"iterations": SHORT[1]}
    run_decomposition(DecompositionJob("frames", Path("out"), format="video", parameters=parameters))
    assert len(read_video(Path("out/low_rank.mp4"))) == 24


def test_pixels_that_are_never_seen(cli, place):
    frames, scene = make_pictures()
    frames[:, :6, :6] = 255  # a logo
    mask = np.full(frames.shape[1:3], 255, np.uint8)
    mask[:6, :6] = 0
    for index in range(0, 24, 2):  # seen in every other frame
        frames[index, :6, :6] = scene[index, :6, :6]
    write_images(place / "frames", frames)
    masks = np.repeat(mask[None], 24, axis=0)
    masks[::2] = 255
    write_images(place / "masks", masks)
    done(cli("decompose", "frames", "-o", "out", "--rank", 1, "--observed", "masks"))
    for number in (2, 24):
        found = cv2.imread(f"out/low_rank/in{number:06d}.png")
        assert np.abs(found.astype(int) - scene[number - 1]).max() < 3
        assert not cv2.imread(f"out/sparse/in{number:06d}.png")[:6, :6].any()


def test_one_frame(cli, place):
    frames = make_pictures()[0]
    cv2.imwrite("single.png", frames[0])
    assert "1 frame of 35x27x3; rank 1, outliers 0.0 %" in done(cli("decompose", "single.png", "-o", "out", *SHORT))
    assert np.abs(cv2.imread("out/low_rank/single.png").astype(int) - frames[0]).max() <= 1


@pytest.mark.parametrize("name", ["frames", "gaps.npy"])
def test_draws_a_figure(cli, place, name):
    pytest.importorskip("matplotlib")
    write_images(place / "frames", make_pictures()[0])
    np.save("gaps.npy", np.where(np.arange(X.size).reshape(X.shape) % 7, X, np.nan))
    done(cli("decompose", name, "-o", "out", "--plot", *SHORT))
    image = cv2.imread("out/decomposition.png")
    assert image.shape[1] == 1320
    assert image.std() > 20


def test_results_are_replaced_only_when_asked(cli, place):
    write_images(place / "frames", make_pictures()[0])
    for source, taken in (("x.npy", "a/low_rank.npy"), ("frames", "b/low_rank")):
        words = ("decompose", source, "-o", taken[0], *SHORT)
        done(cli(*words))
        before = files(taken[0])
        refuse(cli(*words), f"the output '{taken}' exists already; --overwrite replaces it")
        Path("frames/in000024.png").unlink(missing_ok=True)
        done(cli(*words, "--overwrite"))
        assert files(taken[0]) == [name for name in before if "000024" not in name]


def test_the_summary_as_json(cli, place):
    answer = cli("decompose", "x.npy", "-o", "out", "--rank", 2, "--json", "-q").clean()
    result = json.loads(answer.out)
    assert result["outputs"] == ["out/low_rank.npy", "out/sparse.npy"]
    assert (result["samples"], result["features"], result["rank"]) == (40, 60, 2)
    assert 10 < result["iterations"] < 100
    assert result["outliers"] == pytest.approx(0.1, abs=0.05)
    assert len(result["singular_values"]) == 2
    assert cli("decompose", "x.npy", "-o", "out", "-q", "--overwrite", *SHORT).out == ""


def test_the_progress_counts_steps(cli, place, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    answer = cli("decompose", "x.npy", "-o", "out", "--progress", "bar", *SHORT).ok()
    assert "0 steps [00:00, ? steps/s]" in answer.err


WRONG = [
    ("missing.npy", (), "no such file: 'missing.npy'"),
    ("missing.mp4", (), "no such file or folder: 'missing.mp4'"),
    (
        "table.csv",
        (),
        "an input is a video, images, .npy, .npz or .mat; 'table.csv' is not a video that can be read, "
        "or it is damaged",
    ),
    ("0", (), "the input of a decomposition must be a file or images, got the camera '0'"),
    ("two.npz", (), "'two.npz' holds the arrays data, other: choose one with --key"),
    ("two.npz", ("--key", "dat"), "--key must be one of data, other in 'two.npz', got 'dat'; did you mean 'data'?"),
    ("x.npy", ("--key", "data"), "--key is for .npz and .mat, 'x.npy' holds one array"),
    ("line.npy", (), "'line.npy' must hold a matrix of samples, got an array of shape (9,)"),
    ("void.npy", (), "'void.npy' must hold a matrix of samples, got an array of shape (0, 3)"),
    ("words.npy", (), "'words.npy' must hold real numbers, got type <U1"),
    ("complex.npy", (), "'complex.npy' must hold real numbers, got type complex128"),
    ("objects.npy", (), "'objects.npy' is not a .npy file of numbers, or it is damaged"),
    ("cube.npy", ("--samples", "columns"), "only a matrix has columns as samples, got an array of shape (2, 3, 4) "
     "in 'cube.npy'"),
    (
        "new.mat",
        (),
        "'new.mat' is a MATLAB file of version 7.3 (HDF5), which cannot be read: save it with -v7, or as .npy",
    ),
    ("x.npy", ("--rank", 41), "rank must be in 1..40 for n_samples=40 and n_features=60, got 41"),
    ("x.npy", ("--observed", "line.npy"), "the mask 'line.npy' must have the shape (40, 60) of the matrix, got (9,)"),
    ("x.npy", ("--observed", "gone.npy"), "no such file: 'gone.npy'"),
    ("frames", ("--observed", "small.png"), "the mask 'small.png' must be 35x27 as the frames are, got 5x4"),
    ("frames", ("--observed", "line.npy"), "the mask 'line.npy' must have shape (h, w), (n, h, w) or (n, h, w, c), "
     "got (9,)"),
    ("x.npy", ("--every", 2), "--every is for frames, got 'x.npy'"),
    ("frames", ("--samples", "rows"), "--samples is for matrices, got 'frames'"),
    ("x.npy", ("--observed-key", "a"), "--observed-key names an array in the file of --observed, which is missing"),
    ("gap.npy", (), "each sample must have an observed entry, got none in sample 1"),
]  # fmt: skip


@pytest.mark.parametrize(("source", "words", "message"), WRONG)
def test_what_is_refused(cli, place, source, words, message):
    write_images(place / "frames", make_pictures()[0][:4])
    cv2.imwrite("small.png", np.zeros((4, 5), np.uint8))
    Path("table.csv").write_text("1,2\n" * 50)
    arrays = {"line": np.ones(9), "void": np.ones((0, 3)), "words": [["a", "b"]], "complex": np.ones((3, 3), complex)}
    arrays |= {"cube": np.ones((2, 3, 4)), "gap": [[1.0, 2], [np.nan, np.nan], [3, 4]], "objects": [[None, 1]]}
    for name, array in arrays.items():
        np.save(f"{name}.npy", np.array(array), allow_pickle=True)
    Path("new.mat").write_bytes(b"MATLAB 7.3 MAT-file".ljust(124) + struct.pack("<H", 0x0200) + b"IM" + b"x" * 400)
    refuse(cli("decompose", source, "-o", "out", *words), message)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--rank", 0), "Invalid value for '--rank': 0 is not in the range x>=1"),
        (("--quality", "bst"), "did you mean 'best'?"),
        ((), "Missing option '-o' / '--output'"),
    ],
)
def test_a_wrong_command_line(cli, place, words, message):
    answer = cli("decompose", "x.npy", *(["-o", "out", *words] if words else []))
    assert answer.code == 2
    assert message in answer.err
    assert answer.err.endswith("; see bgsub decompose --help\n")


def test_without_matplotlib(cli, place, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    refuse(
        cli("decompose", "x.npy", "-o", "out", "--plot"),
        "a figure of a decomposition needs the package matplotlib: pip install 'bgsub[plot]'",
        code=1,
    )


def test_too_little_memory(cli, place, monkeypatch):
    write_images(place / "frames", make_pictures()[0])
    monkeypatch.setattr("bgsub.numerics.memory.available_memory", lambda: 1_000_000)
    refuse(
        cli("decompose", "frames", "-o", "out"),
        "images 'frames', 24 frames of 35x27x3, needs about 2 MB of memory, 1 MB are available; "
        "reduce memory with --scale, --grey, --every or --duration",
    )
    assert cli("decompose", "frames", "-o", "out", "--scale", 0.5, *SHORT).code == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_leaves_nothing(cli, place, monkeypatch, number):
    plain = command._watch

    @contextmanager
    def watch(name, length):
        with plain(name, length) as report:
            yield lambda iteration: os.kill(os.getpid(), number) if iteration == 3 else report(iteration)

    monkeypatch.setattr(command, "_watch", watch)
    before = sorted(path.name for path in place.iterdir())
    who = "the user" if number == signal.SIGINT else "SIGTERM"
    refuse(cli("decompose", "x.npy", "-o", "out"), f"stopped by {who}", code=128 + number)
    assert sorted(path.name for path in place.iterdir()) == before


def test_a_disk_that_is_full(cli, place, monkeypatch):
    def full(path, array):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "save", full)
    refuse(
        cli("decompose", "x.npy", "-o", "out", *SHORT),
        "'out/low_rank.npy' cannot be written: No space left on device",
        code=1,
    )


def test_settings_of_the_method_are_not_those_of_this_command(cli, place, monkeypatch):
    monkeypatch.delenv("BGSUB_NO_CONFIG")
    Path("bgsub.toml").write_text("[method]\nrank = 1\nscale = 0.5\n[decompose]\niterations = 7\nquality = 'paper'\n")
    answer = cli("decompose", "x.npy", "-o", "out", "--json").ok()
    assert (json.loads(answer.out)["rank"], json.loads(answer.out)["iterations"]) == (3, 7)
    assert "iterations = 7" in cli("config", "decompose").out
