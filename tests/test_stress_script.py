"""The conditions of scripts/stress.py: exact masks, the same at each pass, and one table over all of them."""

import json
import re

import conditions
import numpy as np
import pytest
import soak
import stress
from click.testing import CliRunner

from bgsub._opencv import cv2
from bgsub.evaluation import confusion

WIDTH, HEIGHT, FIRST = 48, 36, 5
COLOUR = (180, 190, 200)


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


def test_each_condition_is_repeatable_and_has_valid_masks():
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
def test_script_prints_a_table_and_writes_json(folder):
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


@pytest.mark.slow
@pytest.mark.parametrize("way", [[], ["--command-line"]])
def test_report_after_hostile_frames(way, capsys):
    with pytest.raises(SystemExit) as ended:
        soak.main(["--frames", "600", "--size", "64x48", "--round", "200", *way], standalone_mode=False)
    said = capsys.readouterr().out
    assert said.count(" frames  ") == 10
    assert re.search(r"basis: \|U U' - I\| \d.\de-\d\d; bad frames taken: 0\n", said)
    found, alone = map(
        float, re.search(r"F of the last 200 frames: (0.\d+); of a fresh model: (0.\d+)\n", said).groups()
    )
    assert ended.value.code == (0 if found > alone - soak.LOST else 1), said
    assert alone > 0.5
