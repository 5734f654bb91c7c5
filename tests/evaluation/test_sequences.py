"""Folders in the layout of changedetection.net: scored frames, trees of sequences, errors, masks and their scores."""

import shutil
import sys
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest
from video_fakes import make_png

from bgsub._opencv import cv2
from bgsub.errors import DependencyError, ParameterError, SourceError
from bgsub.evaluation import Confusion, Sequence, Sheet, compare, compare_results, evaluate, find_sequences
from bgsub.evaluation.methods import LIBRARY_METHODS, METHODS, make_method

CODES = np.array([[0, 50, 85], [170, 255, 0]], np.uint8)


def make_sequence(folder, numbers=range(1, 5), masks=None, moving=None, truth=None, size=(12, 16), name="in{:06d}.png"):
    """Write a sequence; its left `moving` columns move, as many as the number of the frame, or what `truth` says."""
    for part in ("input", "groundtruth"):
        (folder / part).mkdir(parents=True)
    for number in numbers:
        cv2.imwrite(str(folder / "input" / name.format(number)), np.full((*size, 3), 10 * number, np.uint8))
        mask = np.zeros(size, np.uint8) if truth is None else truth
        if truth is None:
            mask[:, : number if moving is None else moving] = 255
        if masks is None or number in masks:
            cv2.imwrite(str(folder / "groundtruth" / f"gt{number:06d}.png"), mask)
    return folder


class LeftHalf:
    """A method that marks the left half, whatever it sees, and a column of shadow beside it; notes what it sees."""

    def __init__(self):
        self.seen = []

    def apply(self, image):
        self.seen.append(int(image[0, 0, 0]))
        mask = np.zeros(image.shape[:2], np.uint8)
        mask[:, :8] = 255
        mask[:, 8] = 127
        return mask


@pytest.fixture
def folder(tmp_path):
    """A sequence of 5 frames of 8x6, all with masks."""
    return make_sequence(tmp_path, range(1, 6), size=(6, 8), name="in{:06d}.jpg")


def write(path, shape=(12, 16), value=0):
    assert cv2.imwrite(str(path), np.full(shape, value, np.uint8))


def write_palette_png(path, codes, palette):
    """Write an 8-bit PNG whose pixels are indices into a palette."""
    rows = b"".join(b"\0" + row.tobytes() for row in codes)
    colours = b"PLTE" + bytes(np.repeat(palette, 3).tolist())
    path.write_bytes(make_png((codes.shape[1], codes.shape[0], 8, 3), rows, colours))


def test_frames_masks_and_temporal_roi(folder):
    sequence = Sequence(folder)
    assert (len(sequence), sequence.name, sequence.roi) == (5, folder.name, None)
    assert [n for n, _ in sequence.frames()] == sequence.scored == [1, 2, 3, 4, 5]
    assert sequence.frame(3).shape == (6, 8, 3)
    assert (sequence.truth(2) == 255).sum() == 12
    (folder / "temporalROI.txt").write_text("2 4\n")
    sequence = Sequence(folder)
    assert (sequence.temporal_roi, sequence.scored) == ((2, 4), [2, 3, 4])
    assert len(list(sequence.frames())) == 5
    assert sequence.truth(1) is sequence.truth(5) is None


def test_sparse_masks_and_other_names(tmp_path):
    make_sequence(tmp_path, (11, 9, 10), masks=[10], name="b{}.png")
    (tmp_path / "input" / "notes.txt").write_text("7")
    (tmp_path / "groundtruth" / "gt000010.png").rename(tmp_path / "groundtruth" / "gt00010.png")
    sequence = Sequence(tmp_path)
    assert [number for number, _ in sequence.frames()] == [9, 10, 11]  # by number, not by name
    assert sequence.scored == [10]
    assert sequence.truth(9) is None


