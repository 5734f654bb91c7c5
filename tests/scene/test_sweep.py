"""The pass over the model: parts against dense twins, streams against dense steps; the engines of CPU and GPU."""

import os
import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import reference_sweep as dense
import reference_tracking as reference
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_tracking import SURROGATES, F, arguments

from bgsub import BackgroundSubtractor
from bgsub.errors import DependencyError, ParameterError
from bgsub.scene._frame_kernels import LearnParams
from bgsub.scene.engine import SweepEngine
from bgsub.scene.frame_format import FrameFormat
from bgsub.tracking import _kernels
from bgsub.tracking.basis import Basis, Cost, DeferredStep, Visit
from bgsub.tracking.step import make_step
from bgsub.tracking.subspace import PixelSubset, Sweep


# the kernels of each further surrogate are compiled for seconds
@pytest.mark.parametrize(("surrogate", "dtype"), [
    (SURROGATES[0], np.uint8), pytest.param(SURROGATES[1], np.float32, marks=pytest.mark.slow),
    pytest.param(SURROGATES[2], np.uint8, marks=pytest.mark.slow),
], ids=["atan", "log", "lp"])  # fmt: skip
@given(
    shape=st.one_of(st.tuples(st.integers(1, 3), st.integers(1, 3)), st.tuples(st.integers(1, 9), st.integers(1, 70))),
    channels=st.sampled_from([1, 3]),  # each number is compiled for seconds
    k=st.sampled_from([1, 2, 3, 4, 7, 15]),
    period=st.integers(1, 3),
    everywhere=st.booleans(),
    hides=st.booleans(),
    seed=st.integers(0, 999),
)
@settings(max_examples=40)
def test_passes_of_the_engine_equal_their_twins(surrogate, dtype, shape, channels, k, period, everywhere, hides, seed):
    frames = FrameFormat((*shape, channels), np.dtype(dtype).name, 255.0 if dtype == np.uint8 else 1.0)
    results = []
    for threads in (1, 2):
        with pytest.MonkeyPatch.context() as patch:
            dense.small_blocks(patch, period)
            block = SweepEngine(frames, k, threads, np.empty(shape, F)).block
            case = dense.Case(shape, block, channels, dtype, k, period, seed, surrogate, everywhere, hides)
            results.append(checked_passes(case, SweepEngine(frames, k, threads, case.sigma)))
    for one, other in zip(*results, strict=True):  # in one band and in several
        np.testing.assert_array_equal(one, other)


