"""A low limit of open files."""

import subprocess
import sys

import pytest
from cli_inputs import PROGRAM, make_scene
from video_fakes import write_video

from bgsub.errors import ParameterError
from bgsub.jobs.batch.workers import raise_file_limit

resource = pytest.importorskip("resource", reason="the limit is one of Unix")


def limited(words, files, folder):
    """Run a program that may open so many files."""
    limit = f"import resource; resource.setrlimit(resource.RLIMIT_NOFILE, ({files}, {files})); "
    command = [sys.executable, "-c", limit + PROGRAM, *map(str, words), "-q"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=120)


def test_few_open_files(tmp_path, tries, score):
    video = write_video(tmp_path / "v.avi", make_scene(30, empty=12))
    attacks = [
        (["batch", video, "-o", "many", "--workers", "2"], files) for files in tries((20,), (12, 16, 20, 32, 48))
    ]
    attacks += [(["run", video, "-o", "one"], files) for files in tries((6,), (5, 6, 7, 8, 9, 10, 12, 16))]
    survived = 0
    for words, files in attacks:
        ended = limited([*words, "--overwrite"], files, tmp_path)
        well = ended.returncode == 0 or (ended.returncode in (1, 2) and ended.stderr.count("\n") == 1)
        survived += well and "Traceback" not in ended.stderr
    score("few open files", len(attacks), survived)


def test_batch_raises_the_limit_of_open_files(monkeypatch):
    taken = []
    monkeypatch.setattr(resource, "setrlimit", lambda _kind, limits: taken.append(limits))
    monkeypatch.setattr(resource, "getrlimit", lambda _kind: (50, 100))
    raise_file_limit(72, "a batch")
    assert taken == [(72, 100)]
    with pytest.raises(ParameterError, match="a batch needs 168 open files at a time, 100 are allowed"):
        raise_file_limit(168, "a batch")
    monkeypatch.setattr(resource, "getrlimit", lambda _kind: (1024, 4096))
    raise_file_limit(168, "a batch")
    assert len(taken) == 1
