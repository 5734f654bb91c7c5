"""Light: kernels against their twins, and which changes are explained."""

from dataclasses import replace

import numpy as np
import pytest
import reference_scene as reference
from hypothesis import given
from hypothesis import strategies as st

from bgsub import BackgroundSubtractor
from bgsub.scene.illumination import Illumination, Light, _Drift, _LightFit
from bgsub.separation import FOREGROUND
from bgsub.synthetic import scene

F = np.float32
THRESHOLD = 0.08
SIZES = {1: (30, 40), 3: (60, 80)}
COLOURS = [1, pytest.param(3, marks=pytest.mark.large)]


def picture(channels, seed=0):
    h, w = SIZES[channels]  # details finer than the cells of the gain field
    return reference.Texture(seed, channels, finest=9 * w / 80, side=w).seen(h, w)


def noisy(image, seed=0):
    return (image + np.random.default_rng(seed).normal(0, 0.005, image.shape)).clip(0, 1).astype(F)


def lamp(image):
    """Light the right half by a coloured lamp with a soft border."""
    _, w, channels = image.shape
    share = 1 / (1 + np.exp(-(np.arange(w) - w / 2) / (0.07 * w)))
    return image * (1 + 0.6 * share[None, :, None] * np.array([1.0, 0.7, 0.4])[:channels])


LIGHTS = {
    "same": lambda image: image,
    "darker": lambda image: 0.7 * image,
    "brighter": lambda image: 1.3 * image,
    "offset": lambda image: image + 40 / 255,
    "gamma": lambda image: image**0.6,
    "lamp": lamp,
}


def box(h, w, top, left, bottom, right):
    """Return which pixels are within the given shares of the picture."""
    inside = np.zeros((h, w), bool)
    inside[round(top * h) : round(bottom * h), round(left * w) : round(right * w)] = True
    return inside


def distance(a, b):
    return np.linalg.norm(a.astype(float) - b, axis=2)


GRID, SHAPE = (3, 4), (9, 13)


def planted(seed, n, c):
    """Return a fit at some sites, their places on its grid, base and frame there, and a light."""
    rng = np.random.default_rng(seed)
    index = rng.choice(SHAPE[0] * SHAPE[1], n, replace=False)
    fit = _LightFit((*SHAPE, c), index, GRID, (), THRESHOLD)
    base, x = rng.uniform(-0.05, 1.05, (2, n, c)).astype(F)
    light = Light(base, rng.uniform(0.5, 1.5, (*GRID, c)), rng.normal(0, 0.1, (4, c)), 0.0)
    return fit, reference.places_of(*SHAPE, GRID)[index], base, x, light


@pytest.mark.parametrize("dtype", ["uint8", "float32"])
@given(h=st.integers(2, 9), w=st.integers(2, 9), c=st.sampled_from([1, 3]), seed=st.integers(0, 99))
def test_values_contrast_and_explained_share(dtype, h, w, c, seed):
    rng = np.random.default_rng(seed)
    x, y = (255 * rng.random((2, h, w, c))).astype(dtype)
    y = np.where(rng.random((h, w, 1)) < 0.6, x, y)
    illumination = Illumination((h, w, c), THRESHOLD)
    values = np.sort((x / 255).reshape(-1, c), axis=0)
    np.testing.assert_allclose(np.sort(illumination.values(x, 1 / 255), axis=0), values, atol=1e-6)
    expected = [image.astype(float).mean(axis=2).std() for image in (x, y)]
    np.testing.assert_allclose(illumination.contrasts(x, y), expected, atol=1e-4)
    expected = np.mean(distance(x, y) < THRESHOLD * 255)
    assert illumination.explained(x.reshape(-1), y.reshape(-1), 1 / 255) == pytest.approx(expected)


