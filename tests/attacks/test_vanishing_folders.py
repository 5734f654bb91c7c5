"""The output folder is removed during a run: one line that names a file, and no partial output with a final name."""

from __future__ import annotations

import contextlib
import shutil

import numpy as np
import pytest
from batch_fakes import FakeWorkers, run
from video_fakes import write_video

from bgsub.errors import OutputError
from bgsub.jobs.batch.task import do_task
from bgsub.jobs.job import Job
from bgsub.jobs.run import run_job
from bgsub.synthetic import scene

OUTPUTS = {
    "video": {"save": ("mask.avi",)},
    "arrays": {"save": ("mask.npz",)},
    "images": {"save": ("mask.png",)},
    "still": {"save": ("background-image",)},
    "events": {"save": (), "event_formats": ("csv", "jsonl", "coco", "html")},
}


def removed(folder):
    shutil.rmtree(folder)


def renamed(folder):
    folder.rename(folder.with_name("elsewhere"))


def replaced(folder):
    shutil.rmtree(folder)
    folder.write_text("a file")


@pytest.fixture(scope="module")
def video(tmp_path_factory):
    frames = np.stack([frame for frame, _ in scene("lobby", size=(48, 32), length=40, seed=2)])
    return write_video(tmp_path_factory.mktemp("in") / "video.avi", frames)


@pytest.mark.parametrize("way", [removed, renamed, replaced])
def test_run(video, tmp_path, tries, score, way):
    kinds = list(OUTPUTS)[: tries(2, len(OUTPUTS))]
    survived = 0
    for kind in kinds:
        for resume in (False, True):
            folder = tmp_path / f"{kind}{resume}" / "out"

            def after(frame, _separation, folder=folder):
                if frame.index == 30:
                    way(folder)

            fields = {"parameters": {"start_frames": 20}, "checkpoint_seconds": 0.0, "resume": resume}
            with pytest.raises(OutputError, match="cannot be written") as error:
                run_job(
                    Job(str(video), folder, **OUTPUTS[kind], **fields),
                    watch=lambda _source, after=after: contextlib.nullcontext(after),
                )
            survived += "\n" not in str(error.value) and not (folder.is_dir() and [*folder.glob("*.*")])
    score(f"output folder of a run {way.__name__}", 2 * len(kinds), survived)


@pytest.mark.parametrize("way", [removed, renamed, replaced])
def test_batch(video, tmp_path, score, way):
    survived = 0
    for place in (0, 1):
        folder = tmp_path / str(place) / "out"

        def perform(task, place=place, folder=folder):
            if place:
                outcome = do_task(task)
            way(folder)
            return outcome if place else do_task(task)

        fill = lambda source, output: Job(source, output, save=("mask.npz",), parameters={"start_frames": 20})  # noqa: E731
        with pytest.raises(OutputError, match=r"manifest.* cannot be written") as error:
            run(video, folder, FakeWorkers(perform), make_job=fill)
        survived += "\n" not in str(error.value)
    score(f"output folder of a batch {way.__name__}", 2, survived)
