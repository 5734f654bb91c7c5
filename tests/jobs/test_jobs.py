"""Jobs: all outputs of a run and their names, wrong input, concurrent and stopped runs."""

from __future__ import annotations

import csv
import itertools
import re
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from saying import says
from video_fakes import content, quit_after, write_images, write_video

from bgsub.errors import ParameterError, SinkError, SourceError
from bgsub.jobs.controls import Controls
from bgsub.jobs.job import Job
from bgsub.jobs.run import run_job
from bgsub.video import open_source

QUICK = {"start_frames": 10, "threads": 1}
COUNT, HEIGHT, WIDTH = 60, 48, 64


@pytest.fixture(scope="module")
def pictures():
    """A noisy wall before which, from frame 20 on, a bright square goes from left to right."""
    rng = np.random.default_rng(0)
    frames = rng.normal(90, 2, (COUNT, HEIGHT, WIDTH, 3))
    for index in range(20, COUNT):
        left = index - 20
        frames[index, 16:30, left : left + 12] = 220
    return frames.clip(0, 255).astype(np.uint8)


@pytest.fixture
def folder(tmp_path, pictures):
    return write_images(tmp_path / "in", pictures)


@pytest.fixture
def job(folder, tmp_path):
    return Job(str(folder), tmp_path / "out", fps=25, parameters=QUICK)


def test_all_outputs_at_once(job):
    outputs = ("mask.npz", "overlay.png", "background-image")
    more = {
        "roi": ("left=0,0,32,48", "right=32,0,32,48"),
        "event_formats": ("csv", "jsonl", "coco", "html"),
    }
    result = run_job(replace(job, save=outputs, name="{source}/{view}", **more))
    files = {path.name for path in result.outputs}
    events = {"events.csv", "events.jsonl", "objects.json", "regions.csv", "summary.html"}
    assert files == {"mask.npz", "overlay", "background-image.png"} | events
    assert {path.parent for path in result.outputs} == {job.output / "in"}
    assert all(path.exists() for path in result.outputs)
    assert result.as_dict()["frames"] == COUNT
    (event,) = csv.DictReader((job.output / "in" / "events.csv").open())
    assert event["type"] == "object"
    assert event["regions"] == "left;right"
    assert 20 <= int(event["start_frame"]) <= 22


def test_strings_as_paths_and_tuples():
    paths = {"record": "r", "model": "m.npz", "save_model": "n.npz"}
    texts = Job("a.mp4", "out", "panel", roi="0,0,5,5", event_formats="csv", **paths)
    whole = {"roi": ("0,0,5,5",), "event_formats": ("csv",), "record": Path("r"), "model": Path("m.npz")}
    assert texts == Job("a.mp4", Path("out"), ("panel",), save_model=Path("n.npz"), **whole)


def test_part_keeps_the_times_of_the_source_and_masks_end_at_regions(job):
    run_job(replace(job, start="30", duration="0.8s", every=2, roi=("0,0,20,48",), save=("mask.npz",)))
    arrays = np.load(job.output / "mask.npz")
    assert arrays["index"].tolist() == list(range(30, 50, 2))
    np.testing.assert_allclose(arrays["time"], np.arange(30, 50, 2) / 25)
    assert arrays["mask"].shape == (10, HEIGHT, WIDTH)
    assert arrays["mask"][:, :, :20].any()
    assert not arrays["mask"][:, :, 20:].any()


def test_summary_page_links_the_clips(job, tmp_path):
    recording = {"pre_roll": 0.2, "post_roll": 0.2}
    more = {"event_formats": ("html",), "name": "{source}/{view}", "record": tmp_path / "clips", "recording": recording}
    run_job(replace(job, save=(), **more))
    page = job.output / "in" / "summary.html"
    (address,) = re.findall(r'href="([^"#]+)"', page.read_text())
    (row,) = csv.DictReader((tmp_path / "clips" / "clips.csv").open())
    assert (page.parent / address).resolve() == tmp_path / "clips" / row["file"]
    with open_source(tmp_path / "clips" / row["file"]) as clip:
        assert sum(1 for _ in clip) >= COUNT - 25


@pytest.mark.parametrize("wanted", [{"save": ("mask.npz",)}, {"save": (), "event_formats": ("csv",)}])
def test_existing_outputs_are_replaced_only_with_overwrite(job, wanted):
    run_job(replace(job, **wanted))
    before = content(job.output)
    with pytest.raises(SinkError, match=r"exists already; --overwrite replaces it$"):
        run_job(replace(job, fps=10, **wanted))
    assert content(job.output) == before
    run_job(replace(job, fps=10, overwrite=True, **wanted))
    assert content(job.output) != before


@pytest.mark.parametrize(
    ("wanted", "both"),
    [
        ({"event_formats": ("csv",), "roi": ("a=0,0,9,9",)}, ("events.csv", "regions.csv", "in.csv")),
        ({"event_formats": ("html",), "record": "out/in.html"}, ("another output", "summary.html", "in.html")),
    ],
)
def test_no_two_outputs_share_a_file(job, wanted, both, monkeypatch):
    monkeypatch.chdir(job.output.parent)
    first, second, name = both
    clash = f"{first} and {second} would both be 'out/{name}'"
    with says(ParameterError, f"{clash}: the name needs the field {{view}}"):
        run_job(replace(job, save=(), output="out", name="{source}", **wanted))
    assert not any(path.is_file() for path in job.output.rglob("*"))


