"""The pass over the model: parts against dense twins, streams against the plain passes."""

import tracemalloc

import numpy as np
import pytest
import reference_sweep as dense
import reference_tracking as reference
from hypothesis import given, settings
from hypothesis import strategies as st

from bgsub import BackgroundSubtractor
from bgsub.numerics.surrogates import Surrogate
from bgsub.scene import _engine_kernels
from bgsub.scene._engine_kernels import CompareParams, FrameArrays, Outputs
from bgsub.scene.engine import FrameInput
from bgsub.synthetic import scene
from bgsub.tracking import _kernels, _step_kernels
from bgsub.tracking.step import FLOOR, IN_SPAN, DeferredStep, make_step

F = np.float32
SURROGATES = [Surrogate("atan", 0.05), Surrogate("log", 0.0025), Surrogate("lp", 0.00125)]

sizes = settings(max_examples=15, deadline=None)


@pytest.mark.parametrize(
    ("surrogate", "dtype"), [*zip(SURROGATES, [np.uint8, np.float32, np.uint8], strict=True)], ids=["atan", "log", "lp"]
)
@given(
    n=st.one_of(st.integers(1, 9), st.integers(10, 230)),
    block=st.integers(1, 100),
    channels=st.sampled_from([1, 3]),  # each number is compiled for seconds
    k=st.sampled_from([1, 2, 3, 4, 7, 15]),
    period=st.integers(1, 3),
    kept=st.booleans(),
    hides=st.booleans(),
    seed=st.integers(0, 999),
)
@settings(max_examples=40, deadline=None)
def test_sweep_equals_its_twin(surrogate, dtype, n, block, channels, k, period, kept, hides, seed):
    case = dense.Case(n, block, channels, dtype, k, period, seed, surrogate, kept, hides)
    stack, products, d, picture, over = case.result()
    expected, m = case.expected(), case.pixels.size
    np.testing.assert_allclose(stack[:k, :m], expected.V.T, atol=1e-5)
    np.testing.assert_allclose(stack[k, :m], expected.e, atol=2e-5)
    np.testing.assert_array_equal(stack[:, m:], case.stack[:, m:])
    np.testing.assert_array_equal(stack[k + 1 :], case.stack[k + 1 :])
    np.testing.assert_allclose(d, expected.d, atol=1e-5)
    clear = np.abs(expected.d - expected.limit) > 1e-5
    np.testing.assert_array_equal(over[clear], expected.over[clear])
    assert set(np.unique(over)) <= {0, 1}
    if dtype == np.uint8:
        assert np.abs(picture - np.clip(255 * expected.low_rank, 0, 255)).max() <= 0.5 + 2e-3
    else:
        np.testing.assert_allclose(picture, expected.low_rank, atol=1e-5)
    size = period * np.sqrt(m)
    np.testing.assert_allclose(products[: k + 1], expected.products[: k + 1], atol=2e-5 * size)
    assert products[k + 1] == pytest.approx(expected.products[k + 1], rel=1e-4, abs=1e-7 * size)
    assert products[k + 2] == np.count_nonzero(over)


