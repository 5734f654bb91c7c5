"""The state of a subtractor as arrays: a restored subtractor continues bit for bit."""

import copy
import dataclasses
from functools import cache

import numpy as np
import pytest

from bgsub import BackgroundSubtractor
from bgsub.errors import ParameterError
from bgsub.numerics import threads
from bgsub.scene import engine
from bgsub.synthetic import scene
from bgsub.tracking import subspace

START = 20

# Start phase, its end, covered lens, cuts, standing object, ghost.
LONG_RUNS = (0, START - 1, START, 63, 101, 125, 131, 170, 201)
SELECTED = (2, 10, START - 1, 63, 131, 201)


@cache
def lobby(length=260, **options):
    """Return frames of a room with lamps, a covered lens, a cut and return, and a box that stands and leaves."""
    frames = np.stack([frame for frame, _ in scene("lobby", size=(96, 64), length=length, seed=5, **options)])
    rng = np.random.default_rng(1)
    frames[5:12, 10:30, 60:80] = 250  # in the start phase
    frames[60:66] = rng.integers(0, 4, frames[60:66].shape)  # a hand on the lens
    other = np.kron(rng.integers(0, 256, (8, 12, *frames.shape[3:])), np.ones((8, 8, 1)[: frames.ndim - 1]))
    frames[100:130] = other + frames[100:130] // 32  # another scene, and back
    frames[150:200, 20:44, 20:44] = (30, 60, 240)[: frames.ndim - 1] if frames.ndim == 4 else 230  # stands, then leaves
    return frames


CASES = {
    "colour": ({}, {}, None),
    "shaking": ({}, {"shake": 2.0}, None),
    "noisy": ({}, {"noise": 12.0}, None),  # smoothed
    "grey": ({"scale": 0.5}, {"channels": 1}, None),
    "float": ({"surrogate": "lp"}, {}, lambda frames: frames.astype(np.float32) / 255),
    "half": ({"scale": 0.6}, {}, lambda frames: (frames / 255).astype(np.float16)),
    "threads": ({"threads": 2}, {}, None),
    "literal": (
        {"line_search": "sample", "gradient_carry": "unchanged", "surrogate": "log"},
        {},
        lambda frames: frames.astype(np.uint16) * 257,
    ),
    "canonical": ({"metric": "canonical", "rank": 2, "shadows": "merged", "neighbours": 0}, {}, None),
}


def stream(name):
    parameters, options, change = CASES[name]
    frames = lobby(**options)
    subtractor = BackgroundSubtractor(start_frames=START, absorb_after=1.5, fps=20, **parameters)
    return subtractor, frames if change is None else change(frames)


def parts(separation):
    """Return everything in a separation as comparable values."""
    *names, event, _, _ = (field.name for field in dataclasses.fields(separation))  # the last ones are callables
    values = (getattr(separation, name) for name in (*names, "probability", event))
    return [value.tobytes() if isinstance(value, np.ndarray) else value for value in values]


def learning_rate(index):
    return {33: 0.0, 34: 0.0, 90: 0.2}.get(index, -1.0)


@pytest.fixture(autouse=True)
def small_bands(monkeypatch):
    """Let small frames use two threads."""
    monkeypatch.setattr(engine, "_WORTH_A_THREAD", 2000)
    monkeypatch.setattr(threads, "cores", lambda: 2)
    monkeypatch.setattr(threads, "_pool", threads._Pool())
    yield
    threads._pool.executor.shutdown()


