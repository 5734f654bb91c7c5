"""Shadow kernels against their twins, and which foreground is shadow."""

import numpy as np
import pytest
import reference_scene as reference
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import ndimage

from bgsub.numerics.jit import constant
from bgsub.scene import _cast_shadow_kernels as cast_kernels
from bgsub.scene import _shadow_kernels as kernels
from bgsub.scene._cast_shadow_kernels import STEPS
from bgsub.scene._frame_kernels import LIGHT
from bgsub.scene._match_kernels import MatchLimits
from bgsub.scene.exposure import has_colour
from bgsub.scene.illumination import Illumination
from bgsub.scene.segmentation import SceneLook, Segmenter
from bgsub.subtractor import BackgroundSubtractor

F = np.float32
# the kernels of grey floating-point frames are compiled, for a quarter of a minute
GREY = pytest.param(1, marks=pytest.mark.slow)
SLACK = 0.002  # relative error of differences of squares in float32


def most_lit(coloured):
    """Return the largest part of a lit pixel that its background is."""
    return 0.8 if coloured else 0.97


def assert_weights(weight, x, l, mask, inner, dark, restless, texture, coloured, weights):
    """Compare weights with a twin, except where rounding decides."""
    lit = most_lit(coloured)
    least, most = (reference.shadow_steps(x, l, lit, slack) for slack in (-SLACK, SLACK))
    on_border = np.pad(np.zeros([max(n - 2, 0) for n in mask.shape], bool), 1, constant_values=True)
    for i, j in np.ndindex(mask.shape):
        expected = 0 if mask[i, j] == 0 else 4 if dark[i, j] else -4
        if dark[i, j] and restless[i, j]:
            expected = 0
        elif dark[i, j] and inner[i, j]:
            rest, uneven, correlation = reference.shadow_sums(x, l, i, j, lit)
            box = np.s_[i - 1 : i + 2, j - 1 : j + 2]
            steps = [
                int(reference.shadow_steps(x[box].sum(axis=(0, 1)), l[box].sum(axis=(0, 1)), lit, s))
                for s in (-SLACK, SLACK)
            ]
            limits = abs(rest / texture - 1), abs(uneven / 0.015 - 1), abs(correlation - 0.9)
            if min(limits) < SLACK or steps[0] != steps[1] or least[i, j] != most[i, j]:
                continue
            is_alike = uneven > 0.015 and correlation > 0.9 and not coloured
            expected = kernels._ALIKE_WEIGHT if is_alike else -4 if rest > texture else weights[steps[0]]
        elif dark[i, j]:
            if least[i, j] != most[i, j]:
                continue
            even = weights[least[i, j]]
            expected = even if on_border[i, j] or even < 0 else 4
        assert weight[i, j] == expected


def assert_between(found, twin):
    """Compare with a twin; values within SLACK of a limit may be either."""
    assert (twin(-SLACK) <= (found != 0)).all()
    assert ((found != 0) <= twin(SLACK)).all()


