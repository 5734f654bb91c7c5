"""The tracker, self-tuned and fixed: laws of every step, drift, planted subspaces, all variants, wrong input."""

import itertools

import numpy as np
import pytest
from numba import config

from bgsub import ParameterError, SubspaceTracker
from bgsub.numerics.surrogates import Surrogate
from bgsub.tracking.basis import Cost
from bgsub.tracking.subspace import USUAL, PixelSubset, Subspace

NAMES = ("metric", "line_search", "gradient_carry")
VALUES = itertools.product(("scaled", "canonical"), ("objective", "sample"), ("model", "unchanged"))
VARIANTS = [dict(zip(NAMES, values, strict=True)) for values in VALUES]
FIXED = {"mu": 0.06, "forgetting": 0.05}
VARIANTS[VARIANTS.index(dict(zip(VARIANTS[0], USUAL, strict=True)))] |= FIXED  # without them it tunes itself
STEPS = 8 if config.DISABLE_JIT else 40


def fixed_with(**parameters):
    return pytest.mark.parametrize("fixed", [{}, FIXED | parameters], ids=["tuned", "fixed"])


def stream(m, k, n, seed, outliers=0.1, noise=0.005, turn=0.0):
    """Yield (x, U) of a subspace that turns by `turn` radians per sample; image-like scale, outliers in [0, 1]."""
    rng = np.random.default_rng(seed)
    basis = np.linalg.qr(rng.standard_normal((m, 2 * k)))[0]
    for i in range(n):
        U = np.cos(turn * i) * basis[:, :k] + np.sin(turn * i) * basis[:, k:]
        x = U @ (rng.standard_normal(k) * np.sqrt(m) * 0.2) + noise * rng.standard_normal(m)
        hit = rng.random(m) < outliers
        x[hit] = rng.random(hit.sum())
        yield x, U


def angle(components, U):
    """Largest principal angle between the row space of components and the column space of U."""
    return float(np.arccos(np.clip(np.linalg.svd(components @ U, compute_uv=False).min(), 0, 1)))


def orthonormality(tracker):
    is_fixed = isinstance(tracker._model, Subspace)
    rows = tracker.subspace_._active()[:-1] if is_fixed else tracker.components_
    return float(np.abs(rows @ rows.T - np.eye(len(rows))).max())


# the kernels of each further surrogate are compiled for seconds
@pytest.mark.parametrize("surrogate", ["atan", *(pytest.param(one, marks=pytest.mark.slow) for one in ("log", "lp"))])
@pytest.mark.parametrize("number", range(len(VARIANTS) + 1))
def test_every_step_keeps_the_laws(number, surrogate):
    variant = [{}, *VARIANTS][number]
    tracker = SubspaceTracker(3, surrogate, **variant)
    for x, _ in stream(200, 3, STEPS, seed=1):
        tracker.partial_fit(x)
        before, after = tracker.objective_
        assert after <= before + 1e-6 * abs(before)
        assert tracker.step_length_ >= 0
        assert orthonormality(tracker) < 1e-4
        assert not variant or tracker.subspace_._R.shape[0] <= 3
    assert tracker.n_samples_seen_ == STEPS


@pytest.mark.large
@pytest.mark.parametrize("is_fixed", [False, True])
@pytest.mark.parametrize(
    ("m", "k", "n", "size", "seen", "bound", "options"),
    [
        *((250, k, 600, size, 1, 0.05, {"seed": k}) for k, size in ((1, 1), (5, 1), (5, 10))),  # still
        (300, 2, 600, 1, 1, 0.1, {"seed": 4, "turn": 2e-3}),
        (400, 2, 800, 1, 0.25, 0.1, {"seed": 5, "outliers": 0.05}),  # incomplete vectors
    ],
)
def test_a_subspace_is_found_from_a_cold_start_with_a_zero_vector(is_fixed, m, k, n, size, seen, bound, options):
    rng, given = np.random.default_rng(5), FIXED | {"mu": 0.2, "forgetting": 0.1 if "turn" in options else 0.05}
    tracker = SubspaceTracker(k, **(given if is_fixed else {})).partial_fit(np.zeros(m))
    for x, U in stream(m, k, n, **options):  # noqa: B007
        observed = rng.random(m) < seen if seen < 1 else None
        tracker.partial_fit(size * x if observed is None else np.where(observed, x, np.nan), observed)
    assert angle(tracker.components_, U) < bound


