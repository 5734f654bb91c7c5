"""The table of parameters: checks name the parameter, the range and the value; the classes agree with it."""

import inspect
from dataclasses import FrozenInstanceError, replace

import numpy as np
import pytest

from bgsub import BackgroundSubtractor, ParameterError, SubspaceTracker
from bgsub.parameters import (
    SPELLINGS,
    SUBTRACTOR,
    Parameter,
    SegmenterParameters,
    SubtractorArguments,
    SubtractorParameters,
    TrackerParameters,
    check_live,
    table_of,
)


@pytest.mark.parametrize(
    ("parameter", "value", "message"),
    [
        (Parameter(1, "", int, 1), 0, "n must be an integer >= 1, got 0"),
        (Parameter(1, "", int, 1, choices=("auto",)), 0, "n must be an integer >= 1 or auto, got 0"),
        (
            Parameter(0.5, "", float, 0, 1, is_open=True, choices=("auto",)),
            "a",
            "n must be a number in (0, 1) or auto, got 'a'",
        ),
        (Parameter(1, "", int, 1), True, "n must be an integer >= 1, got True"),
        (Parameter(1, "", int, 1), "3", "n must be an integer >= 1, got '3'"),
        (Parameter(1, "", int, 1, 9), 10, "n must be an integer in [1, 9], got 10"),
        (Parameter(0.5, "", float, 0, 1, is_open=True), 1.0, "n must be a number in (0, 1), got 1.0"),
        (Parameter(0.5, "", float, 0, is_open=True), 0, "n must be a number > 0, got 0"),
        (Parameter(0.5, "", float, 0), float("inf"), "n must be a number >= 0, got inf"),
        (Parameter("a", "", str, choices=("a", "b")), "c", "n must be one of a, b, got 'c'"),
        (Parameter("a", "", str, choices=("a", "b")), True, "n must be one of a, b, got True"),
        (
            Parameter("a", "", str, choices=("a", "b"), of_bool=("b", "a")),
            "yes",
            "n must be one of a, b, or true or false, got 'yes'",
        ),
        (Parameter(True, "", bool), 1, "n must be true or false, got 1"),
        (Parameter(None, "", float, 0), "x", "n must be a number >= 0 or None, got 'x'"),
        (Parameter(1, "", int, 1), None, "n must be an integer >= 1, got None"),
    ],
)
def test_a_bad_value_is_named_with_its_range(parameter, value, message):
    with pytest.raises(ParameterError) as caught:
        parameter.check("n", value)
    assert str(caught.value) == message


def test_good_values_come_back_in_the_parameters_type():
    assert type(Parameter(1, "", int, 1).check("n", np.int64(3))) is int
    assert type(Parameter(1.0, "", float, 0).check("n", 3)) is float
    assert Parameter(None, "", float, 0).check("n", None) is None


def test_a_bool_stands_for_a_word_of_shadows():
    assert BackgroundSubtractor(shadows=True).get_params()["shadows"] == "on"
    assert BackgroundSubtractor(shadows=False).get_params()["shadows"] == "merged"
    assert check_live({"shadows": False}) == {"shadows": "merged"}


def test_unknown_names_are_refused_with_the_known_ones():
    with pytest.raises(ParameterError, match=r"unknown parameter 'rang'; allowed are rank, .*; did you mean 'rank'"):
        SubtractorParameters.of({"rang": 3})


def test_the_tracker_has_the_tables_defaults():
    signature = inspect.signature(SubspaceTracker.__init__).parameters
    assert {name: p.default for name, p in signature.items() if name != "self"} == {
        name: parameter.default for name, parameter in table_of(TrackerParameters).items()
    }


def test_the_subtractor_shows_the_table_as_its_signature():
    signature = inspect.signature(BackgroundSubtractor).parameters
    table = table_of(SubtractorArguments)
    assert {n: p.default for n, p in signature.items()} == {n: p.default for n, p in table.items()}
    opencv = [n for n, p in signature.items() if p.kind is p.POSITIONAL_OR_KEYWORD]
    assert opencv == ["history", "varThreshold", "detectShadows"]
    assert set(table) - set(SUBTRACTOR) == {*opencv, "dist2Threshold", *SPELLINGS}
    assert set(table_of(TrackerParameters)) - {"max_rank"} | set(table_of(SegmenterParameters)) < set(SUBTRACTOR)
    for name in table:
        assert name in BackgroundSubtractor.__doc__


def test_every_default_passes_its_own_check():
    assert SubtractorParameters().as_dict() == {name: parameter.default for name, parameter in SUBTRACTOR.items()}


def test_american_spelling_is_accepted():
    subtractor = BackgroundSubtractor(neighbors=2, stabilize=False)
    parameters = subtractor.get_params()
    assert (parameters["neighbours"], parameters["stabilise"]) == (2, False)
    subtractor.tune(neighbors=3)
    assert subtractor.get_params()["neighbours"] == 3
    with pytest.raises(ParameterError, match="neighbors and neighbours are the same"):
        BackgroundSubtractor(neighbors=2, neighbours=2)
    with pytest.raises(ParameterError, match="neighbours must be an integer"):
        BackgroundSubtractor(neighbors=9)


def test_parameters_are_frozen():
    parameters = SubtractorParameters()
    with pytest.raises(FrozenInstanceError):
        parameters.threshold = 0.5
    with pytest.raises(ParameterError, match="threshold must be"):
        replace(parameters, threshold=3)


def test_repr_shows_what_was_set():
    assert repr(BackgroundSubtractor()) == "BackgroundSubtractor()"
    shown = repr(BackgroundSubtractor(threshold=0.1, shadows="off"))
    assert shown == "BackgroundSubtractor(threshold=0.1, shadows='off')"


@pytest.mark.parametrize(
    ("given", "length"),
    [
        ({}, 50),
        ({"fps": 60}, 50),
        ({"fps": 2.5}, 50),
        ({"fps": 2}, 40),
        ({"fps": 1 / 3}, 20),
        ({"fps": 1e-4}, 20),
        ({"fps": 1, "start_frames": 12}, 12),
        ({"fps": 0.1, "start_frames": 60, "rank": 30}, 30),
    ],
)
def test_a_start_lasts_no_longer_than_20_seconds_but_20_frames(given, length):
    assert SubtractorParameters(**given).start_length == length
