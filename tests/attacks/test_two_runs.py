"""Of two runs with the same outputs, one writes them completely and the other is refused."""

import signal
import subprocess
import sys

import pytest
from cli_inputs import make_scene
from live_fakes import wait_until
from scoring import scored
from video_fakes import content, streamed, write_video

from bgsub.jobs.job import Job
from bgsub.jobs.run import run_job

SAVE = ("panel.mp4", "mask.npz")


@pytest.fixture(scope="module")
def scenes(tmp_path_factory):
    """Return two videos as paths and as bytes, with the outputs of an undisturbed run."""
    folder = tmp_path_factory.mktemp("scenes")
    found = []
    for empty in (12, 30):
        frames = make_scene(60, empty=empty)
        path = write_video(folder / f"{empty}.avi", frames)
        run_job(Job(str(path), folder / f"alone{empty}", save=SAVE, event_formats=("csv",)))
        found.append((path, streamed(frames), content(folder / f"alone{empty}")))
    return found


def start(source, output, *options):
    words = ["run", str(source), "-o", str(output), "--save", ",".join(SAVE), "--event-formats", "csv", *options]
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    return subprocess.Popen([sys.executable, "-m", "bgsub", *words], **pipes)


def start_endless(video, output):
    """Start a run that reads frames from a pipe, and wait until it writes."""
    process = start("-", output)
    process.stdin.write(video)
    process.stdin.flush()

    def is_writing():
        assert process.poll() is None, process.communicate()
        return output.exists() and any(path.stat().st_size for path in output.iterdir())

    wait_until(is_writing, 120)
    return process


def is_refused(process):
    error = process.communicate(timeout=120)[1].decode()
    reasons = ("is being written by another run", "exists already")
    return process.returncode == 2 and error.count("\n") == 1 and any(reason in error for reason in reasons)


@scored("two runs into one folder, started together")
def test_one_of_two_simultaneous_runs_is_refused(scenes, tmp_path, tries):
    for number in range(tries(1, 12)):
        processes = [start(path, tmp_path / str(number)) for path, _, _ in scenes]
        refused = [is_refused(process) for process in processes]
        winner = refused.index(False)
        is_whole = processes[winner].returncode == 0 and content(tmp_path / str(number)) == scenes[winner][2]
        yield refused, sum(refused) == 1 and is_whole


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no SIGKILL here")
@scored("a run into the folder of an active run, with --overwrite, with --resume, after a kill")
def test_runs_into_the_folder_of_an_active_run_are_refused(scenes, tmp_path, tries):
    """Also with --overwrite: unfinished outputs cannot be replaced; those of a killed run can."""
    for number in range(tries(1, 12)):
        output = tmp_path / str(number)
        (_, video, _), (other, _, whole) = scenes
        first = start_endless(video, output)
        refused = [is_refused(start(other, output, option)) for option in ("--resume", "--overwrite")]
        first.kill()
        first.communicate(timeout=120)
        process = start(other, output, "--overwrite")
        process.communicate(timeout=120)
        found = {name: data for name, data in content(output).items() if ".partial" not in name}
        yield refused, all(refused) and process.returncode == 0 and found == whole
