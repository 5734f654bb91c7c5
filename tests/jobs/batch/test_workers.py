"""Batches with real workers: processes of this machine, and a Dask cluster."""

import os
import resource
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import psutil
import pytest
from batch_fakes import lines, names, visible, write_videos
from cli_inputs import PROGRAM, make_scene
from live_fakes import repeating, wait_until
from video_fakes import write_video

import bgsub
from bgsub.errors import DependencyError, ParameterError
from bgsub.jobs.batch import run_batch
from bgsub.jobs.batch.workers import raise_file_limit
from bgsub.jobs.job import Job

pytestmark = pytest.mark.large
COUNT = 4
NAMES = [f"v{number}.avi" for number in range(COUNT)]


def quick(source, output):
    return Job(source, output, parameters={"start_frames": 10})


@pytest.fixture(scope="module")
def source_videos(tmp_path_factory):
    return write_videos(tmp_path_factory.mktemp("videos"), *range(COUNT))


@pytest.fixture
def videos(tmp_path, source_videos):
    return shutil.copytree(source_videos, tmp_path / "in")


def spawned():
    children = psutil.Process().children(recursive=True)
    return [child for child in children if "spawn_main" in str(child.cmdline())]


def check_three_files(videos, output, **options):
    (videos / "v1.avi").write_bytes(b"no video")
    result = run_batch([videos / name for name in NAMES[:3]], output, make_job=quick, **options)
    assert (sorted(names(result.done)), names(result.failed)) == (["v0.avi", "v2.avi"], ["v1.avi"])
    assert visible(output) == ["v0", "v2"]
    return result


@pytest.mark.slow
def test_processes_of_this_machine(videos, output, tmp_path):
    result = check_three_files(videos, output, workers=2)
    assert len({entry.worker for entry in result.done + result.failed}) == 2
    assert not spawned()
    script = tmp_path / "script.py"  # without the guard of the main module
    script.write_text(f"from bgsub.jobs.batch import run_batch\nrun_batch({str(videos)!r}, 'other', workers=1)")
    ended = subprocess.run([sys.executable, script], check=False, capture_output=True, text=True, cwd=tmp_path)
    errors = [line for line in ended.stderr.splitlines() if line.startswith("bgsub.errors.ParameterError")]
    assert (ended.returncode, len(errors)) == (1, 2)  # of the process, and of the script
    assert all("""a script calls run_batch below 'if __name__ == "__main__":'""" in line for line in errors)


@pytest.mark.slow
def test_file_that_kills_its_worker_fails_alone(videos, output):
    attempts = set()

    def kill():
        time.sleep(0.005)
        new = set(output.glob(".v0.attempt-*")) - attempts
        attempts.update(new)
        for process in spawned() if new else ():
            process.kill()

    with repeating(kill):
        result = run_batch([videos / "v0.avi", videos / "v1.avi"], output, workers=1, retries=1, make_job=quick)
    assert (names(result.done), names(result.failed), len(attempts)) == (["v1.avi"], ["v0.avi"], 2)
    assert (result.failed[0].error, visible(output)) == ("its worker died each of 2 times", ["v1"])


