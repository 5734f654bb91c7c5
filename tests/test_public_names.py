"""The docstrings of the public names: sections, parameters, defaults and references."""

import ast
import importlib
import inspect
import re
from enum import Enum

import pytest
from public_names import PACKAGES, callables, parameters, sections, told

import bgsub

CALLABLES = callables()
# Users get these objects and never create them: the docstrings need attributes but no examples.
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


def is_never_created(thing):
    """Whether users create no instances: an exception, an enumeration, or a protocol."""
    return inspect.isclass(thing) and (issubclass(thing, Exception | Enum) or getattr(thing, "_is_protocol", False))


def missing_sections(name, thing):
    missing, has = set(), sections(thing)
    if parameters(thing) and not is_never_created(thing) and not has & {"Parameters", "Attributes"}:
        missing.add("Parameters")
    if inspect.isfunction(thing) and inspect.signature(thing).return_annotation not in (None, "None"):
        missing |= {"Returns"} if not has & {"Returns", "Yields"} else set()
    if "Examples" not in has and name not in RESULTS and not is_never_created(thing):
        missing.add("Examples")
    return missing


def test_docstrings_have_a_summary_and_all_sections():
    for name, thing in CALLABLES.items():
        first, *rest = inspect.getdoc(thing).splitlines()
        assert first.endswith((".", ":")), name
        assert not rest or not rest[0], f"{name}: the summary is one line"
        assert missing_sections(name, thing) == set(), name


def test_docstrings_describe_every_parameter():
    created = {name: thing for name, thing in CALLABLES.items() if not is_never_created(thing)}
    missing = {name: set(parameters(thing)) - set(told(thing)) for name, thing in created.items()}
    assert {name: names for name, names in missing.items() if names} == {}


def test_defaults_in_docstrings_are_those_of_the_code():
    for name, thing in CALLABLES.items():
        taken = parameters(thing)
        for parameter, kind in told(thing).items():
            found = re.search(r"\bdefault (.+)$", kind)
            if found and parameter in taken:
                assert ast.literal_eval(found[1]) == taken[parameter].default, (name, parameter)


def test_references_in_docstrings_are_public():
    public = {f"{package}.{one}" for package in PACKAGES for one in importlib.import_module(package).__all__}
    public |= set(PACKAGES)
    for name, thing in CALLABLES.items():
        for reference in re.findall(r"(?<!`)`(bgsub\.[\w.]+)`(?!`)", thing.__doc__):
            assert reference in public or reference.rpartition(".")[0] in public, name


def test_public_methods_have_docstrings():
    for name, thing in CALLABLES.items():
        methods = inspect.getmembers_static(thing, lambda one: inspect.isfunction(one) or isinstance(one, property))
        for method, _ in methods if inspect.isclass(thing) else ():
            assert method[0] == "_" or inspect.getdoc(getattr(thing, method)), f"{name}.{method}"


def test_docstring_without_sections_is_detected():
    def bare(one: int) -> int:
        """Return it."""
        return one

    assert missing_sections("bare", bare) == {"Parameters", "Returns", "Examples"}


def test_results_are_public():
    assert set(CALLABLES) >= RESULTS
    assert {"bgsub", "bgsub.video", "bgsub.events", "bgsub.jobs.batch"} < set(PACKAGES)


@pytest.mark.parametrize("name", ["createBackgroundSubtractorMOG2", "BackgroundSubstractor"])
def test_error_of_an_unknown_name_suggests_the_nearest(name):
    with pytest.raises(AttributeError, match=f"no attribute '{name}'; did you mean 'BackgroundSubtractor'"):
        getattr(bgsub, name)
    assert not hasattr(bgsub, "nothing_like_it")
