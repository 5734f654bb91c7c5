"""The subtractor: interface, frame types, model files, changes of an input after a call, parameters that change."""

import pickle
import threading

import cv2
import eventful_scene
import numpy as np
import pytest

from bgsub import BackgroundSubtractor, ParameterError, SinkError, SourceError, SubspaceTracker
from bgsub.errors import BgsubError
from bgsub.evaluation import confusion
from bgsub.parameters import SUBTRACTOR
from bgsub.storage import array_file

QUICK = {"start_frames": 10, "subset": 500}


large, slow = pytest.mark.large, pytest.mark.slow


def still(shape=(24, 32, 3), dtype=np.uint8, seed=0, is_flat=False):
    """Yield noisy frames of a still picture, or of one colour, without end."""
    rng = np.random.default_rng(seed)
    top = np.iinfo(dtype).max if np.issubdtype(dtype, np.integer) else 1.0
    picture = rng.uniform(0.2, 0.8, shape[2:] if is_flat else shape)
    while True:
        frame = np.clip(picture + 0.01 * rng.standard_normal(shape), 0, 1) * top
        yield frame.astype(dtype)


def feed(subtractor, frames, n):
    return [subtractor.process(next(frames)) for _ in range(n)]


@pytest.mark.parametrize(("dtype", "scale"), [(np.uint8, 1), (np.uint8, 0.5), pytest.param(np.float32, 1, marks=slow)])
def test_the_memory_layout_may_change_within_a_stream(dtype, scale):
    """Kernels look up the types of their arguments only once."""

    def frozen(frame):
        frame.flags.writeable = False
        return frame

    layouts = [np.copy, np.asfortranarray, lambda frame: frame.repeat(2, axis=1)[:, ::2], frozen]
    one, other = (BackgroundSubtractor(**QUICK, scale=scale) for _ in range(2))
    for index, frame in zip(range(24), still(dtype=dtype), strict=False):
        frame[4:12, index : index + 8] = 0
        np.testing.assert_array_equal(one.apply(frame), other.apply(layouts[index % 4](frame.copy())))


@pytest.mark.parametrize(
    ("shape", "dtype", "scale"),
    [
        pytest.param((24, 32, 3), np.uint8, 1, marks=large),
        pytest.param((23, 31, 1), np.float32, 1, marks=[large, slow]),
        pytest.param((17, 19, 4), np.float64, 1, marks=[large, slow]),
        pytest.param((24, 32), np.float16, 1, marks=[large, slow]),
        pytest.param((2, 2, 3), np.uint16, 1, marks=slow),
        ((1, 1), np.uint8, 1),
        ((24, 32, 3), np.uint8, 0.5),
        pytest.param((23, 31), np.float64, 0.5, marks=slow),
        pytest.param((1, 40), np.uint16, 0.5, marks=slow),
        pytest.param((3, 2, 1), np.float16, 0.5, marks=slow),
        pytest.param((2, 5, 4), np.uint8, 0.5, marks=slow),
    ],
)
def test_frame_types(shape, dtype, scale):
    subtractor, frames = BackgroundSubtractor(**QUICK, scale=scale), still(shape, dtype, is_flat=scale < 1)
    results = feed(subtractor, frames, 5)
    for _ in range(2):  # in both phases, a refused frame changes nothing
        with pytest.raises(ParameterError, match="every frame must be like the first one"):
            subtractor.apply(np.zeros((7, 7), dtype))
        results += feed(subtractor, frames, 10)
    for result in results:
        assert (result.mask.shape, result.mask.dtype) == (shape[:2], np.uint8)
        assert (result.residual.shape, result.residual.dtype) == (shape[:2], np.float32)
        for image in (result.frame, result.background, result.foreground):
            assert (image.shape, image.dtype) == (shape, dtype)
        assert result.share == 0
    assert subtractor.phase == "tracking"
    assert result.residual.max() < 0.1
    top = 1.0 if np.issubdtype(dtype, np.floating) else np.iinfo(dtype).max
    last = next(frames)
    if shape[2:] == (4,):
        last[..., 3] = top  # alpha is ignored
    np.testing.assert_allclose(subtractor.process(last).background / top, last / top, atol=0.06)
    subtractor.clear()
    assert subtractor.empty()
    subtractor.apply(np.zeros((7, 7), np.uint8))