@pytest.mark.slow
def test_ctrl_c_and_the_same_command_again(tmp_path, videos, output):
    (tmp_path / "program.py").write_text(PROGRAM)
    words = ["batch", str(videos), "-o", str(output), "--workers", "1", "--start-frames", "10"]
    pipes = {"text": True, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    command = [sys.executable, tmp_path / "program.py", *words]
    environment = {**os.environ, "PYTHONPATH": os.path.dirname(os.path.dirname(bgsub.__file__))}
    process = subprocess.Popen(command, start_new_session=True, env=environment, **pipes)
    try:
        wait_until(lambda: process.poll() is not None or ((output / "manifest.jsonl").exists() and lines(output)))
        os.killpg(process.pid, signal.SIGINT)  # a terminal sends it to the workers as well
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
        process.communicate()
    done = len(lines(output))
    assert (process.returncode, 0 < done < COUNT) == (130, True)
    assert f"\nstopped by the user; {COUNT - done} files left" in err
    assert f"{done} done, 0 failed, 0 done before, {COUNT - done} left in" in out
    assert len(visible(output)) == done
    again = run_batch(videos, output, workers=1, make_job=quick)
    assert (len(again.done), len(again.skipped)) == (COUNT - done, done)


def test_file_limit_is_raised_within_the_hard_limit(monkeypatch):
    changes = []
    monkeypatch.setattr(resource, "getrlimit", lambda _kind: (20, 100))
    monkeypatch.setattr(resource, "setrlimit", lambda _kind, limits: changes.append(limits))
    for needed in (20, 60):
        raise_file_limit(needed, "a batch")
    assert changes == [(60, 100)]
    with pytest.raises(ParameterError, match=r"a batch needs 101 open files at a time, 100 are allowed \(ulimit -n\)"):
        raise_file_limit(101, "a batch")


@pytest.fixture
def inner_cluster():
    distributed = pytest.importorskip("distributed")
    options = {"processes": False, "host": "127.0.0.1", "protocol": "tcp", "dashboard_address": None}
    with distributed.LocalCluster(n_workers=1, threads_per_worker=2, **options) as cluster:
        yield cluster


@pytest.mark.extras
def test_dask_cluster(inner_cluster, videos, output, monkeypatch):
    address = inner_cluster.scheduler_address
    check_three_files(videos, output, scheduler=address)
    with monkeypatch.context() as patch:
        patch.setattr("bgsub.jobs.batch.dask_workers.__version__", "9.9")
        with pytest.raises(DependencyError, match=rf"worker tcp://.* has bgsub {bgsub.__version__}, this is 9.9"):
            run_batch(videos, output, make_job=quick, scheduler=address)
    monkeypatch.setattr("bgsub.jobs.batch.dask_workers._CONNECT_SECONDS", 0.3)
    inner_cluster.scale(0)
    wait_until(lambda: not inner_cluster.scheduler.workers)
    with pytest.raises(ParameterError, match=f"the scheduler at '{address}' has no workers"):
        run_batch(videos, output, make_job=quick, scheduler=address)


@pytest.mark.extras
def test_ctrl_c_frees_the_workers_of_a_cluster(inner_cluster, videos, output):
    write_video(videos / "v1.avi", np.tile(make_scene(250), (20, 1, 1, 1)), codec="mp4v")

    def interrupt(_entry):
        raise KeyboardInterrupt

    options = {"scheduler": inner_cluster.scheduler_address, "make_job": quick, "progress": interrupt}
    result = run_batch([videos / "v0.avi", videos / "v1.avi"], output, **options)
    (worker,) = inner_cluster.workers.values()
    wait_until(lambda: not worker.active_threads, 15)
    assert (names(result.done), result.left, result.stopped, visible(output)) == (["v0.avi"], 1, "SIGINT", ["v0"])


@pytest.mark.extras
def test_closed_scheduler_ends_the_batch(inner_cluster, videos, output):
    end = {"progress": lambda _entry: inner_cluster.close(), "scheduler": inner_cluster.scheduler_address}
    lost = run_batch(videos, output, make_job=quick, **end)
    assert (lost.stopped, len(lost.done) + lost.left) == ("lost", COUNT)
    assert 1 <= len(lost.done) < COUNT


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"workers": 0}, "workers must be an integer >= 1, got 0"),
        ({"retries": -1}, "retries must be an integer >= 0, got -1"),
        ({"workers": 1, "scheduler": "tcp://127.0.0.1:1"}, "a scheduler brings its own workers"),
        *(
            ({"scheduler": address}, f"^scheduler must be the address of a running one .*, got '{address}'")
            for address in ("tcp://127.0.0.1:1", "nonsense", "tcp://127.0.0.1:x", "udp://127.0.0.1:1")
        ),
    ],
)
def test_wrong_options(tmp_path, output, options, message, monkeypatch):
    if "scheduler" in options:
        pytest.importorskip("distributed")
        monkeypatch.setattr("bgsub.jobs.batch.dask_workers._CONNECT_SECONDS", 0.3)
    (tmp_path / "a.mp4").write_bytes(b"no video")
    with pytest.raises(ParameterError, match=message):
        run_batch(tmp_path / "a.mp4", output, **options)
    assert not output.exists()
