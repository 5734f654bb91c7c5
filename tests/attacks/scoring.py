"""Tests of attacks that yield their outcomes, and errors of calls."""

import inspect
from functools import wraps

from bgsub.errors import BgsubError


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


def failure_of(function, *arguments, **options):
    """Return the message of the BgsubError that a call raises, an empty text if it raises none."""
    try:
        function(*arguments, **options)
    except BgsubError as error:
        return str(error)
    return ""
