"""The conditions of scripts/stress.py: exact masks, the same at each pass, and one table over all of them."""

import importlib
import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from bgsub._opencv import cv2
from bgsub.errors import ParameterError, SourceError
from bgsub.evaluation import confusion, make_method

WIDTH, HEIGHT, FIRST = 48, 36, 5
COLOUR = (180, 190, 200)


@pytest.fixture
def stress(monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).resolve().parents[1] / "scripts")
    return importlib.import_module("stress")


@pytest.fixture
def conditions(stress):
    return importlib.import_module("conditions")


class Square:
    """A bright square that moves over a textured wall; scored from frame `FIRST` on."""

    name = "square"
    roi = None

    def __init__(self, length, dtype=np.uint8):
        self.length, self.dtype = length, dtype
        self.wall = np.random.default_rng(1).integers(40, 120, (HEIGHT, WIDTH, 3)).astype(np.uint8)

    def __len__(self):
        return self.length

    def frames(self):
        for number in range(1, self.length + 1):
            frame = self.wall.copy()
            frame[self.mask(number) == 255] = COLOUR
            yield number, frame.astype(self.dtype) * (257 if self.dtype == np.uint16 else 1)

    def mask(self, number):
        mask = np.zeros((HEIGHT, WIDTH), np.uint8)
        left = 4 + number % 30
        mask[8:18, left : left + 10] = 255
        return mask

    def truth(self, number):
        return self.mask(number) if number >= FIRST else None


def at(sequence, *ticks):
    """Return frame and mask at ticks after the first scored frame."""
    found = {n - FIRST: (frame, sequence.truth(n)) for n, frame in sequence.frames() if n - FIRST in ticks}
    return [found[tick] for tick in ticks]


def test_each_condition_is_repeatable_and_has_valid_masks(conditions):
    for name in conditions.CONDITIONS:
        derived = conditions.derive(Square(60), name, seed=3)
        first, second = list(derived.frames()), list(derived.frames())
        assert len(first) == len(derived)
        assert derived.truth(1) is None
        for (number, frame), (_, again) in zip(first, second, strict=True):
            assert np.array_equal(frame, again)
            if number in (51, 59):
                truth = derived.truth(number)
                confusion(truth, truth)  # refuses unknown codes
                assert truth.shape == frame.shape[:2]


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_light_is_switched_at_100_and_300_and_keeps_the_mask(conditions, dtype):
    square, scale, ticks = Square(FIRST + 301, dtype), 255 / np.iinfo(dtype).max, (99, 100, 299, 300)
    originals = [frame * scale for frame, _ in at(square, *ticks)]
    changes = {"gain": lambda v: 1.3 * v, "offset": lambda v: v + 40, "gamma": lambda v: 255 * (v / 255) ** 0.7}
    for name, change in changes.items():
        changed = at(conditions.derive(square, name), *ticks)
        for tick, original, (frame, truth) in zip(ticks, originals, changed, strict=True):
            wanted = np.clip(change(original), 0, 255) if tick in (100, 299) else original
            assert np.abs(frame * scale - wanted).max() <= 0.51
            assert np.array_equal(truth, square.mask(FIRST + tick))


def test_shaken_mask_moves_with_the_frame(conditions):
    derived, pixels = conditions.derive(Square(40), "shake2"), 0
    for number, frame in derived.frames():
        truth = derived.truth(number)
        if truth is None:
            continue
        moving, box = (truth == 255).astype(np.uint8), np.ones((5, 5), np.uint8)
        inside = cv2.erode(moving, box, borderType=cv2.BORDER_CONSTANT, borderValue=0) > 0
        outside = cv2.dilate(moving, box) == 0
        outside[[0, -1]] = outside[:, [0, -1]] = False
        assert (frame[inside] > 160).all()
        assert (frame[outside] < 150).all()
        pixels += np.count_nonzero(inside)
    assert pixels > 300


