"""Synthetic scenes and matrices are deterministic, and their masks and parts are exact."""

import hashlib
import json
import re
from fractions import Fraction
from pathlib import Path

import make_sample
import numpy as np
import pytest

from bgsub.errors import ParameterError
from bgsub.evaluation import Sequence
from bgsub.synthetic import MOVING, SCENES, SHADOW, UNKNOWN, Scene, _places, low_rank_plus_sparse, scene

ROOT = Path(__file__).resolve().parents[2]
SMALL = (80, 64)
CALM = {"noise": 0.0, "shadows": False, "lamps": False}


def busiest(made: Scene) -> int:
    """Return the frame in which most pixels move."""
    return int(np.argmax((made.masks() == MOVING).sum(axis=(1, 2))))


def same(one, other) -> bool:
    return all(map(np.array_equal, one, other))


@pytest.mark.parametrize("name", SCENES)
def test_shapes_and_attributes(name):
    made = scene(name, size=SMALL, length=7)
    frame, mask = made[3]
    assert (frame.dtype, mask.dtype) == (np.uint8, np.uint8)
    assert (len(made), made.size, made.fps) == (7, SMALL, Fraction(25))
    assert made.frames().shape == (7, 64, 80, 3)
    assert made.masks().shape == (7, 64, 80)
    assert scene(name, size=SMALL, length=2, channels=1).frames().shape == (2, 64, 80)
    assert same(made[-4], (frame, mask))
    for index in (7, -8):
        with pytest.raises(IndexError, match=f"frame {index} of a scene of 7 frames"):
            made[index]


@pytest.mark.parametrize("name", SCENES)
def test_a_seed_gives_the_same_bytes_in_any_order_and_length(name):
    options = {"size": SMALL, "seed": 5, "shake": 0.7, "sway": 1.5, "empty_start": 0}
    short = scene(name, length=40, **options)
    _places._picture.cache_clear()
    long = scene(name, length=9000, **options)
    for index, (frame, mask) in zip(range(40), short, strict=True):
        if index % 9 == 0:
            assert same(long[index], (frame, mask))
    assert same(long[39], short[-1])


def test_bytes_do_not_change_with_the_machine():
    made = scene("lobby", size=(48, 40), length=100, empty_start=0)
    masks = hashlib.sha256(made.masks()[::10].tobytes()).hexdigest()
    assert masks == "5879a57194f3e49fbe8b8548d64b6e25efdbaffcf3b1a89b8ead55ec720f1cfe"
    frame = hashlib.sha256(made[60][0].tobytes()).hexdigest()
    assert frame == "cde79010c3064ff9ede393153958d9930f560688652babb02b022b29b3d086fd"
    assert not np.array_equal(scene("lobby", size=SMALL)[0][0], scene("lobby", size=SMALL, seed=1)[0][0])


@pytest.mark.parametrize(("name", "shake"), [("lobby", 0.8), ("street", 0.0)])
def test_the_mask_marks_exactly_the_changed_pixels(name, shake):
    made = scene(name, size=SMALL, length=100, walkers=4, sway=1.0, shake=shake, empty_start=0, **CALM)
    index = busiest(made)
    frame, mask = made[index]
    changed = (frame != made.background(index)).any(axis=2)
    moving, rim = mask == MOVING, mask == UNKNOWN
    assert moving.sum() > 60
    assert not changed[~moving & ~rim].any()
    assert changed[moving].mean() > 0.97


def test_shadows_darken_all_channels_alike():
    made = scene("lobby", size=(120, 96), length=110, noise=0, lamps=False, empty_start=0)
    index = busiest(made)
    frame, mask = made[index]
    empty = made.background(index).astype(float)
    shadow = (mask == SHADOW) & (empty.min(axis=2) > 60)
    assert shadow.sum() > 100
    ratio = frame[shadow] / empty[shadow]
    assert (ratio < 1).mean() > 0.97
    assert np.ptp(ratio, axis=1).max() < 0.05
    lit = mask == 0
    assert np.abs(frame[lit] - empty[lit]).max() < 8


def test_lamps_switch_within_one_frame_and_do_not_change_the_mask():
    options = {"size": SMALL, "length": 240, "noise": 0.0, "shadows": False, "empty_start": 0}
    lit, steady = scene("lobby", **options), scene("lobby", lamps=False, **options)
    assert len(lit.lamp_frames) == 6
    assert steady.lamp_frames == ()
    shares = []
    for index in lit.lamp_frames:
        before, after = (lit.background(i).astype(int) for i in (index - 1, index))
        shares.append((np.abs(after - before).max(axis=2) > 2).mean())
        assert np.array_equal(lit[index][1], steady[index][1])
    assert max(shares) > 0.95
    assert min(shares) > 0.3
    between = lit.lamp_frames[0] + 3
    assert np.array_equal(lit.background(between), lit.background(between + 1))


def test_no_mover_in_the_empty_start_and_no_shadow_without_shadows():
    masks = scene("street", size=SMALL, length=100, empty_start=40, shadows=False).masks()
    assert not masks[:40].any()
    assert set(np.unique(masks)) == {0, UNKNOWN, MOVING}
    assert not scene("lobby", size=SMALL, length=60, walkers=0, empty_start=0).masks().any()


