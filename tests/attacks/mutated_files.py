"""Every kind of file that is read, small, and what happens to files: bits flip, parts are cut off, moved or zeros."""

import contextlib
from fractions import Fraction
from pathlib import Path

import cv2
import numpy as np
from crafted_models import facts_of, frames, members_of, npy, other_header, write_members

from bgsub.errors import BgsubError
from bgsub.jobs.job import Job
from bgsub.jobs.run import run_job

COUNT = 12  # frames of the videos
CONFIG = '[run]\nthreshold = 0.1\nrank = 2\nroi = ["left=0,0,40,64"]\n\n[batch]\nworkers = 1\n'


def mutated(content, rng):
    """Return the content of a file after some mishap."""
    if not content:
        return content
    data, kind = np.frombuffer(content, np.uint8).copy(), rng.integers(8)
    first, last = sorted(rng.integers(0, len(data) + 1, 2))
    if kind < 2:
        near = len(data) if kind else min(len(data), 200)  # where most formats have their header
        for place in rng.integers(near, size=rng.integers(1, 20)):
            data[place] ^= np.uint8(1 << rng.integers(8))
    elif kind == 2:
        data = data[:first]
    elif kind == 3:
        data[first:last] = 0
    elif kind == 4:
        data[first:last] = rng.integers(0, 256, last - first, np.uint8)
    elif kind == 5:
        data = np.concatenate([data[:last], data[first:]])
    elif kind == 6:
        data = np.concatenate([data[last:], data[first:last], data[:first]])
    else:
        data = data[:0]
    return data.tobytes()


def _video(path, fourcc):
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter_fourcc(*fourcc), 25, (96, 64))
    for frame in frames()[:COUNT]:
        writer.write(frame)
    writer.release()
    return path


def _av_video(path, codec, pixels="yuv420p"):
    import av  # noqa: PLC0415 - it may be missing

    with av.open(str(path), "w") as container:
        stream = container.add_stream(codec, rate=Fraction(25), width=96, height=64, pix_fmt=pixels)
        for frame in frames()[:COUNT]:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(frame, format="bgr24").reformat(format=pixels)))
        container.mux(stream.encode())
    return path


def _image(path, deep=False):
    image = frames()[0]
    cv2.imwrite(str(path), image.astype(np.uint16) * 257 if deep else image)
    return path


def _written(path, content):
    path.parent.mkdir(exist_ok=True, parents=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def _sequence(folder):
    """Write a sequence with masks; return the one that will be damaged."""
    for name in ("input", "groundtruth"):
        (folder / name).mkdir(parents=True)
    for index, frame in enumerate(frames()[:3], 1):
        cv2.imwrite(str(folder / "input" / f"in{index:06}.jpg"), frame)
        cv2.imwrite(str(folder / "groundtruth" / f"gt{index:06}.png"), np.full((64, 96), 255 * (index % 2), np.uint8))
    _written(folder / "temporalROI.txt", "1 3\n")
    cv2.imwrite(str(folder / "ROI.bmp"), np.full((64, 96), 255, np.uint8))
    return folder


def files(folder):
    """Return by name a file of every kind, and the command line that reads it."""
    out, images = str(folder / "out"), folder / "images"
    images.mkdir()
    for index, frame in enumerate(frames()[:3]):
        cv2.imwrite(str(images / f"{index}.png"), frame)
    run = ["run", "-o", out, "--overwrite"]

    def alone(path, *more):
        return path, [*run, str(path), *more]

    known = {
        "png": alone(_image(folder / "a.png")),
        "jpg": alone(_image(folder / "a.jpg")),
        "tiff": alone(_image(folder / "a.tiff")),
        "bmp": alone(_image(folder / "a.bmp")),
        "deep png": alone(_image(folder / "deep.png", deep=True)),
        "deep tiff": alone(_image(folder / "deep.tiff", deep=True)),
        "avi": alone(_video(folder / "a.avi", "MJPG")),
        "mp4": alone(_video(folder / "a.mp4", "mp4v")),
        "raw": alone(_written(folder / "a.raw", frames()[:COUNT].tobytes()), "--raw", "96x64:bgr24@25"),
        "mask": (_image(folder / "mask.png"), [*run, str(images), "--roi", str(folder / "mask.png")]),
        "settings": (_written(folder / "a.toml", CONFIG), ["--config", str(folder / "a.toml"), *run, str(images)]),
    }
    with contextlib.suppress(ImportError):
        known["mkv"] = alone(_av_video(folder / "a.mkv", "mpeg4"))
        known["gif"] = alone(_av_video(folder / "a.gif", "gif", "rgb8"))
    sequence = _sequence(folder / "sequence")
    for name in ("groundtruth/gt000002.png", "input/in000002.jpg", "temporalROI.txt", "ROI.bmp"):
        known[name] = (sequence / name, ["evaluate", str(sequence)])
    matrix = np.random.default_rng(0).standard_normal((20, 30))
    decompose = ["decompose", "-o", out, "--overwrite", "--rank", "2"]
    for name in ("npy", "npz", "mat"):
        path = folder / f"a.{name}"
        if name == "npy":
            np.save(path, matrix)
        elif name == "npz":
            np.savez(path, matrix=matrix)
        else:
            from scipy.io import savemat  # noqa: PLC0415 - it takes a while

            savemat(path, {"matrix": matrix})
        known[name] = (path, [*decompose, str(path)])
    np.save(folder / "seen.npy", matrix > -1)
    known["observed"] = folder / "seen.npy", [*decompose, str(folder / "a.npy"), "--observed", str(folder / "seen.npy")]
    return known


def interrupted(folder):
    """Begin a job, and interrupt it; return the folder of its checkpoint."""
    images = folder / "frames"
    images.mkdir()
    for index, frame in enumerate(frames()):
        cv2.imwrite(str(images / f"{index:03}.png"), frame)

    def after(frame, _separation):
        if frame.index == 50:
            raise InterruptedError

    with contextlib.suppress(InterruptedError):
        run_job(_job(folder), watch=lambda _source: contextlib.nullcontext(after))
    return folder / "out"


def _job(folder):
    parameters = {"start_frames": 10, "absorb_after": 0.5}
    told = {"event_formats": ("csv", "jsonl", "coco", "html"), "save": ("mask", "panel.mkv")}
    return Job(str(folder / "frames"), folder / "out", parameters=parameters, resume=True, checkpoint_seconds=0, **told)


def with_other_state(content, rng, scratch):
    """Return a checkpoint with one of the values of its header replaced, its checksums right."""
    scratch.write_bytes(content)
    members = members_of(scratch)
    text = other_header(facts_of(members), rng)
    return write_members(scratch, {**members, "header.npy": npy(np.array(text))}).read_bytes()


def goes_on(folder):
    """Go on with an interrupted job; return 0 or, where it is refused in one line, 2."""
    try:
        run_job(_job(Path(folder)))
    except BgsubError as error:
        return 2 if "\n" not in str(error) else 3
    return 0