def checked_passes(case, engine):
    """Compare all passes of an engine with those of the twin, and return the results."""
    expected, flat, m, k = case.expected(), engine.picture.reshape(-1), case.pixels.size, case.k
    is_bytes, before = case.pixels.dtype == np.uint8, case.stack.copy()
    engine.set_limits(*dense.LIMITS)
    for count in (1, 2):
        engine.begin(case.pixels)
        assert engine.before is (None if count == 1 else engine.picture)
    engine.picture[:] = case.before
    visit, cost = Visit(case.stack, case.G, case.c, case.period, case.turn), Cost(*arguments(case.look.surrogate))
    result = engine.sweep(Sweep(visit, cost, None, 0, None), case.hidden, case.everywhere)
    np.testing.assert_allclose(case.stack[:k, :m], expected.V.T, atol=1e-5)
    np.testing.assert_allclose(case.stack[k, :m], expected.e, atol=2e-5)
    np.testing.assert_array_equal(case.stack[:, m:], before[:, m:])
    np.testing.assert_array_equal(case.stack[k + 1 :], before[k + 1 :])
    np.testing.assert_allclose(flat, expected.picture, atol=0.5 + 2e-3 if is_bytes else 1e-5)
    assert_compared(case, engine, result.candidates)
    size = case.period * np.sqrt(m)
    np.testing.assert_allclose(result.products, expected.products[:-1], atol=2e-5 * size)
    assert result.cost == pytest.approx(expected.products[-1], rel=1e-4, abs=1e-7 * size)
    shown = engine.picture.copy()
    np.testing.assert_array_equal(engine.before, case.before if case.everywhere else shown)
    assert_compared(case, engine, engine.compare())
    np.testing.assert_array_equal(engine.picture, shown)
    low_rank = np.empty(m, F)
    _kernels.combine(case.stack, 0, case.c, low_rank)
    assert_compared(case, engine, engine.compare(low_rank))
    np.testing.assert_allclose(
        flat, np.clip(255 * low_rank, 0, 255) if is_bytes else low_rank, atol=0.5 + 2e-3 if is_bytes else 1e-6
    )
    np.testing.assert_array_equal(engine.before, case.before if case.everywhere else shown)
    d, sigma = dense.distances(case.pixels, engine.picture, case.look), case.sigma.ravel().copy()
    np.testing.assert_allclose(engine.residual().ravel(), d, atol=1e-6)
    number = dense.numbers(sigma.size, case.block, case.period)
    for turn in range(case.period):
        skip = np.random.default_rng(turn).integers(0, 2, case.sigma.shape).astype(np.uint8)
        engine.learn(skip, LearnParams(F(0.1), F(0.25), F(1e-3)), (case.period, turn))
        moved = np.maximum(sigma + 0.1 * (skip.ravel() == 0) * (np.minimum(d, 0.25) - sigma), 1e-3)
        sigma = np.where(number == turn, moved, sigma)
        np.testing.assert_allclose(case.sigma.ravel(), sigma, atol=1e-6)
    engine.begin(engine.picture)
    assert engine.before is engine.picture
    return case.stack, engine.picture, engine.over, engine.strong, result.products, [result.cost], case.sigma


def assert_compared(case, engine, count):
    """Compare both maps with the distances of the frame from the picture, but for rounding at the limits."""
    d = dense.distances(case.pixels, engine.picture, case.look).reshape(case.sigma.shape)
    limits = np.hypot(dense.LIMITS[0], dense.LIMITS[1] * case.sigma), dense.LIMITS[0]
    for found, limit in zip((engine.over, engine.strong), limits, strict=True):
        clear = np.abs(d - limit) > 1e-5
        np.testing.assert_array_equal(found[clear], (d > limit)[clear])
        assert set(np.unique(found)) <= {0, 1}
    assert count == np.count_nonzero(engine.over)


def pending(m, k, block, period, seed):
    """Return a random basis with pending steps, and its V (m, k) and e (m,) in float64."""
    rng = np.random.default_rng(seed)
    basis, basis.deferred = Basis(k, m), DeferredStep(k, period, block)
    basis.stack[:] = rng.standard_normal(basis.stack.shape)
    basis.deferred.G[:] = rng.standard_normal((period, k)).astype(F)
    return basis, basis.stack[:k, :m].T.astype(float), basis.stack[k, :m].astype(float)


blocked = given(
    m=st.integers(1, 3000), k=st.integers(1, 7), block=st.integers(1, 400), period=st.integers(1, 3),
    seed=st.integers(0, 99), data=st.data(),
)  # fmt: skip


