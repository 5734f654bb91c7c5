"""A frozen subtractor: it goes on bit for bit, and nothing but a subtractor is thawed."""

import dataclasses
import os
import pickle
from functools import cache

import numpy as np
import pytest

from bgsub import BackgroundSubtractor
from bgsub.errors import OutputError, SourceError
from bgsub.numerics import threads
from bgsub.scene import background
from bgsub.storage import checkpoint
from bgsub.synthetic import scene

START = 20

# In the start phase, at its end, under the covered lens, around the cuts, with a standing object and with its ghost.
TO_THE_END = (0, START - 1, START, 63, 101, 125, 131, 170, 201)
A_FEW = (START - 1, 63, 131, 201)


@cache
def lobby(length=260, **options):
    """A room whose lamps switch; a covered lens, a cut there and back, and a box that appears and goes away."""
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
    "grey": ({}, {"channels": 1}, None),
    "reduced": ({"scale": 0.5}, {}, None),
    "uint16": ({"rank": 2}, {}, lambda frames: frames.astype(np.uint16) * 257),
    "float": ({"surrogate": "lp"}, {}, lambda frames: frames.astype(np.float32) / 255),
    "half": ({"scale": 0.6}, {}, lambda frames: (frames / 255).astype(np.float16)),
    "threads": ({"threads": 2}, {}, None),
    "literal": ({"line_search": "sample", "gradient_carry": "unchanged", "surrogate": "log"}, {}, None),
    "canonical": ({"metric": "canonical", "shadows": "merged", "neighbours": 0}, {}, None),
}


def stream(name):
    parameters, options, change = CASES[name]
    frames = lobby(**options)
    subtractor = BackgroundSubtractor(start_frames=START, absorb_after=1.5, fps=20, **parameters)
    return subtractor, frames if change is None else change(frames)


def parts(separation):
    """Everything in a separation, as bytes and texts that are equal or not."""
    values = (getattr(separation, field.name) for field in dataclasses.fields(separation))
    return [value.tobytes() if isinstance(value, np.ndarray) else value for value in values]


def learning_rate(index):
    return {33: 0.0, 34: 0.0, 90: 0.2}.get(index, -1.0)


@pytest.fixture(autouse=True)
def small_bands(monkeypatch):
    """Frames of the tests are worth a second thread."""
    monkeypatch.setattr(background, "_WORTH_A_THREAD", 2000)
    monkeypatch.setattr(threads, "cores", lambda: 2)
    monkeypatch.setattr(threads, "_pool", threads._Pool())
    yield
    if threads._pool._executor is not None:
        threads._pool._executor.shutdown()


@pytest.mark.large
@pytest.mark.parametrize("name", CASES)
def test_a_thawed_subtractor_goes_on_bit_for_bit(name):
    subtractor, frames = stream(name)
    expected, frozen = [], {}
    for index, frame in enumerate(frames):
        expected.append(parts(subtractor.process(frame, learning_rate(index))))
        if name == "colour" or index in A_FEW:
            frozen[index] = checkpoint.freeze(subtractor)
    assert {"covered", "scene-change"} <= {separation[-1] for separation in expected}
    for index, data in frozen.items():
        thawed = checkpoint.thaw(data)
        assert thawed.getBackgroundImage().tobytes() == expected[index][2]
        end = len(frames) if index in TO_THE_END else min(index + 3, len(frames))
        for later in range(index + 1, end):
            assert parts(thawed.process(frames[later], learning_rate(later))) == expected[later], (index, later)


@pytest.mark.large
def test_the_stream_has_what_a_checkpoint_must_keep():
    subtractor, frames = stream("colour")
    events = {index: event for index, frame in enumerate(frames) if (event := subtractor.process(frame).event)}
    assert {events[60], events[100], events[130]} == {"covered", "scene-change", "scene-return"}
    assert "light-change" in events.values()
    assert subtractor._scenes.model._illumination._memory


@pytest.mark.large
def test_results_do_not_depend_on_how_many_threads_are_idle():
    subtractor, frames = stream("threads")
    expected = [parts(subtractor.process(frame)) for frame in frames[:110]]
    taken = threads._pool.take(1)
    assert taken == 1
    other, _ = stream("threads")
    try:
        assert [parts(other.process(frame)) for frame in frames[:110]] == expected
    finally:
        threads._pool.give_back(taken)


@pytest.mark.large
def test_freezing_changes_nothing_and_thawing_is_repeatable():
    (subtractor, frames), (other, _) = stream("colour"), stream("colour")
    for frame in frames[:110]:
        checkpoint.freeze(subtractor)
        assert parts(subtractor.process(frame)) == parts(other.process(frame))
    data = checkpoint.freeze(subtractor)
    assert checkpoint.freeze(checkpoint.thaw(data)) == checkpoint.freeze(checkpoint.thaw(data))