@pytest.mark.large
def test_object_is_found_in_both_phases():
    frames, brighter = still((60, 80, 3)), still((60, 80, 3), seed=2)
    subtractor, alone, other = (BackgroundSubtractor(**QUICK) for _ in range(3))
    for count, phase in ((5, "start"), (25, "tracking")):
        for _ in range(count):
            frame = next(frames)
            result = subtractor.process(frame)
            other.apply(next(brighter))  # subtractors are independent
            np.testing.assert_array_equal(result.background, alone.process(frame).background)
        kept = [result.mask.copy(), result.background.copy(), result.residual.copy()]
        frame = next(frames)
        frame[20:40, 30:50] = 255 - frame[20:40, 30:50] // 2
        mask = subtractor.apply(frame)
        alone.apply(frame)
        truth = np.zeros((60, 80), np.uint8)
        truth[20:40, 30:50] = 255
        assert confusion(mask, truth).f_measure > 0.95
        assert subtractor.phase == phase
        for before, now in zip(kept, (result.mask, result.background, result.residual), strict=True):
            np.testing.assert_array_equal(before, now)  # results own their arrays


@pytest.mark.large
def test_interface_equals_opencv():
    ours, theirs = BackgroundSubtractor(**QUICK), cv2.createBackgroundSubtractorMOG2()
    assert ours.getBackgroundImage() is theirs.getBackgroundImage() is None
    frames = still()
    for _ in range(12):
        frame = next(frames)
        for subtractor in (ours, theirs):
            mask = subtractor.apply(frame)
            assert (mask.shape, mask.dtype) == ((24, 32), np.uint8)
            given = np.empty((24, 32), np.uint8)
            assert subtractor.apply(frame, given, learningRate=0) is not None
            background = subtractor.getBackgroundImage()
            assert (background.shape, background.dtype) == (frame.shape, np.uint8)
    given = np.full((24, 32), 7, np.uint8)
    assert ours.apply(next(frames), given) is given
    assert set(np.unique(given)) <= {0, 255}
    filled = np.empty((24, 32, 3), np.uint8)
    assert ours.getBackgroundImage(filled) is filled


@pytest.mark.large
def test_learning_rates():
    frozen, subtractor, frames = BackgroundSubtractor(**QUICK), BackgroundSubtractor(**QUICK), still()
    for frame in [frame.frame for frame in feed(subtractor, frames, 20)]:
        frozen.apply(frame, learningRate=0)
    assert frozen._scenes.model.start.buffer.count == 1
    before, sigma = subtractor.tracker.components_.copy(), subtractor._scenes.model.segmenter.noise.sigma.copy()
    samples = subtractor._scenes.model.segmenter.sample_memory.state()
    subtractor.apply(255 - next(frames), learningRate=0)
    for name, value in subtractor._scenes.model.segmenter.sample_memory.state().items():
        np.testing.assert_array_equal(value, samples[name])
    np.testing.assert_array_equal(subtractor.tracker.components_, before)
    np.testing.assert_array_equal(subtractor._scenes.model.segmenter.noise.sigma, sigma)
    subtractor.apply(next(frames), learningRate=0.5)
    assert np.abs(subtractor.tracker.components_ - before).max() > 0
    subtractor.apply(next(frames), learningRate=1)
    assert subtractor.phase == "start"
    assert subtractor._scenes.model.start.buffer.count == 1
    for bad in (1.5, float("nan"), "fast"):
        with pytest.raises(ParameterError, match="learningRate must be a number"):
            subtractor.apply(next(frames), learningRate=bad)


