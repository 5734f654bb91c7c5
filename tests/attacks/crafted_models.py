"""Models that somebody has made by hand: containers that are none, and arrays with values that no stream has.

`containers` gives what a small model becomes in hostile hands; `with_other_array` changes one array and keeps the
checksums right; `goes_on` is called in a process of its own.
"""

import io
import json
import os
import struct
import zipfile
from functools import cache
from pathlib import Path

import cv2
import numpy as np

from bgsub import BackgroundSubtractor
from bgsub.errors import BgsubError
from bgsub.synthetic import scene

START = 10
KIND = "model"


@cache
def frames(count=60):
    """Return a room with lamps, a cut to another scene and back, in the middle of which models are saved."""
    room = np.stack([frame for frame, _ in scene("lobby", size=(96, 64), length=count, seed=5)])
    other = np.kron(np.random.default_rng(1).integers(0, 256, (8, 12, 3)), np.ones((8, 8, 1)))
    room[24:36] = other + room[24:36] // 32
    return room


def save_some(folder):
    """Save models of several moments and kinds; return their paths with the number of frames that they have seen."""
    saved = []
    for name, counts, parameters in (
        ("usual", (5, 20, 40), {}),
        ("canonical", (20,), {"metric": "canonical", "gradient_carry": "unchanged"}),
    ):
        subtractor = BackgroundSubtractor(start_frames=START, fps=20, absorb_after=0.5, **parameters)
        for count, frame in enumerate(frames(), 1):
            subtractor.apply(frame)
            if count in counts:
                path = folder / f"{name}{count}.npz"
                subtractor.save(path)
                saved.append((path, count))
    return saved


def save_images(folder):
    """Save three frames of 96x64 pixels as images."""
    folder.mkdir()
    for index, frame in enumerate(frames()[:3]):
        cv2.imwrite(str(folder / f"{index}.png"), frame)
    return folder


def goes_on(path, first):
    """Return 0 where a model is loaded and gives finite frames, 2 where it is refused in one line."""
    try:
        subtractor = BackgroundSubtractor.load(path)
    except BgsubError:
        return 2
    for frame in frames()[first : first + 20]:
        result = subtractor.process(frame)
        if not all(np.isfinite(array).all() for array in (result.residual, result.background, result.probability)):
            return 3
    return 0


def members_of(path):
    """Return what is in an archive, by name."""
    with zipfile.ZipFile(path) as archive:
        return {member.filename: archive.read(member) for member in archive.infolist()}


