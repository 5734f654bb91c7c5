"""Derived conditions: what happens to frames and masks, that it is repeatable, and the grid of runs."""

from __future__ import annotations

import numpy as np
import pytest

from bgsub._opencv import cv2
from bgsub.errors import ParameterError, SourceError
from bgsub.evaluation import confusion, make_method
from bgsub.evaluation.conditions import CONDITIONS, SCENES, derive, grid, transplant
from bgsub.evaluation.conditions._derived import Recording
from bgsub.evaluation.conditions._objects import load_background

WIDTH, HEIGHT, LENGTH, FIRST = 48, 36, 340, 5


class Square:
    """A bright square that moves to and fro over a textured wall; scored from frame `FIRST` on."""

    name = "square"
    roi = None

    def __init__(self, length=LENGTH, dtype=np.uint8):
        self.length, self.dtype = length, dtype
        self.wall = np.random.default_rng(1).integers(40, 120, (HEIGHT, WIDTH, 3)).astype(np.uint8)

    def __len__(self):
        return self.length

    def frames(self):
        for number in range(1, self.length + 1):
            frame = self.wall.copy()
            frame[self.truth_of(number) == 255] = (180, 190, 200)
            yield number, frame.astype(self.dtype) * (257 if self.dtype == np.uint16 else 1)

    def truth_of(self, number):
        mask = np.zeros((HEIGHT, WIDTH), np.uint8)
        left = 4 + number % 30
        mask[8:18, left : left + 10] = 255
        return mask

    def truth(self, number):
        return self.truth_of(number) if number >= FIRST else None


def at(sequence, tick):
    """Return frame and mask at a tick after the first scored frame."""
    for number, frame in sequence.frames():
        if number == FIRST + tick:
            return frame, sequence.truth(number)
    raise AssertionError(tick)


@pytest.mark.parametrize("name", CONDITIONS)
def test_every_condition_is_lazy_repeatable_and_makes_valid_masks(name):
    derived = derive(Square(120), name, seed=3)
    first, second = list(derived.frames()), list(derived.frames())
    assert len(first) == len(derived)
    scored = 0
    for (number, frame), (_, again) in zip(first, second, strict=True):
        assert np.array_equal(frame, again)
        truth = derived.truth(number) if number in (1, 51, 59, 61) else None
        if truth is not None:
            confusion(truth, truth)
            assert truth.shape == frame.shape[:2]
            scored += 1
    assert scored == len({51, 59, 61} & {number for number, _ in first}) > 0
    assert derived.truth(1) is None


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("gain", lambda v: 1.3 * v),
        ("dim", lambda v: 0.6 * v),
        ("offset", lambda v: v + 40),
        ("gamma", lambda v: 255 * (v / 255) ** 0.7),
    ],
)
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_light_steps_switch_at_100_and_300_saturate_and_leave_the_mask(name, expected, dtype):
    square = Square(dtype=dtype)
    derived = derive(square, name)
    for tick in (99, 300):
        assert np.array_equal(at(derived, tick)[0], at(square, tick)[0])
    for tick in (100, 299):
        frame, truth = at(derived, tick)
        full = np.iinfo(dtype).max
        wanted = np.clip(expected(at(square, tick)[0] * (255 / full)), 0, 255)
        assert np.abs(frame * (255 / full) - wanted).max() <= 0.51
        assert np.array_equal(truth, square.truth_of(FIRST + tick))


def test_lamp_lights_the_left_half_in_its_colour():
    before, after = (at(derive(Square(), "lamp"), tick)[0].astype(float) for tick in (90, 120))
    ratio = after.mean(axis=0) / before.mean(axis=0)
    assert ratio[:10].mean(axis=0) == pytest.approx([1.1, 1.3, 1.5], abs=0.08)
    assert ratio[-5:] == pytest.approx(1, abs=0.02)


def test_shaken_mask_moves_with_the_frame():
    derived = derive(Square(60), "shake2")
    lefts, pixels = [], 0
    for number, frame in derived.frames():
        truth = derived.truth(number)
        if truth is None:
            continue
        moving = (truth == 255).astype(np.uint8)
        box = np.ones((5, 5), np.uint8)
        # Half a pixel of either may be cut off where the picture is cropped.
        inside = cv2.erode(moving, box, borderType=cv2.BORDER_CONSTANT, borderValue=0) > 0
        outside = cv2.dilate(moving, box) == 0
        outside[[0, -1]] = outside[:, [0, -1]] = False
        assert not (truth == 85).any()
        assert (frame[inside] > 160).all()
        assert (frame[outside] < 150).all()
        pixels += np.count_nonzero(inside)
        if number % 30 > 9:
            lefts.append(int(np.flatnonzero(moving.any(axis=0))[0]) - number % 30)
    assert pixels > 500
    assert np.std(lefts) == pytest.approx(2, abs=0.7)


def test_noise_has_its_sigma_and_depends_on_the_seed():
    square = Square(20)
    plain = at(square, 10)[0].astype(float)
    one, other = (at(derive(square, "noise", seed), 10)[0].astype(float) for seed in (0, 1))
    assert (one - plain).std() == pytest.approx(10, rel=0.1)
    assert not np.array_equal(one, other)


