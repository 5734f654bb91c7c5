"""`retarget` replaces the low-rank part by the smallest change of the subspace."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bgsub import SubspaceTracker
from bgsub.tracking import _step_kernels
from bgsub.tracking.basis import Basis

F = np.float32


@given(m=st.integers(1, 20000), k=st.integers(1, 6), seed=st.integers(0, 99))
@settings(max_examples=20)
@pytest.mark.parametrize("chosen", [True, False])
def test_the_change_of_the_basis_matches_its_twin(chosen, m, k, seed):
    rng = np.random.default_rng(seed)
    basis = Basis.of(rng.standard_normal((k, m)).astype(F))
    c = (rng.choice([-1, 1], k) * rng.uniform(0.5, 2, k)).astype(F)
    target = rng.random(m).astype(F)
    where = (rng.random(m) < 0.5).astype(np.uint8) * 255 if chosen else np.empty(0, np.uint8)
    before, turned = basis.stack[:k, :m].astype(float), basis.stack[:k, :m]
    gram = basis.retarget(target, where, 0, c.astype(float)) - np.eye(k)
    changed = where != 0 if chosen else np.ones(m, bool)
    expected = before + np.outer(c, target - before.T @ c) / (c @ c) * changed  # the smallest change of the rows
    np.testing.assert_allclose(turned, expected, atol=1e-5)
    change = expected @ expected.T - before @ before.T
    largest = max(np.abs(expected @ expected.T).max(), np.abs(before @ before.T).max(), 1)
    np.testing.assert_allclose(gram, change, atol=1e-5 * largest)
    np.testing.assert_allclose((turned.T @ c)[changed], target[changed], atol=2e-5)


M = 240


def trained(rank=3, frames=12):
    """Return a trained tracker, the next vector, and the generator."""
    rng = np.random.default_rng(0)
    mean, waves = rng.uniform(0.2, 0.8, M), rng.normal(0, 1, (2, M))
    level = rng.normal(0, 0.05, (frames + 6, 2))
    X = (mean + level @ waves + rng.normal(0, 0.005, (frames + 6, M))).astype(F)
    tracker = SubspaceTracker(rank=rank, mu=0.06, forgetting=0.05, subset=100).fit(X[:frames])
    for x in X[frames:-1]:
        tracker.partial_fit(x)
    return tracker, X[-1], rng


def orthonormal(tracker):
    U = tracker.components_.astype(float)
    return np.abs(U @ U.T - np.eye(len(U))).max() < 1e-5


@pytest.mark.parametrize("rank", [1, 3, 5])
def test_the_target_becomes_the_low_rank_part(rank):
    tracker, x, rng = trained(rank)
    tracker.subspace_.separate(x)
    before = tracker.low_rank_
    target = (0.6 * before + 0.1 + 0.05 * rng.random(M)).astype(F)
    tracker.subspace_.retarget(target)
    assert orthonormal(tracker)
    np.testing.assert_allclose(tracker.low_rank_, target, atol=1e-5)
    tracker.subspace_.separate(target)
    np.testing.assert_allclose(tracker.low_rank_, target, atol=5e-3)


@pytest.mark.parametrize("rank", [1, 3, 5])
def test_a_basis_that_a_target_makes_singular_is_repaired(rank):
    tracker, x, _ = trained(rank)
    subspace, black = tracker.subspace_, np.zeros(M, F)
    for _ in range(40):
        for target in (black, black, x):
            subspace.retarget(target)
            assert orthonormal(tracker)
            np.testing.assert_allclose(tracker.low_rank_, target, atol=2e-3)
    subspace.restore(np.ones(M, np.uint8))
    assert orthonormal(tracker)


@pytest.mark.parametrize("rank", [1, 3, 5])
def test_a_basis_that_was_moved_shows_the_same_in_other_places(rank):
    tracker, x, rng = trained(rank)
    subspace, places = tracker.subspace_, np.clip(np.arange(M) + 7, 0, M - 1)
    for i in range(8):  # steps are pending then
        sweep = subspace.separate(np.roll(x, i))
        subspace.update(sweep, 0.05)
    low_rank, U, y = tracker.low_rank_, tracker.components_.copy(), tracker.coefficients_
    subspace.move(places)
    assert orthonormal(tracker)
    np.testing.assert_allclose(tracker.low_rank_, low_rank[places], atol=1e-5)
    at_other = U.T @ rng.permutation(y)  # as after a change of light
    span = tracker.components_
    np.testing.assert_allclose(span.T @ (span @ at_other[places]), at_other[places], atol=1e-4)


@pytest.mark.parametrize("rank", [1, 3, 5])
def test_a_scaled_subspace_shows_all_its_vectors_in_other_light(rank):
    tracker, x, rng = trained(rank)
    subspace, factors = tracker.subspace_, rng.uniform(0.5, 1.5, M).astype(F)
    subspace.update(subspace.separate(x), 0.05)
    low_rank, other = tracker.low_rank_, tracker.components_.T @ rng.standard_normal(rank)
    subspace.scale(factors)
    assert orthonormal(tracker)
    np.testing.assert_allclose(tracker.low_rank_, factors * low_rank, atol=1e-5)
    span = tracker.components_
    np.testing.assert_allclose(span.T @ (span @ (factors * other)), factors * other, atol=1e-4)
    subspace.separate(factors * low_rank)
    np.testing.assert_allclose(tracker.low_rank_, factors * low_rank, atol=5e-3)


def test_only_the_chosen_entries_change():
    tracker, x, rng = trained()
    tracker.subspace_.separate(x)
    before = tracker.low_rank_
    where = np.zeros(M, np.uint8)
    where[100:160] = 1
    target = rng.random(M).astype(F)
    tracker.subspace_.retarget(target, where)
    assert orthonormal(tracker)
    after = tracker.low_rank_
    np.testing.assert_allclose(after[100:160], target[100:160], atol=1e-5)
    np.testing.assert_allclose(np.delete(after, np.s_[100:160]), np.delete(before, np.s_[100:160]), atol=1e-5)
    U = tracker.components_.copy()
    tracker.subspace_.retarget(np.zeros(M, F), np.zeros(M, np.uint8))
    np.testing.assert_allclose(tracker.low_rank_, after, atol=1e-5)
    np.testing.assert_allclose(tracker.components_.T @ tracker.components_, U.T @ U, atol=1e-5)


@pytest.mark.parametrize("rank", [1, 3, 5])
def test_entries_that_no_step_has_seen_change_with_the_coordinates_alone(rank):
    tracker, x, rng = trained(rank)
    subspace, unseen = tracker.subspace_, np.zeros(M, np.uint8)
    subspace.restore(unseen)  # begin to follow the steps
    unseen[100:160] = 1
    for _ in range(5):
        update = subspace.separate((x + rng.normal(0, 0.1, M)).astype(F), 1 - unseen.astype(F))
        before, y = tracker.components_[:, 100:160].T.copy(), update.fit.y
        subspace.update(update, 0.1)
        stepped, turn = tracker.low_rank_.copy(), subspace._fading[1].copy()
        subspace.restore(unseen)
        assert orthonormal(tracker)
        np.testing.assert_allclose(tracker.low_rank_[100:160], before @ turn.T @ turn @ y, atol=1e-5)
        np.testing.assert_allclose(np.delete(tracker.low_rank_ - stepped, np.s_[100:160]), 0, atol=1e-6)
    assert np.abs(stepped - tracker.low_rank_)[100:160].max() > 1e-6


@pytest.mark.parametrize("rank", [1, 3, 5])
def test_fading_follows_steps_and_changes_of_coordinates(rank, monkeypatch):
    tracker, x, rng = trained(rank)
    subspace = tracker.subspace_
    subspace.restore(np.zeros(M, np.uint8))  # begin to follow the steps
    faded, fade, change = np.eye(rank), subspace._fade, subspace._change_coordinates

    def faded_by(T, turn, known=False):
        nonlocal faded
        faded = np.linalg.solve(T[:, :rank].T, faded @ turn.T)
        if not known:
            fade(T, turn)

    def changed_by(L):
        nonlocal faded
        faded = L.T @ faded @ np.linalg.inv(L.T)
        change(L)

    def followed(step):
        def stepped(*args):
            before, taken = args[9].copy(), step(*args)
            T, turn = args[9] @ np.linalg.inv(before)
            faded_by(T, turn, known=True)
            return taken

        return stepped

    steps = {name: followed(getattr(_step_kernels, name)) for name in ("deferred_step", "full_step")}
    monkeypatch.setattr("bgsub.tracking.subspace._step_kernels", SimpleNamespace(**steps))
    monkeypatch.setattr(subspace, "_fade", faded_by)
    monkeypatch.setattr(subspace, "_change_coordinates", changed_by)
    for i in range(40):
        x = (x + rng.normal(0, 0.1, M)).astype(F)
        subspace.update(subspace.separate(x), 0.1)
        if i % 10 == 5:
            subspace.retarget(rng.random(M).astype(F), (rng.random(M) < 0.1).astype(np.uint8))
        if i == 20:
            subspace.set_state(subspace.state())
    used, multiply, expected = [], subspace.basis.multiply, faded
    monkeypatch.setattr(subspace.basis, "multiply", lambda A, where: (used.append(A), multiply(A, where))[1])
    subspace.restore(np.ones(M, np.uint8))
    np.testing.assert_allclose(used[0], expected, rtol=1e-9, atol=1e-9)
    assert np.abs(expected - np.eye(rank)).max() > 1e-6