def write_members(path, members):
    """Write an archive, its checksums right."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def npy(array):
    """Return an array as the content of a file."""
    content = io.BytesIO()
    np.lib.format.write_array(content, np.asanyarray(array))
    return content.getvalue()


def raw_npy(dtype, shape, content=b""):
    """Return the content of a file of an array that may be none."""
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": dtype, "fortran_order": False, "shape": shape})
    return file.getvalue() + content


def facts_of(members):
    """Return what the header says."""
    return json.loads(str(np.load(io.BytesIO(members["header.npy"]))))


def with_other_array(members, rng):
    """Return the members with one array, or the header, changed a little or much; and what it was."""
    name = list(members)[rng.integers(len(members))]
    if name == "header.npy":
        return {**members, name: npy(np.array(other_header(facts_of(members), rng)))}, name
    array = np.load(io.BytesIO(members[name]))
    flat = array.reshape(-1)
    content = flat.view(np.uint8)
    kind = rng.integers(6)
    if not array.size:
        array = np.zeros(rng.integers(3, size=3))
    elif kind == 0:
        for place in rng.integers(len(content), size=8):
            content[place] ^= np.uint8(1 << rng.integers(8))
    elif kind == 1:
        content[:] = rng.integers(0, 256, len(content), np.uint8)
    elif kind == 2:
        content[rng.integers(len(content)) :] = 0
    elif kind == 3:
        content[:] = 255
    elif array.dtype.kind == "f":
        value = rng.choice([np.nan, np.inf, 3e38, -1e19, 1e15, 1e9, -1.0, 300.0, 0.0, 1e-40])
        flat[slice(None) if kind == 4 else rng.integers(len(flat))] = value
    elif array.dtype.kind in "iu":
        limits = np.iinfo(array.dtype)
        flat[slice(None) if kind == 4 else rng.integers(len(flat))] = rng.choice([limits.min, limits.max, 0])
    return {**members, name: npy(array)}, f"{name} {kind}"


def other_header(facts, rng):
    """Return the header with one of its values replaced."""
    places = list(_places(facts["header"]))
    inner, key = places[rng.integers(len(places))]
    inner[key] = [None, -1, 0, 1e308, float("nan"), 10**300, "x", [], {}, True, [[[]]]][rng.integers(11)]
    return json.dumps(facts)


def _places(values):
    for key, value in list(values.items()) if isinstance(values, dict) else list(enumerate(values)):
        yield values, key
        if isinstance(value, (dict, list)):
            yield from _places(value)


def containers(model, folder):
    """Yield the name and the path of each file that is no model."""
    members, name = members_of(model), "background.npy"
    facts, content = facts_of(members), model.read_bytes()

    def with_text(text):
        return {**members, "header.npy": npy(np.array(text))}

    def with_header(**values):
        return with_text(json.dumps({**facts, "header": {**facts["header"], **values}}))

    made = {
        f"array {dtype} of {shape}": {**members, name: raw_npy(dtype, shape, bytes(96 * 64 * 3))}
        for dtype in ("|u1", "|O", "|V8", "<U100000", "<M8[s]", "<c16", "[('a', '<f4')]")
        for shape in ((0, 64, 3), (-1,), (1 << 35,), (1 << 33, 1 << 33), (1,) * 60)
    }
    made |= {
        "deep": with_text("[" * 200_000),
        "deep note": with_text(json.dumps(facts)[:-2] + ', "x": ' + "[" * 50_000 + "]" * 50_000 + "}}"),
        "digits": with_text(json.dumps(facts)[:-2] + ', "x": ' + "9" * 5000 + "}}"),
        "long": with_text(json.dumps({**facts, "header": {**facts["header"], "note": [[]] * 4_000_000}})),
        "large frames": with_header(format={"shape": [10**300, 96, 3], "dtype": "uint8", "max_value": 255}),
        "bright frames": with_header(format={"shape": [64, 96, 3], "dtype": "uint8", "max_value": 10**4000}),
        "large rank": with_header(parameters={**facts["header"]["parameters"], "rank": 10**4000}),
        "many arrays": with_text(json.dumps({**facts, "arrays": ["background"] * 1_000_000})),
        "no arrays": with_text(json.dumps({**facts, "arrays": []})),
        "number of arrays": with_text(json.dumps({**facts, "arrays": 3})),
        "list": with_text("[]"),
        "numbers for a header": {**members, "header.npy": npy(np.array(3.0))},
        "unknown array": {**members, "unknown.npy": npy(np.zeros(3))},
        "many members": {**members, **{f"m{i}": b"" for i in range(30_000)}},
        "truth": {**members, "scenes/model/objects/leftovers.npy": raw_npy("|b1", (64, 96), b"\7" * 64 * 96)},
    }
    for title, inner in made.items():
        path = write_members(folder / "made.npz", inner)
        yield title, path
    for title, method in (("deflated", zipfile.ZIP_DEFLATED), ("lzma", zipfile.ZIP_LZMA)):
        with zipfile.ZipFile(folder / "made.npz", "w", method) as archive:
            for key, value in members.items():
                archive.writestr(key, value)
        yield title, folder / "made.npz"
    archive = zipfile.ZipFile(write_members(folder / "made.npz", members), "a", zipfile.ZIP_DEFLATED)
    with archive, archive.open("bomb.npy", "w", force_zip64=True) as file:
        file.write(raw_npy("<f8", (40_000_000,)))
        for _ in range(320):
            file.write(bytes(1_000_000))
    yield "bomb", folder / "made.npz"
    for title, change in {"encrypted": _encrypted, "method": _unknown_method, "4 GB": _larger, "twice": _twice}.items():
        path = folder / "made.npz"
        path.write_bytes(change(content))
        yield title, path
    yield "text", _written(folder / "text.npz", b"hello\n" * 10)
    yield "empty", _written(folder / "empty.npz", b"")
    os.truncate(_written(folder / "sparse.npz", b""), 20_000_000_000)
    yield "sparse", folder / "sparse.npz"
    os.mkfifo(folder / "pipe.npz")
    yield "pipe", folder / "pipe.npz"
    yield "folder", folder
    yield "long name", Path("/" + "x" * 3000)
    for device in ("/dev/zero", "/dev/full", "/dev/urandom", "/dev/null"):
        yield device, Path(device)


def _written(path, content):
    path.write_bytes(content)
    return path


def _entries(content):
    """Yield where the entries of an archive's directory begin."""
    place = content.find(b"PK\1\2")
    while place >= 0:
        yield place
        place = content.find(b"PK\1\2", place + 1)


def _encrypted(content):
    out = bytearray(content)
    for place in _entries(content):
        out[place + 8] |= 1
    return bytes(out)


def _unknown_method(content):
    out = bytearray(content)
    for place in _entries(content):
        out[place + 10] = 99
    return bytes(out)


def _larger(content):
    out = bytearray(content)
    for place in _entries(content):
        out[place + 20 : place + 28] = struct.pack("<II", 0xFFFFFFF0, 0xFFFFFFF0)
    return bytes(out)


def _twice(content):
    return content.replace(b"scenes/model/mask", b"scenes/model/calm")
