"""Fixtures of the batch tests."""

import pytest
from batch_fakes import FakeJobs


@pytest.fixture(autouse=True)
def all_cores(monkeypatch):
    """Tests share this process: a worker has one for itself."""
    monkeypatch.setattr("bgsub.jobs.batch.task._share_cores", lambda _jobs: None)


@pytest.fixture
def jobs(monkeypatch):
    """Jobs that copy the text of a file."""
    monkeypatch.setattr("bgsub.jobs.batch.task.run_job", fake := FakeJobs())
    return fake


@pytest.fixture
def files(tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    for name in "abcd":
        (folder / f"{name}.mp4").write_text(f"text of {name}")
    return folder


@pytest.fixture
def output(tmp_path):
    return tmp_path / "out"
