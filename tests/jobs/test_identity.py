"""Identity of jobs, which a resumed run and a batch compare."""

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from bgsub.errors import ParameterError
from bgsub.jobs.job import Job
from bgsub.jobs.job_state import InputState, JobIdentity


@pytest.fixture
def folder(tmp_path):
    place = tmp_path / "in"
    place.mkdir()
    for number in (1, 2):
        (place / f"in{number}.png").write_bytes(b"picture")
    return place


def identity(job, source):
    return JobIdentity.of(job, InputState.of(source))


def fingerprint(job):
    return JobIdentity.of(job, InputState("a.mp4")).fingerprint


def rename(folder):
    (folder / "in2.png").rename(folder / "in3.png")


def replace_image(folder):
    state = (folder / "in2.png").stat()
    (folder / "in2.png").write_bytes(b"another")
    os.utime(folder / "in2.png", ns=(state.st_atime_ns, state.st_mtime_ns - 1))


def add(folder):
    shutil.copy(folder / "in1.png", folder / "in3.png")


@pytest.mark.parametrize("change", [rename, replace_image, add])
def test_changed_image_changes_the_folder(folder, change):
    job = Job(str(folder), Path("out"))
    before = identity(job, folder)
    change(folder)
    assert identity(job, folder).difference(before) == f"before '{folder}' was changed"


def test_same_input_by_another_name(folder, monkeypatch):
    monkeypatch.chdir(folder)
    assert InputState.of(Path("in1.png")) == InputState.of(folder / "in1.png")
    (folder / "link.png").symlink_to("in1.png")
    assert InputState.of(Path("link.png")) == InputState.of(folder / "in1.png")
    assert InputState.of(folder, "in*.png") != InputState.of(folder, "in1*.png")


def test_json_round_trip_and_difference(folder):
    job = Job(str(folder), Path("out"), parameters={"absorb_after": float("inf")})
    before = JobIdentity.from_dict(json.loads(json.dumps(identity(job, folder).as_dict())))
    assert identity(job, folder) == before
    assert identity(replace(job, output=Path("elsewhere"), resume=True, overwrite=True), folder) == before
    assert identity(replace(job, parameters={"absorb_after": float("inf"), "rank": 3}), folder) == before
    other = identity(replace(job, parameters={"rank": 5}, every=2), folder)
    told = "by other options (--absorb-after inf, now 60.0; --every 1, now 2; --rank 3, now 5)"
    assert other.difference(before) == told
    assert identity(job, folder / "in1.png").difference(before) == f"from '{folder}'"
    with pytest.raises(ParameterError, match="unknown parameter 'musk'"):
        identity(replace(job, parameters={"musk": 1}), folder)


def test_on_change_is_no_part_of_the_identity(folder):
    job = Job(str(folder), Path("out"))
    restarting = replace(job, parameters={"on_change": "restart"})
    assert identity(job, folder) == identity(restarting, folder)
    assert identity(job, folder) != identity(replace(job, parameters={"rank": 2}), folder)


def test_fingerprint_of_options_without_files(tmp_path):
    model = tmp_path / "m.npz"
    model.write_bytes(b"1")
    job = Job("a.mp4", Path("/out/a"), model=model, save_model=Path("/out/a/m.npz"))
    other = Job("b.mp4", Path("/out/b"), model=model, save_model=Path("/out/b/m.npz"))
    first = fingerprint(job)
    assert fingerprint(other) == first
    assert fingerprint(replace(job, overwrite=True)) == first
    assert fingerprint(replace(job, save=("mask", "panel"))) != first
    assert fingerprint(replace(job, parameters={"rank": 2})) != first
    assert fingerprint(replace(job, save_model=None)) != first
    model.write_bytes(b"22")
    assert fingerprint(job) != first


@pytest.mark.parametrize("name", ["roi", "privacy"])
def test_fingerprint_of_region_masks(tmp_path, name):
    mask = tmp_path / "m.png"
    mask.write_bytes(b"1")
    job = Job("a.mp4", Path("/out/a"), **{name: (f"door={mask}", "0,0,5,5")})
    first = fingerprint(job)
    assert fingerprint(replace(job, **{name: getattr(job, name)[:1]})) != first
    mask.write_bytes(b"22")
    assert fingerprint(job) != first
