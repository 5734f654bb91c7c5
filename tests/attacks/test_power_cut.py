"""The power fails after any call that reaches the disk: going on gives the whole, and "done" is never said of less."""

from __future__ import annotations

import dataclasses
import importlib.util
import shutil

import numpy as np
import pytest
from falling_disk import KINDS, Disk, worst, write
from video_fakes import content, write_images, write_video

from bgsub.jobs.job import Job
from bgsub.jobs.run import run_job
from bgsub.numerics.threads import in_bands
from bgsub.synthetic import scene
from bgsub.video.sinks.av import _SEGMENT as SEGMENT

LENGTH = SEGMENT + 12
KILL, CUTS = KINDS[3:], KINDS[:3]
HOW = {"parameters": {"start_frames": 20}, "checkpoint_seconds": 0.0}
ALL_EVENTS = ("csv", "jsonl", "coco", "html")

needs_av = pytest.mark.skipif(not importlib.util.find_spec("av"), reason="the package av is not installed")


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    in_bands(lambda *_band: None, 2, 2)  # the threads of the kernels stay
    folder = tmp_path_factory.mktemp("inputs")
    frames = np.stack([frame for frame, _ in scene("lobby", size=(48, 32), length=LENGTH, seed=2)])
    write_video(folder / "video.avi", frames)
    write_images(folder / "frames", frames[:: LENGTH // 30])
    return folder


def video(inputs, output):
    return Job(str(inputs / "video.avi"), output, save=("mask.mkv", "overlay.mp4"), **HOW)


def arrays(inputs, output):
    fields = {"save": ("mask.npz", "background-image"), "event_files": ALL_EVENTS, "save_model": output / "model.npz"}
    return Job(str(inputs / "video.avi"), output, **fields, **HOW)


def images(inputs, output):
    return Job(str(inputs / "frames"), output, save=("mask", "overlay"), name="in/{view}", **HOW)


def opencv(inputs, output):
    return Job(str(inputs / "video.avi"), output, save=("mask.avi",), **HOW)


def resumed(job):
    run_job(dataclasses.replace(job, resume=True))
    return content(job.output)


JOBS = [pytest.param(video, marks=needs_av), arrays, images]


@pytest.fixture
def fallen(inputs, tmp_path, monkeypatch):
    """Return what is left of a run in the folder ``disk/out`` by name of the cut, and the outputs of a whole run."""

    def fall(run, kinds, count):
        graves, root = tmp_path / "graves", tmp_path / "disk"
        graves.mkdir()
        root.mkdir()
        disk = Disk(root, graves)
        with disk.watched(monkeypatch):
            run(root / "out")
        for number, name, tree in worst(disk.moments, kinds, count, seed=count):
            place = write(tree, tmp_path / f"cut{number}")
            yield name, place / "out"
            shutil.rmtree(place)

    return fall


def lost(whole, folder, go_on):
    """Return what is wrong after going on in a folder; empty if nothing is."""
    try:
        found = go_on(folder)
    except Exception as error:
        return repr(error)
    return "" if found == whole else f"{ {name for name in {*whole, *found} if whole.get(name) != found.get(name)} }"


@pytest.mark.parametrize("kinds", [CUTS, KILL], ids=["power", "kill"])
@pytest.mark.parametrize("first", ["resume", "plain"])
@pytest.mark.parametrize("make", JOBS)
def test_a_run(inputs, fallen, tmp_path, tries, score, make, first, kinds):
    whole = tmp_path / "whole"
    run_job(make(inputs, whole))
    outputs, results = content(whole), []

    def run(folder):
        run_job(dataclasses.replace(make(inputs, folder), resume=first == "resume"))

    for name, folder in fallen(run, kinds, tries(2, 60)):
        wrong = lost(outputs, folder, lambda folder: resumed(make(inputs, folder)))
        print(name, wrong)
        results.append(not wrong)
    score(f"{'kill' if kinds == KILL else 'power cut'}: {first} run, {make.__name__}", len(results), sum(results))