@given(n=st.integers(2, 30), c=st.sampled_from([1, 3]), seed=st.integers(0, 99))
def test_explained_share_of_a_fit_equals_its_twin(n, c, seed):
    fit, places, base, x, light = planted(seed, n, c)
    light = replace(light, tone=0.3 * light.tone)  # brighter values stay brighter
    d, _ = reference.light_errors(x, base, places, light.grid, light.tone)
    fit.threshold = float(np.median(d)) + 1e-4
    assert fit.refined(x, base, light, ()).explained == pytest.approx(np.mean(d < fit.threshold))


@given(n=st.integers(2, 30), c=st.sampled_from([1, 3]), seed=st.integers(0, 99))
def test_fit_equals_its_twin(n, c, seed):
    fit, places, base, x, light = planted(seed, n, c)
    penalty = np.diag(np.r_[np.full(12, 1e-4), np.full(4, 3e-3)])
    penalty[:12, :12] += 1e-4 * reference.roughness(GRID)
    mus = (0.4, 0.2)
    found = fit.refined(x, base, light, mus)
    grid, tone = light.grid, light.tone
    for mu in mus:
        solutions = []
        for channel in range(c):
            gram, right = reference.light_equations(x, base, places, grid, tone, mu, channel)
            right[:12] += 1e-4 * n
            solutions.append(np.linalg.solve(gram + n * penalty, right))
        grid = np.stack([solution[:12].reshape(GRID) for solution in solutions], 2)
        tone = np.stack([solution[12:] for solution in solutions], 1)
    np.testing.assert_allclose(found.grid, grid, atol=3e-3)
    np.testing.assert_allclose(found.tone, tone, atol=3e-3)


@pytest.mark.parametrize("dtype", ["uint8", "float32"])
@given(h=st.integers(1, 9), w=st.integers(1, 9), c=st.sampled_from([1, 3]), seed=st.integers(0, 99))
def test_render_equals_its_twin(dtype, h, w, c, seed):
    rng = np.random.default_rng(seed)
    full = 255 if dtype == "uint8" else 1
    base = (full * rng.random(h * w * c)).astype(dtype)
    grid, tone = rng.uniform(0.5, 1.5, (3, 4, c)), rng.normal(0, 0.1, (4, c))
    out = Illumination((h, w, c), THRESHOLD).render(Light(base, grid, tone, 0.0, 1 / full))
    expected = reference.lit(base.reshape(-1, c) / full, reference.places_of(h, w, (3, 4)), grid, tone)
    np.testing.assert_allclose(out.reshape(-1, c), expected, atol=1e-5)


@pytest.mark.parametrize(("light", "channels"), [*zip(LIGHTS, [1, 3, 1, 3, 1, 3], strict=True)])
def test_light_is_explained_and_objects_are_not(channels, light):
    background = picture(channels)
    frame = LIGHTS[light](background)
    h, w = frame.shape[:2]
    hidden = box(h, w, 0.2, 0.25, 0.65, 0.7)  # 20 %
    frame[hidden] = picture(channels, 50)[hidden]
    frame = noisy(frame)
    illumination = Illumination(frame.shape, THRESHOLD)
    found = illumination.explain(frame.ravel(), [background.ravel()])
    d = distance(illumination.render(found).reshape(frame.shape), frame)
    assert np.mean(d[~hidden] < THRESHOLD) > 0.98
    assert np.median(d[~hidden]) < 0.02
    by_chance = np.mean(distance(background, picture(channels, 50))[hidden] < THRESHOLD)
    assert np.mean(d[hidden] < THRESHOLD) < by_chance + 0.2
    assert found.explained == pytest.approx(np.mean(d < THRESHOLD), abs=0.05)
    if light != "same":
        assert illumination.explained(frame.ravel(), background.ravel()) < 0.5


