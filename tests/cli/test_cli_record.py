"""The options that record clips, in a command of the test's own."""

from __future__ import annotations

import csv
from datetime import datetime
from pathlib import Path

import click
import pytest
from video_fakes import ThresholdSubtractor, make_frames, read_video

from bgsub.cli.record_options import record_options
from bgsub.errors import ParameterError
from bgsub.jobs.job import Job
from bgsub.jobs.outputs import make_sinks
from bgsub.jobs.simple import process_video
from bgsub.video import ArraySource, open_source
from bgsub.video.sinks.create import label_of
from bgsub.video.sources.camera import CameraSource


@click.command()
@record_options
def command(clips):
    """Separate twelve frames of a moving square at 10 frames per second."""
    with ArraySource(make_frames(12), rate=10) as source:
        source.name = "square"
        sinks = make_sinks(Job("square", Path(), save=(), **clips.of_job), source, False, datetime.now())
        process_video(source, sinks, subtractor=ThresholdSubtractor())


def call(*words):
    command.main([str(word) for word in words], standalone_mode=False)


def test_nothing_is_recorded_unless_asked_for(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    call()
    assert list(tmp_path.iterdir()) == []


def test_record(tmp_path):
    call("--record", tmp_path / "clips", "--pre-roll", 0, "--post-roll", 0.5)
    (row,) = csv.DictReader((tmp_path / "clips" / "clips.csv").open())
    assert (row["file"], row["start"], row["end"]) == ("square-0001.mp4", "0.000", "1.100")
    assert len(read_video(tmp_path / "clips" / row["file"])) == 12


def test_motion_is_a_threshold(tmp_path):
    # The square covers 64 of 1536 pixels.
    call("--record", tmp_path / "few", "--motion", 0.05)
    call("--record", tmp_path / "one", "--motion", 0.03)
    assert not list((tmp_path / "few").glob("*.mp4"))
    assert len(list((tmp_path / "one").glob("*.mp4"))) == 1


@pytest.mark.parametrize("option", ["--pre-roll", "--post-roll", "--motion"])
def test_the_others_need_record(option):
    with pytest.raises(ParameterError, match=f"^{option} needs --record"):
        call(option, 0.5)


def test_names_of_clips(folder, mjpeg_server):
    assert label_of(open_source(folder)) == "frames"
    with CameraSource(mjpeg_server.address) as source:
        assert label_of(source) == mjpeg_server.address.removeprefix("http://")
    source.name = "camera 0"
    assert label_of(source) == "camera 0"
