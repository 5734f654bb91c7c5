"""The worst frames: which are kept, and the sheet that shows them."""

from __future__ import annotations

import base64
import html
import re

import numpy as np
import pytest

from bgsub._opencv import cv2
from bgsub.errors import ParameterError
from bgsub.evaluation import Sheet, error_image
from bgsub.evaluation.sheet import WorstFrames

FRAME = np.full((24, 32, 3), 100, np.uint8)
TRUTH = np.zeros((24, 32), np.uint8)
TRUTH[:10, :10] = 255


def mask_with(wrong):
    """The true mask with `wrong` false alarms."""
    mask = TRUTH.copy()
    mask[20:].reshape(-1)[:wrong] = 255
    return mask


def collect(wrongs, **options):
    worst = WorstFrames(**options)
    for number, wrong in enumerate(wrongs, start=1):
        worst(number, FRAME, mask_with(wrong), TRUTH)
    return worst.frames()


def only(frame, mask, truth=TRUTH, roi=None):
    """What is kept of one frame."""
    worst = WorstFrames(1, roi)
    worst(1, frame, mask, truth)
    (kept,) = worst.frames()
    return kept


def written(path, **sections):
    """A sheet of those sections, on disk."""
    sheet = Sheet(path)
    for title, frames in sections.items():
        sheet.add(title, frames)
    sheet.write()
    return path


def test_frames_with_most_wrong_pixels_are_kept():
    frames = collect([3, 50, 7, 0, 20, 50, 1], count=3)
    assert [(frame.number, frame.wrong) for frame in frames] == [(2, 50), (6, 50), (5, 20)]
    assert frames[0].confusion.fp == 50


def test_correct_and_unscored_frames_are_not_kept():
    assert collect([0, 0], count=3) == []
    worst = WorstFrames(3)
    worst(1, FRAME, mask_with(9), None)
    assert worst.frames() == []
    mask = mask_with(5)
    worst(1, FRAME, mask, TRUTH)
    mask[:] = 255  # the arrays are copied
    assert np.array_equal(worst.frames()[0].mask, mask_with(5))


def test_only_the_worst_of_near_frames_is_kept():
    frames = collect([10, 30, 20, 5, 5, 9, 8, 8, 40], count=8, gap=3)
    assert [frame.number for frame in frames] == [9, 2, 6]


def test_strip_shows_input_truth_mask_and_errors():
    roi = np.ones(TRUTH.shape, bool)
    roi[20:, :2] = False
    frame = only(FRAME, mask_with(5), roi=roi)
    assert frame.wrong == 3
    first, truth, mask, errors = (frame.strip[:, x : x + 32] for x in (0, 36, 72, 108))
    assert frame.strip.shape == (24, 140, 3)
    assert np.array_equal(first, FRAME)
    inside = np.where(roi, TRUTH, 85).astype(np.uint8)
    assert np.array_equal(truth[..., 0], inside)
    assert np.array_equal(mask[..., 1], mask_with(5))
    assert np.array_equal(errors, error_image(FRAME, mask_with(5), inside))
    assert (errors[20, :2] == 50).all()
    assert errors[20, 3].argmax() == 2


def test_16_bit_frames_and_boolean_masks():
    frame = only(np.full(TRUTH.shape, 100 * 257, np.uint16), mask_with(5) > 0)
    assert (frame.strip[:, :32] == 100).all()
    assert np.array_equal(frame.strip[:, 72:104, 0], mask_with(5))


def test_page_embeds_pictures_and_escapes_names(tmp_path):
    frames = collect([3, 50], count=2)
    path = written(tmp_path / "sheet.html", **{'a <script>&"b': frames, "perfect": []})
    page = path.read_text(encoding="utf-8")
    assert "<script" not in page
    for text in ('a <script>&"b', "No wrong pixel.", "frame 2: F 0.800, 50 false alarms, 0 misses, 100 hits"):
        assert text in html.unescape(page)
    images = re.findall('<img[^>]*src="data:image/jpeg;base64,([^"]*)"', page)
    assert len(images) == 2
    image = cv2.imdecode(np.frombuffer(base64.b64decode(images[0]), np.uint8), cv2.IMREAD_COLOR)
    assert image.shape == frames[0].strip.shape
    assert np.abs(image.astype(int) - frames[0].strip).mean() < 8


def test_picture_has_all_strips_in_order(tmp_path):
    frames = collect([3, 50], count=2)
    image = cv2.imread(str(written(tmp_path / "sheet.png", first=frames, perfect=[])))
    assert image.shape[1] == 140
    heights = []
    for frame in frames:
        # JPEG changes pixels a little; a strip is where the picture differs least from it.
        errors = [np.abs(image[y : y + 24].astype(int) - frame.strip).mean() for y in range(image.shape[0] - 23)]
        heights.append(int(np.argmin(errors)))
        assert min(errors) < 8
    assert heights[0] + 24 < heights[1]


def test_large_frames_are_reduced(tmp_path):
    large = cv2.resize(TRUTH, (800, 600), interpolation=cv2.INTER_NEAREST)
    frame = only(np.zeros((600, 800, 3), np.uint8), np.zeros_like(large), large)
    height, width = cv2.imread(str(written(tmp_path / "sheet.png", large=[frame]))).shape[:2]
    assert width == 1292
    assert 240 < height < 340


def test_sheet_errors(tmp_path):
    with pytest.raises(ParameterError, match=r"sheet must end in \.html or \.png, got '.*sheet\.pdf'"):
        Sheet(tmp_path / "sheet.pdf")
    with pytest.raises(ParameterError, match="at most 200 frames, got 201"):
        Sheet(tmp_path / "sheet.PNG").check(201)
    Sheet(tmp_path / "sheet.html").check(201)