def test_wrong_input_leaves_no_files(job, tmp_path):
    for wrong, error in (
        ({"source": str(tmp_path / "gone.avi")}, SourceError),
        ({"roi": ("500,500,5,5",)}, ParameterError),
        ({"start": "900"}, SourceError),
        ({"parameters": {"rank": 0}}, ParameterError),
        ({"save": ("mask.jpg",)}, ParameterError),
        ({"record": job.output / "clips", "resume": True}, ParameterError),
        ({"name": "same", "save": ("mask.npz", "panel.npz")}, ParameterError),
        ({"save": ("mask.npz",), "save_model": job.output / "mask.npz"}, ParameterError),
    ):
        with pytest.raises(error):
            run_job(replace(job, **wrong))
        assert not any(path.is_file() for path in job.output.rglob("*")), wrong


def test_model_replaces_only_the_loaded_model(job, pictures, tmp_path):
    saved = replace(job, save=("mask.npz",), save_model=tmp_path / "m.npz", name="first")
    again = replace(saved, name="second")
    refusal = f"the model '{saved.save_model}' exists already; --overwrite replaces it, --model goes on with it"
    saved.save_model.write_bytes(b"a picture")
    for _ in range(2):  # a file of somebody else, and a model
        before = saved.save_model.read_bytes()
        with says(SinkError, refusal):
            run_job(saved)
        assert (saved.save_model.read_bytes(), job.output.exists()) == (before, before != b"a picture")
        run_job(replace(saved, overwrite=True))
        saved = again
    run_job(replace(again, name="third", model=again.save_model, parameters={}))
    video = write_video(tmp_path / "in.avi", pictures)
    itself = replace(saved, source=str(video), save_model=tmp_path / "out" / ".." / video.name, overwrite=True)
    with says(ParameterError, f"the model cannot be saved as '{itself.save_model}': that is the input itself"):
        run_job(itself)


def test_one_run_at_a_time_writes_an_output(job, tmp_path):
    job = replace(job, save=("mask.npz", "background.png"), event_formats=("csv",), save_model=tmp_path / "m.npz")
    rest: dict[str, object] = {"save": (), "event_formats": (), "save_model": None}
    same = [
        ({}, job.output / "background"),
        ({"overwrite": True}, job.output / "background"),
        ({**rest, "save": ("mask.npz",)}, job.output / "mask.npz"),
        ({**rest, "save": ("background.tif",)}, job.output / "background"),
        ({**rest, "event_formats": ("csv",)}, job.output / "events.csv"),
        ({**rest, "save_model": job.save_model}, job.save_model),
    ]

    @contextmanager
    def meanwhile(_source):
        for options, target in same:
            with says(SinkError, f"the output '{target}' is being written by another run"):
                run_job(replace(job, **options))
        run_job(replace(job, name="other-{view}", save_model=None))
        yield lambda _frame, _separation: None

    run_job(job, watch=meanwhile)
    made = {"mask.npz", "background", "events.csv", "other-mask.npz", "other-background", "other-events.csv"}
    assert {path.name for path in job.output.iterdir()} == made


def stop(job):
    """Do a job that the user ends after 15 frames."""
    controls = Controls()
    return run_job(job, watch=lambda _source: nullcontext(quit_after(controls, 15)), controls=controls)


def test_stopped_run_is_not_finished(job, tmp_path):
    whole = replace(job, output=tmp_path / "whole", save=("mask.npz",))
    run_job(whole)
    stopped = replace(job, save=("mask.npz",))
    note = job.output / ".resume" / "state"
    note.parent.mkdir(parents=True)
    note.write_bytes(b"of another program")
    stop(stopped)
    assert note.read_bytes() == b"of another program"
    note.unlink()
    result = stop(replace(stopped, overwrite=True))
    assert result.summary.stopped == "user"
    assert len(np.load(job.output / "mask.npz")["mask"]) < COUNT
    run_job(replace(job, save=("panel.npz",)))
    assert note.exists()  # of the stopped job
    resumed = run_job(replace(stopped, resume=True))
    assert not resumed.already_done
    np.testing.assert_array_equal(np.load(job.output / "mask.npz")["mask"], np.load(whole.output / "mask.npz")["mask"])
    assert run_job(replace(stopped, resume=True)).already_done
    run_job(replace(stopped, overwrite=True))
    assert not note.parent.exists()
    assert run_job(replace(stopped, resume=True)).already_done


def test_outputs_of_a_dead_run_are_not_finished(job):
    count = itertools.count(1)

    def die(_frame, _separation):
        if next(count) == 7:
            raise RuntimeError("killed")

    def watch(_source):
        raise RuntimeError("no terminal")

    job, other = replace(job, save=("mask.png",)), job.output / "other"
    with pytest.raises(RuntimeError, match="terminal"):
        run_job(replace(job, output=other, save=("mask.npz",), event_formats=("csv",)), watch=watch)
    assert not (other / "mask.npz").exists()
    assert not (other / "events.csv").exists()
    with pytest.raises(RuntimeError, match="killed"):
        run_job(job, watch=lambda _source: nullcontext(die))
    assert 0 < len(list((job.output / "mask").iterdir())) < COUNT
    assert not run_job(replace(job, resume=True)).already_done
    assert len(list((job.output / "mask").iterdir())) == COUNT
    assert not (job.output / ".resume" / "state").exists()
    assert run_job(replace(job, resume=True)).already_done
