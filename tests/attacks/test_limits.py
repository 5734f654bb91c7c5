"""A full disk, little memory and few open files: one line, the right exit code, and no incomplete output."""

import gc
import json
import os
import re
import struct
import subprocess
import sys
import threading
import tracemalloc
from fractions import Fraction
from itertools import product
from types import SimpleNamespace
from zipfile import ZIP_DEFLATED

import numpy as np
import pytest
from cli_inputs import PROGRAM, make_scene, write_sequence
from event_scenes import STORED
from file_kit import npy_of, write_members
from live_fakes import beside
from scoring import scored
from sink_kit import limited
from video_fakes import content, make_png, needs_pipes, separate, write_images, write_video

from bgsub._opencv import cv2
from bgsub.cli import invoke
from bgsub.jobs.pipeline import Pipeline
from bgsub.video import VideoSink, open_source
from bgsub.video._pyav import av
from bgsub.video.sources.image_header import announced_size, is_possible

resource = pytest.importorskip("resource", reason="limits exist on Unix only")

RUN = ("--start-frames", "10", "--quiet")
VIDEO = ("run", "video.avi", "-o", "out")
VIEWS = "mask.mkv panel.mp4 cutout.mov residual.npz background-image mask.png"
DECOMPOSE = ("-o", "out", "--iterations", "1", "--quiet")
COMMANDS = {
    **{view: (*VIDEO, "--save", view, *RUN) for view in VIEWS.split()},
    "events": (*VIDEO, "--save", "mask.npz", "--event-formats", "csv,jsonl,html", *RUN),
    "model": (*VIDEO, "--save", "mask.npz", "--save-model", "out/m.npz", *RUN),
    "resume": (*VIDEO, "--save", "mask.npz,panel.mp4", "--resume", *RUN),
    "pictures": (*VIDEO, "--save", "mask.npz", "--event-formats", "jsonl,pictures", *RUN),
    "table": ("scan", "video.avi", "--csv", "out/m.csv", "--min-event-length", "0", *RUN),
    "overview": ("overview", "results", "-o", "out/o.html"),
    "search": ("search", "results", "--region", "0,0,96,64", "--csv", "out/found.csv"),
    "clips": ("run", "video.avi", "--record", "out/clips", *RUN),
    "live": ("live", "video.avi", "--no-window", "--fast", "-o", "out", "--save", "panel.mp4", *RUN),
    "decomposed video": ("decompose", "video.avi", *DECOMPOSE),
    "decomposed arrays": ("decompose", "m.npy", "--save-arrays", *DECOMPOSE),
    "evaluation masks": ("evaluate", "sequence", "--masks", "out", *RUN),
    "evaluation scores": ("evaluate", "sequence", "--sheet", "out/scores.html", *RUN),
    "batch": ("batch", "video.avi", "-o", "out", "--save", "mask.npz", "--retries", "0", *RUN),
}
NOT_OUTPUTS = (".partial", ".resume", "manifest", ".lock")


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    """Return a folder with a noisy scene in all forms; no output of it is small."""
    folder = tmp_path_factory.mktemp("inputs")
    frames = make_scene(30, 64, 96, empty=12)
    frames = (frames + np.random.default_rng(0).integers(0, 40, frames.shape)).clip(0, 255).astype(np.uint8)
    write_video(folder / "video.avi", frames)
    write_images(folder / "frames", frames)
    write_sequence(folder / "sequence", make_scene(30, empty=12), "11 30")
    (folder / "results").mkdir()
    (folder / "results/events.jsonl").write_text(200 * (json.dumps(STORED) + "\n"))
    np.save(folder / "m.npy", np.random.default_rng(0).random((30, 2000)))
    return folder


@pytest.fixture
def place(inputs, here):
    for path in inputs.iterdir():
        (here / path.name).symlink_to(path)
    (here / "out").mkdir()
    return here


