"""Small files of all kinds that the program reads, damaged at random, and crafted models with impossible values."""

import contextlib
import io
import json
import os
import re
import struct
import zipfile
from functools import cache
from pathlib import Path

import av
import numpy as np
from av_files import write_av
from checkpoint_kit import raise_at
from cli_inputs import write_sequence
from scipy.io import savemat
from scoring import failure_of
from sink_kit import limited
from video_fakes import write_images

from bgsub import BackgroundSubtractor
from bgsub._opencv import cv2
from bgsub.errors import BgsubError
from bgsub.jobs.job import Job
from bgsub.jobs.run import run_job
from bgsub.synthetic import scene
from bgsub.video import open_source

COUNT = 12  # frames of the videos
CONFIG = '[run]\nthreshold = 0.1\nrank = 2\nroi = ["left=0,0,40,64"]\n\n[batch]\nworkers = 1\n'


@cache
def frames(count=60):
    """Return a room with lamps and a cut to another scene and back."""
    room = np.stack([frame for frame, _ in scene("lobby", size=(96, 64), length=count, seed=5)])
    other = np.kron(np.random.default_rng(1).integers(0, 256, (8, 12, 3)), np.ones((8, 8, 1)))
    room[24:36] = other + room[24:36] // 32
    return room


def save_models(folder):
    """Save models at several moments; return their paths with the number of frames that they have seen."""
    saved = []
    for counts, parameters in (((5, 20, 40), {}), ((20,), {"metric": "canonical", "gradient_carry": "unchanged"})):
        subtractor = BackgroundSubtractor(start_frames=10, fps=20, absorb_after=0.5, **parameters)
        for count, frame in enumerate(frames()[: max(counts)], 1):
            subtractor.apply(frame)
            if count in counts:
                saved.append((folder / f"model{len(saved)}.npz", count))
                subtractor.save(saved[-1][0])
    return saved


def continue_model(path, first):
    """Return 0 if a model is loaded and gives finite results, 2 if it is refused, 3 after results that are not."""
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
    with zipfile.ZipFile(path) as archive:
        return {member.filename: archive.read(member) for member in archive.infolist()}


def write_members(path, members, method=zipfile.ZIP_STORED):
    """Write an archive with correct checksums."""
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def npy(array):
    """Return an array as the content of a file."""
    content = io.BytesIO()
    np.lib.format.write_array(content, np.asanyarray(array))
    return content.getvalue()


def npy_of(dtype, shape, content=b""):
    """Return a file content with a header of any type and shape."""
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": dtype, "fortran_order": False, "shape": shape})
    return file.getvalue() + content


def array_of(content):
    return np.load(io.BytesIO(content))


def header_of(members):
    return json.loads(str(array_of(members["header.npy"])))


def with_damaged_array(members, rng):
    """Return the members with one changed array, or a changed header, and a description."""
    name = list(members)[rng.integers(len(members))]
    if name == "header.npy":
        return with_damaged_header(members, rng), name
    array, kind = array_of(members[name]), rng.integers(9)
    flat = array.reshape(-1)
    content, everywhere = flat.view(np.uint8), slice(None)
    if kind >= 8:
        return with_other_names(members, name, rng.integers(4)), f"{name} missing or another one"
    if not array.size:
        array = np.zeros(rng.integers(3, size=3))
    elif kind == 6:
        array = (array[np.newaxis], array[..., :-1], array.T, np.flip(array))[rng.integers(4)]
    elif kind == 7:
        array = array.astype(("u1", "i8", "u2", "f2", "f4", "f8", "?", ">f4")[rng.integers(8)])
    elif kind == 0:
        content[rng.integers(len(content), size=8)] ^= np.uint8(1 << rng.integers(8))
    elif kind == 1:
        content[:] = rng.integers(0, 256, len(content), np.uint8)
    elif kind == 2:
        content[rng.integers(len(content)) :] = 0
    elif kind == 3:
        content[:] = 255
    elif array.dtype.kind == "f":
        value = rng.choice([np.nan, np.inf, 3e38, -1e19, 1e15, 1e9, -1.0, 300.0, 0.0, 1e-40])
        flat[everywhere if kind == 4 else rng.integers(len(flat))] = value
    elif array.dtype.kind in "iu":
        limits = np.iinfo(array.dtype)
        flat[everywhere if kind == 4 else rng.integers(len(flat))] = rng.choice([limits.min, limits.max, 0])
    return {**members, name: npy(array)}, f"{name} {kind}"


