"""The kernels of a stream, before it needs them: compiled once per installation, by several processes; later, loaded.

Loading a kernel takes milliseconds, compiling all of them some ten seconds of two cores. The processes take the kernels
in the order in which a stream needs them (`bgsub.scene.kernel_table`) and leave them in Numba's cache on the disk, from
where this process loads what it calls; a stream waits only for the kernels of the stage that it is in. A stamp in the
cache lists its files when all are there. Where the cache cannot be written or no processes can be had, every kernel is
compiled when it is first called, as Numba does.
"""

from __future__ import annotations

import atexit
import gc
import hashlib
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

import numba
from filelock import FileLock, Timeout
from llvmlite import binding
from numba import config

import bgsub
from bgsub.errors import SinkError
from bgsub.numerics import compilation
from bgsub.numerics.surrogates import CODES
from bgsub.numerics.threads import cores
from bgsub.scene import _pixel_kernels
from bgsub.scene.kernel_table import TRACKING, Frames, compile_kernel, stages
from bgsub.tracking import _kernels

_PIXELS, _CHANNELS = ("uint8", "float32"), (3, 1)
_MOST = 8  # processes, of some 300 MB each
_LEAST = 1000  # bytes of a file in the cache; an index has some more, kernels ten times as many
_exiting = threading.Event()
_children: set[subprocess.Popen[str]] = set()
logger = logging.getLogger("bgsub.kernels")


class Warmup:
    """The kernels for one kind of frames, on their way into this process.

    Parameters
    ----------
    frames : Frames
        What decides about their types.
    """

    def __init__(self, frames: Frames) -> None:
        self._frames, self._process = frames, os.getpid()
        self._stages = stages(frames)
        self._ready = [threading.Event() for _ in self._stages]
        self._threads: list[threading.Thread] = []
        self._is_loaded = False
        stamp = _stamp(frames)
        if stamp is None or _is_true(stamp):
            self._release()
        else:
            if stamp.exists():
                logger.warning("kernels in '%s' are gone or damaged", stamp.parent)
            self._begin(lambda: self._make(stamp))

    def wait(self, stage: int) -> bool:
        """Wait for the kernels of a stage and of those before; return whether there is nothing more to wait for."""
        if self._process != os.getpid():  # a fork, in which the thread is not
            return True
        if not self._ready[stage].is_set():
            with compilation.waiting():
                self._ready[stage].wait()
        return self._ready[-1].is_set()

    def load(self) -> None:
        """Begin to load, beside the stream, the kernels that it has not called yet."""
        if not self._is_loaded:
            self._is_loaded = True
            self._begin(self._load)

    def join(self) -> None:
        """Wait for what has begun: until all is there or, at the end of the process, for the kernel at hand."""
        for thread in self._threads:
            thread.join()

    def _begin(self, work: Callable[[], None]) -> None:
        self._threads.append(threading.Thread(target=work, name="kernel-loader", daemon=True))
        self._threads[-1].start()

    def _release(self) -> None:
        for ready in self._ready:
            ready.set()

    def _make(self, stamp: Path) -> None:
        """Compile what is not there."""
        try:
            self._compile(stamp)
        except Exception:  # whoever needs a kernel compiles it
            logger.debug("compiling kernels failed", exc_info=True)
        finally:
            self._release()

    def _load(self) -> None:
        for row in [row for rows in self._stages for row in rows]:
            if _exiting.is_set():
                return
            try:
                with _lock:
                    compile_kernel(row, self._frames)
            except Exception:  # whoever needs it will see why
                logger.debug("loading %s failed", row, exc_info=True)

    def _compile(self, stamp: Path) -> None:
        with compilation.planned(sum(map(len, self._stages))) as tell, _alone(stamp.with_name("bgsub-kernels.lock")):
            if not _is_true(stamp) and not _exiting.is_set() and self._share_out(tell):
                plain = _stamp(self._frames._replace(is_reduced=False))
                assert plain is not None
                for path in (stamp, plain):
                    path.write_text("\n".join(sorted(_kept())))

    def _share_out(self, tell: Callable[[], None]) -> bool:
        """Let processes compile all kernels; return whether they have."""
        waiting = iter([(stage, row) for stage, rows in enumerate(self._stages) for row in rows])
        left, lock = [len(rows) for rows in self._stages], threading.Lock()

        def work() -> None:
            with suppress(OSError), _Compiler(self._frames) as compiler:  # where no process can be had
                for stage, row in waiting:
                    if not compiler.compile(row):
                        return
                    tell()
                    with lock:
                        left[stage] -= 1
                        for ready, rest in zip(self._ready, _sums(left), strict=True):
                            if rest == 0:
                                ready.set()

        count = min(cores(), _MOST)
        threads = [threading.Thread(target=work, name="kernel-compiler", daemon=True) for _ in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return not any(left)


class _Compiler:
    """A process that compiles the kernels it is told."""

    def __init__(self, frames: Frames) -> None:
        package = Path(bgsub.__path__[0]).parent
        path = os.pathsep.join([str(package), *filter(None, [os.environ.get("PYTHONPATH")])])
        command = [sys.executable, "-P", "-m", __name__, *map(str, frames[:3])]
        environment, pipe = {**os.environ, "PYTHONPATH": path}, subprocess.PIPE
        with _lock:  # a fork would keep the pipe open whose end says that the process has begun
            self._child = subprocess.Popen(
                command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True, env=environment
            )
        _children.add(self._child)
        if _exiting.is_set():  # `_end` may have come before
            self._child.kill()

    def __enter__(self) -> _Compiler:
        return self

    def compile(self, row: str) -> bool:
        """Have a kernel compiled; return whether it was."""
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        try:
            self._child.stdin.write(row + "\n")
            self._child.stdin.flush()
        except OSError:  # it has ended
            return False
        return self._child.stdout.readline() == row + "\n"

    def __exit__(self, *_: object) -> None:
        with suppress(OSError), self._child:
            self._child.kill()  # its input would not end before that of a fork of this process
        _children.discard(self._child)


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Wait until no other process compiles, or this one ends."""
    lock = FileLock(path)
    while not _exiting.is_set():
        try:
            lock.acquire(timeout=0.5)
            break
        except Timeout:
            continue
    try:
        yield
    finally:
        lock.release()


def _sums(counts: list[int]) -> list[int]:
    return [sum(counts[: i + 1]) for i in range(len(counts))]


def _stamp(frames: Frames) -> Path | None:
    """Return the file that says that all kernels are in the cache; None where there is none or nobody to fill it."""
    kernel: Any = _pixel_kernels.paint
    folder = kernel.stats.cache_path
    if folder is None or not Path(sys.executable or "").stem.startswith("python"):
        return None
    return Path(
        folder, f"bgsub-{_installation()}-{'-'.join(map(str, frames[:3]))}{'-reduced' * frames.is_reduced}.kernels"
    )


def _is_true(stamp: Path) -> bool:
    """Return whether all files that a stamp lists are there."""
    try:
        listed = set(stamp.read_text().split("\n"))
        return listed <= _kept()
    except (OSError, ValueError):
        return False


def _kept() -> set[str]:
    """Return the files in the cache, but for those that are too short to hold anything.

    No more is asked of them: processes that keep kernels at the same time write some files twice, or shorter.
    """
    kernels: tuple[Any, ...] = _pixel_kernels.paint, _kernels.gather  # one of each room
    return {
        f"{room}/{entry.name}"
        for room, kernel in enumerate(kernels)
        for entry in os.scandir(kernel.stats.cache_path)
        if entry.name.endswith((".nbi", ".nbc")) and entry.stat().st_size >= _LEAST
    }


@cache
def _installation() -> str:
    """Return a hash of what Numba's cache depends on: versions, processor, sources."""
    sources = sorted(Path(bgsub.__path__[0]).glob("**/_*kernels.py"))
    stats = [(path.name, stat.st_mtime_ns, stat.st_size) for path in sources for stat in [path.stat()]]
    processor = [config.CPU_NAME or binding.get_host_cpu_name(), config.CPU_FEATURES]
    parts = [sys.version, numba.__version__, binding.llvm_version_info, *processor, stats]
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


_warmups: dict[tuple[int, Frames], Warmup] = {}
_lock = threading.Lock()  # of what a fork must not find half done
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)