def test_masks_follow_the_changed_frames(conditions):
    square = Square(FIRST + 251)
    stopped = square.mask(FIRST + 50) == 255
    *still, (last, mask) = at(conditions.derive(square, "frozen"), 60, 249, 250)
    for frame, truth in still:
        assert (truth[stopped] == 255).all()
        assert (frame[stopped] == COLOUR).all()
    assert np.array_equal(last, at(square, 250)[0][0])
    assert np.array_equal(mask, square.mask(FIRST + 250))
    ((plain, _),), ((noisy, _),) = at(Square(20), 10), at(conditions.derive(Square(20), "noise"), 10)
    assert (noisy.astype(float) - plain).std() == pytest.approx(10, rel=0.1)
    for name, tick in (("black", 50), ("covered", 110)):
        ((blind, truth),) = at(conditions.derive(Square(135), name), tick)
        assert blind.max() < 40
        assert (truth == 170).all()  # not scored
    ((frame, truth),) = at(conditions.derive(Square(20), "half"), 0)
    share = Square(20).mask(FIRST).reshape(HEIGHT // 2, 2, WIDTH // 2, 2).mean(axis=(1, 3)) / 255
    assert frame.shape == (HEIGHT // 2, WIDTH // 2, 3)
    assert np.array_equal(truth == 255, share == 1)
    assert np.array_equal(truth == 170, (share > 0) & (share < 1))
    square = Square(20)
    square.roi = np.arange(WIDTH) < np.full((HEIGHT, 1), 20)
    derived = conditions.derive(square, "unchanged")
    assert derived.roi is None
    assert np.array_equal(at(derived, 3)[0][1] == 85, ~square.roi)


@pytest.mark.parametrize("shape", [(72, 96, 3), (18, 24)])
def test_transplanted_objects_keep_their_colour_on_the_new_background(conditions, tmp_path, shape):
    for level in (10, 20, 30):
        cv2.imwrite(str(tmp_path / f"{level}.png"), np.full(shape, level, np.uint8))
    derived, backgrounds = conditions.transplant(Square(12), tmp_path), []
    for number, frame in derived.frames():
        truth = derived.truth(number)
        still = np.ones(frame.shape[:2], bool) if truth is None else truth == 0
        backgrounds.append(int(frame[still].max()))
        if truth is not None:
            assert abs(frame[truth == 255].astype(float) - 190).max() < 22
            assert (truth == 255).mean() == pytest.approx(100 / (HEIGHT * WIDTH), rel=0.5)
    assert np.abs(np.array(backgrounds) - [10, 20, 30, 20] * 3).max() <= 10


@pytest.fixture
def folder(tmp_path):
    for part in ("input", "groundtruth"):
        (tmp_path / part).mkdir()
    square = Square(20)
    for number, frame in square.frames():
        cv2.imwrite(str(tmp_path / "input" / f"in{number:06d}.png"), frame)
        if number >= FIRST:
            cv2.imwrite(str(tmp_path / "groundtruth" / f"gt{number:06d}.png"), square.mask(number))
    return tmp_path


@pytest.mark.slow
def test_script_prints_a_table_and_writes_json(stress, folder):
    words = [folder, "--background", f"{folder / 'input'}:3", "--conditions", "grey16,gain", "--methods", "bgsub,mog2"]
    words += ["--set", "rank=2", "--json", folder / "table.json"]
    result = CliRunner().invoke(stress.main, [str(word) for word in words])
    assert result.exit_code == 0, result.output
    rows = result.stdout.splitlines()
    assert rows[0].split() == ["condition", "bgsub", "mog2"]
    for row, name in zip(rows[1:], ("grey16", "gain", f"on {folder.name}"), strict=False):
        assert row.startswith(f"{folder.name} {name}")
    assert rows[1].endswith("-")
    records = json.loads((folder / "table.json").read_text())
    assert [set(record["columns"]) for record in records] == [{"bgsub"}, {"bgsub", "mog2"}, {"bgsub", "mog2"}]


def test_skipped_frames_lower_the_frame_rate(stress, folder, monkeypatch):
    used = []
    monkeypatch.setattr(stress.Run, "make", lambda run, every=1: used.append(every) or make_method("mog2"))
    list(stress.score_rows([stress.Row(name, name, str(folder)) for name in ("gain", "15fps")], [stress.Run("ours")]))
    assert used == [1, 2]
    monkeypatch.undo()
    assert stress.Run("ours").make(10).get_params()["fps"] == 2.5


def test_wrong_names_are_refused(stress, conditions, folder):
    with pytest.raises(ParameterError, match="condition must be one of unchanged"):
        conditions.derive(Square(3), "magic")
    with pytest.raises(ParameterError, match="name=value"):
        stress.parse_settings(["rank"])
    with pytest.raises(SourceError, match="none of the first 3 frames"):
        list(stress.score_rows([stress.Row("short", folder=str(folder), frames=3)], []))
    words = ["rank=2", "mu=none", "fast=True", "surrogate=log"]
    assert stress.parse_settings(words) == {"rank": 2, "mu": None, "fast": True, "surrogate": "log"}
    for words in (["--methods", "magic", str(folder)], ["--conditions", "magic", str(folder)], []):
        assert CliRunner().invoke(stress.main, words).exit_code != 0
