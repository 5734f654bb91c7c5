"""The options that say which part of a source is read, and how."""

from __future__ import annotations

import click
import pytest
from click.testing import CliRunner
from saying import says

from bgsub.cli.source_options import source_options
from bgsub.errors import ParameterError

NAMES = ["start", "end", "duration", "every", "backend"]


@pytest.fixture
def options():
    """A function that parses arguments and returns what the command gets."""

    @click.command()
    @source_options
    def command(**given):
        return given

    return lambda *arguments: command.main(list(arguments), standalone_mode=False)


def test_defaults(options):
    assert options() == dict(zip(NAMES, [None, None, None, 1, "auto"], strict=True))


def test_values_are_passed_on_as_text(options):
    given = options("--start", "0:02", "--end", "120", "--every", "3", "--backend", "hardware")
    assert given == dict(zip(NAMES, ["0:02", "120", None, 3, "hardware"], strict=True))


@pytest.mark.parametrize("flag", ["--start", "--end", "--duration"])
def test_wrong_places_name_the_option(options, flag):
    expected = f"{flag} must be a frame number (120), seconds (12.5 or 12s) or h:mm:ss (1:02:03.5), got 'soon'"
    with says(ParameterError, expected):
        options(flag, "soon")


@pytest.mark.parametrize("words", [("--every", "0"), ("--every", "x"), ("--backend", "gstreamer")])
def test_wrong_values_are_refused(options, words):
    with pytest.raises(click.BadParameter):
        options(*words)


def test_help_shows_all():
    text = CliRunner().invoke(source_options(click.command()(lambda **_given: None)), ["--help"]).output
    assert all(f"--{name}" in text for name in NAMES)