@given(
    n=st.integers(2, 300), block=st.integers(1, 40), period=st.integers(1, 3), seed=st.integers(0, 999), data=st.data()
)
@sizes
def test_two_bands_equal_one(n, block, period, seed, data):
    case = dense.Case(
        n, block, 3, np.uint8, 4, period, seed, SURROGATES[seed % 3], kept=seed % 2 == 0, hides=seed % 3 == 0
    )
    band = data.draw(st.integers(0, -(-n // block)))
    whole, parts = case.result(), case.result(band)
    for one, other in zip(whole, parts, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
@given(n=st.integers(1, 200), block=st.integers(1, 100), channels=st.sampled_from([1, 3]), seed=st.integers(0, 999))
@sizes
def test_compare_equals_a_sweep_without_steps(dtype, n, block, channels, seed):
    case = dense.Case(n, block, channels, dtype, 2, 1, seed, SURROGATES[0])
    case.G[:] = 0
    _, products, *expected = case.result()
    low_rank = np.empty(case.pixels.size, F)
    _kernels.combine(case.stack, 0, case.c, low_rank)
    d, picture, over = np.empty(n, F), np.empty_like(case.pixels), np.empty(n, np.uint8)
    look = CompareParams(F(case.look.scale), (0,) * channels, F(case.look.full), F(case.look.top), *dense.LIMITS)
    frame = FrameArrays(case.pixels, case.sigma, case.cost_scale, case.hidden, case.before, False)
    work = np.empty((3, channels * block), F)
    count = _engine_kernels.compare(0, n, low_rank, frame, look, Outputs(d, picture, over), work)
    assert count == products[-1] == np.count_nonzero(over)
    np.testing.assert_allclose(d, expected[0], atol=1e-6)
    np.testing.assert_allclose(picture.astype(float), expected[1], atol=1 if dtype == np.uint8 else 1e-6)
    clear = np.abs(d - np.maximum(dense.LIMITS[0], dense.LIMITS[1] * case.sigma)) > 1e-5
    np.testing.assert_array_equal(over[clear], expected[2][clear])


def pending(m, k, block, period, seed):
    """Return a random stack, (k + 2, m + 3), and pending steps, (period, k), both float32."""
    rng = np.random.default_rng(seed)
    return rng.standard_normal((k + 2, m + 3)).astype(F), rng.standard_normal((period, k)).astype(F)


blocked = given(
    m=st.integers(1, 3000), k=st.integers(1, 7), block=st.integers(1, 400), period=st.integers(1, 3),
    seed=st.integers(0, 99), data=st.data(),
)  # fmt: skip


@blocked
@sizes
def test_settle_equals_its_twin(m, k, block, period, seed, data):
    newest = data.draw(st.integers(-1, period - 1))
    begin = data.draw(st.integers(0, (m - 1) // block)) * block
    end = data.draw(st.integers(begin + 1, m))
    stack, G = pending(m, k, block, period, seed)
    settled = stack.copy()
    _kernels.settle(settled, begin, end, block, G, newest)
    model = stack.astype(float)
    V, e = dense.settle(model[:k, :m].T, model[k, :m], G.astype(float), block, newest)
    np.testing.assert_allclose(settled[:k, begin:end], V.T[:, begin:end], atol=1e-5)
    np.testing.assert_array_equal(settled[k, begin:end], e[begin:end])
    np.testing.assert_array_equal(settled[k + 1 :], stack[k + 1 :])
    for others in (np.s_[:, :begin], np.s_[:, end:]):
        np.testing.assert_array_equal(settled[others], stack[others])


@blocked
@sizes
def test_gather_reads_the_deferred_basis(m, k, block, period, seed, data):
    index = np.sort(data.draw(st.lists(st.integers(0, m - 1), min_size=1, max_size=50)))
    stack, G = pending(m, k, block, period, seed)
    rows = np.empty((k, index.size), F)
    _kernels.gather(stack, index, block, G, rows)
    model = stack.astype(float)
    U = dense.deferred_basis(model[:k, :m].T, model[k, :m], G.astype(float), np.eye(k), block)
    np.testing.assert_allclose(rows, U[index].T, atol=1e-5)


@given(m=st.integers(1, 5000), k=st.integers(1, 7), seed=st.integers(0, 99))
@sizes
def test_gram_of(m, k, seed):
    stack = np.random.default_rng(seed).standard_normal((k + 1, m + 4)).astype(F)
    V = stack[:k, :m].astype(float)
    gram = _kernels.gram_of(stack, k, m)
    np.testing.assert_allclose(gram, V @ V.T, atol=1e-5 * m)
    np.testing.assert_array_equal(gram, gram.T)


@given(m=st.integers(8, 60), k=st.integers(1, 5), period=st.integers(1, 3), block=st.integers(1, 9),
       steps=st.integers(1, 12), seed=st.integers(0, 999))  # fmt: skip
@sizes
def test_deferred_steps_equal_dense_steps(m, k, period, block, steps, seed):
    rng = np.random.default_rng(seed)
    deferred, V, e = DeferredStep(k, period, block), np.linalg.qr(rng.standard_normal((m, k)))[0], np.zeros(m)
    U, number = V.copy(), dense.numbers(m, block, period)
    for _ in range(steps):
        deferred.turn = (deferred.turn + 1) % period
        visited = number == deferred.turn
        V = V + np.outer(visited * e, deferred.G[deferred.turn])
        deferred.G[deferred.turn] = 0
        newest = visited * rng.standard_normal(m)
        e = np.where(visited, newest, e)
        T = np.eye(k, k + 1) + 0.1 * rng.standard_normal((k, k + 1))
        U = dense.step(U, newest, T)
        deferred.compose(T)
        if rng.random() < 0.3:
            L = np.linalg.cholesky(U.T @ U)
            U = U @ np.linalg.inv(L).T
            deferred.rotate(L)
            np.testing.assert_allclose(U.T @ U, np.eye(k), atol=1e-10)
        np.testing.assert_allclose(dense.deferred_basis(V, e, deferred.G, deferred.N, block), U, atol=1e-8)


@pytest.mark.parametrize("surrogate", SURROGATES, ids=lambda s: s.name)
@given(m=st.integers(12, 80), k=st.integers(1, 7), w=st.floats(0.01, 0.6), seed=st.integers(0, 999))
@settings(max_examples=40, deadline=None)
def test_full_step_equals_the_thin_step_of_length_one(surrogate, m, k, w, seed):
    case = dense.SmallStep(m, k, seed, surrogate, w)
    step = make_step(case.stack.T @ case.e, np.zeros((0, k)), case.C, case.y, w, "scaled")
    theta = step.rotation(1.0)
    expected, y = case.stack @ step.basis @ theta[:, :k], theta[:k, :k].T @ case.y
    found = dense.step(case.U, case.e, case.T)
    np.testing.assert_allclose(found.T @ found, np.eye(k), atol=1e-8)
    np.testing.assert_allclose(dense.projector(found), dense.projector(expected), atol=1e-8)
    if case.accepted:
        np.testing.assert_allclose(found @ case.y_new, expected @ y, atol=1e-8)
        np.testing.assert_allclose(case.C_new, (1 - w) * case.C + w * np.outer(case.y, case.y), rtol=1e-12)


@pytest.mark.parametrize("surrogate", SURROGATES, ids=lambda s: s.name)
@given(m=st.integers(12, 60), k=st.integers(1, 4), w=st.floats(0.01, 0.6), complete=st.booleans(),
       seed=st.integers(0, 999))  # fmt: skip
@settings(max_examples=40, deadline=None)
def test_accepted_full_step_does_not_increase_the_objective(surrogate, m, k, w, complete, seed):
    case = dense.SmallStep(m, k, seed, surrogate, w, complete=complete)
    given_past = np.zeros((m, k)), case.C
    *_, objective = reference.grassmann_step(case.U, *given_past, case.x, case.a, case.y, w, surrogate, "scaled", 1.0)
    slack = 1e-9 * (1 + abs(case.cost))
    assert case.out[0] == pytest.approx(objective(0.0), abs=slack)
    assert objective(1.0) <= case.out[1] + slack
    if case.accepted:
        assert case.out[1] <= case.out[0]


def test_refused_full_step_changes_nothing():
    for armijo, outside in ((1e6, True), (dense.ARMIJO, False)):
        case = dense.SmallStep(40, 3, 1, SURROGATES[0], armijo=armijo)
        y, C, out = case.y.copy(), case.C.copy(), np.zeros(2)
        e = case.e if outside else case.U @ np.arange(1.0, 4.0)
        products = np.append(case.U.T @ e, e @ e)
        assert not _step_kernels.full_step(
            products, C, y, 0.05, case.cost, IN_SPAN, FLOOR, armijo, np.zeros((3, 4)), out
        )
        np.testing.assert_array_equal(y, case.y)
        np.testing.assert_array_equal(C, case.C)
    assert dense.SmallStep(40, 3, 1, SURROGATES[0]).accepted
    nothing = np.zeros(3), np.zeros((3, 3))
    assert not _step_kernels.full_step(
        np.append(np.zeros(3), 1.0), nothing[1], nothing[0], 0.05, 1.0, IN_SPAN, FLOOR, dense.ARMIJO, case.T, case.out
    )


def assert_same(frames, rank, events, **parameters):
    """Compare both ways through the engine: equal results up to rounding."""
    level = 1 if frames.dtype == np.uint8 else 1 / 255
    streams = (dense.seen_by(frames, rank, one_pass, events, **parameters) for one_pass in (True, False))
    for one, other in zip(*streams, strict=True):
        assert np.abs(one[0] - other[0]).max() <= level
        assert np.abs(one[1] - other[1]).max() <= 2e-3
        assert np.mean(one[2] != other[2]) < 0.005


def large(*values):
    return pytest.param(*values, marks=pytest.mark.large)


@pytest.mark.parametrize(
    ("dtype", "shape", "rank"),
    [(np.uint8, (1, 1, 1), 1), (F, (7, 9, 3), 3), (np.uint8, (13, 5, 1), 1), large(np.uint8, (31, 23, 3), 3),
     large(F, (33, 17, 1), 15),
     pytest.param(np.uint8, (21, 22, 4), 2, marks=[pytest.mark.large, pytest.mark.slow])],
)  # fmt: skip
def test_one_pass_equals_the_plain_passes(shape, rank, dtype, monkeypatch):
    dense.small_blocks(monkeypatch, 1)
    n = 40 if np.prod(shape) < 300 else 80
    assert_same(dense.planted(shape, dtype, n, rank, min(rank, 2)), rank, ("hidden", "frozen", "fast"), threads=2)


@pytest.mark.large
@pytest.mark.parametrize(("channels", "rank"), [(3, 1), (1, 15)])
def test_one_pass_equals_the_plain_passes_in_a_scene(rank, channels, monkeypatch):
    dense.small_blocks(monkeypatch, 1)
    frames = scene("lobby", size=(81, 63), length=80, channels=channels, sway=1).frames()
    assert_same(frames.reshape(*frames.shape[:3], channels), rank, ("hidden", "frozen", "fast", "absorbed"))


def test_settled_background_visits_every_third_block(monkeypatch):
    dense.small_blocks(monkeypatch, 2, 1000)
    monkeypatch.setattr("bgsub.scene.background._SETTLED", 3)
    monkeypatch.setattr("bgsub.scene.background._YOUNG", 5)
    frames = dense.planted((9, 16, 2), F, 40, 3)
    pictures = {way: [one[0] for one in dense.seen_by(frames, 3, way)] for way in (True, False)}
    assert np.sqrt(np.mean(np.subtract(*pictures.values()) ** 2)) < 1 / 255
    background, buffers = dense.tracked(frames, 3)
    periods = []
    for pixels in frames[20:]:
        buffers.turn()
        compared = background.separate(FrameInput(pixels, None, np.zeros((9, 16), F), *dense.LIMITS), buffers)
        periods.append(len(background.tracker.subspace_.basis.deferred.G))
        background.learn(compared.update, None)
    assert periods == [2] * 5 + [3] * 15


@pytest.mark.parametrize(("surrogate", "period"), [("atan", 1), ("log", 2), ("lp", 3)])
def test_every_frame_equals_a_dense_step_on_visited_blocks(surrogate, period, monkeypatch):
    dense.small_blocks(monkeypatch, period, 1000)
    frames = dense.planted((9, 16, 2), F, 32, 3)
    background, buffers = dense.tracked(frames, 2, surrogate=surrogate)
    tracker, m = background.tracker, frames[0].size
    number, sigma = dense.numbers(m, background._engine.block * 2, period), np.zeros((9, 16), F)
    assert number.max() == period - 1
    for pixels in frames[16:]:
        U, C = dense.basis_of(tracker), tracker.subspace_._C.copy()
        buffers.turn()
        influence = background.separate(FrameInput(pixels, None, sigma, *dense.LIMITS), buffers).update
        y, visited = tracker.coefficients_.copy(), period * (number == tracker.subspace_.basis.deferred.turn)
        e = visited * tracker.surrogate_.influence(pixels.reshape(-1).astype(float) - U @ y)
        np.testing.assert_allclose(influence.products, np.column_stack([U, e]).T @ e, atol=1e-4)
        background.learn(influence, None)
        step = make_step(np.column_stack([U, e]).T @ e, np.zeros((0, 2)), C, y, tracker.forgetting, "scaled")
        theta = step.rotation(tracker.step_length_)
        expected = np.column_stack([U, e]) @ step.basis @ theta[:, :2]
        found = dense.basis_of(tracker)
        np.testing.assert_allclose(found, expected, atol=1e-5)
        np.testing.assert_allclose(found @ tracker.coefficients_, expected @ (theta[:2, :2].T @ y), atol=1e-4)
        subset = tracker.subspace_._subset
        np.testing.assert_allclose(subset._stack[:2], found[subset.index].T, atol=1e-4)


@pytest.mark.parametrize("period", [1, 2])
def test_reading_the_background_changes_nothing(period, monkeypatch):

    def look(background):
        low_rank = dense.basis_of(background.tracker) @ background.tracker.coefficients_
        np.testing.assert_allclose(background.low_rank(), low_rank, atol=1e-5)

    unseen, seen = (dense.learned(monkeypatch, period, look=look)[0].tracker for look in (None, look))
    np.testing.assert_allclose(dense.basis_of(unseen), dense.basis_of(seen), atol=1e-5)


@pytest.mark.parametrize("period", [1, 2])
def test_retarget_is_independent_of_deferred_steps(period, monkeypatch):
    bases = []
    for carried_out in (True, False):
        background, pixels = dense.learned(monkeypatch, period)
        if carried_out:
            assert background.tracker.components_.shape == (3, pixels.size)
        due = np.zeros(pixels.shape[:2], bool)
        due[3:6, 4:12] = True
        background.absorb(1 - pixels, due)
        bases.append(dense.basis_of(background.tracker))
    np.testing.assert_allclose(*bases, atol=1e-5)


@pytest.mark.large
@pytest.mark.parametrize(("rank", "period", "n", "rate"), [(3, 1, 500, None), (15, 2, 500, None), (3, 2, 99, 0.9)])
def test_orthonormal_after_many_frames(rank, period, n, rate, monkeypatch):
    tracker, worst = dense.drift(monkeypatch, rank, period, n, rate)
    rows = tracker.components_.astype(float)
    assert max(worst, np.abs(rows @ rows.T - np.eye(rank)).max()) < 1e-4


@pytest.mark.large
def test_calm_frame_allocates_little():
    frames = scene("lobby", size=(320, 240), length=60, lamps=False, walkers=0).frames()
    subtractor, mask = BackgroundSubtractor(start_frames=20), np.empty((240, 320), np.uint8)
    for frame in frames[:40]:
        subtractor.apply(frame, fgmask=mask)
    tracemalloc.start()
    try:
        peaks = []
        for frame in frames[40:]:
            tracemalloc.reset_peak()
            before, _ = tracemalloc.get_traced_memory()
            subtractor.apply(frame, fgmask=mask)
            peaks.append(tracemalloc.get_traced_memory()[1] - before)
    finally:
        tracemalloc.stop()
    assert np.percentile(peaks, 90) < frames[0].nbytes / 4
