"""Jobs: all outputs of a run and their names, wrong input, concurrent and stopped runs."""

import csv
import re
import threading
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace

import pytest
from checkpoint_kit import raise_at
from cli_inputs import make_scene
from video_fakes import FakeSource, ThresholdSubtractor, content, make_frames, separate, write_images, write_video

from bgsub.errors import ParameterError, SinkError, SourceError
from bgsub.jobs.controls import Controls, LiveStatistics
from bgsub.jobs.job import Job
from bgsub.jobs.pipeline import Pipeline
from bgsub.jobs.run import run_job
from bgsub.parameters import SUBTRACTOR
from bgsub.storage.file_lock import Claims
from bgsub.video import Frame, open_source

QUICK = {"start_frames": 10, "threads": 1}
COUNT, HEIGHT, WIDTH = 60, 48, 90


@pytest.fixture(scope="module")
def pictures():
    """From frame 20 on, a bright square goes from left to right."""
    return make_scene(COUNT, HEIGHT, WIDTH, empty=20)


@pytest.fixture
def job(pictures, tmp_path):
    return Job(str(write_images(tmp_path / "in", pictures)), tmp_path / "out", fps=25, parameters=QUICK)


def test_all_outputs_at_once(job):
    outputs = ("mask.npz", "overlay.png", "background-image")
    more = {"roi": ("left=0,0,32,48", "right=32,0,32,48"), "event_formats": ("csv", "jsonl", "html")}
    result = run_job(replace(job, save=outputs, name="{source}/{view}", **more))
    files = {path.name for path in result.outputs}
    events = {"events.csv", "events.jsonl", "regions.csv", "summary.html"}
    assert files == {"mask.npz", "overlay", "background-image.png"} | events
    assert {path.parent for path in result.outputs} == {job.output / "in"}
    assert all(path.exists() for path in result.outputs)
    assert result.as_dict()["frames"] == COUNT
    (event,) = csv.DictReader((job.output / "in" / "events.csv").open())
    assert event["type"] == "object"
    assert event["regions"] == "left;right"
    assert 20 <= int(event["start_frame"]) <= 22


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


def test_overwriting_removes_the_other_event_files_of_an_earlier_run(job):
    again = replace(job, save=(), event_formats=("csv",), overwrite=True)
    earlier = replace(again, event_formats=("csv", "jsonl", "html", "pictures"), roi=("left=0,0,32,48",))
    run_job(earlier)
    run_job(replace(earlier, name="other-{view}", event_formats=("csv",)))
    for name in ("events-old.csv", "objects/notes.jpg", "summary.html.partial"):
        (job.output / name).touch()
    before = content(job.output)
    run_job(replace(again, save=("mask.npz",), event_formats=()))  # no events: those of the earlier run stay
    with pytest.raises(SinkError):
        raise_at(again, 30, SinkError("the run fails"))
    assert content(job.output).items() >= before.items()

    kept = {"events.csv", "events-old.csv", "objects/notes.jpg", "mask.npz", "other-events.csv", "other-regions.csv"}
    with Claims() as others:
        others.take(job.output / "events.jsonl")
        run_job(again)
        assert set(content(job.output, [".lock"])) == kept | {"events.jsonl"}
    run_job(again)
    assert set(content(job.output)) == kept


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
    with pytest.raises(ParameterError, match=f"{first} and {second} .*out/{name}.* {{view}}"):
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
    saved.save_model.write_bytes(b"a picture")
    for _ in range(2):  # a file of somebody else, and a model
        before = saved.save_model.read_bytes()
        with pytest.raises(SinkError, match=r"m\.npz' exists already; --overwrite .* --model"):
            run_job(saved)
        assert (saved.save_model.read_bytes(), job.output.exists()) == (before, before != b"a picture")
        run_job(replace(saved, overwrite=True))
        saved = again
    run_job(replace(again, name="third", model=again.save_model, parameters={}))
    with pytest.raises(ParameterError, match="a saved model brings its own parameters, so start_frames cannot"):
        run_job(replace(again, model=again.save_model))
    video = write_video(tmp_path / "in.avi", pictures)
    itself = replace(saved, source=str(video), save_model=tmp_path / "out" / ".." / video.name, overwrite=True)
    with pytest.raises(ParameterError, match="the input itself"):
        run_job(itself)


