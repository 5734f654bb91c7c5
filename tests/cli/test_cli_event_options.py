"""The options of events and regions, on a command of their own."""

import click
import pytest
from click.testing import CliRunner

from bgsub.cli.output_options import event_options
from bgsub.errors import ParameterError


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
