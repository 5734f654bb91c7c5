"""Many sequences: order, masks on disk in the layout of the site, and their scores read back."""

import sys
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest

from bgsub._opencv import cv2
from bgsub.errors import DependencyError, ParameterError, SourceError
from bgsub.evaluation import Confusion, Sequence, Sheet, compare, compare_results, confusion, evaluate, find_sequences
from bgsub.evaluation.methods import LIBRARY_METHODS, METHODS, make_method
from bgsub.synthetic import scene


@pytest.fixture
def sequences(tmp_path, make_sequence):
    make_sequence(tmp_path / "dataset" / "x" / "a", moving=4)
    make_sequence(tmp_path / "dataset" / "y" / "b", range(1, 4), moving=0, masks=[2])
    return find_sequences([tmp_path / "dataset"])


def test_written_masks_score_the_same(tmp_path, sequences, left_half):
    live = list(compare(sequences, {"one": left_half}, masks=tmp_path / "out"))
    written = sorted(str(path.relative_to(tmp_path / "out")) for path in (tmp_path / "out").rglob("*.png"))
    assert written == [f"x/a/bin{n:06d}.png" for n in range(1, 5)] + [f"y/b/bin{n:06d}.png" for n in range(1, 4)]
    mask = cv2.imread(str(tmp_path / "out" / written[0]), cv2.IMREAD_UNCHANGED)
    assert np.array_equal(mask, np.tile(np.repeat(np.uint8([255, 0]), 8), (12, 1)))
    stored = list(compare_results(sequences, tmp_path / "out"))
    assert [s.confusion for s in stored] == [s.confusion for s in live]
    assert [(s.method, s.sequence, s.length) for s in stored] == [("out", "a", 4), ("out", "b", 3)]


def test_layouts_of_written_masks(tmp_path, sequences, left_half):
    list(compare(sequences[:1], {"one": left_half, "two": left_half}, masks=tmp_path / "several"))
    assert len(list((tmp_path / "several").glob("[ot]*/x/a/bin*.png"))) == 8
    list(compare(sequences, {"one": left_half}, masks=tmp_path / "out"))
    (tmp_path / "out" / "x" / "a").rename(tmp_path / "out" / "a")
    assert len(list(compare_results(sequences, tmp_path / "out"))) == 2
    assert len(list(compare_results(sequences[:1], tmp_path / "out" / "a"))) == 1
    with pytest.raises(SourceError, match=r"no masks of .*dataset/x/a: there is neither .*/y/b/x/a nor .*/y/b/a"):
        list(compare_results(sequences, tmp_path / "out" / "y" / "b"))


def test_missing_masks_are_reported_first(tmp_path, sequences, left_half):
    list(compare(sequences, {"one": left_half}, masks=tmp_path / "out"))
    (tmp_path / "out" / "x" / "a" / "bin000002.png").unlink()
    (tmp_path / "out" / "x" / "a" / "bin000004.png").unlink()
    runs = compare_results(sequences[::-1], tmp_path / "out")
    with pytest.raises(SourceError, match=r"out/x/a has no mask for frame 2 \(bin000002\.png\), nor for 1 more"):
        next(runs)


def test_sheet_sections_and_progress(tmp_path, sequences, left_half):
    labels, updates = [], []

    def progress(label, length):
        labels.append((label, length))
        return nullcontext(SimpleNamespace(update=lambda: updates.append(label)))

    sheet = Sheet(tmp_path / "sheet.html")
    list(compare(sequences, {"one": left_half}, sheet=sheet, progress=progress))
    sheet.write()
    text = (tmp_path / "sheet.html").read_text()
    assert labels == [("a, one", 4), ("b, one", 3)]
    assert updates == ["a, one"] * 4 + ["b, one"] * 3
    assert text.index("<h2>x/a, one</h2>") < text.index("<h2>y/b, one</h2>")
    assert text.count("<img") == 5


def test_gaps_in_the_temporal_region_are_logged(tmp_path, make_sequence, caplog):
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


def test_frames_refused_by_opencv(sequences):
    class Refusing:
        def apply(self, image):
            return cv2.cvtColor(image[..., 0], cv2.COLOR_BGR2GRAY)

    with pytest.raises(ParameterError, match=r"^lsbp does not take .* uint8 of shape \(12, 16, 3\): [^\n]*\Z"):
        evaluate(sequences[0], Refusing(), name="lsbp")


LENGTH, FIRST, LAST = 12, 4, 9


@pytest.fixture
def folder(tmp_path, make_sequence):
    """Twelve frames of 16x12 whose left quarter moves; frames 4 to 9 are scored."""
    mask = np.zeros((12, 16), np.uint8)
    mask[:, :4] = 255
    mask[0, :] = 170
    mask[1, 4:] = 50
    make_sequence(tmp_path, range(1, LENGTH + 1), truth=mask)
    (tmp_path / "temporalROI.txt").write_text(f"{FIRST} {LAST}")
    return tmp_path


def test_only_frames_in_the_temporal_roi_are_scored(folder, left_half):
    method = left_half()
    score = evaluate(Sequence(folder), method)
    assert method.seen == [10 * number for number in range(1, LENGTH + 1)]
    assert score.frames == LAST - FIRST + 1
    per_frame = Confusion(tp=44, fp=44, fn=0, tn=88, shadow=12, shadow_fp=4)
    assert score.confusion == sum([per_frame] * score.frames, Confusion())
    assert score.method == "LeftHalf"
    assert score.sequence == folder.name
    assert 0 < score.milliseconds < 1000


def test_mask_of_another_size_is_refused(folder, left_half):
    cv2.imwrite(str(folder / "groundtruth" / "gt000005.png"), np.zeros((6, 8), np.uint8))
    with pytest.raises(SourceError, match=r"mask of frame 5 .* 8x6 .* 16x12"):
        evaluate(Sequence(folder), left_half())


def test_shadow_label_of_opencv_is_background(tmp_path):
    for number, images in enumerate(scene("street", size=(80, 64), length=120, walkers=2, lamps=False)):
        for place, image in zip(("input", "groundtruth"), images, strict=True):
            (tmp_path / place).mkdir(exist_ok=True)
            cv2.imwrite(str(tmp_path / place / f"{number:06d}.png"), image)
    sequence = Sequence(tmp_path)
    with pytest.raises(ParameterError, match=r"method must be one of bgsub, mog2, knn, .*, got 'magic'"):
        evaluate(sequence, "magic")
    scores = {name: evaluate(sequence, name) for name in ("mog2", "knn")}
    assert [score.method for score in scores.values()] == list(scores)
    assert all(score.confusion.f_measure > 0.4 for score in scores.values())
    method, total, shadows = make_method("mog2"), Confusion(), 0
    for number, frame in sequence.frames():
        mask = method.apply(frame)
        shadows += np.count_nonzero(mask == 127)
        total += confusion(np.where(mask == 127, 0, mask).astype(np.uint8), sequence.truth(number))
    assert shadows
    assert total == scores["mog2"].confusion
