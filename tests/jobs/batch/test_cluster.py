"""Batches with Dask for real: a scheduler and workers of their own, one of which dies; processes of this machine."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import numpy as np
import pytest
from batch_fakes import lines, names, visible
from cli_inputs import make_scene
from video_fakes import read_video, write_video

import bgsub
from bgsub.cli import invoke
from bgsub.errors import DependencyError, ParameterError
from bgsub.jobs.batch import run_batch
from bgsub.jobs.job import Job
from bgsub.jobs.run import run_job
from bgsub.numerics.threads import cores

distributed = pytest.importorskip("distributed", reason="batches need the package distributed")
psutil = pytest.importorskip("psutil")

pytestmark = pytest.mark.large
PARAMETERS = {"start_frames": 10}


def quick(source, output):
    return Job(source, output, parameters=PARAMETERS)


def until(condition, seconds=60):
    deadline = time.monotonic() + seconds
    while not (answer := condition()):
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)
    return answer


@pytest.fixture(scope="module")
def made_videos(tmp_path_factory):
    folder = tmp_path_factory.mktemp("videos")
    for number in range(8):
        frames = make_scene(250 + 10 * number, empty=12)
        write_video(folder / f"v{number}.avi", np.roll(frames, number, axis=2))
    return folder


@pytest.fixture
def videos(made_videos, tmp_path):
    return shutil.copytree(made_videos, tmp_path / "in")


@contextmanager
def started(scratch, *words):
    """A process of Dask that is gone at the end, whatever happens."""
    process = subprocess.Popen(
        [sys.executable, "-m", *map(str, words)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "DASK_TEMPORARY_DIRECTORY": str(scratch)},  # killed, it cleans nothing up
    )
    try:
        yield process
    finally:
        process.send_signal(signal.SIGCONT)
        process.kill()
        process.wait()


@contextmanager
def cluster(tmp_path, workers):
    """A scheduler and workers on the loopback; its address, and the workers by process."""
    file = tmp_path / "scheduler.json"
    here = ("--host", "127.0.0.1", "--no-dashboard", "--scheduler-file", file)
    worker = ("distributed.cli.dask_worker", *here, "--nthreads", 1, "--no-nanny")
    with ExitStack() as stack:
        stack.enter_context(started(tmp_path, "distributed.cli.dask_scheduler", *here, "--port", 0))
        until(lambda: file.exists() and file.stat().st_size)
        processes = [stack.enter_context(started(tmp_path, *worker)) for _ in range(workers)]
        with distributed.Client(scheduler_file=str(file), set_as_default=False) as client:
            if workers:
                client.wait_for_workers(workers, timeout=60)
            address = client.scheduler.address
        yield address, processes


# A function of this file would not arrive at a worker.
_BUSY = "sum(len(worker.active_threads) for worker in __import__('distributed').Worker._instances)"


def kill_in_a_task(process, output):
    """Kill a worker of two while both are in a task: stopped, it can come to no end before."""

    def both():
        return len(list(output.glob(".*.attempt-*"))) == 2

    def caught():
        until(both)
        process.send_signal(signal.SIGSTOP)
        if both():
            return True
        process.send_signal(signal.SIGCONT)
        return False

    until(caught)
    process.kill()


def test_a_worker_that_is_killed_loses_nothing(tmp_path, videos):
    output = tmp_path / "out"
    with cluster(tmp_path, workers=2) as (address, (victim, survivor)):
        killed, two_done = [], threading.Event()

        def look(_entry):
            if len(lines(output)) == 2:
                two_done.set()

        def killer():
            assert two_done.wait(60)
            kill_in_a_task(victim, output)
            killed.append(len(lines(output)))

        thread = threading.Thread(target=killer)
        thread.start()
        try:
            result = run_batch(videos, output, scheduler=address, make_job=quick, progress=look)
        finally:
            two_done.set()
            thread.join()
        again = run_batch(videos, output, scheduler=address, make_job=quick)
    assert killed
    assert killed[0] < 8
    assert sorted(names(result.done)) == [f"v{number}.avi" for number in range(8)]
    assert result.complete
    assert sorted(line["output"] for line in lines(output)) == visible(output) == [f"v{number}" for number in range(8)]
    assert sorted(entry.attempts for entry in result.done) == [1] * 7 + [2]
    moved = next(entry for entry in result.done if entry.attempts == 2)
    assert moved.worker.endswith(f":{survivor.pid}")
    assert (len(again.done), len(again.skipped)) == (0, 8)
    for number in range(8):
        job = quick(str(videos / f"v{number}.avi"), tmp_path / "serial" / f"v{number}")
        run_job(job)
        expected, came = (read_video(folder / f"v{number}" / "mask.mkv") for folder in (tmp_path / "serial", output))
        assert len(came) == 250 + 10 * number
        np.testing.assert_array_equal(came, expected)


@pytest.fixture
def busy_port():
    """Someone else's cluster has the port that Dask likes best."""
    with socket.socket() as taken:
        with suppress(OSError):  # it has it indeed
            taken.bind(("127.0.0.1", 8787))
            taken.listen()
        yield


