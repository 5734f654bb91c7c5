"""OpenCV's names: conversions, refusals and frame handling."""

import inspect
import re

import cv2
import numpy as np
import pytest

from bgsub import BackgroundSubtractor, BgsubError, ParameterError, SubspaceTracker, parameters
from bgsub.parameters import SPELLINGS, SUBTRACTOR, Parameter, SubtractorArguments, SubtractorParameters, table_of
from bgsub.subtractor.opencv_names import OPENCV_NAMES

CONVERTED = [row for row in OPENCV_NAMES if row.default is not None]
REFUSED = [row for row in OPENCV_NAMES if row.default is None]
FRAME = np.random.default_rng(0).integers(0, 255, (20, 30, 3), dtype=np.uint8)


def capital(name):
    """Return what follows set and get in OpenCV's names."""
    return name if name == "kNNSamples" else name[0].upper() + name[1:]


def test_defaults_of_opencv_are_our_defaults():
    usual = BackgroundSubtractor().get_params()
    assert BackgroundSubtractor(history=500, varThreshold=16, detectShadows=True).get_params() == usual
    assert BackgroundSubtractor(500, 16.0, True).get_params() == usual
    assert BackgroundSubtractor(history=500, dist2Threshold=400.0, detectShadows=True).get_params() == usual
    for theirs in (cv2.createBackgroundSubtractorMOG2(), cv2.createBackgroundSubtractorKNN()):
        ours = BackgroundSubtractor()
        for row in CONVERTED:
            if theirs.getDefaultName().endswith(row.of):
                value = getattr(theirs, f"get{capital(row.name)}")()
                assert value == row.default == getattr(ours, f"get{capital(row.name)}")()
                getattr(ours, f"set{capital(row.name)}")(value)
        assert ours.get_params() == usual


def test_table_has_all_names_of_opencv():
    for theirs in (cv2.createBackgroundSubtractorMOG2(), cv2.createBackgroundSubtractorKNN()):
        names = {name for name in dir(theirs) if name.startswith(("set", "get"))}
        rows = [capital(row.name) for row in OPENCV_NAMES if theirs.getDefaultName().endswith(row.of)]
        pairs = {f"{do}{row}" for row in rows for do in ("get", "set")}
        assert names - {"getBackgroundImage", "getDefaultName"} == pairs
        for name in set(dir(theirs)) - names - {"read", "write"}:
            assert hasattr(BackgroundSubtractor, name)


@pytest.mark.parametrize(
    ("name", "values", "parameter", "converted"),
    [
        ("history", (50, 250, 1000), "absorb_after", (6, 30, 120)),
        ("varThreshold", (4, 25, 100), "noise_factor", (1, 2.5, 5)),
        ("dist2Threshold", (100, 900, 1600), "threshold", (0.04, 0.12, 0.16)),
        ("detectShadows", (False, True), "shadows", ("merged", "on")),
    ],
)
def test_values_are_converted_and_returned(name, values, parameter, converted):
    usual = BackgroundSubtractor().get_params()
    (row,) = (row for row in CONVERTED if row.name == name)
    for value, expected in zip(values, converted, strict=True):
        made, told = BackgroundSubtractor(**{name: value}), BackgroundSubtractor()
        getattr(told, f"set{capital(name)}")(value)
        assert made.get_params() == told.get_params() == {**usual, parameter: pytest.approx(expected)}
        assert getattr(made, f"get{capital(name)}")() == value
        assert type(getattr(made, f"get{capital(name)}")()) is type(row.default)
    if name != "detectShadows":
        limits = table_of(SubtractorArguments)[name]
        assert all(BackgroundSubtractor(**{name: value}) for value in (limits.low, limits.high))
    with pytest.raises(ParameterError, match=f"{name} must be .*, got None"):
        getattr(BackgroundSubtractor(), f"set{capital(name)}")(None)


def test_shadow_labels():
    for kind in (int, np.bool_):
        for value in (0, 1):
            cv2.createBackgroundSubtractorMOG2(500, 16, kind(value))  # accepts these types
            subtractor = BackgroundSubtractor(500, 16, kind(value))
            assert subtractor.getDetectShadows() == bool(value)
            subtractor.setDetectShadows(kind(1 - value))
            assert subtractor.getDetectShadows() != bool(value)
    subtractor = BackgroundSubtractor()
    assert (subtractor.getDetectShadows(), subtractor.getShadowValue()) == (True, 127)
    subtractor.setShadowValue(0)
    assert (subtractor.get_params()["shadows"], subtractor.getShadowValue()) == ("off", 0)
    subtractor.setDetectShadows(True)
    assert subtractor.getShadowValue() == 0
    subtractor.setDetectShadows(False)
    subtractor.setShadowValue(0)  # of shadows that are not detected
    assert (subtractor.get_params()["shadows"], subtractor.getDetectShadows()) == ("merged", False)
    for value in (255, [127], None):
        with pytest.raises(ParameterError, match="shadowValue must be 127 or 0"):
            subtractor.setShadowValue(value)