@blocked
def test_settle_equals_its_twin(m, k, block, period, seed, data):
    newest = data.draw(st.integers(-1, period - 1))
    begin = data.draw(st.integers(0, (m - 1) // block)) * block
    end = data.draw(st.integers(begin + 1, m))
    basis, V, e = pending(m, k, block, period, seed)
    stack, settled = basis.stack.copy(), basis.stack
    basis._settle(begin, end, newest)
    number = dense.numbers(m, block, period)
    due = number != newest
    V, e = V + (due * e)[:, np.newaxis] * basis.deferred.G[number], np.where(due, 0.0, e)
    np.testing.assert_allclose(settled[:k, begin:end], V.T[:, begin:end], atol=1e-5)
    np.testing.assert_array_equal(settled[k, begin:end], e[begin:end])
    np.testing.assert_array_equal(settled[k + 1 :], stack[k + 1 :])
    for others in (np.s_[:, :begin], np.s_[:, end:]):
        np.testing.assert_array_equal(settled[others], stack[others])


@blocked
def test_gather_reads_the_deferred_basis(m, k, block, period, seed, data):
    index = np.sort(data.draw(st.lists(st.integers(0, m - 1), min_size=1, max_size=50)))
    basis, V, e = pending(m, k, block, period, seed)
    basis.deferred.set_N(np.linalg.qr(np.random.default_rng(seed).standard_normal((k, k)))[0])
    subset = PixelSubset(index, k)
    subset.gather(basis.stack, basis.deferred)
    U = dense.deferred_basis(V, e, basis.deferred.G, basis.deferred.N, block)
    np.testing.assert_allclose(subset.stack[:k], U[index].T, atol=2e-5)


@blocked
def test_scaled_basis_equals_its_twin(m, k, block, period, seed, data):
    basis, V, e = pending(m, k, block, period, seed)
    basis.deferred.set_N(np.linalg.qr(np.random.default_rng(seed).standard_normal((k, k)))[0])
    factors = np.random.default_rng(seed).uniform(0.5, 2, m).astype(F)
    U = factors[:, np.newaxis] * dense.deferred_basis(V, e, basis.deferred.G, basis.deferred.N, block)
    gram = basis.scale(factors)
    np.testing.assert_allclose(gram, U.T @ U, atol=1e-4 * max(np.trace(U.T @ U), 1))
    y = data.draw(st.integers(1, 5)) * np.eye(k)[-1]
    np.testing.assert_allclose(basis.low_rank(y), U @ y, atol=1e-4)
    assert basis.is_settled


@given(m=st.integers(8, 60), k=st.integers(1, 5), period=st.integers(1, 3), block=st.integers(1, 9),
       steps=st.integers(1, 12), seed=st.integers(0, 999))  # fmt: skip
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
@settings(max_examples=40)
def test_full_step_equals_the_thin_step_of_length_one(surrogate, m, k, w, seed):
    case = dense.SmallStep(m, k, seed, surrogate, w)
    step = make_step(case.stack.T @ case.e, np.zeros((0, k)), case.C, case.y, w, "scaled")
    theta = step.rotation(1.0)
    expected, y = case.stack @ step.basis @ theta[:, :k], theta[:k, :k].T @ case.y
    found = dense.step(case.U, case.e, case.T)
    np.testing.assert_allclose(found.T @ found, np.eye(k), atol=1e-8)
    np.testing.assert_allclose(found @ found.T, expected @ expected.T, atol=1e-8)
    if case.accepted:
        np.testing.assert_allclose(found @ case.y_new, expected @ y, atol=1e-8)
        terms = (1 - w) * case.C, w * np.outer(case.y, case.y)
        rounding = 4 * np.finfo(float).eps * sum(np.abs(term) for term in terms)  # of a sum that may cancel
        assert (np.abs(case.C_new - sum(terms)) <= rounding).all()
        np.testing.assert_allclose(case.fading, case.faded, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("surrogate", SURROGATES, ids=lambda s: s.name)
@given(m=st.integers(12, 60), k=st.integers(1, 4), w=st.floats(0.01, 0.6), complete=st.booleans(),
       seed=st.integers(0, 999))  # fmt: skip
@settings(max_examples=40)
def test_accepted_full_step_does_not_increase_the_objective(surrogate, m, k, w, complete, seed):
    case = dense.SmallStep(m, k, seed, surrogate, w, complete=complete)
    given_past = np.zeros((m, k)), case.C
    *_, objective = reference.grassmann_step(case.U, *given_past, case.x, case.a, case.y, w, surrogate, "scaled", 1.0)
    slack = 1e-9 * (1 + abs(case.cost))
    assert case.out[0] == pytest.approx(objective(0.0), abs=slack)
    assert objective(1.0) <= case.out[1] + slack
    if case.accepted:
        assert case.out[1] <= case.out[0]


@pytest.mark.parametrize(
    ("surrogate", "period", "dtype", "shape", "rank"),
    [
        ("atan", 2, F, (9, 16, 3), 2),
        ("atan", 1, np.uint8, (1, 1, 1), 1),
        pytest.param("atan", 3, np.uint8, (31, 23, 3), 3, marks=pytest.mark.large),
        pytest.param("atan", 2, np.uint8, (21, 22, 4), 2, marks=[pytest.mark.large, pytest.mark.slow]),
        pytest.param("atan", 1, F, (33, 17, 1), 15, marks=[pytest.mark.large, pytest.mark.slow]),
        pytest.param("log", 1, F, (9, 16, 3), 2, marks=pytest.mark.slow),
        pytest.param("lp", 3, F, (9, 16, 3), 2, marks=pytest.mark.slow),
    ],
)
def test_every_frame_equals_a_dense_step_on_visited_blocks(surrogate, period, dtype, shape, rank, monkeypatch):
    dense.small_blocks(monkeypatch, period, 1000)
    frames = dense.planted(shape, dtype, 32, 3)
    background, engine = dense.tracked(frames, rank, sigma=0, surrogate=surrogate, threads=2)
    tracker, m = background.tracker, frames[0].size
    number = dense.numbers(m, engine.block * shape[2], period)
    assert number.max() == period - 1
    for i, pixels in enumerate(frames[16:]):
        x = pixels.reshape(-1) * background.unit
        U, C = dense.basis_of(tracker), tracker.subspace_._C.copy()
        hidden = (np.random.default_rng(i).random(shape[:2]) < 0.2).astype(np.uint16) if i % 5 == 2 else None
        engine.begin(pixels)
        influence = background.separate(engine, hidden, None).update
        y, visited = tracker.coefficients_.copy(), period * (number == tracker.subspace_.basis.deferred.turn)
        seen = 1 if hidden is None else np.repeat(hidden.reshape(-1) == 0, shape[2])
        residual = seen * (x - U @ y)
        e = visited * tracker.surrogate_.influence(residual)
        np.testing.assert_allclose(influence.products, np.column_stack([U, e]).T @ e, atol=1e-4)
        assert influence.cost == pytest.approx(np.sum(visited * tracker.surrogate_.value(residual)), rel=1e-3, abs=1e-4)
        if i % 7 == 3:  # without learning, nothing changes
            np.testing.assert_allclose(dense.basis_of(tracker), U, atol=1e-5)
            continue
        w = 0.3 if i == 4 else tracker.forgetting
        background.learn(influence, w if i == 4 else None)
        step = make_step(np.column_stack([U, e]).T @ e, np.zeros((0, rank)), C, y, w, "scaled")
        if tracker.step_length_ == 1:
            rows = np.column_stack([U, e]) @ step.basis
            expected, turn = reference.polar(U, rows[:, rank:] @ step.K)
        else:
            theta = step.rotation(tracker.step_length_)
            expected, turn = np.column_stack([U, e]) @ step.basis @ theta[:, :rank], theta[:rank, :rank].T
        found = dense.basis_of(tracker)
        np.testing.assert_allclose(found, expected, atol=1e-5)
        np.testing.assert_allclose(found @ tracker.coefficients_, expected @ (turn @ y), atol=1e-4)
        subset = tracker.subspace_._subset
        np.testing.assert_allclose(subset.stack[:rank], found[subset.index].T, atol=1e-4)
    due, before = np.arange(m) >= shape[0] // 2 * shape[1] * shape[2], found @ tracker.coefficients_
    background.absorb(pixels, due.reshape(shape)[..., 0])
    found = dense.basis_of(tracker)
    np.testing.assert_allclose(found @ tracker.coefficients_, np.where(due, x, before), atol=1e-4)
    np.testing.assert_allclose(found.T @ found, np.eye(rank), atol=1e-5)


@pytest.mark.large
@pytest.mark.parametrize(("rank", "period", "n", "rate"), [(3, 1, 500, None), (15, 2, 500, None), (3, 2, 99, 0.9)])
def test_orthonormal_after_many_frames(rank, period, n, rate, monkeypatch):
    dense.small_blocks(monkeypatch, period)
    frames = dense.planted((24, 31, 3), F, 60, 1)
    background, engine = dense.tracked(frames, rank, sigma=0)
    for i in range(n):
        engine.begin(frames[i % 60])
        background.learn(background.separate(engine, None, None).update, rate)
        if i % 9 == 0 or i == n - 1:
            U = dense.basis_of(background.tracker)
            assert np.abs(U.T @ U - np.eye(rank)).max() < 1e-4
    rows = background.tracker.components_.astype(float)
    assert np.abs(rows @ rows.T - np.eye(rank)).max() < 1e-4


def test_coefficients_recover_while_all_is_foreground():
    frames = dense.planted((30, 40, 3), F, 32, 3)
    background, engine = dense.tracked(frames, 2)
    subspace, age = background.tracker.subspace_, np.ones((30, 40), np.uint16)
    for known, recovers in ((None, True), (np.ones((30, 40), bool), False)):
        subspace.y = np.array([1.0, 20.0])  # of nothing that was seen
        engine.begin(frames[20])
        background.separate(engine, age, known)
        error = np.abs(background.low_rank().reshape(frames[20].shape) - frames[20])
        assert (np.median(error) < 0.02) == recovers  # what the user knows to be foreground is never fitted


@pytest.mark.large
def test_calm_frame_allocates_little():
    still = np.kron(np.random.default_rng(0).uniform(60, 200, (30, 40, 3)), np.ones((8, 8, 1)))
    frames = (still + np.random.default_rng(1).normal(0, 1.5, (25, *still.shape))).astype(np.uint8)
    subtractor, mask = BackgroundSubtractor(start_frames=20), np.empty((240, 320), np.uint8)
    for number in range(40):
        subtractor.apply(frames[number % 25], fgmask=mask)
    tracemalloc.start()
    try:
        peaks = []
        for number in range(40, 95):
            tracemalloc.reset_peak()
            before, _ = tracemalloc.get_traced_memory()
            subtractor.apply(frames[number % 25], fgmask=mask)
            peaks.append(tracemalloc.get_traced_memory()[1] - before)
    finally:
        tracemalloc.stop()
    assert np.percentile(peaks, 90) < frames[0].nbytes / 4


PROGRAMS = Path(__file__).parents[1] / "cuda_programs.py"


@pytest.mark.slow
@pytest.mark.parametrize(("program", "last"), [("twin", "same (5, 13) 1 float32 2"), ("stream", "same masks")])
def test_passes_in_the_simulator_equal_those_of_the_cpu(program, last):
    command, environment = [sys.executable, PROGRAMS, program], {**os.environ, "NUMBA_ENABLE_CUDASIM": "1"}
    done = subprocess.run(command, env=environment, check=False, capture_output=True, text=True)
    assert done.stdout.splitlines()[-1:] == [last], done.stderr


def test_a_missing_gpu_is_said_at_once(monkeypatch, caplog):
    from numba import cuda  # noqa: PLC0415 - only here

    monkeypatch.setattr(cuda, "is_available", lambda: False)
    with pytest.raises(DependencyError, match=r"^device 'cuda' needs an NVIDIA GPU.*pip install 'bgsub\[cuda\]'$"):
        BackgroundSubtractor(device="cuda")
    with pytest.raises(ParameterError, match=r"^device 'cuda' needs the surrogate 'atan', got 'lp'$"):
        BackgroundSubtractor(device="cuda", surrogate="lp")
    subtractor = BackgroundSubtractor()
    subtractor.apply(np.zeros((8, 8), np.uint8))
    header, state = subtractor.snapshot()
    header["parameters"]["device"] = "cuda"
    assert BackgroundSubtractor.from_snapshot(header, state).get_params()["device"] == "cpu"
    assert "needs an NVIDIA GPU" in caplog.text
