"""Camera movements: the kernels against their twins, planted movements found, everything else left alone."""

import numpy as np
import pytest
import reference_scene as reference
from hypothesis import given, settings
from hypothesis import strategies as st

from bgsub import _registration_kernels as kernels
from bgsub.registration import Movement, Registration
from bgsub.stabiliser import Stabiliser

F = np.float32
H, W = 72, 96
FAR = [(0.5, -0.3, 0.0), (2.6, 1.7, 0.0), (-5.2, 3.1, 0.0), (0.0, 0.0, 0.012), (3.0, -2.0, -0.02)]
TEXTURES = {1: reference.Texture(1, 1), 3: reference.Texture(3, 3)}
OBJECTS = {1: reference.Texture(11, 1), 3: reference.Texture(13, 3)}

sizes = settings(max_examples=15, deadline=None)


def registered(channels, h=H, w=W):
    registration = Registration()
    registration.set_reference(TEXTURES[channels].seen(h, w))
    return registration


def noisy(image, sigma=0.01, seed=0):
    noise = np.random.default_rng(seed).normal(0, sigma, image.shape)
    return (image + noise).clip(0, 1).astype(F)


def farthest(found, true, h=H, w=W):
    """Largest distance of a corner, in pixels, from where it is."""
    corners = np.array([[0, 0, 1], [w - 1, 0, 1], [0, h - 1, 1], [w - 1, h - 1, 1]]).T
    return np.linalg.norm((found.matrix((h, w)) - Movement(*true).matrix((h, w))) @ corners, axis=0).max()


# ---- kernels -----------------------------------------------------------------------------------------------------


@given(h=st.integers(1, 6), w=st.integers(1, 6), c=st.integers(1, 3), seed=st.integers(0, 99))
@sizes
def test_sample_is_its_twin(h, w, c, seed):
    rng = np.random.default_rng(seed)
    image = rng.random((h, w, c)).astype(F)
    for x, y in rng.uniform(-1, 6, (30, 2)):
        expected = reference.sample(image, x, y)
        found = kernels.sample(image, x, y)
        assert found == (-1 if expected is None else pytest.approx(expected, abs=1e-6))


@given(n=st.integers(8, 30), c=st.sampled_from([1, 3]), seed=st.integers(0, 99))
@sizes
def test_align_is_gauss_newton(n, c, seed):
    rng = np.random.default_rng(seed)
    image = TEXTURES[c].seen(20, 26)
    points = rng.uniform(0, [25, 19], (n, 2)).astype(F)
    values, gradient = rng.random(n).astype(F), rng.normal(0, 0.1, (n, 2)).astype(F)
    start = np.array([*rng.normal(0, 1, 2), rng.normal(0, 0.05), 1 + rng.normal(0, 0.1), rng.normal(0, 0.1)])
    movement = start.copy()
    work = np.empty((5, 5)), np.empty(5)
    cost, step = kernels.align(image, points, values, gradient, 0.25, 2, 0.0, movement, *work)
    expected = start
    for _ in range(2):
        expected, expected_cost, expected_step = reference.align_step(image, points, values, gradient, 0.25, expected)
    np.testing.assert_allclose(movement, expected, rtol=1e-3, atol=1e-3)
    assert (cost, step) == pytest.approx((expected_cost, expected_step), rel=1e-3, abs=1e-3)


def test_align_stops_where_it_stands_and_counts_what_is_outside():
    image = TEXTURES[1].seen(20, 26)
    rows, columns = np.mgrid[3:17:2, 3:23:2].reshape(2, -1)
    gray = image[..., 0]
    gy, gx = np.gradient(gray)
    points = np.stack([columns, rows], 1).astype(F)
    gradient = np.stack([gx, gy], 2)[rows, columns].astype(F)
    work = np.empty((5, 5)), np.empty(5)
    movement = np.array([0.0, 0, 0, 1, 0])
    cost, step = kernels.align(image, points, gray[rows, columns], gradient, 0.1, 10, 0.02, movement, *work)
    assert cost < 1e-9
    assert step < 1e-4
    away = np.array([100.0, 0, 0, 1, 0])
    cost, _ = kernels.align(image, points, gray[rows, columns], gradient, 0.1, 1, 0.02, away, *work)
    assert cost == 1


# ---- what is found -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("true", FAR)
@pytest.mark.parametrize("channels", [1, 3])
def test_planted_movements_are_found(channels, true):
    moved = noisy(TEXTURES[channels].seen(H, W, *true))
    assert farthest(registered(channels).estimate(moved), true) < 0.1


@pytest.mark.large
@pytest.mark.parametrize("true", FAR)
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize(("gain", "offset"), [(1, 0), (0.8, 0.06), (1.2, -0.1)])
def test_movements_are_found_under_other_light_and_behind_an_object(channels, true, gain, offset):
    moved = gain * TEXTURES[channels].seen(H, W, *true) + offset
    moved[16:59, 20:68] = OBJECTS[channels].seen(43, 48)  # 30 % of the picture
    assert farthest(registered(channels).estimate(noisy(moved)), true) < 0.2


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("sigma", [0.0, 0.01, 0.03])
def test_a_still_camera_is_left_alone(channels, sigma):
    assert registered(channels).estimate(noisy(TEXTURES[channels].seen(H, W), sigma)) is None


@pytest.mark.large
@pytest.mark.parametrize("channels", [1, 3])
def test_neither_light_nor_an_object_moves_the_camera(channels):
    still = TEXTURES[channels].seen(H, W)
    registration = registered(channels)
    for gain, offset in [(0.6, 0.0), (1.2, 0.1), (0.7, 0.2)]:
        assert registration.estimate(noisy(gain * still + offset)) is None
    for top, left in [(0, 0), (16, 20), (29, 48)]:
        occluded = still.copy()
        occluded[top : top + 43, left : left + 48] = OBJECTS[channels].seen(43, 48)
        assert registration.estimate(noisy(occluded)) is None


