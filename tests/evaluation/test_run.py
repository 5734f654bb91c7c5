"""Runs: what a method is fed, what is scored, the table, the picture of errors."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest

from bgsub._opencv import cv2
from bgsub.errors import ParameterError, SourceError
from bgsub.evaluation import (
    Confusion,
    SceneSequence,
    Sequence,
    confusion,
    error_image,
    evaluate,
    make_method,
    score_results,
)
from bgsub.evaluation.speed import time_methods
from bgsub.numerics import compilation
from bgsub.synthetic import scene

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


PER_FRAME = Confusion(tp=44, fp=44, fn=0, tn=88, shadow=12, shadow_fp=4)


def test_only_frames_in_the_temporal_roi_are_scored(folder, left_half):
    method = left_half()
    score = evaluate(Sequence(folder), method)
    assert method.seen == [10 * number for number in range(1, LENGTH + 1)]
    assert score.frames == LAST - FIRST + 1
    assert score.confusion == sum([PER_FRAME] * score.frames, Confusion())
    assert score.method == "LeftHalf"
    assert score.sequence == folder.name
    assert 0 < score.milliseconds < 1000


def test_roi_restricts_the_score(folder, left_half):
    roi = np.zeros((12, 16), np.uint8)
    roi[:, :4] = 255
    cv2.imwrite(str(folder / "ROI.bmp"), roi)
    counts = evaluate(Sequence(folder), left_half(), name="left").confusion
    assert counts == sum([Confusion(tp=44)] * 6, Confusion())


def test_stored_masks_score_like_their_method(folder, left_half):
    results = folder / "results"
    results.mkdir()

    def write(number, frame, mask, truth):
        assert (truth is not None) == (FIRST <= number <= LAST)
        assert frame.shape == (*mask.shape, 3)
        cv2.imwrite(str(results / f"bin{number:06d}.png"), mask)

    live = evaluate(Sequence(folder), left_half(), on_frame=write)
    stored = score_results(Sequence(folder), results)
    assert stored.confusion == live.confusion
    assert stored.method == "results"
    assert math.isnan(stored.milliseconds)
    (results / f"bin{LAST:06d}.png").unlink()
    with pytest.raises(SourceError, match=r"no mask for frame 9 \(bin000009\.png\)"):
        score_results(Sequence(folder), results)
    with pytest.raises(SourceError, match="does not exist"):
        score_results(Sequence(folder), folder / "nowhere")


def test_mask_of_another_size_is_refused(folder, left_half):
    cv2.imwrite(str(folder / "groundtruth" / "gt000005.png"), np.zeros((6, 8), np.uint8))
    with pytest.raises(SourceError, match=r"mask of frame 5 .* is 8x6, the frame is 16x12"):
        evaluate(Sequence(folder), left_half())


def test_shadow_label_of_opencv_is_background():
    sequence = SceneSequence(scene("street", size=(80, 64), length=120, walkers=2, lamps=False))
    with pytest.raises(ParameterError, match=r"method must be one of bgsub, mog2, knn, .*, got 'magic'"):
        evaluate(sequence, "magic")
    for name in ("mog2", "knn"):
        score = evaluate(sequence, name)
        assert score.method == name
        assert score.confusion.f_measure > 0.4
    labels = set()
    method = make_method("mog2")
    total = Confusion()
    for number, frame in sequence.frames():
        mask = method.apply(frame)
        labels |= set(np.unique(mask).tolist())
        total += confusion(np.where(mask == 127, 0, mask).astype(np.uint8), sequence.truth(number))
    assert 127 in labels
    assert total == evaluate(sequence, "mog2").confusion


def test_error_image_colours_errors():
    frame = np.full((2, 3), 100, np.uint8)
    truth = np.array([[255, 255, 0], [50, 170, 0]], np.uint8)
    mask = np.array([[255, 0, 255], [255, 255, 0]], np.uint8)
    image = error_image(frame, mask, truth)
    assert image.shape == (2, 3, 3)
    assert image.argmax(axis=2).tolist() == [[1, 0, 2], [2, 0, 0]]
    assert image[1, 1].tolist() == [50, 50, 50]
    assert image[1, 2].tolist() == [50, 50, 50]
    assert (frame == 100).all()
    assert np.array_equal(error_image(cv2.cvtColor(frame, cv2.COLOR_GRAY2BGR), mask, truth), image)
    with pytest.raises(ParameterError, match="one size"):
        error_image(frame, mask[:, :2], truth)
    with pytest.raises(ParameterError, match="frame must be"):
        error_image(frame.astype(float), mask, truth)


class Compiling:
    """A method whose first frame takes 100 ms, and 5 s for a kernel; the others take 20 ms."""

    def __init__(self, monkeypatch):
        self.now, self.lost, self.frames = 0.0, 0.0, 0
        monkeypatch.setattr(compilation, "time", SimpleNamespace(perf_counter=lambda: self.now))
        monkeypatch.setattr(compilation, "waited", lambda: self.lost)

    def apply(self, frame):
        self.now, self.lost = self.now + (0.02 if self.frames else 5.1), self.lost + (0 if self.frames else 5)
        self.frames += 1
        return np.zeros(frame.shape[:2], np.uint8)


def test_times_exclude_compilation(monkeypatch):
    method = Compiling(monkeypatch)
    timing = time_methods([np.zeros((8, 8, 3), np.uint8)] * 5, lambda: method, peers=())[0]
    assert (timing.first, timing.longest, timing.median) == pytest.approx((100, 20, 20))
    frame = SceneSequence(scene("street", size=(80, 64), length=1))
    assert evaluate(frame, Compiling(monkeypatch)).milliseconds == pytest.approx(100)
