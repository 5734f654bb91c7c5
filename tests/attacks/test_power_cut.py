"""After a power cut at any call that reaches the disk, the same command completes the outputs."""

import os
import random
import shutil
import threading
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from batch_fakes import run as run_fake_batch
from cli_inputs import make_scene
from scoring import scored
from video_fakes import content, write_images, write_video

from bgsub.errors import BgsubError
from bgsub.jobs.decomposition import DecompositionJob, run_decomposition
from bgsub.jobs.job import Job
from bgsub.jobs.run import run_job
from bgsub.synthetic import scene

CALLS = ("fsync", "sync", "replace", "rename", "unlink", "rmdir", "mkdir")
KINDS = ("names lost", "empty files", "torn", "killed")


class Tree(NamedTuple):
    """Content of files and names in folders, by inode number."""

    files: dict[int, bytes]
    folders: dict[int, dict[str, int]]

    def copy(self):
        return Tree(dict(self.files), dict(self.folders))


class Moment(NamedTuple):
    """The synced and the visible content before or after a call."""

    call: str
    synced: Tree
    visible: Tree


class Disk:
    """Record in `moments` the content of the folder `root` before and after each call in a `watched` block.

    Removed files are kept in the folder `graves`, so that no inode number is used twice.
    """

    def __init__(self, root: Path, graves: Path) -> None:
        self.root, self.moments = root, []
        self._graves, self._lock = graves, threading.RLock()
        self._open: dict[int, int] = {}  # descriptors of folders
        self._known: dict[tuple[int, int, int], bytes] = {}
        self._synced = self._visible()

    @contextmanager
    def watched(self, monkeypatch):
        with monkeypatch.context() as patch:
            for name in CALLS:
                patch.setattr(os, name, self._recording(name, getattr(os, name)))
            yield self
        for handle in self._open.values():
            os.close(handle)
        self._open.clear()

    def _recording(self, name, real):
        def call(*arguments, **options):
            with self._lock:
                victim = {"unlink": 0, "replace": 1, "rename": 1}.get(name)
                if victim is not None and "dir_fd" not in options:
                    with suppress(OSError):
                        os.link(arguments[victim], self._graves / str(len(os.listdir(self._graves))))
                self._record(f"before {name}", arguments)
                answer = real(*arguments, **options)
                self._record(name, arguments)
            return answer

        return call

    def _record(self, name, arguments):
        visible = self._visible()
        if name == "sync":
            self._synced = visible.copy()
        elif name.endswith("fsync"):
            number = os.fstat(arguments[0]).st_ino
            if number not in {*visible.files, *visible.folders}:
                return
            for synced, seen in zip(self._synced, visible, strict=True):
                if name == "fsync" and number in seen:
                    synced[number] = seen[number]
        elif not any(self._is_inside(path) for path in arguments):
            return
        self.moments.append(Moment(f"{name} {arguments}", self._synced.copy(), visible))

    def _is_inside(self, path):
        return isinstance(path, (str, Path)) and Path(os.path.abspath(path)).is_relative_to(self.root)

    def _visible(self) -> Tree:
        tree = Tree({}, {})
        self._walk(self.root, tree)
        return tree

    def _walk(self, folder, tree):
        number = os.stat(folder).st_ino
        if number not in self._open:
            self._open[number] = os.open(folder, os.O_RDONLY)
        names = tree.folders[number] = {}
        with os.scandir(folder) as entries:
            for entry in entries:
                with suppress(FileNotFoundError):
                    state = entry.stat(follow_symlinks=False)
                    names[entry.name] = state.st_ino
                    if entry.is_dir():
                        self._walk(entry.path, tree)
                        continue
                    key = state.st_ino, state.st_size, state.st_mtime_ns
                    if key not in self._known:
                        self._known[key] = Path(entry.path).read_bytes()
                    tree.files[state.st_ino] = self._known[key]


def remains(moment: Moment, kind: str, seed: int = 0) -> dict[str, bytes | None]:
    """Return what is left after a power cut: content by name, None for folders.

    The kinds: only synced names and content ("names lost"); all names, but only synced content ("empty files"); a
    random part between synced and visible ("torn"); everything, as after a kill ("killed").
    """
    chance = random.Random(seed)
    found: dict[str, bytes | None] = {}

    def content(number):
        synced = moment.synced.files.get(number, b"")
        visible = moment.visible.files.get(number, synced)
        if kind == "killed" or (kind == "torn" and chance.random() < 1 / 3):
            return visible
        is_torn = kind == "torn" and visible.startswith(synced)
        return visible[: chance.randint(len(synced), len(visible))] if is_torn else synced

    def fill(number, prefix):
        synced, visible = (tree.folders.get(number, {}) for tree in (moment.synced, moment.visible))
        is_old = kind == "names lost" or (kind == "torn" and chance.random() < 0.5)
        for name, inner in sorted((synced if is_old else visible).items()):
            is_folder = inner in moment.visible.folders or inner in moment.synced.folders
            found[f"{prefix}{name}"] = None if is_folder else content(inner)
            if is_folder:
                fill(inner, f"{prefix}{name}/")

    fill(next(iter(moment.visible.folders)), "")
    return found