@pytest.mark.large
@fixed_with(forgetting=0.02)
def test_stream_and_batch_agree(fixed):
    samples, bases = zip(*stream(300, 3, 120, seed=8), strict=True)
    U = bases[0]
    batch = SubspaceTracker(3, **fixed).fit(np.array(samples))
    streamed = SubspaceTracker(3, **fixed)
    for x in samples * 10:
        streamed.partial_fit(x)
    assert angle(batch.components_, U) < 0.02
    assert angle(streamed.components_, batch.components_.T) < 0.04


def test_a_start_with_every_vector_twice_is_the_same_start():
    X = np.array([x for x, _ in stream(120, 2, 30, seed=11)])
    first = SubspaceTracker(2, **FIXED).fit(X[:20])
    Y = X[:20] @ first.components_.T.astype(float)
    one, two = (SubspaceTracker(2, **FIXED).initialise(first.components_, np.vstack([Y] * n)) for n in (1, 2))
    for x in X[20:]:
        one.partial_fit(x)
        two.partial_fit(x)
    np.testing.assert_allclose(one.components_, two.components_, atol=1e-6)


@fixed_with()
@pytest.mark.parametrize("value", [0.0, 0.5])
def test_constant_vectors_do_no_harm(fixed, value):
    tracker = SubspaceTracker(2, **fixed).fit(np.full((5, 60), value))
    for _ in range(10):
        tracker.partial_fit(np.full(60, value))
    assert np.isfinite(tracker.components_).all()
    assert orthonormality(tracker) < 1e-5
    np.testing.assert_allclose(tracker.low_rank_, value, atol=1e-3)


@pytest.mark.parametrize(("parameters", "words"), [
    ({"rank": 0}, "rank must be .*got 0"), ({"forgetting": 0.0}, "forgetting must be .*got 0.0"),
    ({"forgetting": float("nan")}, "forgetting must be .*got nan"),
    ({"surrogate": "l1"}, "surrogate must be .*got 'l1'"), ({"mu": -1}, "mu must be .*got -1"),
    ({"max_rank": 0}, "max_rank must be .*got 0"),
    ({"rank": "auto", "mu": 0.2, "forgetting": 0.05}, "rank must be an integer >= 1 where.*got 'auto'"),
    ({"rank": "auto", "line_search": "sample"}, "rank must be an integer >= 1 where.*got 'auto'"),
])  # fmt: skip
def test_bad_parameters_are_refused(parameters, words):
    with pytest.raises(ParameterError, match=words):
        SubspaceTracker(**parameters)


def test_vectors_too_small_to_find_their_scale_are_refused():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 2)) @ rng.standard_normal((2, 20))
    small = "without mu, the first vectors must be zero or of a size of at least 1e-09, got .*: take another unit"
    with pytest.raises(ParameterError, match=small):
        SubspaceTracker(2).fit(1e-12 * X)
    tracker = SubspaceTracker(2).partial_fit(0 * X[0])
    with pytest.raises(ParameterError, match=small):
        tracker.partial_fit(1e-12 * X[0])
    usual, other = SubspaceTracker(2), SubspaceTracker(2)
    for x in X:
        usual.partial_fit(x)
        other.partial_fit(2.0**-24 * x)
    np.testing.assert_array_equal(other.components_, usual.components_)
    np.testing.assert_array_equal(2.0**24 * other.low_rank_, usual.low_rank_)
    assert np.isfinite(SubspaceTracker(2, mu=0.1).fit(1e-12 * X).low_rank_).all()