def test_shake_moves_the_picture_by_the_offset():
    made = scene("lobby", size=(96, 80), length=140, shake=2.0, noise=0, lamps=False)
    offsets = np.array([made.offset(i) for i in range(140)])
    assert np.sqrt((offsets**2).mean(axis=0)) == pytest.approx([2.0, 2.0], rel=0.15)
    pairs = ((one, two) for one in range(140) for two in range(one))
    steps = ((one, two, offsets[two] - offsets[one]) for one, two in pairs)
    one, two = next((i, j) for i, j, step in steps if (step == np.round(step)).all() and np.abs(step).max() >= 2)
    dx, dy = (offsets[two] - offsets[one]).astype(int)
    a, b = made.background(one), made.background(two)
    assert np.abs(np.roll(a, (dy, dx), (0, 1))[8:-8, 8:-8].astype(int) - b[8:-8, 8:-8]).max() <= 1


def test_sway_moves_only_plants_which_stay_background():
    made = scene("street", size=SMALL, length=30, walkers=0, noise=0, lamps=False, sway=2.0)
    frames = made.frames().astype(int)
    restless = np.ptp(frames, axis=0).max(axis=2) > 10
    assert 0.02 < restless.mean() < 0.4
    assert not made.masks().any()
    still = scene("street", size=SMALL, length=60, walkers=0, noise=0, lamps=False)
    assert np.array_equal(still[3][0], still[50][0])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"name": "beach"}, "scene must be one of lobby, street, got 'beach'"),
        ({"size": (8, 100)}, "size must be"),
        ({"channels": 2}, "channels must be 1 or 3, got 2"),
        ({"noise": -1.0}, "noise must be"),
        ({"shake": float("nan")}, "shake must be"),
        ({"walkers": -1}, "walkers must be"),
        ({"length": 0}, "length must be at least 1, got 0"),
    ],
)
def test_bad_parameters_are_named(options, message):
    with pytest.raises(ParameterError, match=message):
        scene(**{"name": "lobby", **options})


def test_low_rank_plus_sparse_has_the_requested_parts():
    x, low_rank, sparse, observed = low_rank_plus_sparse(80, 120, 4, 0.1, seed=3, observed_share=0.7)
    assert np.array_equal(x, low_rank + sparse)
    assert np.linalg.matrix_rank(low_rank) == 4
    assert low_rank.var() == pytest.approx(1, rel=0.3)
    assert np.count_nonzero(sparse) == 960
    assert 4.5 < np.abs(sparse).max() <= 5
    assert observed.sum() == 6720
    again = low_rank_plus_sparse(80, 120, 4, 0.1, seed=3, observed_share=0.7)
    assert same(again, (x, low_rank, sparse, observed))


@pytest.mark.slow
def test_the_sample_is_that_of_the_generator():
    stored, made = Sequence(ROOT / "datasets" / "sample"), make_sample.sample_scene()
    assert len(stored) == len(made)
    assert stored.temporal_roi == (make_sample.FIRST_SCORED, len(made))
    masks = made.masks()
    for number in stored.scored:
        assert np.array_equal(stored.truth(number), masks[number - 1])
    for number in (1, 40, 75, 120):
        error = stored.frame(number).astype(float) - made[number - 1][0]
        assert np.sqrt((error**2).mean()) < 4


def test_the_sample_has_the_size_and_checksum_of_the_manifest():
    manifest = json.loads((ROOT / "datasets" / "manifest.json").read_text(encoding="utf-8"))
    sample = next(entry for entry in manifest["datasets"] if entry["name"] == "sample")
    assert make_sample.digest(ROOT / "datasets" / sample["folder"]) == sample["sha256"]
    for entry in manifest["datasets"]:
        assert {"name", "title", "purpose", "page", "download", "sha256", "terms"} <= entry.keys()
    assert sum(p.stat().st_size for p in (ROOT / "datasets" / "sample").rglob("*")) < 1_500_000


@pytest.mark.parametrize(("name", "shake"), [("lobby", 0.0), ("street", 1.5)])
def test_movers_have_unique_keys_and_fill_the_mask(name, shake):
    made = scene(name, size=SMALL, length=200, shake=shake, empty_start=0, walkers=4)
    ways: dict[tuple[int, ...], list[int]] = {}
    for index in range(0, 200, 8):
        movers, mask = made.movers(index), made[index][1]
        covered = sum((pixels.astype(int) for pixels in movers.values()), np.zeros(mask.shape, int))
        assert covered.max() <= 1
        if shake:
            assert np.count_nonzero((covered == 1) != (mask == MOVING)) <= np.count_nonzero(mask == UNKNOWN) + 40
        else:
            assert (covered[mask == MOVING] == 1).all()
            assert (mask[covered == 1] >= UNKNOWN).all()
        for key in movers:
            ways.setdefault(key, []).append(index)
    assert len(ways) >= 3
    assert all(np.ptp(frames) == 8 * (len(frames) - 1) for frames in ways.values() if len(frames) > 5)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"m": 0}, "m and n must be at least 1"),
        ({"rank": 5}, "rank must be from 0 to min(m, n) = 4"),
        ({"observed_share": 1.1}, "observed_share must be from 0 to 1"),
        ({"seed": -1}, "seed must be 0 or more"),
    ],
)
def test_impossible_matrices_are_refused(changed, words):
    with pytest.raises(ParameterError, match=re.escape(words)):
        low_rank_plus_sparse(**{"m": 4, "n": 6, "rank": 2, "outlier_share": 0.1, "seed": 0} | changed)