def test_a_subtractor_without_a_frame_can_be_frozen():
    thawed = checkpoint.thaw(checkpoint.freeze(BackgroundSubtractor(rank=2)))
    assert thawed.empty()
    assert thawed.get_params()["rank"] == 2


@pytest.mark.large
def test_the_stack_of_a_thawed_subtractor_is_aligned_and_its_empty_rows_are_not_stored():
    subtractor, frames = stream("colour")
    for frame in frames[: START + 30]:
        subtractor.process(frame)
    data = checkpoint.freeze(subtractor)
    thawed = checkpoint.thaw(data).tracker._basis.stack
    original = subtractor.tracker._basis.stack
    np.testing.assert_array_equal(thawed, original)
    assert thawed.ctypes.data % 64 == 0
    assert len(data) < len(pickle.dumps(original)) * 4 / len(original) + 60 * frames[0][..., 0].size + 1_500_000


# -- nothing else is thawed ------------------------------------------------------------------------------------------


class _Evil:
    def __init__(self, function, *arguments):
        self.reduced = function, arguments

    def __reduce__(self):
        return self.reduced


def _global(module, name):
    """A pickle that calls ``module.name('x')``; the name may have dots."""
    return (
        pickle.PROTO + b"\x04" + pickle.SHORT_BINUNICODE + bytes([len(module)]) + module.encode()
        + pickle.SHORT_BINUNICODE + bytes([len(name)]) + name.encode() + pickle.STACK_GLOBAL
        + pickle.SHORT_BINUNICODE + b"\x01x" + pickle.TUPLE1 + pickle.REDUCE + pickle.STOP
    )  # fmt: skip


def test_a_pickle_that_runs_a_command_is_refused(tmp_path):
    trace = tmp_path / "trace"
    evil = pickle.dumps(_Evil(os.mkdir, str(trace)))
    with pytest.raises(SourceError, match="mkdir"):
        checkpoint.thaw(evil)
    assert not trace.exists()
    pickle.loads(evil)
    assert trace.exists()  # it would have


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("os", "system"),
        ("builtins", "eval"),
        ("numpy", "load"),
        ("bgsub.storage.model_file", "os.system"),
        ("bgsub.storage.model_file", "read"),
        ("bgsub.subtractor", "BackgroundSubtractor.load"),
        ("bgsub.video.sinks.images", "ImageSequenceSink"),
        ("bgsub.scene.kernel_warmup", "load_in_background"),
    ],
)
def test_only_the_classes_of_the_model_are_made(module, name):
    with pytest.raises(SourceError, match="tampered"):
        checkpoint.thaw(_global(module, name))


def test_damaged_bytes_are_refused():
    data = checkpoint.freeze(BackgroundSubtractor())
    for broken in (b"", data[:-5], b"\x00" + data, pickle.dumps(3), pickle.dumps(np.zeros(3))):
        with pytest.raises(SourceError, match="frozen subtractor"):
            checkpoint.thaw(broken)


# -- files -----------------------------------------------------------------------------------------------------------


def test_a_file_comes_back(tmp_path):
    path = tmp_path / "state"
    checkpoint.write(path, {"frames": 3}, b"first")
    checkpoint.write(path, {"frames": 250, "share": 0.1 + 0.2}, b"bytes")
    assert checkpoint.read(path) == ({"frames": 250, "share": 0.1 + 0.2}, b"bytes")
    assert os.listdir(tmp_path) == ["state"]


def test_any_changed_byte_is_noticed(tmp_path):
    path = tmp_path / "state"
    checkpoint.write(path, {"frames": 3}, b"bytes")
    whole = path.read_bytes()
    for position in range(len(whole)):
        path.write_bytes(whole[:position] + bytes([whole[position] ^ 1]) + whole[position + 1 :])
        with pytest.raises(SourceError, match="state"):
            checkpoint.read(path)
        path.write_bytes(whole[:position])
        with pytest.raises(SourceError, match="state"):
            checkpoint.read(path)


def test_a_failed_write_keeps_the_file_before(tmp_path, monkeypatch):
    path = tmp_path / "state"
    checkpoint.write(path, {"frames": 3}, b"first")

    def full(_handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoint.os, "fsync", full)
    with pytest.raises(OutputError, match="No space left"):
        checkpoint.write(path, {"frames": 4}, b"second")
    assert checkpoint.read(path) == ({"frames": 3}, b"first")
    assert os.listdir(tmp_path) == ["state"]


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(SourceError, match="cannot be read"):
        checkpoint.read(tmp_path / "state")
