"""The options of sources, events and regions, on commands of their own."""

import click
import pytest
from click.testing import CliRunner
from saying import says

from bgsub.cli.output_options import event_options
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


def test_source_defaults(options):
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
def test_wrong_source_values_are_refused(options, words):
    with pytest.raises(click.BadParameter):
        options(*words)


@click.command()
@event_options
def command(event_formats, roi, privacy):
    click.echo(repr((event_formats, roi, privacy)))


def test_defaults_and_values():
    assert CliRunner().invoke(command, []).output == "([], (), ())\n"
    words = ["--event-formats", "csv,coco", "--roi", "0,0,5,5", "--roi", "door=1,1,10%,10%"]
    words += ["--privacy", "1,1,2,2"]
    answer = CliRunner().invoke(command, words)
    assert answer.output == "(['csv', 'coco'], ('0,0,5,5', 'door=1,1,10%,10%'), ('1,1,2,2',))\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--event-formats", "xml"], "--event-formats takes csv, jsonl, coco, html, got 'xml'"),
        (["--roi", "1,2,3"], "--roi: a region must be"),
        (["--roi", "a=0,0,5,5", "--roi", "a=0,0,6,6"], "--roi: regions must have different names, got 'a' twice"),
    ],
)
def test_wrong_values_are_named(words, message):
    answer = CliRunner().invoke(command, words)
    assert isinstance(answer.exception, ParameterError)
    assert str(answer.exception).startswith(message)