def test_codes_of_palette_and_colour_masks(folder):
    path, palette = folder / "groundtruth" / "gt000001.png", np.unique(CODES)
    for write_mask in (
        lambda: write_palette_png(path, CODES, range(256)),
        lambda: write_palette_png(path, np.searchsorted(palette, CODES).astype(np.uint8), palette),
        lambda: cv2.imwrite(str(path), np.repeat(CODES[..., np.newaxis], 3, axis=2)),
    ):
        write_mask()
        assert np.array_equal(Sequence(folder).truth(1), CODES)


def test_roi_of_the_same_and_of_another_size_and_as_jpeg(folder):
    roi = np.zeros((6, 8), np.uint8)
    roi[:, 3:] = 255
    cv2.imwrite(str(folder / "ROI.jpg"), roi)
    assert np.array_equal(Sequence(folder).roi, roi != 0)
    cv2.imwrite(str(folder / "roi.png"), 255 - roi)
    assert np.array_equal(Sequence(folder).roi, roi == 0)
    roi = roi[:, ::-1] // 255
    for size in ((8, 6), (16, 12)):
        cv2.imwrite(str(folder / "ROI.bmp"), cv2.resize(roi, size, interpolation=cv2.INTER_NEAREST))
        assert np.array_equal(Sequence(folder).roi, roi != 0)


def test_folders_that_cannot_be_scored(folder):
    (folder / "temporalROI.txt").write_text("100 200")
    with pytest.raises(SourceError, match=r"no frame of .* can be scored"):
        Sequence(folder)
    (folder / "temporalROI.txt").unlink()
    (folder / "input" / "in000002.jpg").write_bytes(b"no picture")
    with pytest.raises(SourceError, match=r"in000002\.jpg' cannot be decoded"):
        list(Sequence(folder).frames())
    write(folder / "input" / "x1.png")
    with pytest.raises(SourceError, match=r"in000001\.jpg and x1\.png .* same number"):
        Sequence(folder)
    for path in (folder / "input").iterdir():
        path.unlink()
    with pytest.raises(SourceError, match="no numbered pictures"):
        Sequence(folder)


@pytest.fixture
def dataset(tmp_path):
    root = tmp_path / "dataset"
    for name in ("shadow/bungalows", "baseline/office", "baseline/highway"):
        make_sequence(root / name)
    (root / "shadow" / "notes.txt").write_text("words")
    (root / ".cache" / "input").mkdir(parents=True)
    return root


def names(sequences):
    return [f"{sequence.category}/{sequence.name}" for sequence in sequences]


def test_find_data_set_category_and_video(dataset):
    everything = ["baseline/highway", "baseline/office", "shadow/bungalows"]
    assert names(find_sequences([dataset])) == names(find_sequences([dataset.parent])) == everything
    assert names(find_sequences([dataset / "baseline"])) == everything[:2]
    assert names(find_sequences([str(dataset / "shadow" / "bungalows")])) == everything[2:]
    assert names(find_sequences(sorted(dataset.glob("[a-z]*/[a-m]*/")))) == [everything[0], everything[2]]


def test_duplicates_links_and_cycles(dataset, tmp_path, monkeypatch):
    (dataset / "shadow" / "circle").symlink_to(dataset)
    other = tmp_path / "links" / "night"
    other.mkdir(parents=True)
    (other / "linked").symlink_to(dataset / "baseline" / "office")
    assert len(find_sequences([dataset])) == 3
    assert names(find_sequences([tmp_path / "links"])) == ["night/linked"]
    monkeypatch.chdir(dataset / "baseline" / "office")
    found = find_sequences([".", dataset / "baseline", "../../shadow"])
    assert names(found) == ["baseline/office", "baseline/highway", "shadow/bungalows"]


def test_wrong_folders_are_refused(dataset, tmp_path):
    make_sequence(tmp_path / "more" / "baseline" / "office")
    with pytest.raises(SourceError, match=r"dataset/baseline/office and .*more/baseline/office have the same name"):
        find_sequences([dataset, tmp_path / "more"])
    (tmp_path / "void" / "deep").mkdir(parents=True)
    (tmp_path / "file").write_text("words")
    for name, message in (("gone", "does not exist"), ("file", "is not a folder"), ("void", "no sequence in .*void")):
        with pytest.raises(SourceError, match=message):
            find_sequences([tmp_path / name])