@pytest.mark.large
@pytest.mark.parametrize(("scale", "place"), [(1, np.s_[5:15, 5:15]), (0.5, np.s_[5:15, 5:15]), (0.5, np.s_[20, 3:30])])
def test_known_foreground_is_shown_and_not_learned(scale, place):
    known, results = np.zeros((24, 32), np.uint8), []
    known[place] = 1
    for use in (None, known):
        subtractor, frames = BackgroundSubtractor(**QUICK, scale=scale), still(is_flat=scale < 1)
        feed(subtractor, frames, 15)
        for i in range(30):
            frame = next(frames)
            frame[place] = frame[place] + 7 if i < 29 else 255
            mask = subtractor.apply(frame, knownForegroundMask=use)
        results.append((mask, subtractor.getBackgroundImage()[place].astype(float).mean()))
    assert (results[1][0][place] == 255).all()
    assert not results[1][0][:4].any()
    assert results[0][1] - results[1][1] > 3
    with pytest.raises(ParameterError, match=r"knownForegroundMask must have shape \(24, 32\), got \(2, 2\)"):
        subtractor.apply(next(frames), knownForegroundMask=np.zeros((2, 2)))


@pytest.mark.large
def test_known_foreground_is_no_background_under_new_light():
    rng, known = np.random.default_rng(0), np.zeros((48, 64), np.uint8)
    known[15:25, 30:40] = 1
    still = np.kron(rng.uniform(40, 200, (12, 16, 3)), np.ones((4, 4, 1)))
    still[10:30, 25:45] = 300  # saturated: what falling light shows there becomes background
    backgrounds = []
    for use in (None, known):
        subtractor = BackgroundSubtractor(start_frames=20)
        for gain in (*[1] * 30, 0.5):
            frame = gain * still
            frame[15:25, 30:40] = 220 if gain < 1 else frame[15:25, 30:40]
            frame = np.clip(frame + rng.normal(0, 1, frame.shape), 0, 255).astype(np.uint8)
            subtractor.apply(frame, knownForegroundMask=use if gain < 1 else None)
        backgrounds.append(subtractor.getBackgroundImage())
    for background in backgrounds:
        assert np.mean(background[11:14, 26:44]) == pytest.approx(150, abs=5)
    assert np.mean(backgrounds[0][16:24, 31:39]) > 210
    assert np.mean(backgrounds[1][16:24, 31:39]) < 160


def test_invalid_parameters_and_model_files(tmp_path):
    with pytest.raises(ParameterError, match="rank must be at most start_frames, here 5, got 6"):
        BackgroundSubtractor(rank=6, start_frames=5)
    with pytest.raises(SourceError, match="there is no model file"):
        BackgroundSubtractor.load(tmp_path / "no.npz")
    (tmp_path / "text.npz").write_text("hello")
    np.savez(tmp_path / "other.npz", a=np.zeros(3))
    array_file.write(tmp_path / "five.npz", array_file.Kind("model", 5), {}, {"segmenter": {"sigma": np.zeros(3)}})
    subtractor = BackgroundSubtractor()
    subtractor.apply(np.zeros((2, 2), np.uint8))
    header, state = subtractor.snapshot()
    array_file.write_model(tmp_path / "damaged.npz", header, {**state, "background": np.zeros((9, 9), np.uint8)})
    array_file.write_model(tmp_path / "none.npz", {"format": None}, {})
    for name, message in (
        ("text", "is not a bgsub model"),
        ("other", "is not a bgsub model"),
        ("five", "is not a bgsub model of version 29: another version of bgsub wrote it[^\n]*$"),
        ("damaged", "damaged.npz is a damaged bgsub model: background must be uint8"),
        ("none", "is a damaged bgsub model"),
    ):
        with pytest.raises(SourceError, match=message):
            BackgroundSubtractor.load(tmp_path / f"{name}.npz")
    with pytest.raises(SinkError, match="cannot be written to"):
        subtractor.save(tmp_path / "missing" / "model.npz")


def test_refused_arguments_change_nothing():
    subtractor = BackgroundSubtractor()
    frame = np.zeros((4, 5), np.uint8)
    with pytest.raises(ParameterError, match=r"fgmask must be uint8 of shape \(4, 5\), got uint8 of shape \(2, 2\)"):
        subtractor.apply(frame, np.empty((2, 2), np.uint8))
    with pytest.raises(ParameterError, match="fgmask must be an array that can be written to"):
        subtractor.apply(frame, np.broadcast_to(np.uint8(0), (4, 5)))
    for known in (np.zeros(3), [[0], [0, 1]]):
        with pytest.raises(ParameterError, match="knownForegroundMask must have shape"):
            subtractor.apply(frame, knownForegroundMask=known)
    assert subtractor.empty()
    subtractor.apply(frame)
    with pytest.raises(ParameterError, match=r"backgroundImage must be uint8 of shape \(4, 5\)"):
        subtractor.getBackgroundImage(np.zeros((4, 5)))
    with pytest.raises(ParameterError, match="backgroundImage must be an array that can be written to"):
        subtractor.getBackgroundImage(np.broadcast_to(np.uint8(0), (4, 5)))