@pytest.mark.slow
@pytest.mark.large
@pytest.mark.parametrize("name", CASES)
def test_restored_subtractor_continues_bit_for_bit(name, tmp_path):
    subtractor, frames = stream(name)
    expected, frozen = [], {}
    for index, frame in enumerate(frames):
        expected.append(parts(subtractor.process(frame, learning_rate(index))))
        if index in (LONG_RUNS if name == "colour" else SELECTED) or (name == "colour" and index % 4 == 0):
            frozen[index] = subtractor.snapshot()
        if index == 40:
            subtractor.save(tmp_path / "model.npz")
    assert {"covered", "scene-change"} <= {separation[-1] for separation in expected}
    restored = {index: BackgroundSubtractor.from_snapshot(*data) for index, data in frozen.items()}
    for index, again in [(40, BackgroundSubtractor.load(tmp_path / "model.npz")), *restored.items()]:
        assert again.getBackgroundImage().tobytes() == expected[index][2]
        end = len(frames) if index in (40, *LONG_RUNS) else min(index + 3, len(frames))
        for later in range(index + 1, end):
            assert parts(again.process(frames[later], learning_rate(later))) == expected[later], (index, later)


def test_snapshot_has_no_influence_where_no_step_is_pending(monkeypatch):
    monkeypatch.setattr(subspace, "_ORTHONORMALISE_EVERY", 4)
    subtractor, frames = stream("colour")
    rows, restored = set(), None
    for frame in frames[:50]:
        expected = parts(subtractor.process(frame))
        if restored is not None:
            assert parts(restored.process(frame)) == expected
        if subtractor.tracker is not None:
            header, state = subtractor.snapshot()
            rows.add((len(state["scenes"]["model"]["tracker"]["basis"]["stack"]), subtractor.tracker.is_settled))
            restored = BackgroundSubtractor.from_snapshot(header, state)
    assert rows == {(3, True), (4, False)}


@pytest.mark.slow
@pytest.mark.large
def test_results_are_independent_of_idle_threads():
    subtractor, frames = stream("threads")
    expected = [parts(subtractor.process(frame)) for frame in frames[:110]]
    assert threads._pool.idle.acquire(blocking=False)
    other, _ = stream("threads")
    try:
        assert [parts(other.process(frame)) for frame in frames[:110]] == expected
    finally:
        threads._pool.idle.release()


def bytes_of(state):
    if isinstance(state, np.ndarray):
        return state.dtype.str, state.shape, state.tobytes()
    return {name: bytes_of(value) for name, value in state.items()}


@pytest.mark.large
def test_snapshot_is_a_copy():
    (subtractor, frames), (other, _) = stream("colour"), stream("colour")
    header, state = subtractor.snapshot()
    empty = BackgroundSubtractor.from_snapshot(header, state)
    assert (state, empty.empty(), empty.get_params()) == ({}, True, subtractor.get_params())
    events = {}
    for index, frame in enumerate(frames[:140]):
        header, state = subtractor.snapshot()
        before = bytes_of(state)
        separation = subtractor.process(frame)
        events[index] = separation.event
        assert parts(separation) == parts(other.process(frame))
        assert bytes_of(state) == before
    assert [events[index] for index in (60, 100, 130)] == ["covered", "scene-change", "scene-return"]
    assert "light-change" in events.values()
    header, state = subtractor.snapshot()
    again = BackgroundSubtractor.from_snapshot(header, state).snapshot()
    assert (header, bytes_of(state)) == (again[0], bytes_of(again[1]))


def leaves(state, path=()):
    for name, value in state.items():
        yield from leaves(value, (*path, name)) if isinstance(value, dict) else [(*path, name)]


@pytest.mark.large
@pytest.mark.parametrize(("count", "phase"), [(110, "start"), (126, "tracking")])
def test_unsuitable_arrays_are_refused(count, phase):
    """Each array in turn missing, of another length, of another type."""
    subtractor, frames = stream("shaking")
    for frame in frames[:count]:  # with another scene parked
        subtractor.process(frame)
    header, state = subtractor.snapshot()
    places = list(leaves(state))
    assert subtractor.phase == phase
    assert {path[1] for path in places if path[0] == "scenes"} >= {"model", "parked0"}
    assert len(places) > 40
    for *path, last in places:
        inner = state
        for name in path:
            inner = inner[name]
        value = inner.pop(last)
        others = [None, value[..., np.newaxis], value.astype(np.complex64)]
        if value.dtype.kind == "f" and value.size:
            others.append(np.full_like(value, np.nan))
        for other in others:
            if other is not None:
                inner[last] = other
            elif last == "leftovers" or path[-1:] == ["illumination"]:
                continue  # may be missing
            with pytest.raises(ParameterError):
                BackgroundSubtractor.from_snapshot(header, state)
        inner[last] = value
    BackgroundSubtractor.from_snapshot(header, state)