def test_broken_sequence_is_reported(dataset):
    office = dataset / "baseline" / "office"

    def refused(message):
        with pytest.raises(SourceError, match=message):
            find_sequences([dataset])

    write(office / "groundtruth" / "gt000001.png", shape=(6, 8))
    refused(r"office/groundtruth/gt000001\.png is 8x6, its frame is 16x12")
    write(office / "groundtruth" / "gt000001.png", value=128)
    refused(r"office/groundtruth/gt000001\.png must have only .* got 128")
    (office / "input" / "in000001.png").write_bytes(b"no picture")
    refused(r"office/input/in000001\.png' cannot be decoded")
    write(office / "ROI.bmp")
    write(office / "input" / "in000001.png")
    refused(r"office/ROI\.bmp is black")
    shutil.rmtree(office / "groundtruth")
    refused(r"office/groundtruth does not exist")


@pytest.fixture
def sequences(tmp_path):
    make_sequence(tmp_path / "dataset" / "x" / "a", moving=4)
    make_sequence(tmp_path / "dataset" / "y" / "b", range(1, 4), moving=0, masks=[2])
    return find_sequences([tmp_path / "dataset"])


def test_written_masks_score_the_same(tmp_path, sequences):
    live = list(compare(sequences, {"one": LeftHalf}, masks=tmp_path / "out"))
    written = sorted(str(path.relative_to(tmp_path / "out")) for path in (tmp_path / "out").rglob("*.png"))
    assert written == [f"x/a/bin{n:06d}.png" for n in range(1, 5)] + [f"y/b/bin{n:06d}.png" for n in range(1, 4)]
    mask = cv2.imread(str(tmp_path / "out" / written[0]), cv2.IMREAD_UNCHANGED)
    assert np.array_equal(mask, np.tile(np.repeat(np.uint8([255, 0]), 8), (12, 1)))
    stored = list(compare_results(sequences, tmp_path / "out"))
    assert [s.confusion for s in stored] == [s.confusion for s in live]
    assert [(s.method, s.sequence, s.length) for s in stored] == [("out", "a", 4), ("out", "b", 3)]


def test_layouts_of_written_masks(tmp_path, sequences):
    list(compare(sequences[:1], {"one": LeftHalf, "two": LeftHalf}, masks=tmp_path / "several"))
    assert len(list((tmp_path / "several").glob("[ot]*/x/a/bin*.png"))) == 8
    list(compare(sequences, {"one": LeftHalf}, masks=tmp_path / "out"))
    (tmp_path / "out" / "x" / "a").rename(tmp_path / "out" / "a")
    assert len(list(compare_results(sequences, tmp_path / "out"))) == 2
    assert len(list(compare_results(sequences[:1], tmp_path / "out" / "a"))) == 1
    with pytest.raises(SourceError, match=r"no masks of .*dataset/x/a: there is neither .*/y/b/x/a nor .*/y/b/a"):
        list(compare_results(sequences, tmp_path / "out" / "y" / "b"))


def test_missing_masks_are_reported_first(tmp_path, sequences):
    list(compare(sequences, {"one": LeftHalf}, masks=tmp_path / "out"))
    (tmp_path / "out" / "x" / "a" / "bin000002.png").unlink()
    (tmp_path / "out" / "x" / "a" / "bin000004.png").unlink()
    runs = compare_results(sequences[::-1], tmp_path / "out")
    with pytest.raises(SourceError, match=r"out/x/a has no mask for frame 2 \(bin000002\.png\), nor for 1 more"):
        next(runs)


