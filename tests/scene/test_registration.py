"""Camera movement: kernels against their twins, and planted movements."""

import math

import numpy as np
import pytest
import reference_scene as reference
from hypothesis import given
from hypothesis import strategies as st
from numpy.lib.stride_tricks import sliding_window_view
from scipy import ndimage

from bgsub import synthetic
from bgsub._opencv import cv2
from bgsub.errors import ParameterError
from bgsub.scene import _registration_kernels as kernels
from bgsub.scene.registration import Movement, Registration, _Correlation, _Points
from bgsub.scene.stabiliser import Stabiliser, to_background, to_frame

F = np.float32
H, W = 72, 96
FAR = [(0.5, -0.3, 0.0), (2.6, 1.7, 0.0), (-5.2, 3.1, 0.0), (0.0, 0.0, 0.012), (3.0, -2.0, -0.02)]
ZOOMS = [(2.0, -1.5, 0.0, zoom) for zoom in (0.03, -0.05, 0.08)]
TEXTURES = {1: reference.Texture(1, 1), 3: reference.Texture(3, 3)}
OBJECTS = {1: reference.Texture(11, 1), 3: reference.Texture(13, 3)}


def seen(channels, *movement):
    return TEXTURES[channels].seen(H, W, *movement)


def registered(image, scale=1.0):
    registration = Registration()
    registration.set_reference(image, scale)
    return registration


def noisy(image, sigma=0.01, seed=0):
    noise = np.random.default_rng(seed).normal(0, sigma, image.shape)
    return (image + noise).clip(0, 1).astype(F)


def farthest(found, true, h=H, w=W):
    """Largest distance of a corner, in pixels, from where it is."""
    corners = np.array([[0, 0, 1], [w - 1, 0, 1], [0, h - 1, 1], [w - 1, h - 1, 1]]).T
    return np.linalg.norm((found.matrix((h, w)) - Movement(*true).matrix((h, w))) @ corners, axis=0).max()


def planted(h, w, c, seed, dtype="uint8"):
    """A picture of noise and its scale."""
    image = np.random.default_rng(seed).random((h, w, c))
    return ((255 * image).astype(np.uint8), 1 / 255) if dtype == "uint8" else (image.astype(dtype), 1.0)