def test_names_without_equivalent_are_refused():
    subtractor = BackgroundSubtractor()
    assert subtractor.getDefaultName() == "BackgroundSubtractor_bgsub"
    for row in REFUSED:
        with pytest.raises(ParameterError, match=r"^[^\n]*$") as caught:
            BackgroundSubtractor(**{row.name: 3})
        assert str(caught.value).startswith(f"{row.name} has no equivalent here: {row.text}")
        assert all(f"{name}=..." in str(caught.value) and name in SUBTRACTOR for name in row.ours)
        for name in (f"set{capital(row.name)}", f"get{capital(row.name)}"):
            assert not hasattr(subtractor, name)
            with pytest.raises(ParameterError, match=f"^{name} has no equivalent here: "):
                getattr(subtractor, name)(3)
    for name in ("read", "write"):
        with pytest.raises(ParameterError, match=rf"{name} has no equivalent here: save\(path\) and Backgr"):
            getattr(subtractor, name)(None)
    for name in ("nothing", "get", "setNothing"):
        with pytest.raises(AttributeError, match=f"'BackgroundSubtractor' object has no attribute '{name}'"):
            getattr(subtractor, name)


@pytest.mark.parametrize(
    ("values", "named", "message"),
    [
        ((500, 400, True), {}, "second argument is MOG2's varThreshold .* got 400; write dist2Threshold=400 for KNN's"),
        ((500, 16, True, 1), {}, "only history, varThreshold, detectShadows can be positional, got 4"),
        ((500,), {"history": 300}, "history sets absorb_after, which is given as well; use one"),
        ((), {"detectShadows": True, "shadows": "on"}, "detectShadows sets shadows, which is given as well"),
        ((0,), {}, r"history must be an integer in \[1, 1e\+09\], got 0"),
        ((500, "16"), {}, r"varThreshold must be a number in \[1e-06, 25600\], got '16'"),
        ((), {"dist2Threshold": -1}, r"dist2Threshold must be a number in \[1e-06, 250000\], got -1"),
        ((), {"detectShadows": 1.0}, r"detectShadows must be true or false, got 1\.0"),
        ((), {"Histroy": 300}, "unknown parameter 'Histroy'; allowed are rank, .*; did you mean 'history'"),
        ((), {"var_threshold": 25}, "unknown parameter 'var_threshold'; .*; did you mean 'varThreshold'"),
    ],
)
def test_invalid_arguments(values, named, message):
    with pytest.raises(ParameterError, match=message):
        BackgroundSubtractor(*values, **named)


def test_umat():
    subtractor, other = BackgroundSubtractor(), BackgroundSubtractor()
    mask = subtractor.apply(cv2.UMat(FRAME))
    assert isinstance(mask, cv2.UMat)
    np.testing.assert_array_equal(mask.get(), other.apply(FRAME))
    frame, known = FRAME.copy(), np.zeros((20, 30), np.uint8)
    frame[5:15, 5:15], known[:3] = 255, 1
    given = cv2.UMat(np.full((20, 30), 9, np.uint8))
    back = subtractor.apply(cv2.UMat(frame), given, knownForegroundMask=cv2.UMat(known))
    expected = other.apply(frame, knownForegroundMask=known)
    np.testing.assert_array_equal(given.get(), expected)
    np.testing.assert_array_equal(back.get(), expected)
    assert expected[0].all()
    picture = cv2.UMat(np.zeros_like(FRAME))
    assert isinstance(subtractor.getBackgroundImage(picture), cv2.UMat)
    np.testing.assert_array_equal(picture.get(), other.getBackgroundImage())
    mask = subtractor.process(cv2.UMat(frame), -1, cv2.UMat(known)).mask
    np.testing.assert_array_equal(mask, other.process(frame, -1, known).mask)


@pytest.mark.parametrize(
    ("frame", "seen", "on_change"),
    [(None, 0, "restart"), (None, 1, "error"), (np.zeros((0, 0), np.uint8), 1, "restart")],
)
def test_missing_frame_is_refused(frame, seen, on_change):
    subtractor = BackgroundSubtractor(on_change=on_change)
    masks = [subtractor.apply(FRAME) for _ in range(seen)]
    for take in (lambda: subtractor.apply(frame, *masks), lambda: subtractor.process(frame)):
        with pytest.raises(ParameterError, match=r"the video has ended, .* cap\.read\(\)\)$"):
            take()
    assert subtractor.empty() == (seen == 0)
    assert subtractor.apply(FRAME).shape == (20, 30)