def test_sheet_sections_and_progress(tmp_path, sequences):
    labels, updates = [], []

    def progress(label, length):
        labels.append((label, length))
        return nullcontext(SimpleNamespace(update=lambda: updates.append(label)))

    sheet = Sheet(tmp_path / "sheet.html")
    list(compare(sequences, {"one": LeftHalf}, sheet=sheet, progress=progress))
    sheet.write()
    text = (tmp_path / "sheet.html").read_text()
    assert labels == [("a, one", 4), ("b, one", 3)]
    assert updates == ["a, one"] * 4 + ["b, one"] * 3
    assert text.index("<h2>x/a, one</h2>") < text.index("<h2>y/b, one</h2>")
    assert text.count("<img") == 5


def test_gaps_in_the_temporal_region_are_logged(tmp_path, caplog):
    folder = make_sequence(tmp_path / "gaps", range(1, 7), masks=[1, 2, 5])
    Sequence(folder)
    assert not caplog.records
    (folder / "temporalROI.txt").write_text("\ufeff2 6\r\n", encoding="utf-8")
    assert Sequence(folder).scored == [2, 5]
    (message,) = caplog.messages
    assert "3 of the frames from 2 to 6 have no mask" in message


def test_methods_of_other_packages(monkeypatch):
    monkeypatch.setattr(cv2, "bgsegm", None, raising=False)
    for name in METHODS[3:]:
        with pytest.raises(DependencyError, match=f"{name} needs .*opencv-contrib-python"):
            make_method(name)
    made = {f"createBackgroundSubtractor{name.upper()}": (lambda name=name: name) for name in METHODS[3:]}
    monkeypatch.setattr(cv2, "bgsegm", SimpleNamespace(**made), raising=False)
    assert [make_method(name) for name in METHODS[3:]] == list(METHODS[3:])
    monkeypatch.setitem(sys.modules, "pybgs", None)
    with pytest.raises(DependencyError, match=r"subsense needs .*pip install pybgs"):
        make_method("subsense")
    makers = {name: (lambda name=name: name) for name in ("SuBSENSE", "ViBe", "SigmaDelta")}
    monkeypatch.setitem(sys.modules, "pybgs", SimpleNamespace(**makers))
    assert [make_method(name).lower() for name in LIBRARY_METHODS] == list(LIBRARY_METHODS)


def test_methods_of_opencv_and_unknown_names(sequences):
    for name in ("MOG2", "KNN"):
        assert make_method(name.lower()).getDefaultName() == f"BackgroundSubtractor_{name}"
    with pytest.raises(ParameterError, match=r"method must be one of bgsub, mog2, knn, .*, got 'magic'"):
        evaluate(sequences[0], "magic")


def test_frames_refused_by_opencv(sequences):
    class Refusing:
        def apply(self, image):
            return cv2.cvtColor(image[..., 0], cv2.COLOR_BGR2GRAY)

    with pytest.raises(ParameterError, match=r"^lsbp does not take .* uint8 of shape \(12, 16, 3\): [^\n]*\Z"):
        evaluate(sequences[0], Refusing(), name="lsbp")


def test_only_frames_in_the_temporal_roi_are_scored(tmp_path):
    mask = np.zeros((12, 16), np.uint8)
    mask[:, :4] = 255
    mask[0, :] = 170
    mask[1, 4:] = 50
    make_sequence(tmp_path, range(1, 13), truth=mask)
    (tmp_path / "temporalROI.txt").write_text("4 9")
    method = LeftHalf()
    score = evaluate(Sequence(tmp_path), method)
    assert method.seen == [10 * number for number in range(1, 13)]
    assert score.frames == 6
    per_frame = Confusion(tp=44, fp=44, fn=0, tn=88, shadow=12, shadow_fp=4)
    assert score.confusion == sum([per_frame] * score.frames, Confusion())
    assert score.method == "LeftHalf"
    assert score.sequence == tmp_path.name
    assert 0 < score.milliseconds < 1000


def test_mask_of_another_size_is_refused(sequences):
    write(sequences[0].folder / "groundtruth" / "gt000003.png", shape=(6, 8))
    with pytest.raises(SourceError, match=r"mask of frame 3 .* 8x6 .* 16x12"):
        evaluate(sequences[0], LeftHalf())