@pytest.mark.parametrize("kind", COMMANDS)
@scored("full disk: {kind}")
def test_a_full_disk_leaves_no_incomplete_output(kind, place, capsys, serial, tries):
    """A limit of the size of files has the effect of a full disk in the middle of a write."""
    words = COMMANDS[kind]
    assert invoke(words) == 0, capsys.readouterr().err
    whole = content(place / "out")
    largest = max(map(len, whole.values()))
    for share in tries([50], [0, 1, 2, 5, 10, 20, 30, 40, 50, 60, 70, 80, 90, 95]):
        output = place / f"out{share}"
        output.mkdir()
        with limited("FSIZE", largest * share // 100):
            capsys.readouterr()
            code = invoke([word.replace("out", output.name, 1) if word.startswith("out") else word for word in words])
        incomplete = [name for name, data in content(output, NOT_OUTPUTS).items() if data != whole.get(name)]
        threads = [thread.name for thread in threading.enumerate() if thread.name.startswith("bgsub")]
        error = capsys.readouterr().err
        lines = [line for line in error.splitlines() if line.startswith(("bgsub: error: ", "failed: "))]
        is_clear = code == 1 and len(lines) == 1 and output.name in lines[0] and "File too large" in lines[0]
        yield (share, code, error, incomplete, threads), is_clear and not incomplete and not threads


def start(*words, code="", **options):
    """Run the program in a process, after the code; return its exit code and its messages."""
    command = [sys.executable, "-c", code + PROGRAM, *map(str, words)]
    options = {"stdin": subprocess.DEVNULL, "stderr": subprocess.PIPE, "timeout": 120, **options}
    process = subprocess.run(command, **options, check=False)
    return process.returncode, (process.stderr or b"").decode()


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_full_or_closed_terminal_gives_the_exit_code(place, score, monkeypatch, unbuffered):
    monkeypatch.setenv("PYTHONUNBUFFERED", unbuffered)
    printed = (1, "bgsub: error: standard output cannot be written: No space left on device\n")
    with open("/dev/full", "w") as full:
        outcomes = {
            "help": start("run", "--help", stdout=full) == printed,
            "json": start(*VIDEO, *RUN, "--json", stdout=full) == printed,
            "full": start("run", "gone.avi", "-o", "out", stderr=full)[0] == 2,
            "closed": start("run", "gone.avi", "-o", "out", preexec_fn=lambda: os.close(2))[0] == 2,
            "no output": start("run", "--help", preexec_fn=lambda: os.close(1)) == (0, ""),
        }
    assert os.listdir("out") == ["mask.mkv"]
    score("full or closed terminal or pipe", outcomes.items())


@scored("few open files")
def test_few_open_files_end_in_one_line(place, tries):
    for words, limits in (
        (("batch", "video.avi", "-o", "many", "--workers", "2"), tries((20,), (12, 16, 20, 32, 48))),
        (("run", "video.avi", "-o", "one"), tries((6,), (5, 6, 7, 8, 9, 10, 12, 16))),
    ):
        for files in limits:
            code = f"import resource; resource.setrlimit(resource.RLIMIT_NOFILE, ({files}, {files})); "
            code, error = start(*words, "--overwrite", "-q", code=code)
            is_clear = code == 0 or (code in (1, 2) and error.count("\n") == 1)
            yield (words, files, error), is_clear and "Traceback" not in error


@pytest.fixture
def little_memory(here, monkeypatch):
    monkeypatch.setattr("bgsub.numerics.memory.available_memory", lambda: 1 << 28)
    return here


def png(width, height, depth=8, colour=2, rows=4):
    """Return a PNG whose header announces more rows than it contains."""
    row = bytes(1 + width * (3 if colour == 2 else 1) * depth // 8)
    return make_png((width, height, depth, colour), row * rows)


def large_images(side, most):
    """Yield names and contents of images of a few bytes whose headers announce a square, of `most` for WebP."""
    picture = np.random.default_rng(0).integers(0, 256, (48, 64, 3), dtype=np.uint8)

    def encoded(ending, *options):
        return bytearray(cv2.imencode(ending, picture, options)[1].tobytes())

    for name, options in {"baseline": (), "progressive": (cv2.IMWRITE_JPEG_PROGRESSIVE, 1)}.items():
        jpeg = encoded(".jpg", *options)
        begin = max(jpeg.find(b"\xff\xc0"), jpeg.find(b"\xff\xc2"))
        jpeg[begin + 5 : begin + 9] = struct.pack(">HH", side, side)
        yield f"{name}.jpg", jpeg
        yield f"{name}-padded.jpg", jpeg[:2] + b"\x11\xff\x00\x22\xff\xff" + jpeg[2:]
    bmp = encoded(".bmp")
    bmp[18:26] = struct.pack("<ii", side, -side)
    yield "turned.bmp", bmp
    yield "screen.gif", b"GIF89a" + struct.pack("<HHBBB", side, side, 0xF0, 0, 0) + bytes(6)
    for order, is_tiled, is_big in product("<>", (False, True), (False, True)):
        sizes = {322: 4, 323: 4, 324: 3, 325: 3} if is_tiled else {273: 3, 278: 4, 279: 3}
        kinds = {256: 4, 257: 4, 258: 3, 259: 3, 262: 3, 277: 3, **sizes}
        values = {256: side, 257: side, 258: 8, 259: 5, 262: 1, 278: side, 322: side, 323: side}
        entry, width = (f"{order}HHQ", 8) if is_big else (f"{order}HHI", 4)
        head = struct.pack(f"{order}HHHQQ", 43, 8, 0, 16, len(kinds)) if is_big else None
        tiff = (b"II" if order == "<" else b"MM") + (head or struct.pack(f"{order}HIH", 42, 8, len(kinds)))
        for tag, kind in kinds.items():
            value = struct.pack(order + ("I" if kind == 4 else "H"), values.get(tag, 1))
            tiff += struct.pack(entry, tag, kind, 1) + value.ljust(width, b"\0")
        yield f"{'lm'[order == '>']}{'st'[is_tiled]}{'cb'[is_big]}.tif", tiff + bytes(64)
    lossy, lossless = (encoded(".webp", cv2.IMWRITE_WEBP_QUALITY, quality) for quality in (60, 101))
    lossy[26:30] = struct.pack("<HH", most, most)
    lossless[21:25] = struct.pack("<I", 1 << 28 | most - 1 << 14 | most - 1)
    canvas = b"RIFF" + struct.pack("<I", 22) + b"WEBPVP8X" + struct.pack("<II", 10, 16)
    yield from {"lossy.webp": lossy, "lossless.webp": lossless, "bare.webp": lossless[20:]}.items()
    yield "canvas.webp", canvas + 2 * (most - 1).to_bytes(3, "little")


def large_video(path, side, small=0, announced=None):
    """Write a video of PNG pictures in a square, after some small ones, of any size in its header."""
    with av.open(str(path), "w") as file:
        stream = file.add_stream("png", rate=25)
        stream.width = stream.height = announced or side
        stream.pix_fmt = "rgb24"
        for number, data in enumerate([png(64, 64, rows=64)] * small + [png(side, side, rows=side)] * 2):
            packet = av.Packet(data)
            packet.stream, packet.pts, packet.dts, packet.is_keyframe = stream, number, number, True
            packet.time_base = Fraction(1, 25)
            file.mux(packet)


@scored("header that announces more than the memory")
def test_memory_of_a_false_header_is_not_allocated(little_memory, capsys):
    images = {"wide.png": png(60000, 60000), "deep.png": png(30000, 30000, depth=16)}
    images |= {"grey.png": png(100_000, 100_000, colour=0), **dict(large_images(30_000, 16_383))}
    for name, data in images.items():
        (little_memory / name).write_bytes(data)
    for name in ("a.avi", "b.mov"):
        large_video(little_memory / name, 4200)
    commands = [[command, name] for command in ("run", "decompose") for name in (*images, "a.avi", "b.mov")]
    commands += [["live", "wide.png", "--no-window"]]
    for name, shape in (("tall", (10**9, 100)), ("flat", (100, 10**10)), ("cube", (5000, 5000, 5000))):
        write_members(little_memory / f"{name}.npz", {"x.npy": npy_of("<f8", shape, bytes(1 << 20))}, ZIP_DEFLATED)
        commands.append(["decompose", f"{name}.npz"])
    for words in commands:
        code = invoke([*words, "-o", "out"])
        out, err = capsys.readouterr()
        is_clear = (code, out, err.count("\n")) == (2, "", 1) and " of memory, 268 MB are available" in err
        yield (words, err), is_clear and f"'{words[1]}'" in err


@scored("large pictures in a video of small ones")
def test_large_pictures_in_a_video_are_not_decoded(little_memory, capsys):
    """The header announces small ones."""
    for name, small in (("first.avi", 0), ("first.mov", 0), ("late.avi", 10)):
        large_video(little_memory / name, 4200, small, announced=64)
        code = invoke(["run", name, "-o", "out", "--overwrite", *RUN])
        err = capsys.readouterr().err
        is_clear = code in (1, 2) and err.count("\n") == 1 and name in err
        yield (name, code, err), is_clear and "4200" not in err


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux limits the address space")
@scored("refused memory")
def test_refused_memory_ends_in_one_line(tmp_path, tries):
    """Disable the estimate, and limit the address space."""
    np.save(tmp_path / "x.npy", np.ones((60, 200_000), np.float32))
    commands = [["decompose", "x.npy"]]
    for side in tries((5000,), (9000, 6000, 4000)):
        (tmp_path / f"{side}.png").write_bytes(png(side, side, rows=side))
        commands.append(["run", f"{side}.png"])
    code = (
        "import bgsub.numerics.memory as memory; memory.available_memory = lambda: None\n"
        "import resource, bgsub.jobs.run, bgsub.robust_pca\n"
        "used = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize() + (150 << 20)\n"
        "resource.setrlimit(resource.RLIMIT_AS, (used, used))\n"
    )
    for words in commands:
        status, error = start(*words, "-o", "out", "-q", code=code, cwd=tmp_path)
        is_clear = error.startswith("bgsub: error: out of memory") and error.count("\n") == 1
        yield (words, error), status == 1 and is_clear


@needs_pipes
def test_the_memory_of_a_run_over_a_pipe_does_not_grow(tmp_path, monkeypatch, tries, score):
    """The libraries keep an index of the video that is written; the program keeps nothing for each frame."""
    count, first, sizes = tries(5000, 200_000), 1000, []
    pipe, side = tmp_path / "pipe", 16
    os.mkfifo(pipe)
    monkeypatch.setattr("bgsub.jobs.controls._WINDOW", 0.0)  # seconds of statistics

    def send():
        with pipe.open("wb") as file:
            file.write(b"YUV4MPEG2 W%d H%d F25:1 C444\n" % (side, side))
            for index in range(count):
                file.write(b"FRAME\n" + bytes([index % 200]) * (3 * side * side))

    def measure(frame, _separation):
        if frame.index in (first, count - 1):
            gc.collect()
            sizes.append(tracemalloc.get_traced_memory()[0])

    subtractor = SimpleNamespace(process=lambda image, learningRate: separate(image))
    tracemalloc.start()
    with beside(send), open_source(pipe) as source:
        Pipeline(source, subtractor, [VideoSink(tmp_path / "mask.mkv")], progress=measure).run()
    tracemalloc.stop()
    growth = (sizes[1] - sizes[0]) / (count - first)
    score("memory for each frame of a pipe", [(f"{growth:.1f} bytes", growth < 10)])


def test_queues_and_outputs_count_before_the_start(little_memory, capsys):
    write_video(little_memory / "video.avi", np.zeros((2, 1080, 1920, 3), np.uint8), codec="MJPG")
    needed = []
    for save in ("mask.npz", "panel.mp4"):
        assert invoke(["run", "video.avi", "-o", "out", "--save", save, *RUN]) == 2
        error = capsys.readouterr().err
        assert error.count("\n") == 1
        needed.append(int(re.search(r"a stream of 1920x1080 frames needs about (\d+) MB", error)[1]))
    assert 300 < needed[0] < needed[1] < 900


def test_workers_of_a_batch_share_the_memory(little_memory, capsys, monkeypatch):
    for name in ("a.avi", "b.avi"):
        write_video(little_memory / name, np.zeros((2, 1080, 1920, 3), np.uint8), codec="MJPG")
    monkeypatch.setattr("bgsub.jobs.batch.workers.available_memory", lambda: 6 << 27)
    words = ["batch", "a.avi", "b.avi", "-o", "out", "--save", "mask.npz", "--retries", "0", *RUN]
    assert invoke([*words, "--workers", "2"]) == 1
    error = capsys.readouterr().err
    assert error.count("403 MB are available; reduce memory with smaller frames or fewer workers") == 2
    assert invoke([*words, "--workers", "1"]) == 0


@scored("damaged header of an image")
def test_damaged_headers_of_images_are_no_errors(tries):
    headers = dict(large_images(30_000, 16_383))
    names = list(headers)
    for seed in range(tries(3000, 100_000)):
        rng, name = np.random.default_rng(seed), names[seed % len(names)]
        data = bytearray(headers[name])
        for place in rng.integers(len(data), size=rng.integers(1, 8)):
            data[place] = rng.integers(256)
        data = bytes(data[: rng.integers(len(data) + 1)] if seed % 3 == 0 else data)
        try:
            announced_size(data), is_possible(data)
            yield (name, seed), True
        except Exception as error:
            yield (name, seed, error), False
