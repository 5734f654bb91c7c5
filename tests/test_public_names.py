"""Whoever looks a public name up finds what it takes, what it returns and an example."""

import ast
import importlib
import inspect
import re
from enum import Enum

import pytest
from public_names import PACKAGES, callables, parameters, sections, told

import bgsub

CALLABLES = callables()
# What users are given and never make: their attributes are told, and the examples are with what gives them.
RESULTS = {
    "bgsub.evaluation.Average",
    "bgsub.evaluation.Score",
    "bgsub.events.Detections",
    "bgsub.events.Event",
    "bgsub.events.Notification",
    "bgsub.events.ObjectInFrame",
    "bgsub.events.Step",
    "bgsub.jobs.JobResult",
    "bgsub.jobs.Summary",
    "bgsub.jobs.batch.BatchResult",
    "bgsub.jobs.batch.Entry",
    "bgsub.jobs.decomposition.Decomposition",
    "bgsub.jobs.decomposition.DecompositionResult",
    "bgsub.robust_pca.Progress",
    "bgsub.video.Frame",
}


def is_kind(thing):
    """Whether nobody makes one: an exception, an enumeration, or a protocol."""
    return inspect.isclass(thing) and (issubclass(thing, Exception | Enum) or getattr(thing, "_is_protocol", False))


def lacking(name, thing):
    """Return the sections that a docstring should have and has not."""
    lacks, has = set(), sections(thing)
    if parameters(thing) and not is_kind(thing) and not has & {"Parameters", "Attributes"}:
        lacks.add("Parameters")
    if inspect.isfunction(thing) and inspect.signature(thing).return_annotation not in (None, "None"):
        lacks |= {"Returns"} if not has & {"Returns", "Yields"} else set()
    if "Examples" not in has and name not in RESULTS and not is_kind(thing):
        lacks.add("Examples")
    return lacks


@pytest.mark.parametrize("name", CALLABLES)
def test_a_public_name_tells_what_there_is_to_know(name):
    thing = CALLABLES[name]
    first, *rest = inspect.getdoc(thing).splitlines()
    assert first.endswith((".", ":"))
    assert not rest or not rest[0]  # the purpose is one line
    assert lacking(name, thing) == set()


@pytest.mark.parametrize("name", [name for name, thing in CALLABLES.items() if not is_kind(thing)])
def test_every_parameter_is_told_of(name):
    thing = CALLABLES[name]
    assert sorted(set(parameters(thing)) - set(told(thing))) == []


@pytest.mark.parametrize("name", CALLABLES)
def test_told_defaults_are_those_of_the_code(name):
    taken = parameters(CALLABLES[name])
    for parameter, kind in told(CALLABLES[name]).items():
        found = re.search(r"\bdefault (.+)$", kind)
        if found and parameter in taken:
            assert ast.literal_eval(found[1]) == taken[parameter].default


@pytest.mark.parametrize("name", CALLABLES)
def test_what_a_docstring_refers_to_is_public(name):
    public = {f"{package}.{one}" for package in PACKAGES for one in importlib.import_module(package).__all__}
    public |= set(PACKAGES)
    for reference in re.findall(r"(?<!`)`(bgsub\.[\w.]+)`(?!`)", CALLABLES[name].__doc__):
        assert reference in public or reference.rpartition(".")[0] in public


@pytest.mark.parametrize("name", [name for name, thing in CALLABLES.items() if inspect.isclass(thing)])
def test_every_public_method_has_a_docstring(name):
    methods = inspect.getmembers_static(
        CALLABLES[name], lambda one: inspect.isfunction(one) or isinstance(one, property)
    )
    bare = [
        method for method, _ in methods if method[0] != "_" and not inspect.getdoc(getattr(CALLABLES[name], method))
    ]
    assert bare == []


def test_a_docstring_without_sections_is_found():
    def bare(one: int) -> int:
        """Return it."""
        return one

    assert lacking("bare", bare) == {"Parameters", "Returns", "Examples"}


def test_results_are_public():
    assert set(CALLABLES) >= RESULTS
    assert {"bgsub", "bgsub.video", "bgsub.events", "bgsub.jobs.batch"} < set(PACKAGES)


@pytest.mark.parametrize("name", ["createBackgroundSubtractorMOG2", "BackgroundSubstractor"])
def test_a_name_that_is_not_there_is_refused_with_the_nearest(name):
    with pytest.raises(AttributeError, match=f"no attribute '{name}'; did you mean 'BackgroundSubtractor'"):
        getattr(bgsub, name)
    assert not hasattr(bgsub, "nothing_like_it")
