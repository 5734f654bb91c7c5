"""Frame numbers start at 0 in all outputs; images keep the names of the input."""

import csv
import json

import numpy as np
import pytest
from cli_inputs import names, read_masks
from video_fakes import write_images, write_video

FIRST, COME = 10, 30  # the first frame of the run, and the first with an object
OUTPUTS = ("--start-frames", 5, "--save", "mask.png,mask.npz", "--event-formats", "csv,jsonl,coco")


@pytest.fixture
def pictures():
    """Sixty frames of 64x48; from frame 30 on, a square moves to the right."""
    rng = np.random.default_rng(0)
    wall = np.kron(rng.integers(60, 120, (6, 8, 3)), np.ones((8, 8, 1)))
    pictures = np.clip(wall + rng.normal(0, 2, (60, 48, 64, 3)), 0, 255).astype(np.uint8)
    for index in range(COME, 60):
        pictures[index, 16:30, index - COME + 2 : index - COME + 16] = (20, 30, 250)
    return pictures


def check_numbers(out, images):
    """Compare the numbers of the first frame and of the first object in each output; return the COCO file."""
    with (out / "events.csv").open(newline="") as file:
        (row,) = csv.DictReader(file)
    event = json.loads((out / "events.jsonl").read_text())
    coco = json.loads((out / "objects.json").read_text())
    index = np.load(out / "mask.npz")["index"]
    mask = next(n for n, image in enumerate(read_masks(out / "mask")) if (image == 255).sum() > 50)
    assert index[0] == coco["images"][0]["id"] == coco["images"][0]["frame_id"] == FIRST
    come = [int(row["start_frame"]), event["start_frame"], event["track"]["frame"][0], index[mask]]
    assert come == [COME] * 4
    assert min(one["image_id"] for one in coco["annotations"]) == COME
    assert (names(out / "mask")[0], names(out / "mask")[mask]) == images
    return coco, row["start_time"] and float(row["start_time"]), event["start_time"]


@pytest.mark.parametrize("start", [FIRST, "1.0s"])
def test_video(cli, tmp_path, pictures, start):
    video = write_video(tmp_path / "clip.avi", pictures, fps=10)
    cli("run", video, "-o", tmp_path / "out", "--start", start, *OUTPUTS).ok()
    coco, *times = check_numbers(tmp_path / "out", (f"bin{FIRST:06d}.png", f"bin{COME:06d}.png"))
    assert times == [COME / 10, COME / 10]
    assert coco["videos"] == [{"id": 1, "name": "clip.avi"}]
    assert [image["file_name"] for image in coco["images"]] == [f"clip.avi#{n}" for n in range(FIRST, 60)]
    answer = cli("track", video, "-o", tmp_path / "late", "--start", 60)
    answer.refused("nothing between frame 60 and the end", "(frame 59)\n")


def test_images_numbered_from_1(cli, tmp_path, pictures):
    folder = write_images(tmp_path / "frames", pictures, "in{:06d}.jpg")
    cli("run", folder, "-o", tmp_path / "out", "--start", FIRST, *OUTPUTS).ok()
    coco, *_ = check_numbers(tmp_path / "out", (f"bin{FIRST + 1:06d}.png", f"bin{COME + 1:06d}.png"))
    assert [image["file_name"] for image in coco["images"]] == names(folder)[FIRST:]


def test_equal_image_names_in_several_folders(cli, tmp_path, pictures):
    for place in ("a", "b"):
        write_images(tmp_path / place, pictures[:6])
    cli("track", tmp_path / "*" / "*.png", "-o", tmp_path / "out", "--event-formats", "coco").ok()
    coco = json.loads((tmp_path / "out" / "objects.json").read_text())
    assert len({image["file_name"] for image in coco["images"]}) == 12
    assert [image["frame_id"] for image in coco["images"]] == list(range(12))
