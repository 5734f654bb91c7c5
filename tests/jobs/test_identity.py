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


@pytest.mark.parametrize("change", ["rename", "replace", "add"])
def test_changed_image_changes_the_folder(folder, change):
    job, image = Job(str(folder), Path("out")), folder / "in2.png"
    before = identity(job, folder)
    if change == "rename":
        image.rename(folder / "in3.png")
    elif change == "add":
        shutil.copy(image, folder / "in3.png")
    else:
        state = image.stat()
        image.write_bytes(b"another")
        os.utime(image, ns=(state.st_atime_ns, state.st_mtime_ns - 1))
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
    same = {"absorb_after": float("inf"), "rank": 3, "on_change": "restart"}
    assert identity(replace(job, output=Path("elsewhere"), resume=True, overwrite=True), folder) == before
    assert identity(replace(job, parameters=same), folder) == before
    other = identity(replace(job, parameters={"rank": 5}, every=2), folder)
    told = "by other options (--absorb-after inf, now 60.0; --every 1, now 2; --rank 3, now 5)"
    assert other.difference(before) == told
    assert identity(job, folder / "in1.png").difference(before) == f"from '{folder}'"
    with pytest.raises(ParameterError, match="unknown parameter 'musk'"):
        identity(replace(job, parameters={"musk": 1}), folder)


def test_fingerprint_of_options_and_contents(tmp_path):
    files = [tmp_path / name for name in ("model.npz", "roi.png", "privacy.png")]
    for path in files:
        path.write_bytes(b"1")
    model, roi, privacy = files
    masks = {"roi": (f"door={roi}", "0,0,5,5"), "privacy": (str(privacy), "0,0,5,5")}
    job = Job("a.mp4", Path("/out/a"), model=model, save_model=Path("/out/a/m.npz"), **masks)
    other = Job("b.mp4", Path("/out/b"), model=model, save_model=Path("/out/b/m.npz"), **masks)
    first = fingerprint(job)
    assert fingerprint(other) == fingerprint(replace(job, overwrite=True)) == first
    for change in (
        {"save": ("mask", "panel")},
        {"parameters": {"rank": 2}},
        {"save_model": None},
        {"roi": masks["roi"][:1]},
        {"privacy": masks["privacy"][:1]},
    ):
        assert fingerprint(replace(job, **change)) != first
    for path in files:
        path.write_bytes(b"22")
        assert fingerprint(job) != first
        path.write_bytes(b"1")
        first = fingerprint(job)
