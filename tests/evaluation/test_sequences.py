"""Folders in the layout of changedetection.net: scored frames, trees of sequences, errors."""

import shutil
import struct
import zlib

import numpy as np
import pytest

from bgsub._opencv import cv2
from bgsub.errors import SourceError
from bgsub.evaluation import Sequence, find_sequences

CODES = np.array([[0, 50, 85], [170, 255, 0]], np.uint8)


@pytest.fixture
def folder(tmp_path, make_sequence):
    """A sequence of 5 frames of 8x6, all with masks."""
    return make_sequence(tmp_path, range(1, 6), size=(6, 8), name="in{:06d}.jpg")


def write(path, shape=(12, 16), value=0):
    assert cv2.imwrite(str(path), np.full(shape, value, np.uint8))


def write_palette_png(path, codes, palette):
    """Write an 8-bit PNG whose pixels are indices into a palette."""
    height, width = codes.shape
    header = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    colours = b"".join(bytes([v, v, v]) for v in palette)
    rows = zlib.compress(b"".join(b"\0" + row.tobytes() for row in codes))
    with path.open("wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n")
        for body in (b"IHDR" + header, b"PLTE" + colours, b"IDAT" + rows, b"IEND"):
            file.write(struct.pack(">I", len(body) - 4) + body + struct.pack(">I", zlib.crc32(body)))


def test_frames_masks_and_temporal_roi(folder):
    sequence = Sequence(folder)
    assert (len(sequence), sequence.name, sequence.roi) == (5, folder.name, None)
    assert [n for n, _ in sequence.frames()] == sequence.scored == [1, 2, 3, 4, 5]
    assert sequence.frame(3).shape == (6, 8, 3)
    assert (sequence.truth(2) == 255).sum() == 12
    (folder / "temporalROI.txt").write_text("2 4\n")
    sequence = Sequence(folder)
    assert (sequence.temporal_roi, sequence.scored) == ((2, 4), [2, 3, 4])
    assert len(list(sequence.frames())) == 5
    assert sequence.truth(1) is sequence.truth(5) is None


def test_sparse_masks_and_other_names(tmp_path, make_sequence):
    make_sequence(tmp_path, (11, 9, 10), masks=[10], name="b{}.png")
    (tmp_path / "input" / "notes.txt").write_text("7")
    (tmp_path / "groundtruth" / "gt000010.png").rename(tmp_path / "groundtruth" / "gt00010.png")
    sequence = Sequence(tmp_path)
    assert [number for number, _ in sequence.frames()] == [9, 10, 11]  # by number, not by name
    assert sequence.scored == [10]
    assert sequence.truth(9) is None


def test_codes_of_palette_and_colour_masks(folder):
    path, palette = folder / "groundtruth" / "gt000001.png", np.unique(CODES)
    for write_mask in (
        lambda: write_palette_png(path, CODES, range(256)),
        lambda: write_palette_png(path, np.searchsorted(palette, CODES).astype(np.uint8), palette),
        lambda: cv2.imwrite(str(path), np.repeat(CODES[..., np.newaxis], 3, axis=2)),
    ):
        write_mask()
        assert np.array_equal(Sequence(folder).truth(1), CODES)


def test_roi_of_the_same_and_of_another_size_and_as_jpeg(folder):
    roi = np.zeros((6, 8), np.uint8)
    roi[:, 3:] = 255
    cv2.imwrite(str(folder / "ROI.jpg"), roi)
    assert np.array_equal(Sequence(folder).roi, roi != 0)
    cv2.imwrite(str(folder / "roi.png"), 255 - roi)
    assert np.array_equal(Sequence(folder).roi, roi == 0)
    roi = roi[:, ::-1] // 255
    for size in ((8, 6), (16, 12)):
        cv2.imwrite(str(folder / "ROI.bmp"), cv2.resize(roi, size, interpolation=cv2.INTER_NEAREST))
        assert np.array_equal(Sequence(folder).roi, roi != 0)


def test_folders_that_cannot_be_scored(folder):
    (folder / "temporalROI.txt").write_text("100 200")
    with pytest.raises(SourceError, match=r"no frame of .* can be scored"):
        Sequence(folder)
    (folder / "temporalROI.txt").unlink()
    (folder / "input" / "in000002.jpg").write_bytes(b"no picture")
    with pytest.raises(SourceError, match=r"in000002\.jpg' cannot be decoded"):
        list(Sequence(folder).frames())
    write(folder / "input" / "x1.png")
    with pytest.raises(SourceError, match=r"in000001\.jpg and x1\.png .* same number"):
        Sequence(folder)
    for path in (folder / "input").iterdir():
        path.unlink()
    with pytest.raises(SourceError, match="no numbered pictures"):
        Sequence(folder)


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


def test_find_data_set_category_and_video(dataset):
    everything = ["baseline/highway", "baseline/office", "shadow/bungalows"]
    assert names(find_sequences([dataset])) == names(find_sequences([dataset.parent])) == everything
    assert names(find_sequences([dataset / "baseline"])) == everything[:2]
    assert names(find_sequences([str(dataset / "shadow" / "bungalows")])) == everything[2:]
    assert names(find_sequences(sorted(dataset.glob("[a-z]*/[a-m]*/")))) == [everything[0], everything[2]]


def test_duplicates_links_and_cycles(dataset, tmp_path, monkeypatch):
    (dataset / "shadow" / "circle").symlink_to(dataset)
    other = tmp_path / "links" / "night"
    other.mkdir(parents=True)
    (other / "linked").symlink_to(dataset / "baseline" / "office")
    assert len(find_sequences([dataset])) == 3
    assert names(find_sequences([tmp_path / "links"])) == ["night/linked"]
    monkeypatch.chdir(dataset / "baseline" / "office")
    found = find_sequences([".", dataset / "baseline", "../../shadow"])
    assert names(found) == ["baseline/office", "baseline/highway", "shadow/bungalows"]


def test_wrong_folders_are_refused(dataset, tmp_path, make_sequence):
    make_sequence(tmp_path / "more" / "baseline" / "office")
    with pytest.raises(SourceError, match=r"dataset/baseline/office and .*more/baseline/office have the same name"):
        find_sequences([dataset, tmp_path / "more"])
    (tmp_path / "void" / "deep").mkdir(parents=True)
    (tmp_path / "file").write_text("words")
    for name, message in (("gone", "does not exist"), ("file", "is not a folder"), ("void", "no sequence in .*void")):
        with pytest.raises(SourceError, match=message):
            find_sequences([tmp_path / name])


def test_broken_sequence_is_reported(dataset):
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