DAMAGE = {
    "a basis of fewer entries": ("tracker/basis/stack", lambda stack: stack[:, :5]),
    "a basis that is none": ("tracker/basis/stack", np.zeros_like),
    "more directions than rows": ("tracker/R", lambda R: np.zeros((100, R.shape[1]))),
    "no change of basis": ("tracker/basis/N", np.zeros_like),
    "pending steps from nowhere": ("tracker/basis/G", np.ones_like),
    "blocks that are not there": ("tracker/basis/blocks", lambda blocks: blocks + np.array([0, 7, 0])),
    "blocks of no length": ("tracker/basis/blocks", lambda blocks: blocks * np.array([0, 1, 1])),
    "a moment that is none": ("tracker/C", np.negative),
    "counters beyond all numbers": ("tracker/counters", lambda counters: counters + 1e300),
    "points outside of the frame": ("stabiliser/registration/fine/points", lambda points: points + np.float32(1e6)),
    "points that are no numbers": ("stabiliser/registration/fine/points", lambda points: points * np.float32(np.nan)),
    "negative ages of the reference": ("stabiliser/counts", lambda counts: counts - 1000),
    "a negative count of frames": ("segmenter/noise/numbers", lambda numbers: -2 - numbers),
    "samples of more frames than there are": ("segmenter/sample_memory/frame", lambda frame: frame + 1e300),
    "more lit outline than outline": ("segmenter/shadows/outline", lambda outline: outline[:, ::-1] + [1, 0]),
    "an outline of no pixels": ("segmenter/shadows/outline", np.zeros_like),
    "negative votes for tints": ("segmenter/shadows/votes", lambda votes: votes - 1e6),
    "negative weights of factors": ("segmenter/shadows/factors", lambda factors: factors - 1e6),
    "a negative backoff": ("light_trigger", np.negative),
}


@pytest.fixture(scope="module")
def learned():
    """Return the snapshot of a stream after 40 frames."""
    subtractor, frames = stream("colour")
    for frame in frames[:40]:
        subtractor.process(frame)
    return subtractor.snapshot()


@pytest.mark.large
@pytest.mark.parametrize("name", DAMAGE)
def test_impossible_values_are_refused(name, learned):
    """They could make kernels read out of bounds, or fail later in the stream."""
    header, state = copy.deepcopy(learned)
    place, damage = DAMAGE[name]
    *path, last = place.split("/")
    inner = state["scenes"]["model"]
    for part in path:
        inner = inner[part]
    inner[last] = damage(inner[last])
    with pytest.raises(ParameterError, match=f"{last}|saved basis"):
        BackgroundSubtractor.from_snapshot(header, state)


OF_16 = {"shape": [4, 4], "dtype": "uint8", "max_value": 255}


FORMATS = [{"dtype": "O"}, *({"max_value": value} for value in (0, "x"))]
FORMATS += [{"shape": shape} for shape in ("44", [5], [10**6] * 2)]
HEADERS = [{}, {"parameters": {}}, {"parameters": {"rang": 3}, "format": None}, {"parameters": 3, "format": None}]
HEADERS += [{"parameters": {}, "format": one} for one in ({}, OF_16, *({**OF_16, **change} for change in FORMATS))]


@pytest.mark.parametrize("header", HEADERS)
def test_unsuitable_headers_are_refused(header):
    with pytest.raises(ParameterError):
        BackgroundSubtractor.from_snapshot(header, {})
