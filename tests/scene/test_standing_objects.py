"""StandingObjects: ages, remains of light changes, absorbed objects and ghosts."""

import math

import numpy as np
import pytest
import reference_scene as reference
from hypothesis import given
from hypothesis import strategies as st

from bgsub.parameters import SubtractorParameters
from bgsub.scene import _frame_kernels
from bgsub.scene._frame_kernels import LIGHT, RECURRING
from bgsub.scene.frame_format import FrameFormat
from bgsub.scene.standing_objects import StandingObjects, edges_along, edges_inside, likeness
from bgsub.subtractor import BackgroundSubtractor

F = np.float32
H, W, FPS = 40, 50, 10
LOOKS = 2  # frames between two checks
BOX = np.s_[12:26, 15:35]


@given(n=st.integers(1, 200), c=st.sampled_from([1, 3]), seed=st.integers(0, 99))
def test_update_ages_equals_its_twin(n, c, seed):
    rng = np.random.default_rng(seed)
    anchor, age, aged = np.zeros((n, c), F), np.zeros(n, np.uint16), np.zeros(-(-n // 64), np.uint8)
    returns = np.zeros(n, np.uint8)
    twin = reference.Ages(n, c, 0.06)
    level = rng.integers(0, 5, (n, 1))
    for _ in range(60):
        level = np.where(rng.random((n, 1)) < 0.2, rng.integers(0, 5, (n, 1)), level)
        x = (0.2 * level + 0.01 * rng.random((n, c))).astype(F)
        mask = np.where(rng.random(n) < 0.85, 255, rng.choice([0, 127], n)).astype(np.uint8)
        mask[: 64 * rng.integers(0, 3)] = 0  # empty chunks
        ages = anchor, age[np.newaxis], aged, returns[np.newaxis], np.empty(64, np.uint8)
        strong = rng.random(n) < 0.5
        lit = np.where(mask == 127, rng.integers(1, 3, n), 0).astype(np.uint8)
        found = *(image[np.newaxis] for image in (x, mask)), reference.filled(mask), strong.view(np.uint8)[np.newaxis]
        oldest = _frame_kernels.update_ages(0, n, (0,) * c, *found, lit[np.newaxis], F(0.06), 1, 1, F(0), *ages)
        twin.see(x, mask, strong, lit)
        np.testing.assert_array_equal(age, twin.age)
        np.testing.assert_array_equal(returns, twin.returns + twin.is_back)
        assert oldest == age.max()


def scene(channels=1, seed=0):
    return reference.Texture(seed, channels, side=W).seen(H, W)


def mask_of(*boxes):
    mask = np.zeros((H, W), np.uint8)
    for box in boxes:
        mask[box] = 255
    return mask


def with_rim(box):
    """Return a box extended by the rim that the majority filter may remove."""
    rows, columns = (slice(part.start - 2, part.stop + 2) for part in box)
    return mask_of((rows, columns)) == 255


def standing(channels=1, absorb_after=math.inf, ghosts=False, size=(H, W)):
    parameters = SubtractorParameters(fps=FPS, absorb_after=absorb_after, ghosts=ghosts, threads=1)
    return StandingObjects(FrameFormat((*size, channels), "float32", 1.0), parameters)


def with_object(box, level=0.9):
    background, frame = scene(), scene()
    frame[box] = level
    return frame, background


def see(objects, frame, background, mask, strong=None, returned=(), lit=None, **elapsed):
    strong = mask // 255 if strong is None else strong
    lit = np.zeros(mask.shape, np.uint8) if lit is None else lit
    found = mask, reference.filled(mask), strong, reference.filled(strong), lit
    return objects.released(frame, background, *found, np.array(returned, np.int64), **elapsed)


def feed(objects, frame, background, mask, frames, strong=None):
    """Return the released pixels by frame number, from 1."""
    released = {}
    for i in range(1, frames + 1):
        found = see(objects, frame, background, mask, strong)
        if found is not None:
            released[i] = found
    return released


def assert_only(released, expected):
    """Check what was released, each time."""
    assert released
    for found in released.values():
        np.testing.assert_array_equal(found, expected)


def test_what_the_first_frames_hid_is_released_where_it_differs():
    objects, (frame, background) = standing(), with_object(BOX)
    mask, strong = mask_of(BOX), mask_of(np.s_[:2, :3])
    feed(objects, frame, background, mask, 3)
    released = see(objects, frame, background, mask, strong, returned=[1, 2, W - 1, H * W - 1])
    assert np.flatnonzero(released).tolist() == [1, 2]
    assert see(objects, frame, background, mask, strong, returned=[W - 1]) is None


def test_foreground_is_hidden_until_released():
    objects, mask, (frame, background) = standing(absorb_after=4 / FPS), mask_of(BOX), with_object(BOX)
    assert objects.hidden_pixels() is None
    feed(objects, frame, background, mask, 1)
    np.testing.assert_array_equal(objects.hidden_pixels() > 0, mask == 255)
    feed(objects, frame, background, mask_of(), 1)
    assert objects.hidden_pixels() is None
    while see(objects, frame, background, mask) is None:
        np.testing.assert_array_equal(objects.hidden_pixels() > 0, mask == 255)
    held = objects.hidden_pixels()
    assert held is None or not held.any()


def test_light_on_a_part_is_hidden_until_absorbed_and_shadows_are_learned():
    mask, (frame, background) = mask_of(BOX) // 2, with_object(BOX)  # 127
    dark = (mask != 0).astype(np.uint8)
    for lit in (dark, dark * LIGHT):
        objects = standing(absorb_after=2.0)
        released = [see(objects, frame, background, mask, dark, lit=lit) for _ in range(2 * FPS + LOOKS)]
        hidden = [chosen for chosen in released if chosen is not None]
        assert len(hidden) == lit.max() - 1
        assert all((chosen == (mask != 0)).all() for chosen in hidden)


def test_only_standing_objects_are_absorbed_after_the_set_time():
    mask, (frame, background) = mask_of(BOX), with_object(BOX)
    released = feed(standing(absorb_after=3.0), frame, background, mask, 3 * FPS + LOOKS)
    assert min(released) in range(3 * FPS, 3 * FPS + LOOKS)
    np.testing.assert_array_equal(released[min(released)], mask == 255)
    assert not feed(standing(absorb_after=math.inf), frame, background, mask, 100)
    objects, texture = standing(absorb_after=1.0), reference.Texture(9, side=W).seen(14, 20)
    for i in range(40):  # moving
        box = np.s_[12:26, i % (W - 20) : i % (W - 20) + 20]
        assert see(objects, *with_object(box, 0.9 if i % 2 else texture), mask_of(box)) is None


def test_ages_have_no_limit():
    objects, seen = standing(absorb_after=1e6), (*with_object(BOX), mask_of(BOX))  # 10^7 frames
    for _ in range(4):
        assert see(objects, *seen, elapsed=33000) is None
    objects.tune(SubtractorParameters(fps=FPS, absorb_after=2e6, ghosts=False))
    frames = 4 * 33000
    while see(objects, *seen, elapsed=33000) is None:
        frames += 33000
    assert frames == pytest.approx(2e7, rel=0.01)


@pytest.mark.parametrize("elapsed", [1, 2 * LOOKS, 900])
def test_the_background_is_proven_in_seconds(elapsed):
    objects = standing()
    for _ in range(4 * LOOKS):
        see(objects, scene(), scene(), mask_of(), elapsed=elapsed)
    assert (objects.support == min(4 * elapsed, 20 * FPS // LOOKS)).all()


def test_remains_of_a_light_change_are_released():
    objects, person, patch = standing(), np.s_[10:20, 5:12], np.s_[10:30, 30:45]
    late = np.s_[32:38, 20:28]  # was no foreground when the light changed
    objects.light_changed(mask_of(person), mask_of(person, patch))
    released = feed(objects, *with_object(patch, 0.95), mask_of(person, patch, late), 2 * FPS)
    assert_only(released, mask_of(patch) == 255)
    assert min(released) <= 3
    assert max(released) <= FPS  # later on, new foreground is an object


def test_lamps_that_come_on_slowly_leave_no_objects():
    """The foreground that the first lamp makes is no object when the second one comes on; a person before is."""
    objects, person, patch = standing(), np.s_[10:20, 5:12], np.s_[10:30, 30:45]
    objects.light_changed(mask_of(person), mask_of(person))
    seen = *with_object(patch, 0.95), mask_of(person, patch)
    assert see(objects, *seen) is None
    objects.light_changed(mask_of(person, patch), mask_of(person, patch))
    assert_only(feed(objects, *seen, FPS), mask_of(patch) == 255)


def test_a_remain_that_was_background_once_is_no_light():
    objects, left, right = standing(), np.s_[10:30, 24:34], np.s_[10:30, 34:44]
    objects.light_changed(mask_of(), mask_of(left, right))
    pictures = with_object(np.s_[10:30, 24:44], 0.95)
    assert see(objects, *pictures, mask_of(left)) is None
    assert_only(feed(objects, *pictures, mask_of(left, right), FPS), mask_of(left) == 255)


@pytest.mark.parametrize("is_away", [False, True])
def test_noise_about_the_threshold_is_no_return(is_away):
    """A weak object whose residual is strong in every second frame."""
    objects, (frame, empty) = standing(), with_object(BOX, 0.6)
    for i in range(12 * FPS):
        strong = (mask_of(BOX) // 255) * np.uint8(i % 2)
        see(objects, frame if i % 2 or not is_away else empty, empty, mask_of(BOX) * np.uint8(i % 2), strong)
    share = (objects.returns[BOX] >= RECURRING).mean()
    assert share > 0.7 if is_away else share == 0


def blades(period, seconds=16, colours=1, channels=3, fps=25):
    """Return which share of two places is found while another colour shows there, in the last four seconds.

    In the one, it comes every `period` frames for half of that time, in the other a person of the same colour stays.
    """
    rng, subtractor = np.random.default_rng(0), BackgroundSubtractor(fps=fps, threads=1)
    street = reference.Texture(3, channels, side=96).seen(72, 96) * 255
    fan, person = np.s_[10:40, 10:50], np.s_[40:60, 60:70]
    found = []
    for i in range(seconds * fps):
        frame = street + rng.normal(0, 2, street.shape)
        is_there = i % period >= period // 2
        if is_there and i > 2 * fps:
            frame[fan] = 40 + 150 * (i // period % colours) / colours
        if i > 4 * fps:
            frame[person] = 40
        mask = subtractor.apply(frame.clip(0, 255).astype(np.uint8)) == 255
        if i >= (seconds - 4) * fps and is_there:
            found.append([mask[place].mean() for place in (fan, person)])
    return np.mean(found, axis=0)


@pytest.mark.parametrize("channels", [1, 3])
def test_a_colour_that_comes_and_goes_again_and_again_becomes_background(channels):
    fan, person = blades(4, channels=channels)
    assert fan < 0.1
    assert person > 0.75
    assert blades(12, channels=channels)[0] > 0.9  # as a hand that waves
    assert blades(40, channels=channels)[0] > 0.9  # as cars in a lane
    assert blades(4, colours=4, channels=channels)[0] > 0.9  # not the same that comes again


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("full", [1, 255])
def test_likeness_compares_colours(channels, full):
    dtype, region = np.uint8 if full == 255 else F, np.zeros((H, W), np.uint8)
    region[BOX] = 1
    rows = np.repeat(np.arange(H) % 2, W).reshape(H, W, 1) * np.ones(channels)
    striped, lit = ((full * (0.2 + 0.6 * part)).astype(dtype) for part in (rows, rows * region[..., None]))
    assert likeness(striped, region, 1 - region, full) == pytest.approx(1.05, abs=1e-4)
    assert likeness(lit, region, 1 - region, full) == pytest.approx(0.05 + np.sqrt(0.5), abs=1e-4)
    alone = (full * np.where(region == 1, 1, 0.2)[..., None] * np.ones(channels)).astype(dtype)
    assert likeness(alone, region, 1 - region, full) == pytest.approx(0.05, abs=1e-4)
    assert likeness(alone, np.ones_like(region), np.zeros_like(region), full) == pytest.approx(0.05, abs=1e-4)


def test_colours_tell_a_ghost_where_edges_do_not():
    rows, columns = np.indices((H, W)) // 2 % 2
    ground = np.repeat((0.3 + 0.4 * ((rows + columns) % 2))[..., None], 3, axis=2).astype(F)
    occupied, mask = ground.copy(), mask_of(BOX)
    occupied[BOX] = 0.6, 0.4, 0.5
    region = (mask == 255).astype(np.uint8)
    seen, known = edges_along((ground, occupied), region, 1 - region)
    assert 0.25 * known < seen
    objects = {True: standing(3, ghosts=True), False: standing(3, ghosts=True)}
    for both in objects.values():
        both.support[:] = 25  # seen for 5 seconds, at least five times as long as the region
    assert_only(feed(objects[True], ground, occupied, mask, FPS), with_rim(BOX))
    assert not feed(objects[False], occupied, ground, mask, FPS)


@pytest.mark.parametrize("channels", [1, 3])
def test_ghosts_are_released_and_standing_objects_kept(channels):
    empty, occupied, mask = scene(channels), scene(channels), mask_of(BOX)
    occupied[BOX] = np.linspace(0.05, 0.2, channels)
    ghost = feed(standing(channels, ghosts=True), empty, occupied, mask, 2 * FPS)
    assert_only(ghost, with_rim(BOX))
    assert min(ghost) in range(3 * FPS // 10, 3 * FPS // 10 + LOOKS)
    assert min(feed(standing(channels, 1e7, True), empty, occupied, mask, 2 * FPS)) == min(ghost)
    assert not feed(standing(channels, ghosts=True), occupied, empty, mask, 2 * FPS)
    assert not feed(standing(channels, ghosts=False), empty, occupied, mask, 2 * FPS)


@pytest.mark.parametrize("beside", [(), (np.s_[12:26, 37:45],)])
def test_one_doubtful_check_does_not_make_a_standing_object_a_ghost(beside):
    """Not beside another one, either; but it is released if the doubt goes on, or where something else comes."""
    frame, before, after = np.full((3, H, W, 1), 0.3, F)
    for box in (BOX, *beside):
        frame[box], before[box], after[box] = 0.6, 0.5, 0.7
    seen = frame, after, mask_of(BOX, *beside)
    assert feed(standing(ghosts=True), *seen, FPS)
    objects = standing(ghosts=True)
    assert not feed(objects, frame, before, seen[2], 4 * FPS)
    objects.move(np.arange(H * W))
    assert not feed(objects, *seen, 2 * LOOKS)
    assert feed(objects, *seen, 9 * LOOKS)
    objects = standing(ghosts=True)
    feed(objects, frame, before, seen[2], 4 * FPS)
    feed(objects, frame, before, mask_of(), LOOKS)  # it leaves
    assert min(feed(objects, *seen, FPS)) <= 3 * FPS // 10 + LOOKS


def test_a_ghost_before_water_is_released_and_an_object_whose_colours_change_is_kept():
    rng, (with_ghost, empty) = np.random.default_rng(0), with_object(BOX)
    pictures = [(empty + F(0.2) * rng.uniform(-1, 1, empty.shape).astype(F), with_ghost) for _ in range(2 * FPS)]
    for moving in np.repeat(empty[np.newaxis], 2 * FPS, axis=0):
        moving[BOX] = rng.uniform(0.6, 1, moving[BOX].shape)
        pictures.append((moving, empty))
    for number, is_due in ((0, True), (2 * FPS, False)):
        objects = standing(ghosts=True)
        found = [see(objects, *pair, mask_of(BOX)) for pair in pictures[number : number + 2 * FPS]]
        assert any(released is not None for released in found) == is_due
        assert all(released is None for released in found[: FPS - 1])  # it could be an object that moves


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("gain", [0.5, 1.6])
def test_a_surface_in_other_light_is_released_and_another_one_kept(channels, gain):
    background, other, mask = scene(channels), scene(channels, seed=5), mask_of(BOX)
    relit, covered = background.copy(), background.copy()
    relit[BOX] *= gain
    covered[BOX] = other[BOX]
    assert edges_inside(relit, background, mask // 255) == pytest.approx(1, abs=1e-5)
    released = feed(standing(channels, ghosts=True), relit, background, mask, FPS)
    assert min(released) in range(3 * FPS // 10, 3 * FPS // 10 + LOOKS)
    assert released[min(released)][mask == 255].all()
    assert not feed(standing(channels, ghosts=True), covered, background, mask, 2 * FPS)


@pytest.mark.parametrize("region", [np.s_[0:0, 0:0], np.s_[3:5, 3:5], np.s_[:, :]])
def test_edges_inside_where_there_are_none(region):
    flat = np.full((H, W, 3), 0.3, F)
    assert edges_inside(flat, scene(3), mask_of(region) // 255) == 0


def test_ghost_is_released_beside_an_object():
    for box, there in ((np.s_[5:15, 5:20], np.s_[22:36, 25:45]), (BOX, np.s_[12:26, 36:38])):  # the second one adjoins
        frame, background = with_object(there, 0.95)
        background[box] = 0.05
        released = feed(standing(ghosts=True), frame, background, mask_of(box, there), FPS)
        assert_only(released, with_rim(box) & (mask_of(there) == 0))


def test_a_ghost_is_released_while_a_moving_object_touches_it():
    """The mask joins both; half of the outline that stands still must be clear, and an object that stands is kept."""

    def released(*levels):
        objects, found = standing(ghosts=True), []
        for i in range(FPS):
            moving = np.s_[12:20, 24 : 46 - i % 3]
            frame, background = np.full((2, H, W, 1), 0.3, F)
            frame[10:22, 10:24], background[10:22, 10:24] = 0.3 + levels[0], 0.3 + levels[1]
            frame[moving] = 0.9 - 0.15 * (i % 3)
            chosen = see(objects, frame, background, mask_of(np.s_[10:22, 10:24], moving))
            found += [] if chosen is None else [chosen]
        return found

    for chosen in released(0, 0.4):
        assert chosen[10:22, 10:24].all()
        assert not chosen[:, 26:].any()
    assert released(0, 0.4)
    assert not released(0.4, 0)
    assert not released(0.3, 0.4)  # in doubt


@pytest.mark.parametrize("shape", [(1, 1), (2, 3), (1, 9), (4, 1)])
def test_tiny_frames(shape):
    objects = standing(3, 1.0, True, shape)
    x, mask = np.full(3 * shape[0] * shape[1], 0.5, F), np.full(shape, 255, np.uint8)
    objects.light_changed(np.zeros(shape, np.uint8), mask)
    found = [see(objects, x, np.zeros_like(x), mask) for _ in range(FPS)]
    assert found[-1].all()


@pytest.mark.parametrize("channels", [1, 3])
def test_edges_along_are_the_steps(channels):
    region = (mask_of(BOX) == 255).astype(np.uint8)
    flat = np.full((H, W, channels), 0.3, F)
    stepped = flat.copy()
    stepped[BOX] = 0.5
    expected = [0, 0.2 * np.sqrt(channels)]
    assert edges_along((flat, stepped), region, 1 - region) == pytest.approx(expected, rel=1e-4, abs=1e-6)
    everywhere = np.ones((H, W), np.uint8)
    assert edges_along((flat, stepped), everywhere, 1 - everywhere) == [0, 0]


@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_standing_objects_keep_their_age_while_the_light_flickers(dtype):
    full = 255 if dtype == "uint8" else 1
    for follows in (True, False):
        objects = StandingObjects(FrameFormat((H, W, 1), dtype, full), SubtractorParameters(fps=FPS, threads=1))
        frame, background = (full * image for image in with_object(BOX, 0.6))
        mask, before = mask_of(BOX), background.astype(dtype)
        for i in range(12):
            gain = 1 + 0.15 * (-1) ** i
            lit, after = (np.minimum(gain * image, full).astype(dtype) for image in (frame, background))
            if follows:
                objects.follow_light(before, after)
            see(objects, lit, after, mask)
            before = after
        ages = objects.age[BOX]
        assert (ages.min() == 12) if follows else (ages.max() < 3)
        assert not objects.age[mask == 0].any()