def test_two_threads_cannot_use_one_subtractor_at_once():
    frames, errors, begun = np.random.default_rng(0).integers(90, 110, (40, 48, 64), np.uint8), [], threading.Event()
    subtractor = BackgroundSubtractor(start_frames=10)
    subtractor.apply(frames[0])

    def process(frame):
        try:
            subtractor.process(frame)
        except BgsubError as error:
            errors.append(str(error))

    take = subtractor._checked_inputs

    def slow_take(*images):
        begun.set()
        other.join()
        return take(*images)

    other = threading.Thread(target=lambda: (begun.wait(), process(frames[2])))
    other.start()
    subtractor._checked_inputs = slow_take
    subtractor.apply(frames[1])
    assert errors == ["a subtractor processes one frame at a time; use one subtractor for each stream"]
    del subtractor._checked_inputs
    thread = threading.Thread(target=process, args=(frames[3],))  # one after the other is allowed
    thread.start()
    thread.join()
    assert len(errors) == 1


KINDS = {"colour": (3, np.uint8, 255), "grey": (1, np.uint8, 255), "16 bit": (3, np.uint16, 65535)}
KINDS |= {"float": (3, np.float32, 1), "half": (1, np.float16, 1)}


def seen(kind):
    channels, dtype, top = KINDS[kind]
    frames = (np.array(eventful_scene.scene(channels)) / 255 * top).astype(dtype)
    return frames[..., 0].copy() if channels == 1 else frames


def results_of(subtractor, frames, draw):
    """Return all results, by `process` and `apply` in turns, after `draw` changed the inputs."""
    results = []
    for t, frame in enumerate(frames):
        known = np.zeros(frame.shape[:2], bool)
        known[50:60, 10:30] = t % 5 == 4
        if t % 3:
            results.append(subtractor.apply(frame, knownForegroundMask=known))
        else:
            result = subtractor.process(frame, knownForegroundMask=known)
        draw(frame)
        draw(known)
        results.append(subtractor.getBackgroundImage())
        if t % 3 == 0:
            results += [result.mask, result.frame, result.background, result.residual]
            results += [result.foreground, result.probability]
    return results


def overwrite(array):
    array[...] = array[::-1, ::-1].copy()
    array[:, :8] = array[:8] = array.max()


def make(scale=1):
    return BackgroundSubtractor(scale=scale, start_frames=12, absorb_after=0.4)


@pytest.mark.parametrize(
    ("kind", "scale"),
    [
        pytest.param("colour", 1, marks=large),
        *(pytest.param(*one, marks=slow) for one in (("grey", 0.5), ("16 bit", 1), ("float", 0.5), ("half", 1))),
    ],
)
def test_changed_frames_do_not_affect_results(kind, scale):
    plain = results_of(make(scale), seen(kind), lambda _array: None)
    drawn = results_of(make(scale), seen(kind), overwrite)
    assert any(np.ptp(answer) for answer in plain)
    for number, (a, b) in enumerate(zip(plain, drawn, strict=True)):
        np.testing.assert_array_equal(a, b, err_msg=f"result {number}")


@pytest.mark.parametrize("self_tuned", [False, True])
def test_changed_vectors_do_not_affect_the_tracker(self_tuned):
    rng = np.random.default_rng(3)
    vectors = rng.standard_normal((60, 2)) @ rng.standard_normal((2, 80)) + 0.01 * rng.standard_normal((60, 80))
    observed = rng.random((60, 80)) < 0.9

    def track(write):
        given, known = vectors.copy(), observed.copy()
        tracker = SubspaceTracker("auto") if self_tuned else SubspaceTracker(2)
        batch = given[:20].copy()
        tracker.fit(batch)
        write(batch)
        found = []
        for x, seen_entries in zip(given[20:], known[20:], strict=True):
            tracker.partial_fit(x, seen_entries)
            write(x)
            write(seen_entries)
            found += [tracker.low_rank_.copy(), tracker.components_.copy(), tracker.coefficients_.copy()]
        return found

    for a, b in zip(track(lambda _x: None), track(lambda x: np.logical_not(x, out=x, casting="unsafe")), strict=True):
        np.testing.assert_array_equal(a, b)


