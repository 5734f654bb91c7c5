"""A run or a batch that is stopped or killed at any frame resumes, with the outputs of an uninterrupted run."""

import random
import shutil
import sys

import pytest
from batch_fakes import run
from stop_kit import LENGTH, SAVE, SEGMENT, killed, make_job, make_source, watching
from video_fakes import content

from bgsub.errors import StoppedError
from bgsub.jobs.checkpoints import Checkpoint
from bgsub.jobs.controls import Controls
from bgsub.jobs.run import run_job

needs_kill = pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL")


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return make_source(tmp_path_factory.mktemp("in"))


@pytest.fixture(scope="module", autouse=True)
def segments():
    with pytest.MonkeyPatch.context() as patch:  # back again before other files make their outputs
        patch.setattr("bgsub.video.sinks.video._SEGMENT", SEGMENT)
        yield


@pytest.fixture(scope="module")
def whole(source, tmp_path_factory):
    """The outputs of an uninterrupted run."""
    output = tmp_path_factory.mktemp("whole")
    run_job(make_job(source, output))
    return outputs(output)


def outputs(folder):
    return {name: data for name, data in content(folder).items() if not name.startswith(".resume")}


def stop(job, number):
    """Stop a run after at least so many frames; return whether the checkpoint has all of them."""
    controls = Controls()
    with pytest.raises(StoppedError) as stopped:
        run_job(job, controls=controls, watch=watching(lambda frames: frames >= number and controls.quit()))
    return Checkpoint.read(job.output / ".resume" / "state").frames == stopped.value.result.summary.frames


def test_stop_loses_no_frame(source, whole, tmp_path, tries, score):
    seeds = tries(2, 40)
    stops = survived = 0
    for seed in range(seeds):
        job = make_job(source, tmp_path / str(seed), resume=True)
        numbers = sorted(random.Random(seed).sample(range(1, LENGTH), 4))
        good = []
        for number in numbers:
            before = kept(job.output)
            if before < LENGTH:
                good.append(stop(job, max(number, before + 1)))
        run_job(job)
        stops += len(good)
        survived += sum(good) if outputs(job.output) == whole else 0
        shutil.rmtree(job.output)
    score("stop of a run at any frame, no frame lost", stops, survived)


def kept(output):
    path = output / ".resume" / "state"
    return Checkpoint.read(path).frames if path.exists() else 0


@needs_kill
def test_kill_loses_one_frame(source, whole, tmp_path, tries, score):
    seeds = tries(1, 12)
    kills = survived = 0
    for seed in range(seeds):
        job = make_job(source, tmp_path / str(seed), resume=True)
        numbers = sorted(random.Random(100 + seed).sample(range(2, LENGTH), tries(2, 8)))
        good = []
        for number in numbers:
            assert killed(source=source, output=job.output, frames=number)
            good.append(kept(job.output) == number - 1)
        result = run_job(job)
        same = outputs(job.output) == whole and result.summary.resumed == numbers[-1] - 1
        kills, survived = kills + len(good), survived + (sum(good) if same else 0)
        shutil.rmtree(job.output)
    score("SIGKILL of a run after any frame, one frame lost at most", kills, survived)


@needs_kill
def test_kill_at_any_time(source, whole, tmp_path, tries, score):
    kills = survived = 0
    for seed in range(tries(1, 40)):
        job, chance = make_job(source, tmp_path / str(seed), resume=True), random.Random(200 + seed)
        count = 0
        while count < 3 and killed(source=source, output=job.output, seconds=chance.uniform(0.1, 1.0)):
            count += 1
        run_job(job)
        kills, survived = kills + count, survived + (count if outputs(job.output) == whole else 0)
        shutil.rmtree(job.output)
    score("a run killed at any moment, byte-identical at the end", kills, survived)


@needs_kill
def test_batch_killed_inside_a_file(source, whole, tmp_path, tries, score, monkeypatch):
    monkeypatch.setattr("bgsub.jobs.batch.task._share_cores", lambda _jobs: None)
    sources = tmp_path / "in"
    sources.mkdir()
    for name in ("a.avi", "b.avi"):
        shutil.copy(source, sources / name)
    run(sources, tmp_path / "plain", make_job=make_job)
    expected = results(tmp_path / "plain")
    count, survived = tries(1, 12), 0
    for seed in range(count):
        number, output = random.Random(300 + seed).randrange(2, 2 * LENGTH), tmp_path / str(seed)
        assert killed(source=sources, output=output, frames=number, batch=True)
        done = run(sources, output, make_job=make_job).done
        survived += results(output) == expected and done[0].result["resumed"] == (number - 1) % LENGTH
        shutil.rmtree(output)
    score("SIGKILL of a batch inside a file, which goes on there", count, survived)


def results(folder):
    """The outputs, without records that have times."""
    made = {name: data for name, data in content(folder).items() if "/" in name and not name.endswith("result.json")}
    assert {name.split("/")[1] for name in made} >= {name for name in SAVE if "." in name}
    return made