def with_other_names(members, name, kind):
    """Return the members without an array, or with a second one beside or below it; the header names them."""
    facts, content, other = header_of(members), members[name], name[:-4] + ("", "/x", "x", "/")[kind]
    names = [*facts["arrays"], other] if kind else [one for one in facts["arrays"] if one != other]
    rest = {key: value for key, value in members.items() if kind or key != name}
    changed = {"header.npy": npy(np.array(json.dumps({**facts, "arrays": names})))}
    return {**rest, **changed, **({other + ".npy": content} if kind else {})}


def with_damaged_header(members, rng):
    """Return the members with one value of the header replaced."""

    def places(values):
        for key, value in list(values.items()) if isinstance(values, dict) else list(enumerate(values)):
            yield values, key
            if isinstance(value, (dict, list)):
                yield from places(value)

    facts = header_of(members)
    found = list(places(facts["header"]))
    inner, key = found[rng.integers(len(found))]
    inner[key] = [None, -1, 0, 1e308, float("nan"), 10**300, "x", [], {}, True, [[[]]]][rng.integers(11)]
    return {**members, "header.npy": npy(np.array(json.dumps(facts)))}


def crafted_models(model, folder):
    """Yield a description and the path of each file that is not a valid model."""
    members, name, path = members_of(model), "background.npy", folder / "crafted.npz"
    facts, content = header_of(members), model.read_bytes()
    text = json.dumps(facts)[:-2]

    def with_text(text):
        return {**members, "header.npy": npy(np.array(text))}

    def with_header(**values):
        return with_text(json.dumps({**facts, "header": {**facts["header"], **values}}))

    crafted = {
        f"array {dtype} of {shape}": {**members, name: npy_of(dtype, shape, bytes(96 * 64 * 3))}
        for i, dtype in enumerate(("|u1", "|O", "|V8", "<U100000", "<M8[s]", "<c16", "[('a', '<f4')]"))
        for j, shape in enumerate(((0, 64, 3), (-1,), (1 << 35,), (1 << 33, 1 << 33), (1,) * 60))
        if (i + j) % 3 == 0
    } | {
        "unclosed header": with_text("[" * 200_000),
        "deep header": with_text(text + ', "x": ' + "[" * 50_000 + "]" * 50_000 + "}}"),
        "many digits": with_text(text + ', "x": ' + "9" * 5000 + "}}"),
        "long header": with_text(json.dumps({**facts, "header": {**facts["header"], "note": [[]] * 4_000_000}})),
        "large frames": with_header(format={"shape": [10**300, 96, 3], "dtype": "uint8", "max_value": 255}),
        "bright frames": with_header(format={"shape": [64, 96, 3], "dtype": "uint8", "max_value": 10**4000}),
        "large rank": with_header(parameters={**facts["header"]["parameters"], "rank": 10**4000}),
        "many arrays": with_text(json.dumps({**facts, "arrays": ["background"] * 1_000_000})),
        "no arrays": with_text(json.dumps({**facts, "arrays": []})),
        "number of arrays": with_text(json.dumps({**facts, "arrays": 3})),
        "list as header": with_text("[]"),
        "number as header": {**members, "header.npy": npy(np.array(3.0))},
        "unknown array": {**members, "unknown.npy": npy(np.zeros(3))},
        "many members": {**members, **{f"m{i}": b"" for i in range(30_000)}},
        "invalid boolean": {**members, "scenes/model/objects/leftovers.npy": npy_of("|b1", (64, 96), b"\7" * 64 * 96)},
    }
    for title, inner in crafted.items():
        yield title, write_members(path, inner)
    for title, method in (("deflated", zipfile.ZIP_DEFLATED), ("lzma", zipfile.ZIP_LZMA)):
        yield title, write_members(path, members, method)
    archive = zipfile.ZipFile(write_members(path, members), "a", zipfile.ZIP_DEFLATED)
    with archive, archive.open("bomb.npy", "w", force_zip64=True) as file:
        file.write(npy_of("<f8", (40_000_000,)))
        for _ in range(320):
            file.write(bytes(1_000_000))
    yield "zip bomb", path
    large = struct.pack("<I", 2**32 - 16) * 2
    for title, offset, data in (("encrypted", 8, b"\1"), ("unknown method", 10, b"\x63"), ("4 GB", 20, large)):
        changed = bytearray(content)
        for entry in re.finditer(b"PK\1\2", content):  # the directory of the archive
            changed[entry.start() + offset : entry.start() + offset + len(data)] = data
        yield title, _written(path, bytes(changed))
    assert content.count(b"objects/support") >= 2
    yield "duplicate name", _written(path, content.replace(b"objects/support", b"objects/numbers"))
    yield "text", _written(path, b"hello\n" * 10)
    yield "empty", _written(path, b"")
    os.truncate(path, 20_000_000_000)
    yield "sparse", path
    os.mkfifo(folder / "pipe.npz")
    devices = [f"/dev/{name}" for name in ("zero", "full", "urandom", "null")]
    for special in (folder / "pipe.npz", folder, "/" + "x" * 3000, *devices):
        yield str(special)[:80], Path(special)