@pytest.mark.parametrize("channels", [GREY, 3])
@given(h=st.integers(1, 9), w=st.integers(1, 9), seed=st.integers(0, 999))
@example(h=9, w=9, seed=40)  # three times as bright, with a texture
@settings(max_examples=40)
def test_classify_equals_its_twin(channels, h, w, seed):
    rng, threshold, exposure, coloured = np.random.default_rng(seed), 0.08, [1, 0.5][seed % 2], seed % 3 > 0
    black = [0, 0.125][seed // 2 % 2]
    l = rng.uniform(0.2, 0.9, (h, w, channels)).astype(F)
    noise = rng.normal(0, rng.choice([0.01, 0.03]), l.shape)
    noise += (seed % 10 == 0) * rng.normal(0, 0.1, (h, w, 1))  # a texture of its own
    x = (l * rng.choice([0.05, 0.2, 0.6, 0.8, 1.0, 1.1, 1.4, 3.0], (h, w, 1) if seed % 5 else ()) + noise).astype(F)
    both, new = rng.integers(-4, 5, (2, kernels.FACTORS)).astype(np.int8), np.zeros((3, kernels.FACTORS))
    both[1] = both[1] > 1
    weights, is_seen = both

    sigma = rng.choice([0.01, 0.03], (h, w), p=[0.8, 0.2]).astype(F)

    def limits(scale):
        numbers = F(scale), F(threshold), F(threshold), F(4), F(exposure)
        return MatchLimits(sigma, *numbers, coloured, F(black / scale), constant(x.shape[-1]))

    mask = (255 * (rng.random((h, w)) < 0.9)).astype(np.uint8)
    dark, weight, shaded = np.ones_like(mask), np.ones((h, w), np.int8), np.ones(-(-h * w // 64), np.uint8)
    filled, tint = reference.filled(mask), rng.choice([0, 0.3]) * rng.uniform(-1, 1, channels).astype(F)
    arrays = mask, filled, dark, weight, shaded
    assert kernels.classify(x, l, limits(1), tint, both, new, *arrays) == dark.sum()
    np.testing.assert_array_equal(shaded, filled)
    darkest, faintest, lit = float(kernels._BLACKEST_SHADOW), float(kernels.FAINTEST), most_lit(coloured)
    colour = exposure * float(kernels._ERROR)
    # a dim scene has no larger error of its own
    far = np.hypot(max(exposure**2 * float(kernels._SEEN_ERROR), colour), float(kernels._SEEN_NOISE) ** 0.5 * sigma)
    texture = exposure * (kernels._TEXTURE if coloured else kernels._GREY_TEXTURE)
    weak = 1 + kernels._WEAK if coloured else faintest, threshold
    wide = x.astype(float) - black, l.astype(float) - black

    def may_be_dark(slack):
        limits = tint, darkest, faintest, lit
        near, all_of_them = (reference.darkened(*wide, mask, *limits, error, *weak, slack) for error in (colour, far))
        return near | (all_of_them & reference.shadow_seen(*wide, is_seen, lit, slack))

    def is_dark(slack):  # unless a factor below 0.35 speaks against it
        against = [weights[reference.shadow_steps(*wide, lit, d)] < 0 for d in (-abs(slack), abs(slack))]
        deep = wide[0].sum(axis=2) < (0.35 - slack) * wide[1].sum(axis=2)
        deep |= reference.shadow_steps(*wide, lit, abs(slack)) > 9
        return may_be_dark(slack) & ~(deep & (np.all if slack > 0 else np.any)(against, axis=0))

    assert_between(dark, is_dark)
    inner = ndimage.binary_erosion(mask, np.ones((3, 3)))
    assert_weights(weight, *wide, mask, inner, dark, sigma > 0.02, texture, coloured, weights)
    counted = [(sigma < 0.02) & inner & may_be_dark(slack) for slack in (-SLACK, SLACK)]
    assert counted[0].sum() <= new[2].sum() <= counted[1].sum()
    half = F(0.5)  # the same frame in another unit
    again = np.zeros_like(mask)
    kernels.classify(x / half, l / half, limits(half), tint, both, new, mask, filled, again, weight, shaded)
    assert_between(again, is_dark)


@given(h=st.integers(1, 30), w=st.integers(1, 30), middle=st.sampled_from([0, 0.8]), seed=st.integers(0, 99))
@example(h=30, w=150, middle=0.0, seed=0)  # several chunks
@settings(max_examples=40)
def test_decide_equals_its_twin(h, w, middle, seed):
    rng, side = np.random.default_rng(seed), kernels._SIDE
    mask = np.where(rng.random((h, w)) < 0.7, np.uint8(255), np.uint8(0))
    dark = ((mask != 0) & (rng.random((h, w)) < 0.55)).astype(np.uint8)
    some = rng.choice(np.array([-4, 0, 3, 12], np.int8), (h, w), p=[0.6, 0.1, 0.2, 0.1])
    weight = np.where(mask != 0, some, np.int8(0))
    images = weight.astype(int), (mask != 0).astype(int)
    total, foreground = (ndimage.correlate(one, np.ones((side, side), int), mode="constant") for one in images)
    limit = (middle + np.where(dark, -0.8, 0.8)) * foreground
    expected, sure = (mask != 0) & (total > limit), (mask == 0) | (abs(total - limit) > 1e-3)
    work = np.full((2, kernels.CHUNK + side - 1), 9, np.int16), np.empty((2, kernels.CHUNK), np.int16)
    kernels.decide(mask, weight, dark, reference.filled(mask), F(middle), *work)
    np.testing.assert_array_equal(dark[sure], expected[sure])


@given(seed=st.integers(0, 999))
@settings(max_examples=40)
def test_add_likeness_equals_its_twin(seed):
    rng, new = np.random.default_rng(seed), np.zeros((3, kernels.FACTORS))
    scale, channels = 1 / 255, int(rng.integers(1, 4))
    l = rng.uniform(20, 220) + rng.choice([1, 30]) * rng.uniform(-0.5, 0.5, 9)
    x = l * rng.choice([rng.uniform(0, 1.5), rng.uniform(1, 5)]) + rng.normal(0, 5, 9)
    sums = True, *(F(channels**power * total) for power, total in ((1, x.sum()), (1, l.sum())))
    sums += tuple(F(channels**2 * total) for total in (x @ l, l @ l, x @ x))
    most = most_lit(seed % 2)
    k = kernels.add_likeness(sums, F(scale**2 / (9 * channels**2)), new, F(most))
    if reference.shadow_steps(x, l, most, SLACK) == reference.shadow_steps(x, l, most, -SLACK):
        assert k == reference.shadow_steps(x, l, most)
    variance, together = l.var() * scale**2, np.mean((x - x.mean()) * (l - l.mean())) * scale**2
    less = min(1, 0.001 / variance)
    expected = [less * together, less * variance * x.sum() / l.sum(), 1]
    np.testing.assert_allclose(new[:, k], expected, rtol=0.02, atol=2e-6)
    assert np.delete(new, k, axis=1).sum() == 0


@pytest.mark.parametrize("is_coloured", [False, True])
def test_weights_of_factors_follow_the_share_of_shadow(is_coloured):
    factors, weights = np.zeros((2, kernels.FACTORS)), np.empty((2, kernels.FACTORS), np.int8)
    kernels.weigh_factors(factors, is_coloured, weights)
    last = 4 if is_coloured else 0
    assert weights.tolist() == [[-4] * 4 + [last] * 6 + [-4] * 10, [0] * 20]
    factors[1] = 1.0
    for share, weight in ((-0.5, -4), (0.1, -4), (0.15, -2), (0.2, 0), (0.35, 2), (0.5, 4), (1.0, 4)):
        factors[0] = share
        kernels.weigh_factors(factors, is_coloured, weights)
        assert weights.tolist() == [
            [*[weight] * 9, last, *[weight] * 10],
            [*[share > 0.45] * 9, 0, *[share > 0.45] * 10],
        ]


def tinted_shadow(rng, tint, side):
    """A background and a frame with a square of tinted shadow: frame, background, mask."""
    l = rng.uniform(0.3, 0.9, (60, 80, 3)).astype(F)
    mask = np.zeros(l.shape[:2], np.uint8)
    mask[20 : 20 + side, 10 : 10 + side] = 255
    g = rng.uniform(0.5, 0.8)
    shadow = l * g * (1 + (1 - g) * (tint - tint.mean()))
    return np.where(mask[:, :, np.newaxis], shadow, l).astype(F) + rng.normal(0, 0.004, l.shape).astype(F), l, mask


def even_object(rng, tint, side):
    """The same with a square of one colour, that of a shadow on the mean background."""
    x, l, mask = tinted_shadow(rng, tint, side)
    colour = x[mask != 0].mean(axis=0)
    return np.where(mask[:, :, np.newaxis], colour, x) + rng.normal(0, 0.004, l.shape).astype(F), l, mask


def shares_of_shadow(segmenter, picture, side, tint, learns=True):
    """Return the share of a square that is shadow in each of some frames."""
    rng, shares = np.random.default_rng(0), []
    for _ in range(100):
        x, l, mask = picture(rng, np.array(tint), side)
        segmenter._find_shadows(x.astype(F), l, segmenter._match, (mask, reference.filled(mask)), learns)
        shares.append(np.mean(segmenter.dark[mask != 0] != 0))
    return shares


@pytest.mark.parametrize("tint", [(0.16, 0.0, -0.16), (0.6, -0.1, -0.5), (-0.3, -0.1, 0.4)])
def test_tint_of_shadows_is_learned_in_a_few_frames(tint):
    segmenter = Segmenter((60, 80))
    assert np.mean(shares_of_shadow(segmenter, tinted_shadow, 20, tint, learns=False)) < 0.7
    shares = shares_of_shadow(segmenter, tinted_shadow, 20, tint)
    np.testing.assert_allclose(segmenter._tint, tint, atol=0.03)
    assert min(shares[20:]) > 0.95
    again = Segmenter((60, 80))
    again.set_state(segmenter.state())
    assert shares_of_shadow(again, tinted_shadow, 20, tint, learns=False)[0] > 0.95


def test_shadows_without_the_tint_are_shadows_too():
    segmenter = Segmenter((60, 80))
    shares_of_shadow(segmenter, tinted_shadow, 20, (0.6, -0.1, -0.5))
    assert shares_of_shadow(segmenter, tinted_shadow, 20, (0.0, 0.0, 0.0))[0] > 0.95


@pytest.mark.parametrize(("picture", "side"), [(tinted_shadow, 35), (even_object, 20)])  # 26 % and 8 % of the frame
def test_no_tint_is_learned_from_large_foreground_or_objects_of_one_colour(picture, side):
    segmenter = Segmenter((60, 80))
    shares = shares_of_shadow(segmenter, picture, side, (0.6, -0.1, -0.5))
    assert np.abs(segmenter._tint).max() < 0.05
    assert shares[-1] < 0.7


def share_of_even_shadow(segmenter, factor, channels, is_shadow=True, learns=True):
    """Return how much of a shadow on an even wall is found; the floor below is uneven, with a shadow or an object."""
    rng, shares = np.random.default_rng(0), []
    for _ in range(60):
        l = rng.uniform(0.4, 0.8, (60, 80, 1)) * ((1, 0.9, 0.8) if channels == 3 else (1,))
        l[:40] = 0.6 * l[0, 0] / l[0, 0].max()
        mask = np.zeros((60, 80), np.uint8)
        mask[5:58, 20:60] = 255
        shadow = factor * l
        shadow[40:] = shadow[40:] if is_shadow else factor * 0.6 * l[0, 0] / l[0, 0].max()
        x = np.where(mask[:, :, np.newaxis], shadow, l) + rng.normal(0, 0.004, l.shape)
        segmenter._find_shadows(x.astype(F), l.astype(F), segmenter._match, (mask, reference.filled(mask)), learns)
        shares.append(np.mean(segmenter.dark[12:34, 32:48] != 0))
    return shares


@pytest.mark.parametrize(("channels", "factor"), [(3, 0.25), (3, 1.5), pytest.param(1, 0.6, marks=pytest.mark.slow)])
def test_factor_of_shadows_is_learned_where_the_background_is_uneven(channels, factor):
    def new():
        segmenter = Segmenter((60, 80), channels=channels)
        segmenter.set_scene(SceneLook(1.0, channels == 3))
        return segmenter

    segmenter = new()
    shares = share_of_even_shadow(segmenter, factor, channels)
    assert shares[0] == 0
    assert min(shares[20:]) == 1
    assert (segmenter.dark[12:34, 32:48] == (LIGHT if factor > 1 else 1)).all()
    again = new()
    again.set_state(segmenter.state())
    assert share_of_even_shadow(again, factor, channels, learns=False)[0] == 1
    assert max(share_of_even_shadow(new(), factor, channels, is_shadow=False)) == 0
    assert max(share_of_even_shadow(new(), factor, channels, learns=False)) == 0
    segmenter.set_scene(SceneLook(1.0, channels != 3))  # what was seen in colour says nothing in grey
    segmenter.set_scene(SceneLook(1.0, channels == 3))
    assert share_of_even_shadow(segmenter, factor, channels, learns=False)[0] == 0


def test_the_background_does_not_follow_light_on_a_part_of_the_scene():
    place, subtractor = reference.Texture(0, 1, side=64).seen(48, 64)[..., 0] * 130 + 20, BackgroundSubtractor()
    rng, lit = np.random.default_rng(0), np.s_[8:40, 10:50]
    for number in range(140):
        frame = place + rng.normal(0, 1, place.shape)
        if number >= 60:
            frame[lit] *= 1.5
        mask = subtractor.apply(frame.round().astype(np.uint8))
    assert np.mean(mask[lit] == 127) > 0.9
    np.testing.assert_allclose(subtractor.getBackgroundImage()[lit].mean(), place[lit].mean(), rtol=0.03)


def learn(segmenter, x, l, mask, black=0.0):
    """Learn the shadows of a frame; return their side."""
    learned = segmenter.outline, segmenter._new_outline, *segmenter._votes, segmenter._tint
    limits = segmenter._match._replace(black=F(black))
    return cast_kernels.learn_shadows(x, l, limits, mask, reference.filled(mask), True, *learned)


@given(seed=st.integers(0, 999), black=st.sampled_from([0.0, 0.05]))
@settings(max_examples=40)
def test_votes_equal_their_twin(seed, black):
    rng, h, w = np.random.default_rng(seed), 13, 9
    l = rng.uniform(0.1, 1, (h, w, 1)) * rng.uniform(0.7, 1, (h, w, 3))
    shadow, other = l * rng.uniform(0.3, 0.8, 3), l * rng.uniform(0, 1, (h, w, 3))
    x = np.where(rng.random((h, w, 1)) < 0.97, shadow, other).astype(F)
    mask, l = np.where(rng.random((h, w)) < 0.95, np.uint8(255), np.uint8(0)), l.astype(F)
    wide = x.astype(float) - black, l.astype(float) - black
    levels = F(black), cast_kernels._LEAST_CHANNEL, 9 * (3 * kernels.UNEVEN) ** 2
    for i in range(1, h - 1):
        for j in range(1, w - 1):
            box, found = np.s_[i - 1 : i + 2, j - 1 : j + 2], np.zeros((2, 17, 17))
            expected, distances = reference.shadow_votes(*(image[box] for image in wide), mask[box])
            flat = x.reshape(-1), l.reshape(-1), mask.reshape(-1), np.uint64(i * w + j), np.uint64(w), np.uint64(3)
            cast_kernels.vote(*flat, levels, found)
            if np.abs(distances).min() > 1e-3:  # else rounding decides
                np.testing.assert_array_equal(found, expected)


def find_shadows(x, l, mask, side=None):
    """Return where the foreground is a shadow, (h, w) bool."""
    segmenter = Segmenter(mask.shape, channels=x.shape[2])
    segmenter.set_scene(SceneLook(1.0, has_colour(l.reshape(-1, l.shape[2]).T, 1.0)))
    limits = segmenter._match
    mask = mask, reference.filled(mask)
    segmenter._find_shadows(x, l, limits, mask, False)
    if side is not None:
        segmenter._walk_in(side, x, l, limits, mask)
    return segmenter.dark != 0


@pytest.mark.parametrize(
    ("channels", "factor", "is_shadow"),
    [
        *[(3, 0.6, True), (3, 0.2, False), (3, 1.3, False)],
        *[(0, 0.3, False), (0, 0.45, True)],
        *[pytest.param(1, factor, factor > 0.4, marks=pytest.mark.slow) for factor in (0.3, 0.45, 0.9)],
    ],
)
def test_common_factor_in_range_is_a_shadow(channels, factor, is_shadow):
    """With 0 for three equal channels."""
    rng = np.random.default_rng(0)
    l = rng.uniform(0.3, 0.7, (24, 24, channels or 1)).astype(F)
    l = l if channels else np.repeat(l, 3, axis=2)
    mask = np.full((24, 24), 255, np.uint8)
    assert find_shadows(l * F(factor), l, mask).all() == is_shadow
    grey = np.repeat(rng.uniform(0.45, 0.55, (24, 24, 1)).astype(F), channels or 3, axis=2)
    assert not find_shadows(np.full_like(grey, 0.35), grey, mask)[4:-4, 4:-4].any()  # flat: an object
    assert find_shadows(grey * F(0.7), grey, mask)[4:-4, 4:-4].all()


def test_a_textured_object_in_a_dark_scene_is_no_shadow():
    rng = np.random.default_rng(0)
    l, x = rng.uniform(0.05, 0.12, (2, 24, 24, 1)).astype(F).repeat(3, axis=3) * F([1, 0.8, 0.6])
    x *= F(0.8)
    segmenter, mask = Segmenter((24, 24)), np.full((24, 24), 255, np.uint8)
    found = []
    for exposure in (1.0, 0.25):
        segmenter.set_scene(SceneLook(exposure))
        segmenter._find_shadows(x, l, segmenter._match, (mask, reference.filled(mask)), False)
        found.append(np.mean(segmenter.dark != 0))
    assert found[0] > 0.5
    assert found[1] < 0.1


@pytest.mark.parametrize("scale", [1 / 255, 1.0])
def test_a_picture_has_colour_when_more_than_a_few_pixels_are_coloured(scale):
    image = np.repeat(np.random.default_rng(0).integers(20, 200, (90, 120, 1)), 3, axis=2)

    def answer(picture):
        seen = (picture / (255 * scale)).astype(np.uint8 if scale < 1 else F)
        return has_colour(Illumination(picture.shape, 0.08).sites(seen), 1 / scale)

    assert not answer(image)
    assert not answer(image[..., :1])
    assert not answer(image * (0.7, 1, 1.15))  # an infrared camera
    assert not answer(np.concatenate([image, np.full_like(image[..., :1], 255)], axis=2))  # an opaque picture
    assert not answer(image + np.array([0, 3, 6]))  # as lossy video makes it
    for rows, columns, is_coloured in ((3, 10, False), (8, 10, True), (30, 30, True)):
        stained = image.copy()
        stained[:rows, :columns, 2] += 50
        assert answer(stained) == is_coloured


@given(h=st.integers(1, 24), w=st.integers(1, 80), channels=st.sampled_from([1, 3]), seed=st.integers(0, 999))
@settings(max_examples=40)
def test_count_outline_equals_its_twin(h, w, channels, seed):
    rng = np.random.default_rng(seed)
    x, l = rng.integers(0, 256, (2, h, w, channels), dtype=np.uint8)
    mask = np.where(rng.random((h, w)) < 0.8, np.uint8(255), np.uint8(0))
    segmenter, black = Segmenter((h, w), channels=channels, scale=1 / 255), 16 * (seed % 2)
    segmenter._new_outline[:] = 9.0
    learn(segmenter, x, l, mask, black)
    expected = reference.shadow_outline(x.astype(float) - black, l.astype(float) - black, mask)
    np.testing.assert_array_equal(segmenter._new_outline, expected)


@given(
    h=st.integers(1, 12), w=st.integers(1, 12), side=st.integers(0, 7), channels=st.sampled_from([1, 3]),
    seed=st.integers(0, 999),
)  # fmt: skip
@settings(max_examples=60)
def test_walk_in_equals_its_twin(h, w, side, channels, seed):
    rng = np.random.default_rng(seed)
    l = rng.uniform(0.3, 0.9, (h, w, channels))
    x = l * rng.uniform(0.1, 1.1, (h, w, 1)).round(1)
    mask = np.where(rng.random((h, w)) < 0.9, np.uint8(255), np.uint8(0))
    dy, dx = STEPS[side]
    padded = [np.pad(image.sum(axis=2), 1) for image in (x, l)]
    p, q = (sum(np.roll(image, (k * dx, -k * dy), (0, 1)) for k in (-1, 0, 1))[1:-1, 1:-1] for image in padded)
    cast, limits = np.full_like(mask, 9), (kernels.DARKEST, kernels.FAINTEST, cast_kernels._RISE, cast_kernels._FALL)
    black = F(0.125 * (seed % 2))
    arrays = x.astype(F) + black, l.astype(F) + black, F(0.1), black
    cast_kernels.walk_in((0,) * channels, dy, dx, *arrays, mask, cast, np.empty((h, w), F))
    expected = reference.shadow_walk(
        dy, dx, p / (q + float(cast_kernels._BLACK_OFFSET) / 0.1), mask, *map(float, limits)
    )
    assert np.mean(cast != expected) < 0.02  # rounding at the limits


def traffic(rng, shade, channels=3):
    """A road, a car of any brightness on it, and below the car its shadow of factor `shade`: frame, road, masks."""
    road = np.full((80, 80, channels), 0.5, F) + rng.normal(0, 0.01, (80, 80, channels)).astype(F)
    frame, car, shadow = road.copy(), np.zeros((80, 80), bool), np.zeros((80, 80), bool)
    i, j = rng.integers(8, 40, 2)
    car[i : i + 20, j : j + 24], shadow[i + 20 : i + 28, j : j + 24] = True, True
    body = np.kron(rng.choice([0.1, 0.3, 0.7, 0.9], (5, 6, 1)), np.ones((4, 4, channels)))
    frame[car] = body.reshape(-1, channels)
    frame[shadow] *= F(shade)
    return frame, road, car, shadow


@pytest.mark.parametrize("channels", [GREY, 3])
def test_very_dark_shadows_are_found_by_side(channels):
    rng, segmenter = np.random.default_rng(2), Segmenter((80, 80), channels=channels)
    outline = segmenter.outline
    assert cast_kernels.never_lit(outline) == -1

    def watch(shade, body=1, frames=150):
        for _ in range(frames):
            frame, road, car, shadow = traffic(rng, shade, channels)
            frame[car] *= F(body)
            mask = np.where(car | shadow if shade < 1 else car, np.uint8(255), np.uint8(0))
            assert learn(segmenter, frame, road, mask) == cast_kernels.never_lit(outline)
        return frame, road, car, shadow, mask

    watch(1, body=0.2)
    assert cast_kernels.never_lit(outline) == -1  # black objects without shadows
    frame, road, car, shadow, mask = watch(0.2, frames=300)
    assert cast_kernels.never_lit(outline) == 2
    found = find_shadows(frame, road, mask, side=2)
    assert found[shadow].mean() > 0.8  # rounded corners
    assert found[car].mean() < 0.1
    again = Segmenter((80, 80), channels=channels)
    again.set_state(segmenter.state())
    assert cast_kernels.never_lit(again.outline) == 2
    watch(1, frames=600)  # without sun
    assert cast_kernels.never_lit(outline) == -1
