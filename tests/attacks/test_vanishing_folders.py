"""An output folder that disappears during a run gives one line with a file name, and no incomplete output."""

from __future__ import annotations

import shutil
from contextlib import nullcontext
from itertools import product

import numpy as np
import pytest
from batch_fakes import FakeWorkers, run
from video_fakes import write_video

from bgsub.errors import OutputError
from bgsub.jobs.batch.task import do_task
from bgsub.jobs.job import Job
from bgsub.jobs.run import run_job
from bgsub.synthetic import scene

PARAMETERS = {"start_frames": 20}
OUTPUTS = {
    "video": {"save": ("mask.avi",)},
    "arrays": {"save": ("mask.npz",)},
    "images": {"save": ("mask.png",)},
    "still": {"save": ("background-image",)},
    "events": {"save": (), "event_formats": ("csv", "jsonl", "coco", "html")},
}


def vanish(folder, way):
    if way == "renamed":
        folder.rename(folder.with_name("elsewhere"))
    else:
        shutil.rmtree(folder)
    if way == "replaced":
        folder.write_text("a file")


@pytest.mark.parametrize("way", ["removed", "renamed", "replaced"])
def test_output_folder_of_a_run_and_of_a_batch(tmp_path, tries, score, way):
    frames = np.stack([frame for frame, _ in scene("lobby", size=(48, 32), length=40, seed=2)])
    video = str(write_video(tmp_path / "video.avi", frames))

    def run_outcomes():
        for kind, resume in product(list(OUTPUTS)[: tries(2, len(OUTPUTS))], (False, True)):
            folder = tmp_path / f"{kind}{resume}" / "out"
            after = lambda frame, _, folder=folder: frame.index == 30 and vanish(folder, way)  # noqa: E731
            fields = {"parameters": PARAMETERS, "checkpoint_seconds": 0.0, "resume": resume}
            job = Job(video, folder, **OUTPUTS[kind], **fields)
            with pytest.raises(OutputError, match="cannot be written") as caught:
                run_job(job, watch=lambda _source, after=after: nullcontext(after))
            yield (kind, resume), "\n" not in str(caught.value) and not list(folder.glob("*.*"))

    def batch_outcomes():
        for is_late in (False, True):
            folder = tmp_path / str(is_late) / "out"

            def perform(task, folder=folder, is_late=is_late):
                outcome = do_task(task) if is_late else None
                vanish(folder, way)
                return outcome or do_task(task)

            fill = lambda source, output: Job(source, output, save=("mask.npz",), parameters=PARAMETERS)  # noqa: E731
            with pytest.raises(OutputError, match=r"manifest.* cannot be written") as caught:
                run(video, folder, FakeWorkers(perform), make_job=fill)
            yield is_late, "\n" not in str(caught.value)

    score(f"output folder of a run {way}", run_outcomes())
    score(f"output folder of a batch {way}", batch_outcomes())
