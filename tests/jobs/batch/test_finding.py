"""Sources of patterns, and their output folders."""

import os
import re
from pathlib import Path

import numpy as np
import pytest

from bgsub._opencv import cv2
from bgsub.errors import SourceError
from bgsub.jobs.batch.files import assign_targets, find_inputs


def make(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(name.encode())


def found(tmp_path, *patterns):
    return [path.relative_to(tmp_path).as_posix() for path in find_inputs(patterns)]


def targets(tmp_path, *patterns, known=None):
    inputs = find_inputs([str(tmp_path / pattern) for pattern in patterns])
    chosen = assign_targets(inputs, known or {})
    return {path.relative_to(tmp_path).as_posix(): chosen[state.path] for path, state in inputs.items()}


@pytest.fixture
def tree(here):
    make(here, "v10.mp4", "v2.mp4", "notes.txt", "x.raw", "sub/deep/w.avi", "sub/seq/in1.png", "sub/seq/in2.png")
    return here


def test_patterns(tree):
    videos = ["v2.mp4", "v10.mp4"]
    assert found(tree, "v10.mp4", "v2.mp4") == found(tree, "*") == found(tree, "**/*.mp4") == found(tree, ".") == videos
    assert found(tree, "**") == ["sub/deep/w.avi", "sub/seq", *videos]
    assert found(tree, "sub/seq") == ["sub/seq"]
    assert found(tree, "*.raw") == found(tree, "x.raw") == ["x.raw"]  # an explicit ending
    cv2.imwritemulti("stack.tif", list(np.zeros((2, 4, 4), np.uint8)))
    assert found(tree, "*.tif") == found(tree, "stack.tif") == ["stack.tif"]
    make(tree, "take[1].avi", "take1.avi")
    assert found(tree, "take[1].avi") == ["take[1].avi"]  # an existing name is no glob


def test_file_with_many_names_is_one_source(tree):
    (tree / "a_link.mp4").symlink_to("v2.mp4")
    assert found(tree, "*.mp4") == ["v2.mp4", "v10.mp4"]  # the file comes before its links
    assert found(tree, "a_link.mp4") == ["a_link.mp4"]
    (tree / "z_seq").symlink_to("sub/seq")
    spellings = ["v2.mp4", "./v2.mp4", "sub/../v2.mp4", str(tree / "v2.mp4"), "a_link.mp4", "z_seq"]
    assert found(tree, *spellings, "sub/seq/") == ["sub/seq", "v2.mp4"]


def test_unreadable_patterns(tree):
    (tree / "blank.txt").write_text("\n \n")
    (tree / "nested.txt").write_text("@blank.txt\n")
    for pattern, message in {
        "none.mp4": "no such file or folder: 'none.mp4'",
        "*.none": "no video and no folder of images matches '*.none'",
        "sub/seq/*.png": "'sub/seq/*.png' matches only single images",
        "sub/seq/in1.png": "'sub/seq/in1.png' is a single image",
        "sub": "no images and no videos in folder 'sub'",
        "@none.txt": "'@none.txt' cannot be read: No such file or directory",
        "@blank.txt": "list 'blank.txt' is empty",
        "@nested.txt": "no such file or folder: '@blank.txt'",
        "rtsp://camera/1": "a batch takes files and folders, got the address 'rtsp://camera/1'",
    }.items():
        with pytest.raises(SourceError, match=rf"^{re.escape(message)}[^\n]*$"):
            find_inputs([pattern])
    with pytest.raises(SourceError, match="got none"):
        find_inputs([])


def test_files_without_permission(tree, monkeypatch, caplog):
    """The tests may run as root, who may read everything."""
    make(tree, "locked/a.png", "locked.mp4")
    access, iterdir = os.access, Path.iterdir

    def refuse(folder):
        if folder.name == "locked":
            raise PermissionError(13, "Permission denied", str(folder))
        return iterdir(folder)

    monkeypatch.setattr(os, "access", lambda path, mode: Path(path).name != "locked.mp4" and access(path, mode))
    monkeypatch.setattr(Path, "iterdir", refuse)
    with pytest.raises(SourceError, match=r"'locked.mp4' .* Permission denied"):
        find_inputs(["v2.mp4", "locked.mp4"])
    with pytest.raises(SourceError, match="File name too long"):
        find_inputs(["x" * 300])
    for pattern in ("*", "."):
        assert found(tree, pattern) == ["locked.mp4", "v2.mp4", "v10.mp4"]  # it fails at its turn
    assert "folder 'locked' cannot be read and is left out: Permission denied" in caplog.messages


def test_results_of_a_batch_are_no_sources(tree):
    make(tree, "out/v2/mask.mkv", "out/v2/result.json", "out/.v2.attempt-1/mask.mkv", "out/w/mask/bin1.png")
    make(tree, "out/w/result.json", "out/own.mkv", "top/day[1]/c.mp4")
    assert found(tree, "out/**") == ["out/own.mkv"]
    with pytest.raises(SourceError, match=r"in folder 'top' itself; the pattern 'top/\*\*' takes those below"):
        find_inputs(["top"])


def test_targets_follow_the_common_folder_and_are_kept(tree):
    below = {"sub/deep/w.avi": "sub/deep/w", "sub/seq": "sub/seq"}
    assert targets(tree, "**") == {"v2.mp4": "v2", "v10.mp4": "v10", **below}
    assert targets(tree, "sub/**") == {"sub/deep/w.avi": "deep/w", "sub/seq": "seq"}
    assert targets(tree, "sub/seq") == {"sub/seq": "seq"}
    known = {state.path: "v2" for state in find_inputs([tree / "v2.mp4"]).values()}
    make(tree, "v2.avi", "sub/v2.mp4")
    chosen = targets(tree, "v2.mp4", "v2.avi", "sub/v2.mp4", known=known)
    assert chosen == {"v2.mp4": "v2", "v2.avi": "v2.avi", "sub/v2.mp4": "sub/v2"}


@pytest.mark.parametrize(
    "names",
    [
        ("a.mp4", "a.avi", "A.mkv"),
        ("a.mp4", "a.mp4.mp4", "a.mp4.avi", "a.mp4-2.avi"),
        ("a.mp4", "a/b.mp4", "a/b/c.mp4"),
        ("a.mp4", "a.mp4.d/x.png", "a/b.mp4"),
        ("manifest.jsonl.mp4", "manifest.csv.mp4", ".locked.mp4"),
        ("...mp4", "....mp4", ".mp4"),
    ],
)
def test_targets_are_separate_folders(tmp_path, names):
    make(tmp_path, *names)
    sources = [str(Path(name).parent if name.endswith(".png") else name) for name in names]
    chosen = [f"{target.casefold()}/" for target in targets(tmp_path, *sources).values()]
    assert len(chosen) == len(names)
    assert not [(a, b) for a in chosen for b in chosen if a is not b and b.startswith(a)]
    assert not {"./", "../", "manifest.jsonl/", "manifest.csv/", ".locked/"} & set(chosen)
