"""The self-tuned tracker: parameters, states, and vectors of all kinds."""

import copy

import numpy as np
import pytest
from numba import config
from test_snapshot import leaves

from bgsub import ParameterError, SubspaceTracker
from bgsub.tracking.self_tuned import SelfTunedSubspace

FEW = 12 if config.DISABLE_JIT else 60
both_ranks = pytest.mark.parametrize("rank", [2, "auto"])


def vectors(n=FEW, m=40, k=2, seed=0, noise=0.01):
    """Vectors of one subspace with outliers, (n, m)."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, k)) @ np.linalg.qr(rng.standard_normal((m, k)))[0].T * np.sqrt(m / k)
    X += noise * rng.standard_normal(X.shape)
    return np.where(rng.random(X.shape) < 0.1, rng.uniform(-3, 3, X.shape), X).astype(np.float32)


def fed(tracker, X, observed=None):
    for x in X:
        tracker.partial_fit(x, observed)
    return tracker


def assert_sound(tracker):
    U = tracker.components_.astype(float)
    assert np.abs(U @ U.T - np.eye(len(U))).max() < 1e-5
    assert np.isfinite(tracker.low_rank_).all()
    assert np.isfinite(tracker.scale_).all()


@both_ranks
@pytest.mark.parametrize("power", [-20, 13])
def test_the_unit_of_the_data_does_not_matter(rank, power):
    one, other = (fed(SubspaceTracker(rank), unit * vectors()) for unit in (1.0, 2.0**power))
    np.testing.assert_array_equal(one.components_, other.components_)
    np.testing.assert_array_equal(one.scale_ * 2.0**power, other.scale_)
    np.testing.assert_allclose(one.coefficients_ * 2.0**power, other.coefficients_, rtol=1e-12)
    assert (one.forgetting_, one.momentum_) == (other.forgetting_, other.momentum_)


@pytest.mark.parametrize(("unit", "scale"), [(0.01, 1), (1000, 1), (255, 1 / 255)])
def test_a_batch_start_finds_the_noise(unit, scale):
    tracker = SubspaceTracker(2).fit(unit * vectors(60), scale)
    assert np.median(tracker.scale_) == pytest.approx(0.0067 * unit * scale, rel=0.4)  # of normal noise of 0.01


def test_missing_entries_are_not_read():
    X, observed = vectors(), np.arange(40) % 3 > 0
    one = fed(SubspaceTracker(2), X, observed)
    other = fed(SubspaceTracker(2), np.where(observed, X, np.nan), observed)
    np.testing.assert_array_equal(one.components_, other.components_)
    assert len(np.unique(one.scale_[~observed])) == 1
    with pytest.raises(ParameterError, match="x must be finite where it is observed"):
        one.partial_fit(np.full(40, np.nan), observed)


@pytest.mark.parametrize("seen", [0, 1])
def test_fewer_entries_than_directions_change_nothing(seen):
    tracker = fed(SubspaceTracker(2), vectors())
    before = tracker.state()
    tracker.partial_fit(vectors()[0], np.arange(40) < seen)
    after = tracker.state()
    for name in ("scale", "C", "gram"):
        np.testing.assert_array_equal(before[name], after[name])
    np.testing.assert_array_equal(before["basis"]["stack"][:4], after["basis"]["stack"][:4])
    assert tracker.n_samples_seen_ == FEW + 1


X, ZERO = vectors(), np.zeros((FEW, 40), np.float32)
STREAMS = {
    "zeros first": np.vstack([ZERO, X]),
    "zeros last": np.vstack([X, ZERO]),
    "zeros between": np.vstack([ZERO, X]).reshape(2, -1, 40).swapaxes(0, 1).reshape(-1, 40),
    "constant": ZERO + 3,
    "one vector": np.tile(X[:1], (4 * FEW, 1)),
    "two vectors": np.tile(X[:2], (2 * FEW, 1)),
    "one entry": np.eye(40)[np.arange(2 * FEW) % 40],
    "denormal": X.astype(np.float64) * 1e-310,
    "grows": np.vstack([1e-6 * X, 1e6 * X]),
    "shrinks": np.vstack([1e8 * X, 1e-8 * X]),
    "bytes": (20 * X + 128).astype(np.uint8),
    "booleans": X > 0,
    "lists": (100 * X).astype(np.int64).tolist(),
}


@pytest.mark.parametrize("name", STREAMS)
def test_the_subspace_stays_sound(name):
    assert_sound(fed(SubspaceTracker([2, "auto"][len(name) % 2]), STREAMS[name]))


@pytest.mark.parametrize(
    "start", [np.zeros((5, 40)), np.zeros((5, 40), np.uint8), np.ones((5, 40)), X[:8], 1e-8 * X[:8], X[:8] > 0, X[:2]]
)
def test_any_batch_is_a_start(start):
    tracker = SubspaceTracker("auto" if len(start) > 5 else 2, max_rank=4).fit(start)
    assert_sound(tracker)
    assert (tracker.scale_ > 0).all()
    assert_sound(fed(tracker, X))


@pytest.mark.parametrize(
    ("parameters", "tunes", "adapts"),
    [
        ({}, True, True),
        ({"mu": 0.5}, True, True),
        ({"forgetting": 0.05}, True, False),
        ({"mu": 0.5, "forgetting": 0.05}, False, False),
        ({"metric": "canonical"}, False, False),
        ({"line_search": "sample"}, False, False),
        ({"gradient_carry": "unchanged"}, False, False),
    ],
    ids=str,
)
def test_given_parameters_are_not_tuned(parameters, tunes, adapts):
    tracker = fed(SubspaceTracker(2, **parameters), vectors())
    assert isinstance(tracker._model, SelfTunedSubspace) == tunes
    assert (tracker.forgetting_ != 0.05) == adapts
    assert adapts or tracker.momentum_ == 0
    if tunes and "mu" not in parameters:
        assert np.ptp(tracker.scale_) > 0
    else:
        with pytest.raises(ParameterError, match="scale_ needs mu not to be given"):
            _ = tracker.scale_
    if tunes:
        with pytest.raises(ParameterError, match="subspace_ needs mu and forgetting to be given as numbers"):
            _ = tracker.subspace_


@pytest.mark.parametrize(
    "parameters",
    [{}, {"rank": "auto"}, {"mu": 0.5}, {"forgetting": 0.05}, {"mu": 0.5, "forgetting": 0.05}, {"metric": "canonical"}],
    ids=str,
)
@pytest.mark.parametrize("size", [0, 1])
def test_a_restored_state_continues_bit_for_bit_and_is_a_copy(parameters, size):
    parameters = {"rank": 2} | parameters
    tracker = fed(SubspaceTracker(**parameters), size * vectors())
    state = tracker.state()
    before = copy.deepcopy(state)
    other = SubspaceTracker(**parameters).set_state(state)
    for x in vectors(seed=1):
        one, two = (t.partial_fit(x) for t in (tracker, other))
        np.testing.assert_array_equal(one.components_, two.components_)
        np.testing.assert_array_equal(one.coefficients_, two.coefficients_)
        assert (one.forgetting_, one.momentum_, one.objective_) == (two.forgetting_, two.momentum_, two.objective_)
    assert one.rank_ == two.rank_
    np.testing.assert_equal(state, before)


DAMAGES = {
    "missing": lambda value: None,
    "another type": lambda value: value.astype(np.int32),
    "another axis": lambda value: value[None],
    "NaN": lambda value: np.full_like(value, np.nan) if value.dtype.kind == "f" else None,
}


@both_ranks
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_state_is_refused(rank, damage):
    state = fed(SubspaceTracker(rank), vectors()).state()
    for *above, name in list(leaves(state)):
        broken = copy.deepcopy(state)
        part = broken
        for other in above:
            part = part[other]
        part[name] = DAMAGES[damage](part[name])
        with pytest.raises(ParameterError, match=r"\A.+\Z"):
            SubspaceTracker(rank).set_state(broken)


@pytest.mark.parametrize(
    ("path", "value"),
    [*((name, -1.0) for name in ("scale", "C")), ("scale", 0.0), ("gram", 7.0)]
    + [("pace.pace", np.array(weight)) for weight in ((0.0, 0.0), (1.0, 0.0), (0.1, 1.5))],
)
def test_an_impossible_state_is_refused(path, value):
    state = fed(SubspaceTracker(2), vectors()).state()
    name, _, inner = path.partition(".")
    if inner:
        state[name][inner] = value
    else:
        state[name].flat[0] = value
    with pytest.raises(ParameterError, match=f"{name} must"):
        SubspaceTracker(2).set_state(state)


def test_the_state_of_another_model_is_refused():
    state = fed(SubspaceTracker(2), vectors()).state()
    for parameters in ({"rank": 3}, {"rank": 2, "mu": 0.5, "forgetting": 0.05}, {"rank": "auto"}):
        with pytest.raises(ParameterError):
            SubspaceTracker(**parameters).set_state(state)


def test_a_fixed_weight_stays():
    tracker = fed(SubspaceTracker(2), vectors())
    tracker.set_forgetting(0.02)
    fed(tracker, vectors())
    assert (tracker.forgetting, tracker.forgetting_, tracker.momentum_) == (0.02, 0.02, 0.0)
    again = SubspaceTracker(**tracker.get_params()).set_state(tracker.state())
    np.testing.assert_array_equal(fed(tracker, X).components_, fed(again, X).components_)
    tracker.set_forgetting("auto")
    assert fed(tracker, vectors()).forgetting_ != 0.02