@pytest.mark.parametrize("other", [FRAME[:10], FRAME[..., 0]])
def test_other_frame_format_restarts_as_in_opencv(other):
    subtractor, theirs = BackgroundSubtractor(on_change="restart"), cv2.createBackgroundSubtractorMOG2()
    mask, mask_of_theirs = subtractor.apply(FRAME), theirs.apply(FRAME)
    with pytest.raises(ParameterError, match="knownForegroundMask must have shape"):
        subtractor.apply(other, knownForegroundMask=np.zeros((1, 1)))
    assert subtractor.format.shape == FRAME.shape
    for _ in range(2):
        mask, mask_of_theirs = subtractor.apply(other, mask), theirs.apply(other, mask_of_theirs)
        assert mask.shape == mask_of_theirs.shape == other.shape[:2]
    np.testing.assert_array_equal(subtractor.getBackgroundImage(), other)
    fresh = BackgroundSubtractor(on_change="restart")
    fresh.apply(other)
    np.testing.assert_array_equal(fresh.apply(other), mask)


def test_interrupted_restart(monkeypatch, tmp_path):
    subtractor = BackgroundSubtractor(on_change="restart")
    subtractor.apply(FRAME)

    def interrupt(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("bgsub.subtractor.subtractor.SceneManager.separate", interrupt)
        with pytest.raises(KeyboardInterrupt):
            subtractor.apply(FRAME[:10])
    assert subtractor.getBackgroundImage() is None
    with pytest.raises(BgsubError, match="the last frame was interrupted, and the model with it"):
        subtractor.save(tmp_path / "model.npz")
    assert subtractor.apply(FRAME[:10]).shape == (10, 30)
    subtractor.save(tmp_path / "model.npz")


@pytest.mark.parametrize(
    ("parameter", "values", "words"),
    [
        (Parameter(1, "", int, 1), (0, True, "3", None), "an integer >= 1"),
        (Parameter(1, "", int, 1, 9, choices=("auto",)), (0, 10), "an integer in [1, 9] or auto"),
        (Parameter(0.5, "", float, 0, 1, is_open=True), (0, 1.0, "a"), "a number in (0, 1)"),
        (Parameter(None, "", float, 0), (float("inf"), "x"), "a number >= 0 or None"),
        (Parameter("a", "", str, choices=("a", "b")), ("c", True), "one of a, b"),
        (Parameter("a", "", str, choices=("a", "b"), of_bool=("b", "a")), ("yes",), "one of a, b, or true or false"),
        (Parameter(True, "", bool), (1,), "true or false"),
    ],
)
def test_a_bad_value_is_named_with_its_range(parameter, values, words):
    for value in values:
        with pytest.raises(ParameterError, match=f"n must be {re.escape(words)}, got {value!r}"):
            parameter.check("n", value)


def test_the_subtractor_and_the_tracker_show_their_tables_as_their_signatures():
    for shown, named in ((SubspaceTracker, parameters.TrackerParameters), (BackgroundSubtractor, SubtractorArguments)):
        signature, table = inspect.signature(shown).parameters, table_of(named)
        assert {n: p.default for n, p in signature.items()} == {n: p.default for n, p in table.items()}
    opencv = [n for n, p in signature.items() if p.kind is p.POSITIONAL_OR_KEYWORD]
    assert opencv == ["history", "varThreshold", "detectShadows"]
    assert set(table) - set(SUBTRACTOR) == {*opencv, "dist2Threshold", *SPELLINGS}
    tracker, segmenter = table_of(parameters.TrackerParameters), table_of(parameters.SegmenterParameters)
    assert set(tracker) - {"max_rank"} | set(segmenter) < set(SUBTRACTOR)
    for name in table:
        assert name in BackgroundSubtractor.__doc__


def test_american_spelling_is_accepted():
    subtractor = BackgroundSubtractor(neighbors=2, stabilize=False)
    values = subtractor.get_params()
    assert (values["neighbours"], values["stabilise"]) == (2, False)
    subtractor.tune(neighbors=3)
    assert subtractor.get_params()["neighbours"] == 3
    with pytest.raises(ParameterError, match="neighbors and neighbours are the same"):
        BackgroundSubtractor(neighbors=2, neighbours=2)
    with pytest.raises(ParameterError, match="neighbours must be an integer"):
        BackgroundSubtractor(neighbors=9)


@pytest.mark.parametrize(
    ("given", "length"),
    [
        ({}, 50),
        *(({"fps": fps}, length) for fps, length in ((60, 50), (2.5, 50), (2, 40), (1 / 3, 20), (1e-4, 20))),
        ({"fps": 1, "start_frames": 12}, 12),
        ({"fps": 0.1, "start_frames": 60, "rank": 30}, 30),
    ],
)
def test_a_start_lasts_no_longer_than_20_seconds_but_20_frames(given, length):
    assert SubtractorParameters(**given).start_length == length
