"""Files that stand for more memory than there is, and a machine that has little."""

import struct
import subprocess
import sys
import zipfile
import zlib

import numpy as np
import pytest
from cli_inputs import PROGRAM

from bgsub.cli import invoke

_GIB = 2**30


def png(path, width, height, depth=8, colour=2, rows=4):
    """Write a PNG whose header tells of more rows than there are."""

    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    row = bytes(1 + width * (3 if colour == 2 else 1) * depth // 8)
    header = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)
    content = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(row * rows))
    path.write_bytes(content + chunk(b"IEND", b""))


def npz(path, shape, dtype="<f8"):
    """Write an .npz whose header announces an array of that shape."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("x.npy", "w") as member:
        np.lib.format.write_array_header_1_0(member, {"descr": dtype, "fortran_order": False, "shape": shape})
        member.write(bytes(1 << 20))


def test_memory_of_a_false_header_is_not_allocated(tmp_path, monkeypatch, capsys, score):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("bgsub.numerics.memory.available_memory", lambda: 4 * _GIB)
    png(tmp_path / "wide.png", 60000, 60000)
    png(tmp_path / "deep.png", 30000, 30000, depth=16)
    png(tmp_path / "grey.png", 100_000, 100_000, colour=0)
    for name, shape in (("tall", (10**9, 100)), ("flat", (100, 10**10)), ("cube", (5000, 5000, 5000))):
        npz(tmp_path / f"{name}.npz", shape)
    attacks = [[command, f"{name}.png"] for command in ("run", "decompose") for name in ("wide", "deep", "grey")]
    attacks += [["live", "wide.png", "--no-window"]]
    attacks += [["decompose", f"{name}.npz"] for name in ("tall", "flat", "cube")]
    survived = 0
    for words in attacks:
        code = invoke([*words, "-o", "out"])
        out, err = capsys.readouterr()
        survived += (code, out, err.count("\n"), " of memory, 4.3 GB are available" in err) == (2, "", 1, True)
    score("a header that announces more than the memory", len(attacks), survived)


def test_memory_is_estimated_before_decoding(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("bgsub.numerics.memory.available_memory", lambda: 4 * _GIB)
    monkeypatch.setattr("bgsub.video.sources.images.read_image", lambda path: pytest.fail(f"{path} was decoded"))
    png(tmp_path / "square.png", 12_000, 12_000)
    assert invoke(["run", "square.png", "-o", "out"]) == 2
    assert "a stream of 12000x12000 frames needs about " in capsys.readouterr().err


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the limit of the address space is kept by Linux")
def test_frame_too_large_for_memory_is_one_line(tmp_path, score, tries):
    """Nothing is estimated here: the memory itself is refused, wherever it is asked for."""
    np.save(tmp_path / "x.npy", np.ones((60, 200_000), np.float32))
    blind = "import bgsub.numerics.memory as memory; memory.available_memory = lambda: None;"
    program = f"{blind} import resource; {PROGRAM.replace('; main()', '; import bgsub.jobs.run, bgsub.robust_pca')};"
    sizes = [(9000, 9000), (6000, 6000), (4000, 4000)][: tries(1, 3)]
    for number, (width, height) in enumerate(sizes):
        png(tmp_path / f"{number}.png", width, height, rows=height)
    attacks = [["run", f"{number}.png"] for number in range(len(sizes))] + [["decompose", "x.npy"]]
    survived = 0
    for words in attacks:
        limit = "used = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize() + (150 << 20);"
        limit += "resource.setrlimit(resource.RLIMIT_AS, (used, used)); main()"
        process = subprocess.run(
            [sys.executable, "-c", program + limit, *words, "-o", "out", "-q"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        told = process.stderr.startswith("bgsub: error: out of memory")
        survived += (process.returncode, process.stderr.count("\n"), told) == (1, 1, True)
        if not told:
            print(words, process.returncode, process.stderr)
    score("memory that is refused in the middle", len(attacks), survived)
