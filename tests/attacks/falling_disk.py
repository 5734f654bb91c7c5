"""A simulated power cut: the states of a folder that a journaling file system may leave around each system call.

`Disk` records which content and which names were synced before and after each call, to make the worst folders after a
power cut or a kill.
"""

from __future__ import annotations

import os
import random
import threading
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

CALLS = ("fsync", "sync", "replace", "rename", "unlink", "rmdir", "mkdir")
KINDS = ("names lost", "empty files", "torn", "killed")


class Tree(NamedTuple):
    """Content of files and names in folders, by the number of their inode."""

    files: dict[int, bytes]
    folders: dict[int, dict[str, int]]


class Moment(NamedTuple):
    """The synced state of the disk, and the state that programs see, before or after a call."""

    call: str
    synced: Tree
    seen: Tree


class Disk:
    """The folder `root`, synced at the beginning; `moments` has two states for each call in a `watched` block.

    The folder `graves` beside it keeps removed files, so that no inode number is used twice.
    """

    def __init__(self, root: Path, graves: Path) -> None:
        self.root, self.moments = root, []
        self._graves, self._lock = graves, threading.RLock()
        self._kept: dict[int, int] = {}  # folders, open
        self._known: dict[tuple[int, int, int], bytes] = {}
        self._synced = self._seen()

    @contextmanager
    def watched(self, monkeypatch):
        """Record the calls of this process inside the block."""
        with monkeypatch.context() as patch:
            for name in CALLS:
                patch.setattr(os, name, self._noting(name, getattr(os, name)))
            yield self
        for handle in self._kept.values():
            os.close(handle)
        self._kept.clear()

    def _noting(self, name, real):
        def call(*arguments, **options):
            with self._lock:
                self._keep(name, arguments, options)
                self._note(f"before {name}", arguments)
                answer = real(*arguments, **options)
                self._note(name, arguments)
            return answer

        return call

    def _keep(self, name, arguments, options):
        """Keep a file that is about to be removed."""
        victim = {"unlink": 0, "replace": 1, "rename": 1}.get(name)
        if victim is not None and "dir_fd" not in options:
            with suppress(OSError):
                os.link(arguments[victim], self._graves / str(len(os.listdir(self._graves))))

    def _note(self, name, arguments):
        seen = self._seen()
        if name == "sync":
            self._synced = Tree(dict(seen.files), dict(seen.folders))
        elif name.endswith("fsync"):
            number = os.fstat(arguments[0]).st_ino
            if name == "fsync" and number in seen.folders:
                self._synced.folders[number] = seen.folders[number]
            elif name == "fsync" and number in seen.files:
                self._synced.files[number] = seen.files[number]
            elif number not in {*seen.files, *seen.folders}:
                return
        elif not any(self._is_inside(path) for path in arguments):
            return
        synced = Tree(dict(self._synced.files), dict(self._synced.folders))
        self.moments.append(Moment(f"{name} {arguments}", synced, seen))

    def _is_inside(self, path):
        return isinstance(path, (str, Path)) and Path(os.path.abspath(path)).is_relative_to(self.root)

    def _seen(self) -> Tree:
        tree = Tree({}, {})
        self._walk(self.root, tree)
        return tree

    def _walk(self, folder, tree):
        number = os.stat(folder).st_ino
        if number not in self._kept:
            self._kept[number] = os.open(folder, os.O_RDONLY)
        names = tree.folders[number] = {}
        with os.scandir(folder) as entries:
            for entry in entries:
                with suppress(FileNotFoundError):
                    state = entry.stat(follow_symlinks=False)
                    names[entry.name] = state.st_ino
                    if entry.is_dir():
                        self._walk(entry.path, tree)
                    else:
                        tree.files[state.st_ino] = self._content(entry.path, state)

    def _content(self, path, state):
        key = state.st_ino, state.st_size, state.st_mtime_ns
        if key not in self._known:
            self._known[key] = Path(path).read_bytes()
        return self._known[key]


def left(moment: Moment, kind: str, seed: int = 0) -> dict[str, bytes | None]:
    """Return the files that a cut of that kind leaves: content by name, None for folders.

    names lost
        Only synced names and content.
    empty files
        All names, but only synced content.
    torn
        A random state between the two, of each folder and each file.
    killed
        The state that programs saw.
    """
    chance = random.Random(seed)
    root = next(iter(moment.seen.folders))
    found: dict[str, bytes | None] = {}

    def content(number):
        synced = moment.synced.files.get(number, b"")
        seen = moment.seen.files.get(number, synced)
        if kind == "killed" or (kind == "torn" and chance.random() < 1 / 3):
            return seen
        is_torn = kind == "torn" and seen.startswith(synced)
        return seen[: chance.randint(len(synced), len(seen))] if is_torn else synced

    def fill(number, prefix):
        synced, seen = moment.synced.folders.get(number, {}), moment.seen.folders.get(number, {})
        is_old = kind == "names lost" or (kind == "torn" and chance.random() < 0.5)
        for name, inner in sorted((synced if is_old else seen).items()):
            is_folder = inner in moment.seen.folders or inner in moment.synced.folders
            found[f"{prefix}{name}"] = None if is_folder else content(inner)
            if is_folder:
                fill(inner, f"{prefix}{name}/")

    fill(root, "")
    return found


def write(tree: dict[str, bytes | None], root: Path) -> Path:
    """Make the folder that `left` returned."""
    root.mkdir()
    for name, data in tree.items():
        if data is None:
            (root / name).mkdir(parents=True, exist_ok=True)
        else:
            (root / name).write_bytes(data)
    return root


def worst(moments, kinds, count, seed):
    """Return up to so many different states, (number, name, files), chosen by the seed, with that at the end."""
    chance = random.Random(seed)
    places = [(number, kind) for number in range(len(moments)) for kind in kinds]
    chance.shuffle(places)
    places.insert(0, (len(moments) - 1, "empty files"))
    chosen: dict[tuple, tuple] = {}
    for number, kind in places:
        tree = left(moments[number], kind, seed + number)
        key = tuple(sorted((name, hash(data)) for name, data in tree.items()))
        chosen.setdefault(key, (number, f"{kind}, {moments[number].call}", tree))
        if len(chosen) == count:
            break
    return [rest for _key, rest in sorted(chosen.items(), key=lambda item: item[1][:2])]
