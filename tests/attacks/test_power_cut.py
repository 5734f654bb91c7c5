"""After a power cut at any call that reaches the disk, the same command completes the outputs."""

from __future__ import annotations

import dataclasses
import shutil

import numpy as np
import pytest
from batch_fakes import run as run_fake_batch
from power_cut_kit import Disk, worst, write
from video_fakes import content, write_images, write_video

from bgsub.errors import BgsubError
from bgsub.jobs.decomposition import DecompositionJob, run_decomposition
from bgsub.jobs.job import Job
from bgsub.jobs.run import run_job
from bgsub.numerics.threads import in_bands
from bgsub.synthetic import scene

FIELDS = {"parameters": {"start_frames": 20}, "checkpoint_seconds": 0.0}
NOT_OUTPUTS = (".resume", ".lock", "manifest", "result.json", ".decompose-")


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    in_bands(lambda *_band: None, 2, 2)  # start the threads of the kernels
    folder = tmp_path_factory.mktemp("inputs")
    frames = np.stack([frame for frame, _ in scene("lobby", size=(48, 32), length=36, seed=2)])
    (folder / "films").mkdir()
    for name in ("video", "films/a", "films/b"):
        write_video(folder / f"{name}.avi", frames)
    write_images(folder / "frames", frames)
    return folder


def video(inputs, output):
    return Job(str(inputs / "video.avi"), output, save=("mask.mkv", "overlay.mp4"), **FIELDS)


def arrays(inputs, output):
    save, events = ("mask.npz", "background-image"), ("csv", "jsonl", "coco", "html")
    model = output / "model.npz"
    return Job(str(inputs / "video.avi"), output, save=save, event_formats=events, save_model=model, **FIELDS)


def images(inputs, output):
    return Job(str(inputs / "frames"), output, save=("mask", "overlay"), name="in/{view}", **FIELDS)


def batch(inputs, output, source=""):
    return Job(source, output, save=("mask.npz", "mask.png"), save_model=output / "model.npz", **FIELDS)


def decomposition(inputs, output):
    return DecompositionJob(str(inputs / "frames"), output, 2, {"iterations": 2}, save_arrays=True)


def run(make, inputs, folder, resume):
    """Run a job, and return the content of its outputs."""
    job = make(inputs, folder)
    if make is decomposition:
        run_decomposition(dataclasses.replace(job, overwrite=resume))
    elif make is batch:
        make_job = lambda source, output: batch(inputs, output, source)  # noqa: E731
        assert run_fake_batch(inputs / "films", folder, make_job=make_job).complete
    else:
        run_job(dataclasses.replace(job, resume=resume))
    return outputs(folder)


def outputs(folder):
    return {name: data for name, data in content(folder).items() if not any(part in name for part in NOT_OUTPUTS)}


# The job, whether the interrupted run has --resume, and the number of cuts without --long.
JOBS = [(video, True, 3), (arrays, True, 2), (images, True, 3), (batch, False, 2)]
JOBS += [(make, False, 0) for make in (video, arrays, images, decomposition)]


def different(whole, found):
    return sorted(name for name in {*whole, *found} if whole.get(name) != found.get(name))


@pytest.mark.parametrize(("make", "first", "short"), JOBS)
def test_a_run_after_a_power_cut_completes_the_outputs(inputs, tmp_path, monkeypatch, tries, score, make, first, short):
    count = tries(short, 120)
    if not count:
        pytest.skip("only with --long")
    whole = run(make, inputs, tmp_path / "whole", resume=False)
    (tmp_path / "graves").mkdir()
    (tmp_path / "disk").mkdir()
    disk = Disk(tmp_path / "disk", tmp_path / "graves")
    with disk.watched(monkeypatch):
        run(make, inputs, disk.root / "out", first)

    def outcomes():
        for number, name, tree in worst(disk.moments, count, seed=count):
            place = write(tree, tmp_path / f"cut{number}")
            try:  # outputs of a decomposition are complete or absent; those of a run with --resume may be shorter
                lost = different(whole, whole | outputs(place / "out")) if make is decomposition else []
                lost += different(whole, run(make, inputs, place / "out", resume=True))
            except BgsubError as error:
                lost = str(error)
            yield f"{name}: {lost}", not lost
            shutil.rmtree(place)

    how = "" if make in (batch, decomposition) else " with --resume" if first else " before --resume"
    score(f"power cut or kill of {make.__name__}{how}", outcomes())