def write(tree: dict[str, bytes | None], root: Path) -> Path:
    root.mkdir()
    for name, data in tree.items():
        if data is None:
            (root / name).mkdir(parents=True, exist_ok=True)
        else:
            (root / name).write_bytes(data)
    return root


def worst(moments, count, seed):
    """Return up to `count` different remains with descriptions, chosen by the seed; the end is among them."""
    chance = random.Random(seed)
    places = [(number, kind) for number in range(len(moments)) for kind in KINDS]
    chance.shuffle(places)
    places.insert(0, (len(moments) - 1, "empty files"))
    chosen: dict[tuple, tuple] = {}
    for number, kind in places:
        tree = remains(moments[number], kind, seed + number)
        key = tuple(sorted((name, hash(data)) for name, data in tree.items()))
        chosen.setdefault(key, (number, f"{kind}, {moments[number].call}", tree))
        if len(chosen) == count:
            break
    return [rest for _key, rest in sorted(chosen.items(), key=lambda item: item[1][:2])]


FIELDS = {"parameters": {"start_frames": 20}, "checkpoint_seconds": 0.0}
NOT_OUTPUTS = (".resume", ".lock", "manifest", "result.json", ".decompose-")


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("inputs")
    frames = np.stack([frame for frame, _ in scene("lobby", size=(48, 32), length=36, seed=2)])
    (folder / "films").mkdir()
    for name in ("video", "films/a", "films/b"):
        write_video(folder / f"{name}.avi", frames)
    write_images(folder / "frames", frames)
    write_video(folder / "crossing.avi", make_scene(60, empty=25))
    return folder


# The source and the fields of each kind of job.
OUTPUTS = {
    "video": ("video.avi", {"save": ("mask.mkv", "overlay.mp4")}),
    "images": ("frames", {"save": ("mask", "overlay"), "name": "in/{view}"}),
    "pictures": ("crossing.avi", {"save": (), "event_formats": ("jsonl", "pictures")}),
    "arrays": ("video.avi", {"save": ("mask.npz", "background-image"), "event_formats": ("csv", "jsonl", "html")}),
    "batch": ("films", {"save": ("mask.npz", "mask.png")}),
    "decomposition": ("frames", {"rank": 2, "parameters": {"iterations": 2}, "save_arrays": True}),
}


def run(kind, inputs, folder, resume):
    """Run a job, and return the content of its outputs."""
    name, fields = OUTPUTS[kind]

    def make(source, output, **more):
        model = output / "model.npz" if kind in ("arrays", "batch") else None
        return Job(str(source), output, save_model=model, **FIELDS, **fields, **more)

    if kind == "decomposition":
        run_decomposition(DecompositionJob(str(inputs / name), folder, overwrite=resume, **fields))
    elif kind == "batch":
        assert run_fake_batch(inputs / name, folder, make_job=make).complete
    else:
        run_job(make(inputs / name, folder, resume=resume))
    return content(folder, NOT_OUTPUTS)


# The kind of job, whether the interrupted run has --resume, and the number of cuts without --long.
JOBS = [*((kind, True, 3) for kind in ("video", "images", "pictures")), ("arrays", True, 2)]
JOBS += [("batch", False, 2), ("decomposition", False, 0)]


def different(whole, found):
    return sorted(name for name in {*whole, *found} if whole.get(name) != found.get(name))


@pytest.mark.parametrize(("kind", "first", "short"), JOBS)
@scored("power cut or kill of {kind}")
def test_a_run_after_a_power_cut_completes_the_outputs(inputs, tmp_path, monkeypatch, tries, kind, first, short):
    count = tries(short, 120)
    if not count:
        pytest.skip("only with --long")
    whole = run(kind, inputs, tmp_path / "whole", resume=False)
    (tmp_path / "graves").mkdir()
    (tmp_path / "disk").mkdir()
    disk = Disk(tmp_path / "disk", tmp_path / "graves")
    with disk.watched(monkeypatch):
        run(kind, inputs, disk.root / "out", first)
    for number, name, tree in worst(disk.moments, count, seed=count):
        place = write(tree, tmp_path / f"cut{number}")
        try:  # outputs of a decomposition are complete or absent; those of a run with --resume may be shorter
            left = content(place / "out", NOT_OUTPUTS)
            lost = different(whole, whole | left) if kind == "decomposition" else []
            lost += different(whole, run(kind, inputs, place / "out", resume=True))
        except BgsubError as error:
            lost = str(error)
        yield f"{name}: {lost}", not lost
        shutil.rmtree(place)