def test_half_size_calls_partly_moving_blocks_unknown():
    frame, truth = at(derive(Square(20), "half"), 0)
    whole = Square(20).truth_of(FIRST)
    share = whole.reshape(HEIGHT // 2, 2, WIDTH // 2, 2).mean(axis=(1, 3)) / 255
    assert frame.shape == (HEIGHT // 2, WIDTH // 2, 3)
    assert np.array_equal(truth == 255, share == 1)
    assert np.array_equal(truth == 170, (share > 0) & (share < 1))
    assert (truth == 170).any()


def test_frozen_object_stays_in_frame_and_mask_then_goes():
    square = Square()
    derived = derive(square, "frozen")
    stopped = square.truth_of(FIRST + 50) == 255
    for tick in (60, 249):
        frame, truth = at(derived, tick)
        assert (truth[stopped] == 255).all()
        assert (frame[stopped] == (180, 190, 200)).all()
    frame, truth = at(derived, 250)
    assert np.array_equal(frame, at(square, 250)[0])
    assert np.array_equal(truth, square.truth_of(FIRST + 250))


def test_blind_frames_are_not_scored():
    frame, truth = at(derive(Square(), "black"), 150)
    assert not frame.any()
    assert (truth == 170).all()
    covered = derive(Square(), "covered")
    assert at(covered, 124)[0].max() < 40
    assert (at(covered, 100)[1] == 170).all()
    assert np.array_equal(at(covered, 125)[0], at(Square(), 125)[0])


def test_region_of_interest_becomes_part_of_the_mask():
    square = Square(20)
    square.roi = np.zeros((HEIGHT, WIDTH), bool)
    square.roi[:, :20] = True
    derived = derive(square, "unchanged")
    assert derived.roi is None
    assert np.array_equal(at(derived, 3)[1] == 85, ~square.roi)


@pytest.mark.parametrize("shape", [(72, 96, 3), (18, 24, 3), (72, 96)])
def test_transplanted_objects_carry_their_colour_and_leave_the_background(shape):
    places = [np.full(shape, level, np.uint8) for level in (10, 20, 30)]
    derived = transplant(Square(12), places)
    seen = []
    for number, frame in derived.frames():
        truth = derived.truth(number)
        still = np.ones(shape[:2], bool) if truth is None else truth == 0
        seen.append(int(frame[still].max()))
        if truth is not None:
            assert abs(frame[truth == 255].astype(float) - 190).max() < 22
            assert (truth == 255).mean() == pytest.approx(100 / (HEIGHT * WIDTH), rel=0.5)
    assert np.abs(np.array(seen) - [10, 20, 30, 20] * 3).max() <= 10
    assert seen[:4] == [10, 20, 30, 20]


def test_recording_keeps_the_first_frames():
    recording = Recording(Square(), 9)
    assert [number for number, _ in recording.frames()] == list(range(1, 10))
    assert recording.truth(FIRST - 1) is None
    assert np.array_equal(recording.truth(9), Square().truth_of(9))
    with pytest.raises(ParameterError, match="count must be at least 1, got 0"):
        Recording(Square(), 0)


@pytest.fixture
def folder(tmp_path):
    for part in ("input", "groundtruth"):
        (tmp_path / part).mkdir()
    square = Square(40)
    for number, frame in square.frames():
        cv2.imwrite(str(tmp_path / "input" / f"in{number:06d}.png"), frame)
        if number >= FIRST:
            cv2.imwrite(str(tmp_path / "groundtruth" / f"gt{number:06d}.png"), square.truth_of(number))
    return tmp_path


def test_grid_scores_rows_in_order(folder):
    rows = grid.grid_rows([folder], [f"{folder / 'input'}:3"], conditions=["grey16", "gain"], scenes=["lobby empty"])
    rows[-1] = grid.Row("empty", "lobby empty", frames=8)
    results = list(grid.score_rows(rows, grid.parse_methods("bgsub,mog2", {"rank": 2})))
    labels = [f"{folder.name} grey16", f"{folder.name} gain", f"{folder.name} on {folder.name}", "empty"]
    assert [row.label for row, _ in results] == labels
    assert results[0][1][1] is None
    assert grid.cell(None) == "-"
    assert results[1][1][1].frames == 40 - FIRST + 1
    assert grid.cell(results[3][1][0]).endswith("%")
    record = grid.as_record(*results[1])
    assert set(record["columns"]) == {"bgsub", "mog2"}
    with pytest.raises(SourceError, match="none of the first 3 frames"):
        list(grid.score_rows([grid.Row("short", folder=str(folder), frames=3)], []))
    assert len(load_background(folder / "input", 3)) == 3


def test_a_grid_tells_ours_of_the_frames_that_are_left_out(folder, monkeypatch):
    told = []
    monkeypatch.setattr(grid.Run, "make", lambda run, every=1: told.append(every) or make_method("mog2"))
    rows = [*grid.grid_rows([folder], conditions=["gain", "15fps", "3fps"]), grid.Row("a", "lobby empty", frames=8)]
    list(grid.score_rows(rows, [grid.Run("ours")]))
    assert told == [1, 2, 10, 1]
    monkeypatch.undo()
    assert grid.Run("ours").make(10).get_params()["fps"] == 2.5
    assert grid.Run("ours", settings={"fps": 50}).make(10).get_params()["fps"] == 50


def test_names_and_settings():
    for call, words in (
        (lambda: derive(Square(), "magic"), "condition must be one of unchanged, .* got 'magic'"),
        (lambda: grid.grid_rows([], scenes=["moon"]), "scene must be one of lobby, .* got 'moon'"),
        (lambda: grid.parse_methods("magic"), "method must be one of bgsub, .* got 'magic'"),
        (lambda: grid.parse_settings(["rank"]), "setting must be name=value, got 'rank'"),
        (lambda: transplant(Square(), []), "at least one frame"),
        (lambda: derive(Square(), "gain", -1), "seed must be 0 or more, got -1"),
    ):
        with pytest.raises(ParameterError, match=words):
            call()
    words = ["rank=2", "mu=none", "fast=True", "surrogate=log"]
    assert grid.parse_settings(words) == {"rank": 2, "mu": None, "fast": True, "surrogate": "log"}
    assert [row.label for row in grid.grid_rows([], scenes=SCENES)] == list(SCENES)