@pytest.mark.parametrize("channels", COLOURS)
def test_large_object_is_not_light(channels):
    background = picture(channels)
    h, w = background.shape[:2]
    bus = box(h, w, 0.1, 0.05, 0.9, 0.8)  # 60 %
    for seed in range(50, 53):
        frame = background.copy()
        frame[bus] = picture(channels, seed)[bus]
        illumination = Illumination(frame.shape, THRESHOLD)
        before = illumination.explained(frame.ravel(), background.ravel())
        found = illumination.explain(frame.ravel(), [background.ravel()])
        assert 1 - found.explained > 0.75 * (1 - before)  # hardly any more than as it stands
        assert found.explained < (0.68 if channels == 1 else 0.5)


@pytest.mark.parametrize("channels", COLOURS)
def test_a_large_pale_object_is_not_light(channels):
    background = F(0.3) + F(0.15) * picture(channels)
    frame = noisy(background, 1)
    bus = box(*frame.shape[:2], 0.1, 0.05, 0.9, 0.8)
    frame[bus] = (F(0.3) + F(0.15) * picture(channels, 50))[bus]
    illumination = Illumination(frame.shape, THRESHOLD)
    assert illumination.explain(frame.ravel(), [background.ravel()]).explained > 0.8
    illumination.set_limits(THRESHOLD, 0.25, np.empty(0, int))
    assert illumination.explain(frame.ravel(), [background.ravel()]).explained < (0.68 if channels == 1 else 0.5)


@pytest.mark.parametrize("channels", COLOURS)
def test_leaves_before_the_whole_picture_are_not_light(channels, monkeypatch):
    background = picture(channels)
    leaves = noisy(F(0.3) + F(0.05) * picture(channels, 50))  # a tone curve that hardly rises makes the rest alike
    illumination = Illumination(leaves.shape, THRESHOLD)
    assert illumination.explain(leaves.ravel(), [background.ravel()], 0.4) is None
    # a wall without detail shows its light only
    wall, lit = np.full_like(background, 0.6), noisy(np.full_like(background, 0.4))
    assert illumination.explain(lit.ravel(), [noisy(wall, 1).ravel()], 0.4).explained > 0.9
    monkeypatch.setattr("bgsub.scene.illumination._DETAIL", -1)
    assert illumination.explain(leaves.ravel(), [background.ravel()], 0.4).explained > 0.6


@pytest.mark.parametrize("channels", COLOURS)
def test_few_pixels_show_that_an_object_is_no_light(channels, monkeypatch):
    background = picture(channels)
    frame = noisy(background)
    there = box(*frame.shape[:2], 0.3, 0.3, 0.5, 0.6)  # 6 %
    frame[there] = picture(channels, 50)[there]
    illumination = Illumination(frame.shape, THRESHOLD)
    lit = LIGHTS["darker"](frame)
    free, limited = (illumination.explain(lit.ravel(), [background.ravel()], *leaves) for leaves in ((), (0.6,)))
    np.testing.assert_array_equal(limited.grid, free.grid)
    assert illumination.explain(frame.ravel(), [background.ravel()]).explained > 0.9
    assert illumination.explain(frame.ravel(), [background.ravel()], 0.6, of_all=True).explained > 0.9
    monkeypatch.setattr(illumination, "_last", None)  # the fit at all sites would be an error
    assert illumination.explain(frame.ravel(), [background.ravel()], 0.6) is None


def test_saturated_black_and_negative_frames():
    background = picture(1)
    illumination = Illumination(background.shape, THRESHOLD)

    def explain(frame, base=background):
        return illumination.explain(np.ravel(frame), [np.ravel(base)])

    assert explain(1 - background) is None
    frame = noisy(2 * background)
    assert np.mean(frame == 1) > 0.3
    assert explain(frame).explained > 0.9
    assert illumination.render(explain(frame)).max() == 1
    black = np.zeros_like(background)
    assert explain(black, black).explained == 1
    np.testing.assert_allclose(illumination.render(explain(black, black)), 0, atol=1e-6)
    assert np.isfinite(illumination.render(explain(black + 1, black))).all()