START = 8
LIVE = {name for name, parameter in SUBTRACTOR.items() if parameter.live}
OTHER_VALUES = {"forgetting": 0.2, "threshold": 0.3, "noise_factor": 6.0, "median": 9, "neighbours": 0}
OTHER_VALUES |= {"shadows": "merged", "min_area": 0.01, "absorb_after": 2.0}
OTHER_VALUES |= {"light": False, "scene_changes": False, "ghosts": False}
EVENTFUL = np.roll(eventful_scene.scene(3), -13, axis=0)  # most parameters change some of their masks


def run(subtractor, frames):
    return [subtractor.apply(frame) for frame in frames]


@pytest.fixture
def running():
    subtractor = BackgroundSubtractor(start_frames=START, fps=10)
    run(subtractor, EVENTFUL[: START + 6])
    assert subtractor.phase == "tracking"
    return subtractor


@large
def test_tune_keeps_the_model(running):
    assert set(OTHER_VALUES) == LIVE
    before = pickle.dumps(running.snapshot()[1])
    running.tune(**OTHER_VALUES)
    assert pickle.dumps(running.snapshot()[1]) == before
    assert running.get_params() == {**BackgroundSubtractor(start_frames=START, fps=10).get_params(), **OTHER_VALUES}


@large
@pytest.mark.parametrize(("name", "seen"), [*zip(sorted(LIVE), [4, START + 6] * 6, strict=False)])
def test_tuned_model_equals_a_restored_one(tmp_path, name, seen):
    """A restored model is built from the new parameters."""
    subtractor = BackgroundSubtractor(start_frames=START, fps=10, stabilise=False)
    run(subtractor, EVENTFUL[:seen])
    subtractor.tune(**{name: OTHER_VALUES[name]})
    subtractor.save(tmp_path / "model.npz")
    loaded = BackgroundSubtractor.load(tmp_path / "model.npz")
    assert (loaded.get_params(), loaded.get_params()[name]) == (subtractor.get_params(), OTHER_VALUES[name])
    frames = EVENTFUL[seen : seen + 30]
    np.testing.assert_array_equal(run(subtractor, frames), run(loaded, frames))


@large
def test_parked_scene_is_tuned():
    subtractor = BackgroundSubtractor(start_frames=START, fps=10)
    run(subtractor, EVENTFUL[: START + 2])
    assert subtractor.process(255 - EVENTFUL[0]).event == "scene-change"
    subtractor.tune(threshold=0.3)
    assert subtractor.process(EVENTFUL[0]).event == "scene-return"
    segmenter = subtractor._scenes.model.segmenter
    assert segmenter.limits[0] == pytest.approx(0.8 * 0.3 * segmenter.scene.exposure)  # a coloured scene


@large
def test_fixed_parameters_and_invalid_values_are_refused(running):
    for name in sorted(set(SUBTRACTOR) - LIVE):
        with pytest.raises(ParameterError, match=f"^{name} cannot change while the subtractor runs; allowed are "):
            running.tune(**{name: SUBTRACTOR[name].default, "threshold": 0.5})
    with pytest.raises(ParameterError, match=r"^threshold must be .*, got -1$"):
        running.tune(min_area=0.5, threshold=-1)
    with pytest.raises(ParameterError, match=r"^history is OpenCV's name: setHistory\(\) changes it while"):
        running.tune(history=100)
    with pytest.raises(ParameterError, match=r"an unknown parameter 'treshold' .*; did you mean 'threshold'"):
        running.tune(treshold=1)
    values = running.get_params()
    assert (values["threshold"], values["min_area"]) == (0.08, SUBTRACTOR["min_area"].default)