@pytest.mark.filterwarnings("error:Port")
@pytest.mark.usefixtures("busy_port")
def test_processes_of_this_machine(tmp_path, videos):
    (videos / "bad.avi").write_bytes(b"no video")
    for number in range(3, 8):
        (videos / f"v{number}.avi").unlink()
    output, listening = tmp_path / "out", set()

    def look(_entry):
        family = [psutil.Process(), *psutil.Process().children(recursive=True)]
        for process in family:
            listening.update(c.laddr.ip for c in process.net_connections("tcp") if c.status == psutil.CONN_LISTEN)

    result = run_batch([videos], output, workers=2, make_job=quick, progress=look)
    assert sorted(names(result.done)) == ["v0.avi", "v1.avi", "v2.avi"]
    assert names(result.failed) == ["bad.avi"]
    assert listening == {"127.0.0.1"}
    assert len({entry.worker for entry in result.done + result.failed}) == 2
    assert not spawned()
    assert visible(output) == ["v0", "v1", "v2"]
    again = run_batch([videos], output, workers=2, make_job=quick)
    assert (names(again.failed), len(again.done), len(again.skipped)) == (["bad.avi"], 0, 3)
    assert [line["output"] for line in lines(output)].count("bad") == 2


@contextmanager
def killer_of(name, output):
    """Kills the worker processes of this machine at every attempt on a file."""
    ended, seen = threading.Event(), set()

    def watch():
        while not ended.wait(0.005):
            attempts = set(output.glob(f".{name}.attempt-*")) - seen
            seen.update(attempts)
            for process in spawned() if attempts else ():
                process.kill()

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield seen
    finally:
        ended.set()
        thread.join()


def spawned():
    """Worker processes of this machine."""
    children = psutil.Process().children(recursive=True)
    return [child for child in children if "spawn_main" in str(child.cmdline())]


def test_a_file_that_kills_its_worker_fails_alone(tmp_path, videos):
    output = tmp_path / "out"
    with killer_of("v0", output) as attempts:
        result = run_batch([videos / "v0.avi", videos / "v1.avi"], output, workers=1, retries=1, make_job=quick)
    assert (names(result.done), names(result.failed), len(attempts)) == (["v1.avi"], ["v0.avi"], 2)
    assert result.failed[0].error == "its worker died each of 2 times"
    assert visible(output) == ["v1"]


# A shell that starts a process in the background may make it ignore Ctrl-C.
_PROGRAM = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
_PROGRAM += "from bgsub.cli import main\nif __name__ == '__main__': main()\n"


def test_ctrl_c_and_on_again(tmp_path, videos, capsys):
    program, output = tmp_path / "program.py", tmp_path / "out"
    program.write_text(_PROGRAM)
    words = ["batch", str(videos), "-o", str(output), "--workers", "1", "--start-frames", "10"]
    process = subprocess.Popen(
        [sys.executable, program, *words],
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": str(Path(bgsub.__file__).parents[1])},
    )
    try:
        until(lambda: process.poll() is not None or ((output / "manifest.jsonl").exists() and lines(output)))
        os.killpg(process.pid, signal.SIGINT)  # a terminal sends it to the workers as well
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
        process.communicate()
    done = len(lines(output))
    assert (process.returncode, 0 < done < 7) == (130, True)
    assert err.endswith(f"\nstopped by the user; {8 - done} files left: the same command goes on\n")
    assert f"{done} done, 0 failed, 0 done before, {8 - done} left in" in out
    assert len(visible(output)) == done
    assert invoke(words) == 0
    assert f"{8 - done} done, 0 failed, {done} done before, 0 left in" in capsys.readouterr().out
    assert sorted(line["output"] for line in lines(output)) == [f"v{number}" for number in range(8)]