@pytest.mark.parametrize("channels", COLOURS)
def test_what_was_saturated_is_seen_when_the_light_falls(channels):
    scene = 1.8 * picture(channels)
    background, frame = noisy(scene), noisy(0.5 * scene, 1)
    hidden = background == 1
    assert 0.2 < np.mean(hidden) < 0.6
    illumination = Illumination(background.shape, THRESHOLD)
    light = illumination.explain(frame.reshape(-1), [background.reshape(-1)], 0.1, of_all=True)
    lit = illumination.render(light, frame.reshape(-1)).reshape(frame.shape)
    assert np.mean(distance(frame, lit) < THRESHOLD) > 0.97
    dark = frame.copy()  # less light than that is no light
    dark[hidden] *= 0.5
    assert illumination.explain(dark.reshape(-1), [background.reshape(-1)], 0.1, of_all=True) is None


def test_remembered_backgrounds_are_recognised_without_duplicates():
    now, remembered = picture(1, 0).ravel(), picture(1, 1).ravel()
    illumination = Illumination((*SIZES[1], 1), THRESHOLD)
    frame = noisy(remembered)
    assert illumination.explain(frame, [now]) is None
    illumination.remember(remembered)
    found = illumination.explain(frame, [now])
    np.testing.assert_array_equal(found.base, remembered)
    assert found.explained > 0.95
    assert illumination.explain(noisy(now), [now]).base is now
    for _ in range(3):
        for seed in (0, 1):
            illumination.remember(noisy(picture(1, seed).ravel()))
    assert len(illumination._memory) == 2
    for seed in range(10):
        illumination.remember(picture(1, seed).ravel())
    assert 2 <= len(illumination._memory) < 10
    for i, memory in enumerate(illumination._memory):  # the newest ones, the last one first
        np.testing.assert_array_equal(memory, picture(1, 9 - i).ravel())


