"""A power cut after any system call: the resumed run makes all outputs, and no partial output counts as finished."""

from __future__ import annotations

import dataclasses
import shutil

import numpy as np
import pytest
from batch_fakes import run as run_fake_batch
from falling_disk import KINDS, Disk, worst, write
from video_fakes import content, write_images, write_video

from bgsub.errors import BgsubError
from bgsub.jobs.decomposition import DecompositionJob, run_decomposition
from bgsub.jobs.job import Job
from bgsub.jobs.run import run_job
from bgsub.numerics.threads import in_bands
from bgsub.synthetic import scene

LENGTH = 36

HOW = {"parameters": {"start_frames": 20}, "checkpoint_seconds": 0.0}
ALL_EVENTS = ("csv", "jsonl", "coco", "html")


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    in_bands(lambda *_band: None, 2, 2)  # the threads of the kernels stay
    folder = tmp_path_factory.mktemp("inputs")
    frames = np.stack([frame for frame, _ in scene("lobby", size=(48, 32), length=LENGTH, seed=2)])
    write_video(folder / "video.avi", frames)
    write_images(folder / "frames", frames)
    (folder / "films").mkdir()
    for name in "ab":
        write_video(folder / "films" / f"{name}.avi", frames)
    return folder


def video(inputs, output):
    return Job(str(inputs / "video.avi"), output, save=("mask.mkv", "overlay.mp4"), **HOW)


def arrays(inputs, output):
    fields = {"save": ("mask.npz", "background-image"), "event_formats": ALL_EVENTS, "save_model": output / "model.npz"}
    return Job(str(inputs / "video.avi"), output, **fields, **HOW)


def images(inputs, output):
    return Job(str(inputs / "frames"), output, save=("mask", "overlay"), name="in/{view}", **HOW)


def films(inputs, output, source=""):
    fields = {"save": ("mask.npz", "mask.png"), "save_model": output / "model.npz"}
    return Job(source, output, **fields, **HOW)


def decomposition(inputs, output):
    return DecompositionJob(str(inputs / "frames"), output, 2, {"iterations": 2}, save_arrays=True)


def run(make, inputs, folder, resume):
    """Do a job; return the content of its outputs."""
    job = make(inputs, folder)
    if make is decomposition:
        run_decomposition(dataclasses.replace(job, overwrite=resume))
    elif make is films:
        make_job = lambda source, output: films(inputs, output, source)  # noqa: E731
        assert run_fake_batch(inputs / "films", folder, make_job=make_job).complete
    else:
        run_job(dataclasses.replace(job, resume=resume))
    return outputs(folder)


def outputs(folder):
    """Return the content of outputs with final names."""
    own = (".resume", ".lock", "manifest", "result.json", ".decompose-")  # with times of the day, or of a dead process
    return {name: data for name, data in content(folder).items() if not any(word in name for word in own)}


# Whether the first run has --resume, and the number of power cuts.
JOBS = [(video, True, 3), (arrays, True, 2), (images, True, 4), (films, False, 4)]
JOBS += [(make, False, 0) for make in (video, arrays, images, decomposition)]


@pytest.fixture
def fallen(inputs, tmp_path, monkeypatch):
    """Do a job, and yield the names and the folders that power cuts leave."""

    def fall(make, first, count):
        graves, root = tmp_path / "graves", tmp_path / "disk"
        graves.mkdir()
        root.mkdir()
        disk = Disk(root, graves)
        with disk.watched(monkeypatch):
            run(make, inputs, root / "out", first)
        for number, name, tree in worst(disk.moments, KINDS, count, seed=count):
            place = write(tree, tmp_path / f"cut{number}")
            yield name, place / "out"
            shutil.rmtree(place)

    return fall


def wrong(whole, found):
    return sorted(name for name in {*whole, *found} if whole.get(name) != found.get(name))


@pytest.mark.parametrize(("make", "first", "short"), JOBS)
def test_resume_after_a_power_cut(inputs, fallen, tmp_path, tries, score, make, first, short):
    cuts = tries(short, 120)
    if not cuts:
        pytest.skip("with --long")
    whole, survived, count = run(make, inputs, tmp_path / "whole", resume=False), 0, 0
    for name, folder in fallen(make, first, cuts):
        count += 1
        try:
            halves = wrong(whole, whole | outputs(folder)) if make is decomposition else []
            lost = halves + wrong(whole, run(make, inputs, folder, resume=True))
        except BgsubError as error:
            lost = str(error)
        print(name, lost or "")
        survived += not lost
    how = "" if make in (films, decomposition) else " with --resume" if first else " before --resume"
    score(f"power cut or kill of {make.__name__}{how}", count, survived)