# The format of the pixels of small videos, most of them yuv420p, by codec and container.
CODECS = {"mjpeg.avi": "yuvj420p", "mjpeg.mov": "yuvj420p", "prores_ks.mov": "yuv422p10le", "gif.gif": "rgb8"}
CODECS |= {"rawvideo.avi": "bgr24", "ffv1.avi": "bgr0", "ffv1.mkv": "bgr0", "ffv1.nut": "bgr0"}
CODECS |= {"qtrle.mov": "rgb24", "apng.apng": "rgb24"}
USUAL = "mpeg4.avi mpeg4.mp4 mpeg4.mkv libx264.mp4 libx264.mkv libx264.ts libx264.h264 libx265.mp4 libvpx.webm "
USUAL += "libvpx.ivf libvpx.ogv libvpx-vp9.webm wrapped_avframe.y4m mpeg2video.ts mpeg2video.mpg mpeg2video.mxf "
USUAL += "flv.flv flv.swf wmv2.wmv"
CODECS |= dict.fromkeys(USUAL.split(), "yuv420p")
IMAGES = ("png", "jpg", "tiff", "webp", "bmp", "jp2", "ppm", "hdr", "ras", "sr")


def pictures_and_videos(folder):
    """Return the contents of a file of each format by name."""
    for name, pixels in CODECS.items():
        codec = name.partition(".")[0]
        if codec in av.codecs_available:
            write_av(folder / name, frames()[:COUNT], codec=codec, pix_fmt=pixels, ticks=25)
    for ending in IMAGES:
        cv2.imwrite(str(folder / f"a.{ending}"), frames()[0].astype(np.float32 if ending == "hdr" else np.uint8))
        cv2.imwrite(str(folder / f"deep.{ending}"), frames()[0].astype(np.uint16) * 257)
    np.save(folder / "a.npy", frames()[:3])
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.stat().st_size}


def with_lies(content, rng):
    """Replace numbers of a file content, most of them near its begin, by extreme ones."""
    data = bytearray(content)
    for _ in range(rng.integers(1, 6)):
        width = 1 << int(rng.integers(4))
        place = int(rng.integers(max(min(len(data), rng.choice([600, len(data)])) - width, 1)))
        number = [0, 1, 127, 128, 255, 2**15, 2**16 - 1, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1][rng.integers(11)]
        order = "big" if rng.integers(2) else "little"
        data[place : place + width] = (number & ((1 << 8 * width) - 1)).to_bytes(width, order)
    return bytes(data)


def spliced(content, other, rng):
    """Put a part of another file into a file content, or in place of its end."""
    place, begin = rng.integers(len(content)), rng.integers(len(other))
    return content[:place] + other[begin:] + content[place:] * int(rng.integers(2))