@pytest.mark.parametrize("dtype", ["uint8", "float32"])
@given(h=st.integers(8, 30), w=st.integers(8, 30), c=st.integers(1, 3), seed=st.integers(0, 99))
def test_points_have_the_largest_gradients_and_values_and_slopes_of_their_twin(dtype, h, w, c, seed):
    image, scale = planted(h, w, c, seed, dtype)
    points = _Points((h, w, c))
    points.take(image, scale)
    state, side = points.state(), 4
    x, y = state["points"][:2]
    places = np.rint((y + (h - 1) / 2) * w + x + (w - 1) / 2).astype(int)
    grey = (scale * image).mean(axis=2)
    slopes = [np.pad(ndimage.sobel(grey, axis)[1:-1, 1:-1] / 8, 1) for axis in (1, 0)]  # 0 on the rim
    inner = np.zeros((h, w))
    inner[1:-1, 1:-1] = (slopes[0] ** 2 + slopes[1] ** 2)[1:-1, 1:-1]
    cells = sliding_window_view(inner, (side, side))[::side, ::side].reshape(h // side, w // side, -1)
    np.testing.assert_allclose(np.sort(state["strength"]), np.sort(cells)[..., -8:], rtol=1e-4, atol=1e-7)
    np.testing.assert_allclose(inner.ravel()[places], state["strength"], rtol=1e-4, atol=1e-7)
    gx, gy = (array.ravel()[places] for array in slopes)
    y, x = places // w - (h - 1) / 2, places % w - (w - 1) / 2
    turn = (gy * x - gx * y) / np.hypot((w - 1) / 2, (h - 1) / 2)
    growth = (gx * x + gy * y) / np.hypot((w - 1) / 2, (h - 1) / 2)
    expected = [gx, gy, turn, -grey.ravel()[places], np.full(places.shape, -1), growth]
    np.testing.assert_allclose(state["points"][2:], expected, atol=1e-5)


@pytest.mark.parametrize("dtype", ["uint8", "float32"])
@pytest.mark.parametrize(("h", "w", "c"), [(41, 60, 3), (170, 191, 3), (330, 300, 1)])
def test_coarse_pictures_are_means_over_squares(dtype, h, w, c):
    image, scale = planted(h, w, c, 0, dtype)
    registration = registered(image, scale)
    level, factor = registration._reduced(image), max(1, round(min(h, w) / 100))
    squares = image[: h // factor * factor, : w // factor * factor].reshape(h // factor, factor, w // factor, factor, c)
    expected = squares.mean(axis=(1, 3, 4), dtype=float)[..., np.newaxis]
    np.testing.assert_allclose(scale * level, scale * expected, atol=1e-5 if dtype == "float32" else 2 * scale)


@given(h=st.integers(9, 20), w=st.integers(9, 20), seed=st.integers(0, 99))
def test_correlation_equals_its_twin(h, w, seed):
    one, other = (planted(h, w, 1, seed + i, "float32")[0] for i in range(2))
    image = (np.roll(one, (1, -2), (0, 1)) if seed % 3 else one) + F(0.3) * other
    correlation = _Correlation((h, w))
    correlation.spectrum = correlation.transformed(one)
    expected = reference.correlated(one[..., 0], image[..., 0], 3, cv2.getOptimalDFTSize(h), cv2.getOptimalDFTSize(w))
    np.testing.assert_allclose(correlation.find(image, 3), expected, rtol=1e-2, atol=1e-2)


def test_a_negative_is_no_movement():
    still = np.random.default_rng(1).integers(60, 120, (48, 64, 3)).astype(np.uint8)
    registration = registered(255 - still, 1 / 255)
    assert registration.estimate(still, 1 / 255) is None


@pytest.mark.parametrize("h", [48, 240])
def test_a_wall_that_is_lit_from_the_other_side_is_no_movement(h):
    slope = np.broadcast_to(np.linspace(0.8, 0.2, 4 * h // 3), (h, 4 * h // 3))[..., np.newaxis]
    registration = registered(noisy(slope, seed=1))
    assert registration.estimate(noisy(slope[:, ::-1], seed=2)) is None


@given(c=st.sampled_from([1, 3]), rests=st.booleans(), zooms=st.booleans(), seed=st.integers(0, 99))
def test_steps_equal_gauss_newton(c, rests, zooms, seed):
    rng, h, w = np.random.default_rng(seed), 20, 26
    n, image = int(rng.integers(9, 31)), TEXTURES[c].seen(h, w)
    y, x = rng.integers([1, 1], [h - 1, w - 1], (n, 2)).T
    points = np.stack([x - (w - 1) / 2, y - (h - 1) / 2]).astype(F)
    rows = np.stack([*rng.normal(0, 0.1, (3, n)), -rng.random(n), -np.ones(n), rng.normal(0, 0.1, n)]).astype(F)
    rows = rows[: 5 + zooms]
    work = np.empty(n, F), np.empty((2, n), F), np.empty((6, 6)), np.empty(6)
    if rests:
        image, expected = (255 * image).astype(np.uint8), np.array([0, 0, 0, 1.1, -0.05, 0])
    else:
        expected = np.array([0, 0, 0, 1, 0, 0]) + rng.normal(0, [1, 1, 0.05, 0.1, 0.1, 0.05])
    expected = expected[: 5 + zooms]
    movement, scale = expected.copy(), 1 / 255 if rests else 1.0
    for _ in range(1 if rests else 2):
        found = kernels.align(image, scale, points, rows, 0.25, 15.0, movement, *work)
        expected, *costs = reference.align_step(scale * image, points, rows, 0.25, 15.0, expected)
    np.testing.assert_allclose(movement, expected, rtol=1e-3, atol=1e-3)
    assert found == pytest.approx(costs, rel=1e-3, abs=1e-3)


@pytest.mark.parametrize("dtype", ["uint8", "float32"])
@given(h=st.integers(1, 7), w=st.integers(1, 7), c=st.integers(1, 3), seed=st.integers(0, 99))
def test_shift_equals_its_twin(dtype, h, w, c, seed):
    image, _ = planted(h, w, c, seed, dtype)
    outside, _ = planted(h, w, c, seed + 1, dtype)
    for dx, dy in np.random.default_rng(seed).uniform(-4, 4, (4, 2)):
        shown = to_frame(Movement(-dx, -dy, 0.0), image, outside, smooth=True)
        moved = ndimage.shift(image.astype(float), (-dy, -dx, 0), order=1, cval=np.nan)
        expected = np.where(np.isnan(moved), outside, moved)
        np.testing.assert_allclose(shown, expected, atol=0.51 if dtype == "uint8" else 1e-5)


def test_movement_turns_about_the_centre():
    centre = np.array([(W - 1) / 2, (H - 1) / 2, 1.0])
    np.testing.assert_allclose(Movement(2.0, -1.0, 0.3).matrix((H, W, 1)) @ centre, centre[:2] + np.array([2, -1]))


@pytest.mark.parametrize(("true", "channels"), [*zip(FAR + ZOOMS, [1, 3, 1, 3, 3, 1, 3, 3], strict=True)])
def test_planted_movements_are_found(channels, true):
    assert farthest(registered(seen(channels)).estimate(noisy(seen(channels, *true))), true) < 0.1


@pytest.mark.large
@pytest.mark.parametrize(
    ("true", "channels", "gain", "offset"),
    [(FAR[0], 3, 0.8, 0.06), (FAR[1], 1, 1.2, -0.1), (FAR[2], 3, 1.2, -0.1), (FAR[3], 1, 0.8, 0.06), (FAR[4], 3, 1, 0)],
)
def test_movements_are_found_with_light_and_occlusion(channels, true, gain, offset):
    moved = gain * seen(channels, *true) + offset
    moved[16:59, 20:68] = OBJECTS[channels].seen(43, 48)  # 30 % of the picture
    assert farthest(registered(seen(channels)).estimate(noisy(moved)), true) < 0.2


@pytest.mark.parametrize("degrees", [1.5, -2.5])
def test_turns_are_found_in_a_scene(degrees):
    frame = next(iter(synthetic.scene("street", length=1, walkers=4, empty_start=0)))[0]
    registration = registered(frame, 1 / 255)
    true = Movement(4.0, -3.0, math.radians(degrees))
    moved = cv2.warpAffine(frame, true.matrix(frame.shape), frame.shape[1::-1], borderMode=cv2.BORDER_REPLICATE)
    assert farthest(registration.estimate(moved, 1 / 255), true, *frame.shape[:2]) < 0.2


def test_a_shaking_camera_tries_a_zoom_every_fourth_time():
    registration, true = registered(seen(1)), (3.0, -2.0, 0.0, 0.06)
    for i in range(6):
        shaken = seen(1, 3.0, i - 2.0)
        shaken[10:62, 10:80] = OBJECTS[1].seen(52, 70)  # half of the picture: no movement fits well
        assert registration.estimate(noisy(shaken)).zoom == 0
    zoomed = noisy(seen(1, *true))
    found = [farthest(registration.estimate(zoomed), true) < 0.2 for _ in range(4)]
    assert found == [False, False, True, True]


def test_the_frames_after_a_movement_are_searched_even_if_one_step_is_short():
    far, rest = seen(1, 11.0, 6.0, 0.0), seen(1)
    registration = registered(rest)
    assert registration.estimate(far) is not None
    registration.set_reference(0.5 + F(0.06) * rest)  # of low contrast
    assert farthest(registration.estimate(0.5 + F(0.06) * far), (11.0, 6.0, 0.0)) < 0.2


@pytest.mark.large
@pytest.mark.parametrize("channels", [1, 3])
def test_noise_light_and_objects_are_no_movement(channels):
    still = seen(channels)
    registration = registered(still)
    for sigma in (0, 0.01, 0.03):
        assert registration.estimate(noisy(still, sigma)) is None
    for gain, offset in [(0.6, 0.0), (1.2, 0.1), (0.7, 0.2)]:
        assert registration.estimate(noisy(gain * still + offset)) is None
    for top, left in [(0, 0), (16, 20), (29, 48)]:
        occluded = still.copy()
        occluded[top : top + 43, left : left + 48] = OBJECTS[channels].seen(43, 48)
        assert registration.estimate(noisy(occluded)) is None


@pytest.mark.large
def test_other_or_flat_scenes_give_no_movement():
    for channels in (1, 3):
        registration = Registration()
        assert registration.estimate(reference.Texture(0, channels).seen(90, 120)) is None  # without a reference
        registration.set_reference(reference.Texture(0, channels).seen(90, 120))
        for seed in range(300, 305):
            other = reference.Texture(seed, channels).seen(90, 120)
            assert registration.estimate(other) is None
            assert registration.estimate(0.4 * other + F(0.3)) is None  # a tone curve fits nearly anywhere
        for level in (0.0, 0.5, 1.0):
            assert registration.estimate(np.full((90, 120, channels), level, F)) is None


@pytest.mark.parametrize("shape", [(1, 1, 1), (1, 50, 3), (4, 4, 3), (9, 11, 1)])
def test_tiny_frames(shape):
    *shape, channels = shape
    still = TEXTURES[channels].seen(*shape)
    registration = registered(still)
    assert registration.estimate(still) is None
    registration.estimate(TEXTURES[channels].seen(*shape, 0.5, 0.5))


def as_frame(image, dtype, full):
    frame = (full * image).astype(dtype) if full == 1 else (full * image).round().astype(dtype)
    return frame[..., 0] if image.shape[2] == 1 else frame


@pytest.mark.parametrize(
    ("dtype", "full", "channels", "movement"),
    [
        ("uint8", 255, 3, (3.3, -2.4, 0.01)),
        ("uint16", 65535, 1, (-0.4, -0.2, 0.0)),
        ("float32", 1, 3, (3.3, -2.4, 0.0)),
        ("float32", 1, 1, (-0.4, -0.2, 0.0)),
        ("uint8", 255, 3, (1.3, -2.4, 0.0, 0.04)),
    ],
)
def test_frames_are_aligned_and_mapped_back(dtype, full, channels, movement):
    background, frame = (as_frame(image, dtype, full) for image in (seen(channels), seen(channels, *movement)))
    kept = frame.copy(), background.copy()
    aligned, moved = Stabiliser().align(frame, background, 1 / full)
    assert moved is not None
    assert (aligned.dtype, aligned.shape) == (frame.dtype, frame.shape)
    # bilinear interpolation blurs; what the frame does not show is the background itself
    assert np.abs(aligned.astype(float) - background).mean() < 0.02 * full
    np.testing.assert_array_equal(aligned[0], background[0])
    again = to_frame(moved, aligned, frame, smooth=True)
    assert (again.dtype, again.shape) == (frame.dtype, frame.shape)
    assert np.abs(again.astype(float) - frame).mean() < 0.02 * full
    np.testing.assert_array_equal(frame, kept[0])
    np.testing.assert_array_equal(background, kept[1])


def test_rotated_mask_is_mapped_back_and_a_still_one_unchanged():
    stabiliser = Stabiliser()
    still = seen(1)
    _, movement = stabiliser.align(seen(1, 0, 0, 0.05), still)
    known = np.zeros((H, W), bool)
    known[20:50, 30:70] = True
    forth = to_background(movement, known)
    assert 20 < np.count_nonzero(forth != known) < 300
    back = to_frame(movement, forth.view(np.uint8), None, smooth=False)
    assert np.count_nonzero(back != known) < 20
    aligned, movement = stabiliser.align(still, still)
    assert (aligned is still, movement) == (True, None)
    assert to_background(None, known) is known
    assert to_frame(None, still, still, smooth=True) is still


@pytest.mark.parametrize("c", [1, 3])
def test_a_reference_in_parts_equals_one_at_once(c):
    image, scale = planted(H, W, c, 0)
    whole, parts = registered(seen(c)), registered(seen(c))
    whole.set_reference(image, scale)
    count = 0
    while not parts.set_reference(image, scale, count):
        count += 1
    assert count > 10
    for name, arrays in whole.state().items():
        if name in ("fine", "coarse"):
            np.testing.assert_allclose(parts.state()[name]["strength"], arrays["strength"], rtol=1e-5)


def test_texture_that_the_coarse_scale_does_not_show():
    stripes = np.broadcast_to(np.arange(400) % 3 == 1, (280, 400))  # constant in the means over squares of 3 pixels
    wide = np.random.default_rng(0).random((280, 4480))  # one row of cells, none on the coarse scale
    for still in (image[..., np.newaxis].astype(F, order="C") for image in (stripes, wide)):
        registration = registered(still)
        assert registration.estimate(still) is None
        assert registration.estimate(np.full_like(still, 0.5)) is None
        registration.estimate(np.roll(still, 1, axis=1))
        assert registration._fine.count > 100 > registration._coarse.count == 0


def test_new_reference_is_used_at_once():
    registration = registered(seen(1))
    registration.set_reference(np.full((H, W, 1), 0.5, F))
    assert registration.estimate(seen(1, *FAR[1])) is None
    registration.set_reference(OBJECTS[1].seen(H, W))
    assert farthest(registration.estimate(OBJECTS[1].seen(H, W, *FAR[1])), FAR[1]) < 0.1


def test_points_move_to_the_texture_of_a_new_reference():
    is_left = np.arange(W)[None, :, None] < W // 2
    registration = registered(np.where(is_left, seen(1), F(0.5)))
    registration.set_reference(np.where(is_left, F(0.5), seen(1)))
    moved = np.where(is_left, F(0.5), seen(1, *FAR[1]))
    assert farthest(registration.estimate(moved), FAR[1]) < 0.2


def test_saved_points_on_the_border_are_refused():
    shape = (H, W, 1)
    state = registered(seen(1)).state()
    Registration().set_state(state, shape)
    for y, x in [(0, 5), (H - 1, 5), (5, 0), (5, W - 1), (H, 5)]:
        points, strength = state["fine"]["points"].copy(), state["fine"]["strength"]
        points[:2, strength == strength.max()] = np.array([[x - (W - 1) / 2], [y - (H - 1) / 2]])
        with pytest.raises(ParameterError, match="on its border"):
            Registration().set_state({**state, "fine": {**state["fine"], "points": points}}, shape)
