"""Many sequences: order, masks on disk in the layout of the site, and their scores read back."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from types import SimpleNamespace

import numpy as np
import pytest

from bgsub._opencv import cv2
from bgsub.errors import DependencyError, ParameterError, SinkError, SourceError
from bgsub.evaluation import (
    METHODS,
    Confusion,
    MaskWriter,
    Sequence,
    Sheet,
    compare,
    compare_results,
    evaluate,
    find_sequences,
    make_method,
)
from bgsub.evaluation.methods import LIBRARY_METHODS


@pytest.fixture
def sequences(tmp_path, make_sequence):
    make_sequence(tmp_path / "dataset" / "x" / "a", moving=4)
    make_sequence(tmp_path / "dataset" / "y" / "b", range(1, 4), moving=0, masks=[2])
    return find_sequences([tmp_path / "dataset"])


def test_scores_by_sequence_and_method(sequences, left_half):
    scores = list(compare(sequences, {"one": left_half, "mog2": lambda: make_method("mog2")}))
    assert [(s.category, s.sequence, s.method) for s in scores] == [
        ("x", "a", "one"),
        ("x", "a", "mog2"),
        ("y", "b", "one"),
        ("y", "b", "mog2"),
    ]
    assert scores[0].confusion == Confusion(tp=4 * 48, fp=4 * 48, tn=4 * 96)
    assert (scores[2].frames, scores[2].length, scores[2].confusion.fp) == (1, 3, 96)


def test_written_masks_score_the_same(tmp_path, sequences, left_half):
    live = list(compare(sequences, {"one": left_half}, masks=tmp_path / "out"))
    written = sorted(str(path.relative_to(tmp_path / "out")) for path in (tmp_path / "out").rglob("*.png"))
    assert written == [f"x/a/bin{n:06d}.png" for n in range(1, 5)] + [f"y/b/bin{n:06d}.png" for n in range(1, 4)]
    mask = cv2.imread(str(tmp_path / "out" / written[0]), cv2.IMREAD_UNCHANGED)
    assert mask.shape == (12, 16)
    assert (mask[:, :8] == 255).all()
    assert (mask[:, 8:] == 0).all()
    stored = list(compare_results(sequences, tmp_path / "out"))
    assert [s.confusion for s in stored] == [s.confusion for s in live]
    assert [(s.method, s.category, s.sequence, s.length) for s in stored] == [
        ("out", "x", "a", 4),
        ("out", "y", "b", 3),
    ]


def test_several_methods_get_a_folder_each(tmp_path, sequences, left_half):
    list(compare(sequences[:1], {"one": left_half, "two": left_half}, masks=tmp_path / "out"))
    assert len(list((tmp_path / "out").glob("[ot]*/x/a/bin*.png"))) == 8


def test_results_without_categories_and_of_a_single_sequence(tmp_path, sequences, left_half):
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


def test_masks_need_a_folder(tmp_path, sequences):
    (tmp_path / "taken").write_text("a file")
    with pytest.raises(SinkError, match=r"cannot write into folder '.*a': '.*taken' is a file, not a folder"):
        MaskWriter(tmp_path / "taken", sequences[0])


def test_sheet_sections_and_progress(tmp_path, sequences, left_half):
    labels, updates = [], []

    @contextmanager
    def progress(label, length):
        labels.append((label, length))
        yield SimpleNamespace(update=lambda: updates.append(label))

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
    assert caplog.messages == [f"{folder}: 3 of the frames from 2 to 6 have no mask and are not scored, the first is 3"]


def test_missing_extra_modules_are_reported(monkeypatch):
    monkeypatch.setattr(cv2, "bgsegm", None, raising=False)
    for name in METHODS[3:]:
        told = f"{name} needs OpenCV's extra modules.*opencv-contrib-python"
        with pytest.raises(DependencyError, match=told):
            make_method(name)


def test_extra_methods_are_those_of_opencv(monkeypatch):
    made = {f"createBackgroundSubtractor{name.upper()}": (lambda name=name: name) for name in METHODS[3:]}
    monkeypatch.setattr(cv2, "bgsegm", SimpleNamespace(**made), raising=False)
    assert [make_method(name) for name in METHODS[3:]] == list(METHODS[3:])


def test_methods_of_bgslibrary(monkeypatch):
    monkeypatch.setitem(sys.modules, "pybgs", None)
    with pytest.raises(DependencyError, match="subsense needs bgslibrary: pip install pybgs"):
        make_method("subsense")
    makers = {name: (lambda name=name: name) for name in ("SuBSENSE", "ViBe", "SigmaDelta")}
    monkeypatch.setitem(sys.modules, "pybgs", SimpleNamespace(**makers))
    assert [make_method(name).lower() for name in LIBRARY_METHODS] == list(LIBRARY_METHODS)


def test_frames_refused_by_opencv(sequences):
    class Refusing:
        def apply(self, image):
            return cv2.cvtColor(image[..., 0], cv2.COLOR_BGR2GRAY)

    told = r"^lsbp does not take the frames of a, uint8 of shape \(12, 16, 3\): [^\n]*\Z"
    with pytest.raises(ParameterError, match=told):
        evaluate(sequences[0], Refusing(), name="lsbp")


def test_roi_file_names(tmp_path, make_sequence):
    folder = make_sequence(tmp_path / "roi")
    inside = np.zeros((12, 16), np.uint8)
    inside[:, 8:] = 255
    cv2.imwrite(str(folder / "roi.png"), inside)
    assert np.array_equal(Sequence(folder).roi, inside > 0)
    cv2.imwrite(str(folder / "ROI.bmp"), 255 - inside)
    assert np.array_equal(Sequence(folder).roi, inside == 0)
