"""Trees of sequences: what is found, in which order, and what is refused before a long run."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from bgsub._opencv import cv2
from bgsub.errors import SourceError
from bgsub.evaluation import find_sequences


@pytest.fixture
def dataset(tmp_path, make_sequence):
    root = tmp_path / "dataset"
    for name in ("shadow/bungalows", "baseline/office", "baseline/highway"):
        make_sequence(root / name)
    (root / "shadow" / "notes.txt").write_text("words")
    (root / ".cache" / "input").mkdir(parents=True)
    return root


def names(sequences):
    return [f"{sequence.category}/{sequence.name}" for sequence in sequences]


def test_a_data_set_a_category_and_a_video(dataset):
    everything = ["baseline/highway", "baseline/office", "shadow/bungalows"]
    assert names(find_sequences([dataset])) == everything
    assert names(find_sequences([dataset.parent])) == everything
    assert names(find_sequences([dataset / "baseline"])) == everything[:2]
    assert names(find_sequences([str(dataset / "shadow" / "bungalows")])) == everything[2:]
    assert names(find_sequences(sorted(dataset.glob("[a-z]*/[a-m]*/")))) == [everything[0], everything[2]]


def test_what_is_met_twice_counts_once(dataset, monkeypatch):
    monkeypatch.chdir(dataset / "baseline" / "office")
    found = find_sequences([".", dataset / "baseline", "../../shadow"])
    assert names(found) == ["baseline/office", "baseline/highway", "shadow/bungalows"]


def test_links_are_followed_under_their_own_names_and_circles_end(dataset, tmp_path):
    (dataset / "shadow" / "circle").symlink_to(dataset)
    other = tmp_path / "links" / "night"
    other.mkdir(parents=True)
    (other / "linked").symlink_to(dataset / "baseline" / "office")
    assert len(find_sequences([dataset])) == 3
    assert names(find_sequences([tmp_path / "links"])) == ["night/linked"]


def test_namesakes_are_refused(dataset, tmp_path, make_sequence):
    make_sequence(tmp_path / "more" / "baseline" / "office")
    with pytest.raises(SourceError, match=r"dataset/baseline/office and .*more/baseline/office have the same name"):
        find_sequences([dataset, tmp_path / "more"])


def test_folders_without_a_sequence(tmp_path):
    (tmp_path / "void" / "deep").mkdir(parents=True)
    (tmp_path / "file").write_text("words")
    for name, message in (("gone", "does not exist"), ("file", "is not a folder"), ("void", "no sequence in .*void")):
        with pytest.raises(SourceError, match=message):
            find_sequences([tmp_path / name])


def write(path, shape=(12, 16), value=0):
    assert cv2.imwrite(str(path), np.full(shape, value, np.uint8))


def test_one_broken_sequence_among_many_is_named_before_a_run(dataset):
    office = dataset / "baseline" / "office"

    def refused(message):
        with pytest.raises(SourceError, match=message):
            find_sequences([dataset])

    write(office / "groundtruth" / "gt000001.png", shape=(6, 8))
    refused(r"office/groundtruth/gt000001\.png is 8x6, its frame is 16x12")
    write(office / "groundtruth" / "gt000001.png", value=128)
    refused(r"office/groundtruth/gt000001\.png must have only .* got 128")
    (office / "input" / "in000001.png").write_bytes(b"no picture")
    refused(r"office/input/in000001\.png' cannot be decoded")
    write(office / "ROI.bmp")
    write(office / "input" / "in000001.png")
    refused(r"office/ROI\.bmp is black")
    shutil.rmtree(office / "groundtruth")
    refused(r"office/groundtruth does not exist")