@pytest.mark.parametrize("channels", [1, 3])
def test_a_flash_and_a_broken_frame_leave_nothing_behind(channels):
    frames = scene("lobby", length=260, seed=4, lamps=False, shadows=False, channels=channels).frames()
    plain, changed = BackgroundSubtractor(random_state=0), BackgroundSubtractor(random_state=0)
    missed = added = found = 0
    for i, frame in enumerate(frames):
        expected = plain.apply(frame) == FOREGROUND
        seen = frame.copy()
        if i % 80 == 35:
            seen = np.clip(1.8 * frame + 30.0, 0, 255).astype(np.uint8)
        elif i % 80 == 75:
            seen[len(seen) // 2 :] = 128
        mask = changed.apply(seen) == FOREGROUND
        if i > 100 and i % 40 != 35:
            missed, added = missed + int((expected & ~mask).sum()), added + int((mask & ~expected).sum())
            found += int(expected.sum())
    assert found > 10_000
    assert max(missed, added) < 0.05 * found


def test_only_the_newest_background_returns_in_its_own_light():
    seen, now = (picture(1, seed).ravel() for seed in (5, 6))
    illumination, fitted = Illumination((*SIZES[1], 1), THRESHOLD), None
    assert illumination.returned(seen, now, fitted) is None
    illumination.remember(seen)
    found = illumination.returned(noisy(seen), now, fitted)
    assert found.has_returned
    np.testing.assert_allclose(illumination.render(found), seen, atol=1e-6)
    assert illumination.returned(noisy(now), now, fitted) is None
    better = replace(found, explained=found.explained + 0.05, has_returned=False)
    assert illumination.returned(noisy(seen), now, better) is better
    illumination.remember(now)
    assert illumination.returned(noisy(seen), picture(1, 7).ravel(), fitted) is None


@pytest.mark.parametrize("channels", [1, 3])
def test_remembered_backgrounds_move_with_the_camera(channels):
    seen = np.random.default_rng(1).random((12, 16, channels)).astype(F)
    illumination = Illumination(seen.shape, THRESHOLD)
    illumination.remember(seen.reshape(-1))
    illumination.move(np.arange(12 * 16).reshape(12, 16)[::-1].reshape(-1))
    np.testing.assert_array_equal(illumination.state()["memory0"], seen[::-1].reshape(-1))


def test_bytes_under_a_light_are_rounded():
    image = np.random.default_rng(0).integers(30, 200, 12 * 16, np.uint8)
    illumination = Illumination((12, 16, 1), THRESHOLD)
    values = illumination.values(image, 1 / 255)
    light = illumination.between(values, F(0.6) * values)
    got, exact = (illumination.relit(picture, light, 1 / 255) for picture in (image, image.astype(F)))
    assert (got.dtype, exact.dtype) == (np.uint8, F)
    assert exact.mean() < 0.7 * image.mean()
    np.testing.assert_allclose(got, exact, atol=0.501)


# -- drift ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["uint8", "float32"])
@given(n=st.integers(1, 60), c=st.sampled_from([1, 3]), seed=st.integers(0, 99))
def test_drift_equals_its_twin(dtype, n, c, seed):
    rng, full, limit = np.random.default_rng(seed), 255 if dtype == "uint8" else 1, 0.06
    (h, w), grid = SHAPE, (6, 8)
    index = rng.choice(h * w, n, replace=False)
    base = (full * rng.uniform(0, 1, (h, w, c))).astype(dtype)
    x = (base * rng.uniform(rng.uniform(0.3, 1), 1.0, (h, w, 1)) * rng.uniform(0.8, 1, c)).astype(dtype)
    mask = rng.choice([0, 127, 255], (h, w)).astype(np.uint8)
    drift = _Drift((h, w, c), index)
    found = drift.gains(x, base, mask, limit, full)
    a, b = (image.reshape(-1, c)[index].astype(float) / full for image in (x, base))
    used = (mask.ravel()[index] != 255) & (np.maximum(a, b).max(axis=1) <= 0.98)
    a, b, places = a[used], b[used], reference.places_of(h, w, grid)[index[used]]
    weights = (1 + np.sum((a - b) ** 2, axis=1, keepdims=True) / limit**2) ** -2
    hats = np.array([reference.node_weights(grid, *place).ravel() for place in places]).reshape(-1, 48)
    phi, own, along = weights * hats, weights * b * (a - b), np.sum(b * (a - b), axis=1)
    gram, right, squares = phi.T @ (np.sum(b * b, axis=1, keepdims=True) * hats), phi.T @ along, phi.T**2 @ along**2
    energy, side, error = (part.sum(axis=0) for part in (weights * b * b, own, own**2))
    penalty = (3e-4 * reference.roughness(grid) + 1e-4 * np.eye(48)) * n * c / 3
    change = np.abs(right) / (gram.sum(axis=1) + penalty.diagonal())
    mean = side.sum() / (energy.sum() + 1e-4 * n)
    side = side - mean * energy
    own = side / (energy + 0.05 * energy.mean() + 1e-4 * n)
    strength = max(
        np.minimum(gain / 0.01, np.abs(part) / np.sqrt(np.maximum(variance, 1e-30)) / 4).max()
        for gain, part, variance in ((change, right, squares), (np.abs(own), side, error))
    )
    seen = np.sum(weights) / max(len(weights), 1)
    if abs(strength - 1) > 1e-3 and abs(seen - 0.1) > 1e-4:
        assert (found is None) == (strength < 1 or seen < 0.1)
    if found is not None:
        np.testing.assert_allclose(found[0].ravel(), 1 + np.linalg.solve(gram + penalty, right), atol=1e-4)
        np.testing.assert_allclose(found[1], 1 + own / (1 + mean), atol=1e-4)


def drift_of(frame, background, scale=1.0, mask=None):
    """Return the drift of a frame with a foreground, by default none."""
    mask = np.zeros(background.shape[:2], np.uint8) if mask is None else mask
    return Illumination(background.shape, THRESHOLD).drift(frame, background, mask, 0.06, scale)


@pytest.mark.parametrize("channels", COLOURS)
def test_drift_follows_clouds_and_neither_objects_nor_noise(channels):
    background = 0.8 * picture(channels)
    h, w = background.shape[:2]
    assert drift_of(noisy(background), background) is None
    there = box(h, w, 0.3, 0.3, 0.7, 0.7)
    stranger = background.copy()
    stranger[there] = picture(channels, 50)[there]
    cloud = 1 - 0.04 * (1 + np.sin(np.linspace(0, 3, w)))[:, np.newaxis]
    frame = noisy(cloud * stranger)
    for mask in (None, np.where(there, np.uint8(255), np.uint8(0))):
        factors = drift_of(frame, background, mask=mask)
        error = np.abs(factors - cloud)
        assert error[~there].mean() < 0.012  # of up to 0.08
        assert np.abs(1 - cloud).mean() > 0.05
    assert drift_of(1 - background, background) is None
    frame = noisy(0.9 * background)
    assert drift_of(frame, background) is not None
    assert drift_of(frame, background, mask=np.full((h, w), 255, np.uint8)) is None


def test_drift_follows_the_white_balance_of_a_camera_but_in_a_channel_that_is_nearly_black():
    background, gains = 0.8 * picture(3), np.array([1.06, 1.0, 0.95])
    factors = drift_of(noisy(gains * background), background)
    np.testing.assert_allclose(factors.mean(axis=(0, 1)), gains, atol=0.01)
    background = picture(3)
    background[..., 0] = 0.004  # one level of 255, with noise more
    frame = np.round(255 * noisy(background)).clip(0, 255).astype(np.uint8)
    assert drift_of(frame, np.round(255 * background).astype(np.uint8), 1 / 255) is None


def test_drift_of_what_is_saturated_goes_no_lower_than_the_frame():
    background = 0.8 * picture(1)
    background[:6] = 1.0  # the sky, much brighter than full scale
    frame = noisy(0.93 * background)
    frame[:3], frame[3:6] = 1.0, 0.97
    factors = drift_of(frame, background)
    lit = factors * background
    np.testing.assert_allclose(lit[:6], frame[:6], atol=1e-6)
    assert np.abs(lit - frame)[10:].mean() < 0.02


def test_drift_beyond_full_scale_takes_over_no_object():
    background = 0.8 * picture(1)
    background[:12] = 1.1
    frame = noisy(0.93 * background)
    frame[:12] = 1.1
    frame[2:8, 5:15] = 1.8
    factors = drift_of(frame, background)
    np.testing.assert_allclose(factors[:12], 1, atol=1e-6)


@pytest.mark.parametrize("channels", COLOURS)
def test_light_is_judged_where_the_background_is_known(channels):
    base, wrong = picture(channels), picture(channels, seed=5)
    unknown = box(*base.shape[:2], 0, 0, 1, 0.8)
    believed = np.where(unknown[..., np.newaxis], wrong, base).astype(F)  # mostly wrong
    illumination = Illumination(base.shape, THRESHOLD)
    lit, other = noisy(0.7 * base).reshape(-1), noisy(0.7 * wrong).reshape(-1)
    illumination.set_limits(THRESHOLD, 1.0, np.flatnonzero(unknown))
    light = illumination.explain(lit, [believed.reshape(-1)], 0.35)
    assert light.explained > 0.9
    assert illumination.explain(other, [believed.reshape(-1)], 0.35) is None
    illumination.set_limits(THRESHOLD, 1.0, np.arange(round(0.95 * unknown.size)))  # nearly nothing known: all counts
    light = illumination.explain(other, [believed.reshape(-1)], 0.35)
    assert 0.7 < light.explained < 0.95