@fixed_with()
def test_bad_vectors_are_refused(fixed):
    new = lambda: SubspaceTracker(2, **fixed)  # noqa: E731
    tracker = new().partial_fit(np.linspace(0, 1, 10))
    for words, attempt in [
        ("no model yet", lambda: new().components_),
        ("rank must be at most the length 1", lambda: new().partial_fit(np.zeros(1))),
        (r"shape \(10,\), got shape \(9,\)", lambda: tracker.partial_fit(np.zeros(9))),
        ("finite where it is observed", lambda: tracker.partial_fit(np.full(10, np.nan))),
        ("boolean mask.*got int64", lambda: tracker.partial_fit(np.zeros(10), np.ones(10, np.int64))),
        ("real numbers, got type complex128", lambda: tracker.partial_fit(np.zeros(10, complex))),
        (r"shape \(m,\), got shape \(0,\)", lambda: new().partial_fit([])),
        ("must be orthonormal", lambda: new().initialise(np.ones((2, 10)), np.zeros((0, 2)))),
        ("coefficients finite", lambda: new().initialise(np.eye(2, 10), np.full((1, 2), np.nan))),
        ("must hold real numbers", lambda: new().fit(np.full((5, 10), "1"))),
        ("got type object", lambda: new().fit([[1.0], [1.0, 2.0]])),
        ("finite and within", lambda: new().fit(np.full((5, 10), np.nan))),
        (r"at least the rank 2, got \(1, 10\)", lambda: new().fit(np.zeros((1, 10)))),
        (r"must be a number in \(0, 1\) where", lambda: SubspaceTracker(2, **FIXED).set_forgetting("auto")),
    ]:
        with pytest.raises(ParameterError, match=words):
            attempt()


def test_only_the_newest_pass_can_be_learned_and_only_once():
    tracker = SubspaceTracker(2, **FIXED)
    for x, _ in stream(60, 2, 10, seed=13):
        tracker.partial_fit(x)
    subspace, x = tracker.subspace_, x.astype(np.float32)
    newest = pytest.raises(ParameterError, match=r"needs the (influence|sweep) of the newest")
    old, new = subspace.separate(x), subspace.separate(x)
    with newest:
        subspace.update(old, 0.1)
    subspace.update(new, 0.1)
    with newest:
        subspace.update(new, 0.1)
    first, _ = (subspace.begin(x, np.empty(0, np.float32), 2, 20) for _ in range(2))
    with newest:
        subspace.end(first, np.zeros(3), 0.0, np.ones(60, np.float32))
    late = subspace.separate(x)
    subspace.retarget(0.9 * x)
    with newest:
        subspace.update(late, 0.1)


def test_coefficients_of_a_video_jump_only_to_what_explains_most_of_a_frame():
    rng, n = np.random.default_rng(0), 1000
    surrogate = Surrogate("atan", 0.03)
    subset = PixelSubset(np.arange(n), 3)
    U = np.linalg.qr(np.column_stack([np.ones(n), rng.standard_normal((n, 2))]))[0]
    U *= np.sign(U[0, 0])
    subset.stack[:3] = U.T
    before, after = np.array([15.0, 0.1, -0.1]), np.array([13.0, 3.0, 2.0])
    seen = (rng.random(n) < 0.4).astype(np.float32)
    cost = Cost(surrogate.code, np.float32(0.03), np.float32(surrogate.p))
    for share, expected in ((0.3, before), (0.6, before), (0.8, after), (0.95, after)):
        x = np.where(rng.random(n) < share, U @ after, U @ before) + 0.005 * rng.standard_normal(n)
        for a in (seen, np.empty(0, np.float32)):
            y = subset.fit(x.astype(np.float32), a, before, cost, limit=lambda: 0.07).y
            np.testing.assert_allclose(y, expected, atol=0.2)
    x = U.astype(np.float32) @ after.astype(np.float32)
    np.testing.assert_allclose(subset.fit(x, a, before, cost).y, after, atol=0.2)
