"""Tests of attacks that yield their outcomes."""

import inspect
from functools import wraps


def scored(title):
    """Make a test of a function that yields the outcomes of an attack; `title` may name arguments of the test."""

    def decorate(attack):
        @wraps(attack)
        def test(score, **arguments):
            score(title.format(**arguments), attack(**arguments))

        signature = inspect.signature(attack)
        fixture = inspect.Parameter("score", inspect.Parameter.KEYWORD_ONLY)
        test.__signature__ = signature.replace(parameters=[*signature.parameters.values(), fixture])
        return test

    return decorate