def prepare(frames: Frames) -> Warmup | None:
    """Begin to compile the kernels for a kind of frames, once per process; None where kernels are plain Python."""
    if config.DISABLE_JIT:
        return None
    with _lock:
        return _warmups.get((os.getpid(), frames)) or _warmups.setdefault((os.getpid(), frames), Warmup(frames))


def warm_up_all() -> Path:
    """Compile the kernels for all kinds of frames; return a folder that they are in.

    Raises
    ------
    SinkError
        When they cannot be kept, or were not compiled.
    """
    if config.DISABLE_JIT:
        raise SinkError("kernels are not compiled where NUMBA_DISABLE_JIT is set")
    kinds = [Frames(dtype, channels, CODES["atan"], True) for dtype in _PIXELS for channels in _CHANNELS]
    folder = Path()
    for frames in kinds:
        warmup, stamp = prepare(frames), _stamp(frames)
        if warmup is None or stamp is None:
            raise SinkError("kernels cannot be kept: no folder for them can be written (NUMBA_CACHE_DIR names one)")
        warmup.wait(TRACKING)
        warmup.join()
        if not stamp.exists():
            raise SinkError(f"the kernels for {frames.dtype} frames with {frames.channels} channels were not compiled")
        folder = stamp.parent
    return folder


@atexit.register
def _end() -> None:
    """End the processes and the threads: Python ends daemon threads in the middle of native code, which can abort."""
    _exiting.set()
    for child in tuple(_children):
        child.kill()
    for (process, _), warmup in tuple(_warmups.items()):
        if process == os.getpid():
            warmup.join()


def _main(dtype: str, channels: str, surrogate: str) -> None:
    """Compile the kernels whose rows stand on standard input, each answered by itself."""
    gc.disable()  # a sixth of the time, for twice the memory of a process that soon ends
    for line in sys.stdin:
        compile_kernel(line.strip(), Frames(dtype, int(channels), int(surrogate)))
        print(line, end="", flush=True)


if __name__ == "__main__":
    _main(*sys.argv[1:])
