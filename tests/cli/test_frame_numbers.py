"""Frames count from 0 in whatever a run writes; images that are the input keep their names."""

import csv
import json

import cv2
import numpy as np
import pytest
from video_fakes import write_images, write_video

FIRST, COME = 10, 30  # the run begins at a frame, the object comes at another
WORDS = ("--start", FIRST, "--start-frames", 5, "--save", "mask.png,mask.npz", "--event-formats", "csv,jsonl,coco")


@pytest.fixture
def pictures():
    """Sixty frames of 64x48; from frame 30 on, a square goes to the right."""
    rng = np.random.default_rng(0)
    wall = np.kron(rng.integers(60, 120, (6, 8, 3)), np.ones((8, 8, 1)))
    pictures = np.clip(wall + rng.normal(0, 2, (60, 48, 64, 3)), 0, 255).astype(np.uint8)
    for index in range(COME, 60):
        pictures[index, 16:30, index - COME + 2 : index - COME + 16] = (20, 30, 250)
    return pictures


def numbers_of_a_run(out):
    """The number of the first frame, or of the first with an object, by each output."""
    with (out / "events.csv").open(newline="") as file:
        (row,) = csv.DictReader(file)
    event = json.loads((out / "events.jsonl").read_text())
    coco = json.loads((out / "objects.json").read_text())
    index = np.load(out / "mask.npz")["index"]
    images = sorted((out / "mask").iterdir())
    mask = next(n for n, path in enumerate(images) if (cv2.imread(str(path), 0) == 255).sum() > 50)
    first = {"npz": index[0], "coco id": coco["images"][0]["id"], "coco frame": coco["images"][0]["frame_id"]}
    come = {
        "csv": int(row["start_frame"]),
        "jsonl": event["start_frame"],
        "track": event["track"]["frame"][0],
        "coco": min(one["image_id"] for one in coco["annotations"]),
        "npz": index[mask],
    }
    times = [float(row["start_time"]), event["start_time"]] if row["start_time"] else []
    return first, come, times, images[0].name, images[mask].name, coco


@pytest.mark.parametrize("start", [FIRST, "1.0s"])
def test_of_a_video(cli, tmp_path, pictures, start):
    video = write_video(tmp_path / "clip.avi", pictures, fps=10)
    words = ["--start", start, *WORDS[2:]]
    cli("run", video, "-o", tmp_path / "out", *words).ok()
    first, come, times, first_image, come_image, coco = numbers_of_a_run(tmp_path / "out")
    assert set(first.values()) == {FIRST}
    assert set(come.values()) == {COME}
    assert times == [COME / 10, COME / 10]
    assert (first_image, come_image) == (f"bin{FIRST:06d}.png", f"bin{COME:06d}.png")
    assert coco["videos"] == [{"id": 1, "name": "clip.avi"}]
    assert [image["file_name"] for image in coco["images"]] == [f"clip.avi#{n}" for n in range(FIRST, 60)]


def test_of_images_whose_names_count_from_1(cli, tmp_path, pictures):
    folder = write_images(tmp_path / "frames", pictures, "in{:06d}.jpg")
    cli("run", folder, "-o", tmp_path / "out", *WORDS).ok()
    first, come, _, first_image, come_image, coco = numbers_of_a_run(tmp_path / "out")
    assert set(first.values()) == {FIRST}
    assert set(come.values()) == {COME}
    names = [path.name for path in sorted(folder.iterdir())]
    assert [image["file_name"] for image in coco["images"]] == names[FIRST:]
    assert first_image == names[FIRST].replace("in", "bin").replace(".jpg", ".png")
    assert come_image == names[COME].replace("in", "bin").replace(".jpg", ".png")
    assert all((folder / image["file_name"]).is_file() for image in coco["images"])


def test_images_of_one_name_in_several_folders_are_told_apart(cli, tmp_path, pictures):
    for place in ("a", "b"):
        write_images(tmp_path / place, pictures[:6])
    cli("track", tmp_path / "*" / "*.png", "-o", tmp_path / "out", "--event-formats", "coco").ok()
    coco = json.loads((tmp_path / "out" / "objects.json").read_text())
    files = [image["file_name"] for image in coco["images"]]
    assert len(set(files)) == 12
    assert [image["frame_id"] for image in coco["images"]] == list(range(12))


def test_a_start_behind_the_last_frame_names_its_number(cli, tmp_path, pictures):
    video = write_video(tmp_path / "clip.avi", pictures, fps=10)
    answer = cli("track", video, "-o", tmp_path / "out", "--start", 60)
    answer.refused_with("nothing between frame 60 and the end", "(frame 59)\n")