def test_ctrl_c_frees_the_workers_of_a_cluster(tmp_path, videos):
    output = tmp_path / "out"
    write_video(videos / "v1.avi", np.tile(make_scene(250), (120, 1, 1, 1)), codec="mp4v")

    def interrupt(_entry):
        raise KeyboardInterrupt

    with cluster(tmp_path, workers=2) as (address, _processes):
        files = [videos / "v0.avi", videos / "v1.avi"]
        result = run_batch(files, output, scheduler=address, make_job=quick, progress=interrupt)
        with distributed.Client(address, set_as_default=False) as client:
            until(lambda: not any(client.run(eval, _BUSY).values()), seconds=15)
            threads = client.run(eval, "__import__('cv2').getNumThreads()")
            helpers = client.run(eval, "__import__('bgsub.numerics.threads', fromlist=['_pool'])._pool._idle")
    share = max(cores() // 2, 1)
    # On a busy machine one worker may have taken both files, and the other none.
    assert (share, share - 1) in {(threads[worker], helpers[worker]) for worker in threads}
    assert (names(result.done), result.left, result.stopped) == (["v0.avi"], 1, "SIGINT")
    assert visible(output) == ["v0"]


def test_a_scheduler_that_goes_away_ends_the_batch(tmp_path, videos):
    output = tmp_path / "out"
    with cluster(tmp_path, workers=2) as (address, _processes):
        port = int(address.rpartition(":")[2])
        scheduler = next(
            child
            for child in psutil.Process().children()
            if any(c.laddr.port == port and c.status == psutil.CONN_LISTEN for c in child.net_connections("tcp"))
        )
        result = run_batch(videos, output, scheduler=address, make_job=quick, progress=lambda _entry: scheduler.kill())
    assert result.stopped == "lost"
    assert 1 <= len(result.done) < 8
    assert len(result.done) + result.left == 8
    assert len(visible(output)) == len(lines(output)) == len(result.done)


def test_workers_of_another_version_are_refused(tmp_path, videos, monkeypatch):
    with cluster(tmp_path, workers=1) as (address, _processes):
        monkeypatch.setattr("bgsub.jobs.batch.dask_runner.__version__", "9.9")
        with pytest.raises(DependencyError, match=rf"worker tcp://.* has bgsub {bgsub.__version__}, this is 9.9"):
            run_batch(videos, tmp_path / "out", scheduler=address)
    assert visible(tmp_path / "out") == []


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:1", "nonsense", "tcp://127.0.0.1:x", "udp://127.0.0.1:1"])
def test_no_scheduler_at_the_address(tmp_path, videos, address, monkeypatch):
    monkeypatch.setattr("bgsub.jobs.batch.dask_runner._CONNECT_SECONDS", 0.5)
    with pytest.raises(ParameterError, match=rf"^scheduler must be the address of a running one .*, got '{address}'"):
        run_batch(videos, tmp_path / "out", scheduler=address)


def test_a_script_without_its_guard_is_told(tmp_path, videos):
    script = tmp_path / "script.py"
    script.write_text(
        f"from bgsub.jobs.batch import run_batch\nrun_batch({str(videos)!r}, {str(tmp_path / 'out')!r}, workers=1)"
    )
    command = [sys.executable, script]
    result = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    assert result.returncode == 1
    told = [line for line in result.stderr.splitlines() if line.startswith("bgsub.errors.ParameterError")]
    assert len(told) == 2  # of the process, and of the script
    assert all("""a script calls run_batch below 'if __name__ == "__main__":'""" in line for line in told)


def test_a_scheduler_without_workers(tmp_path, videos, monkeypatch):
    monkeypatch.setattr("bgsub.jobs.batch.dask_runner._CONNECT_SECONDS", 0.5)
    with (
        cluster(tmp_path, workers=0) as (address, _none),
        pytest.raises(ParameterError, match=f"the scheduler at '{address}' has no workers"),
    ):
        run_batch(videos, tmp_path / "out", scheduler=address)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"workers": 0}, "workers must be an integer >= 1, got 0"),
        ({"retries": -1}, "retries must be an integer >= 0, got -1"),
        ({"workers": 1, "scheduler": "tcp://127.0.0.1:1"}, "a scheduler brings its own workers"),
    ],
)
def test_wrong_options(tmp_path, videos, options, told):
    with pytest.raises(ParameterError, match=told):
        run_batch(videos, tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()