def read_source(path, on_error):
    """Return 0 if a file is read to its end, 2 if it is refused; with at most 1.5 GB of addresses."""
    size = int(Path("/proc/self/status").read_text().partition("VmSize:")[2].split()[0]) * 1000
    try:
        with limited("AS", size + 1_500_000_000), open_source(path, on_error=on_error) as source:
            for _ in source.alike(source):
                pass
    except BgsubError as error:
        return 2 if "\n" not in str(error) else 3
    return 0


def damaged(content, rng):
    """Flip bits of a file content, or remove, move, clear or replace a part."""
    if not content:
        return content
    data, kind = np.frombuffer(content, np.uint8).copy(), rng.integers(8)
    first, last = sorted(rng.integers(0, len(data) + 1, 2))
    if kind < 2:
        near = len(data) if kind else min(len(data), 200)  # most formats have a header there
        for place in rng.integers(near, size=rng.integers(1, 20)):
            data[place] ^= np.uint8(1 << rng.integers(8))
    elif kind == 3:
        data[first:last] = 0
    elif kind == 4:
        data[first:last] = rng.integers(0, 256, last - first, np.uint8)
    begin, middle, end = np.split(data, [first, last])
    parts = {2: [begin], 5: [begin, middle, middle, end], 6: [end, middle, begin], 7: [data[:0]]}
    return np.concatenate(parts.get(kind, [data])).tobytes()


def _written(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def readable_files(folder):
    """Write a file of every kind; return by name its path and the command line that reads it."""
    images, image = str(write_images(folder / "images", frames()[:3])), frames()[0]
    run = ["run", "-o", str(folder / "out"), "--overwrite"]
    decompose = ["decompose", "-o", str(folder / "out"), "--overwrite", "--rank", "2"]
    known = {}
    for name in ("a.png", "a.jpg", "a.tiff", "a.bmp", "deep.png", "deep.tiff"):
        cv2.imwrite(str(folder / name), image.astype(np.uint16) * 257 if "deep" in name else image)
        known[name] = folder / name, [*run, str(folder / name)]
    for name in ("mjpeg.avi", "mpeg4.mp4", "mpeg4.mkv", "gif.gif"):
        codec, ending = name.split(".")
        path = write_av(folder / f"a.{ending}", frames()[:COUNT], codec=codec, pix_fmt=CODECS[name], ticks=25)
        known[ending] = path, [*run, str(path)]
    mask, settings = folder / "a.png", folder / "a.toml"
    known["mask"] = mask, [*run, images, "--roi", str(mask)]
    known["settings"] = _written(settings, CONFIG), ["--config", str(settings), *run, images]
    sequence = folder / "sequence"
    write_sequence(sequence, frames()[:3], "1 3\n")
    cv2.imwrite(str(sequence / "ROI.bmp"), np.full((64, 96), 255, np.uint8))
    for name in ("groundtruth/gt000002.png", "input/in000002.png", "temporalROI.txt", "ROI.bmp"):
        known[name] = sequence / name, ["evaluate", str(sequence)]
    matrix = np.random.default_rng(0).standard_normal((20, 30))
    np.save(folder / "a.npy", matrix)
    np.savez(folder / "a.npz", matrix=matrix)
    savemat(folder / "a.mat", {"matrix": matrix})
    for name in ("npy", "npz", "mat"):
        known[name] = folder / f"a.{name}", [*decompose, str(folder / f"a.{name}")]
    return known


def _job(folder):
    fields = {"event_formats": ("csv", "jsonl", "html"), "save": ("mask", "panel.mkv"), "resume": True}
    parameters = {"start_frames": 10, "absorb_after": 0.5}
    return Job(str(folder / "frames"), folder / "out", parameters=parameters, checkpoint_seconds=0, **fields)


def interrupt_job(folder):
    write_images(folder / "frames", frames())
    with contextlib.suppress(InterruptedError):
        raise_at(_job(folder), 51, InterruptedError)
    return folder / "out"


def resume_job(folder):
    """Return 0 if the interrupted job is resumed, 2 if it is refused in one line, else 3."""
    error = failure_of(run_job, _job(Path(folder)))
    return (3 if "\n" in error else 2) if error else 0