@pytest.mark.large
@pytest.mark.parametrize("seed", range(6))
def test_a_frame_without_detail_shows_no_movement(seed):
    registration = Registration()
    registration.set_reference(reference.Texture(seed).seen(90, 120))
    for level in (0.0, 0.2, 0.5, 0.9, 1.0):
        assert registration.estimate(np.full((90, 120, 1), level, F)) is None


@pytest.mark.large
def test_another_picture_shows_no_movement():
    for channels in (1, 3):
        registration = Registration()
        registration.set_reference(reference.Texture(0, channels).seen(90, 120))
        for seed in range(300, 330):
            other = reference.Texture(seed, channels).seen(90, 120)
            assert registration.estimate(other) is None
            assert registration.estimate(0.4 * other + F(0.3)) is None  # which a tone fits nearly anywhere


def test_a_flat_reference_is_no_reference():
    registration = Registration()
    assert registration.estimate(TEXTURES[1].seen(H, W)) is None
    registration.set_reference(np.full((H, W, 1), 0.5, F))
    assert registration.estimate(TEXTURES[1].seen(H, W)) is None


@pytest.mark.parametrize("shape", [(1, 1), (1, 50), (50, 1), (3, 5), (4, 4), (9, 11)])
@pytest.mark.parametrize("channels", [1, 3])
def test_tiny_frames_are_taken(shape, channels):
    registration = registered(channels, *shape)
    still = TEXTURES[channels].seen(*shape)
    assert registration.estimate(still) is None
    registration.estimate(TEXTURES[channels].seen(*shape, 0.5, 0.5))


def test_the_movement_is_a_turn_about_the_centre_and_a_shift():
    matrix = Movement(2.0, -1.0, 0.3).matrix((31, 41))
    np.testing.assert_allclose(matrix @ [20, 15, 1], [22, 14])
    np.testing.assert_allclose(matrix[:, :2] @ matrix[:, :2].T, np.eye(2), atol=1e-12)
    assert np.arctan2(matrix[1, 0], matrix[0, 0]) == pytest.approx(0.3)


# ---- there and back ----------------------------------------------------------------------------------------------


DTYPES = {"uint8": 255, "uint16": 65535, "float16": 1, "float32": 1}


def as_frame(image, dtype):
    scaled = image * DTYPES[dtype]
    frame = scaled.astype(dtype) if dtype.startswith("f") else scaled.round().astype(dtype)
    return frame[..., 0] if image.shape[2] == 1 else frame


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("channels", [1, 3])
def test_frames_go_to_the_background_and_back(dtype, channels):
    still = TEXTURES[channels].seen(H, W)
    moved = TEXTURES[channels].seen(H, W, 3.3, -2.4, 0.01)
    background, frame = as_frame(still, dtype), as_frame(moved, dtype)
    stabiliser = Stabiliser()
    assert stabiliser.needs_reference()
    stabiliser.set_reference(still)
    assert not stabiliser.needs_reference()
    kept = frame.copy(), background.copy()
    aligned = stabiliser.align(frame, moved, background)
    assert stabiliser.movement is not None
    assert (aligned.dtype, aligned.shape) == (frame.dtype, frame.shape)
    full = DTYPES[dtype]
    # bilinear interpolation blurs; what the frame does not show is the background itself
    assert np.abs(aligned.astype(float) - background).mean() < 0.02 * full
    np.testing.assert_array_equal(aligned[0], background[0])
    again = stabiliser.back(aligned, frame, smooth=True)
    assert (again.dtype, again.shape) == (frame.dtype, frame.shape)
    assert np.abs(again.astype(float) - frame).mean() < 0.02 * full
    np.testing.assert_array_equal(frame, kept[0])
    np.testing.assert_array_equal(background, kept[1])


def test_masks_go_forth_and_back():
    stabiliser = Stabiliser()
    stabiliser.set_reference(TEXTURES[1].seen(H, W))
    moved = TEXTURES[1].seen(H, W, 3.0, -2.0)
    stabiliser.align(moved[..., 0], moved, TEXTURES[1].seen(H, W)[..., 0])
    known = np.zeros((H, W), bool)
    known[20:40, 30:60] = True
    forth = stabiliser.forth(known)
    assert forth.dtype == bool
    expected = np.zeros_like(known)
    expected[22:42, 27:57] = True
    np.testing.assert_array_equal(forth, expected)
    mask = forth.astype(np.uint8) * 255
    back = stabiliser.back(mask, np.zeros_like(mask), smooth=False)
    assert set(np.unique(back)) == {0, 255}
    np.testing.assert_array_equal(back != 0, known)


def test_a_still_camera_changes_nothing():
    still = TEXTURES[1].seen(H, W)
    frame = as_frame(still, "uint8")
    known = frame > 128
    stabiliser = Stabiliser()
    stabiliser.set_reference(still)
    assert stabiliser.align(frame, still, frame) is frame
    assert stabiliser.forth(known) is known
    assert stabiliser.back(frame, frame, smooth=True) is frame


def test_the_background_is_looked_at_again():
    frame = np.full((2, 2), 128, np.uint8)
    x = np.full((2, 2, 1), 0.5, F)
    stabiliser = Stabiliser()
    stabiliser.set_reference(x)
    count = 0
    while not stabiliser.needs_reference():
        stabiliser.align(frame, x, frame)
        count += 1
    assert 10 <= count <= 500