def test_one_run_at_a_time_writes_an_output(job, tmp_path):
    job = replace(job, save=("mask.npz", "background.png"), event_formats=("csv",), save_model=tmp_path / "m.npz")
    rest: dict[str, object] = {"save": (), "event_formats": (), "save_model": None}
    same = [
        ({}, job.output / "background"),
        ({"overwrite": True}, job.output / "background"),
        ({"resume": True}, job.output / "background"),
        ({**rest, "save": ("mask.npz",)}, job.output / "mask.npz"),
        ({**rest, "save": ("background.tif",)}, job.output / "background"),
        ({**rest, "event_formats": ("csv",)}, job.output / "events.csv"),
        ({**rest, "save_model": job.save_model}, job.save_model),
    ]

    @contextmanager
    def meanwhile(_source):
        for options, target in same:
            with pytest.raises(SinkError, match=f"'{target}' is being written by another run"):
                run_job(replace(job, **options))
        run_job(replace(job, name="other-{view}", save_model=None))
        yield lambda _frame, _separation: None

    run_job(job, watch=meanwhile)
    made = {"mask.npz", "background", "events.csv", "other-mask.npz", "other-background", "other-events.csv"}
    assert {path.name for path in job.output.iterdir()} == made


def test_changes_are_applied_once_in_the_tracking_thread(caplog):
    controls, subtractor, changes = Controls(), ThresholdSubtractor(), []
    subtractor.tune = lambda **new: changes.append((len(subtractor.rates), new, threading.current_thread().name))
    controls.tune(threshold=0.2)
    controls.tune(threshold=0.3, shadows="off")
    assert changes == []
    Pipeline(FakeSource(), subtractor, controls=controls).run()
    assert controls.statistics.as_dict()["frame"] == "000011"
    assert changes == [(0, {"threshold": 0.3, "shadows": "off"}, "bgsub-track")]
    assert controls.parameters["threshold"] == 0.3
    controls.tune(threshold=0.4)
    Pipeline(FakeSource(), ThresholdSubtractor(), controls=controls).run()
    assert caplog.messages == ["ThresholdSubtractor cannot change threshold while it runs"]


def test_changes_before_the_start_and_wrong_changes():
    controls = Controls()
    with pytest.raises(ParameterError, match="rank cannot change while the subtractor runs"):
        controls.tune(threshold=0.5, rank=2)
    with pytest.raises(ParameterError, match="view must be one of"):
        Controls("nothing")
    with pytest.raises(ParameterError, match="threshold must be"):
        controls.tune(threshold="high")
    assert controls.parameters["threshold"] == SUBTRACTOR["threshold"].default
    controls.tune(threshold=0.5)
    controls.follow({"threshold": 0.1, "rank": 5})
    assert (controls.parameters["threshold"], controls.parameters["rank"]) == (0.5, 5)


IMAGE = make_frames(1)[0]
SEPARATION = separate(IMAGE)


def update(statistics, index=0, separation=SEPARATION):
    statistics.update(Frame(index, "a", None, IMAGE), separation)


@pytest.fixture
def clock():
    return SimpleNamespace(now=100.0)


@pytest.fixture
def statistics(clock):
    return LiveStatistics(lambda: clock.now)


def test_statistics(clock, statistics):
    empty = statistics.as_dict()
    assert (empty["frames"], empty["frames_per_second"], empty["latency_ms"], empty["phase"]) == (0, 0, None, "start")
    images = make_frames(40)
    for index, image in enumerate(images):
        clock.now += 0.1
        statistics.update(Frame(index, f"{index + 1:06d}", None, image, clock.now - 0.03), separate(image), dropped=7)
    numbers = statistics.as_dict()
    assert (numbers["frames"], numbers["dropped"]) == (40, 7)
    assert numbers["frames_per_second"] == pytest.approx(10, abs=0.1)
    assert numbers["latency_ms"] == pytest.approx(30)
    assert numbers["foreground"] == pytest.approx((separate(images[-1]).mask == 255).mean(), abs=1e-6)
    assert (numbers["width"], numbers["height"], numbers["phase"], numbers["frame"]) == (48, 32, "tracking", "000040")
    clock.now += 8
    assert statistics.as_dict()["frames_per_second"] < 3  # a silent camera counts down


@pytest.mark.parametrize(("apart", "late"), [(0.04, 1.6), (3.0, 6.1)])
def test_silent_camera(clock, statistics, apart, late):
    assert statistics.is_silent
    for index in range(80):
        clock.now += apart
        update(statistics, index)
        assert not statistics.is_silent
    for share in (0, 0.5, 0.99):  # it is in time until then
        clock.now = 100 + apart * (80 + share)
        assert statistics.as_dict()["frames_per_second"] == pytest.approx(1 / apart, abs=0.01)
    clock.now = 100 + apart * 80 + late
    assert statistics.is_silent
    clock.now += 10 * apart
    assert statistics.as_dict()["frames_per_second"] < 0.7 / apart


def test_previews_and_events(clock, statistics):
    statistics.note_preview()
    assert (statistics.is_silent, statistics.is_late) == (False, True)
    clock.now += 2
    assert statistics.is_silent
    update(statistics, 0, replace(SEPARATION, event="light-change"))
    assert (statistics.is_silent, statistics.is_late) == (False, False)
    assert statistics.as_dict()["event"] == "light-change"
    clock.now += 10
    assert statistics.as_dict()["event"] is None
