"""Compile the kernels of a stream before their first use, in parallel processes.

Loading a kernel takes milliseconds, compiling all of them about ten seconds on two cores. The processes compile the
kernels in the order of `bgsub.scene.kernel_table` into Numba's cache on disk; this process loads them from there and
waits only for the kernels of its current stage. A stamp file in the cache lists the files once all are present. If the
cache is not writable or no process can be started, Numba compiles each kernel on its first call.
"""

import atexit
import gc
import hashlib
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import cache
from itertools import accumulate, chain
from pathlib import Path
from typing import Any

import numba
from llvmlite import binding
from numba import config

import bgsub
from bgsub.errors import SinkError
from bgsub.numerics import compilation
from bgsub.numerics.compilation import logger
from bgsub.numerics.jit import VERSION
from bgsub.numerics.surrogates import CODES
from bgsub.numerics.threads import cores
from bgsub.scene import _frame_kernels
from bgsub.scene.kernel_table import TRACKING, Frames, compile_kernel, stages
from bgsub.tracking import _kernels

_PIXELS, _CHANNELS = ("uint8", "float32"), (3, 1)
_MOST = 8  # processes, of about 300 MB each
_SIGNAL_SECONDS = 0.5  # longest wait of the main thread: a signal that another thread takes ends no wait
_LEAST = 1000  # bytes of a file of the cache; shorter ones are truncated
_exiting = threading.Event()
_children: set[subprocess.Popen[str]] = set()


class Warmup:
    """Compilation and loading of the kernels for one kind of frames."""

    def __init__(self, frames: Frames) -> None:
        self._frames, self._process = frames, os.getpid()
        self._stages = stages(frames)
        self._ready = [threading.Event() for _ in self._stages]
        self._threads: list[threading.Thread] = []
        self._is_loaded = False
        stamp = _stamp(frames)
        if stamp is None or _is_complete(stamp):
            self._mark_ready()
        else:
            if stamp.exists():
                logger.warning("kernels in '%s' are missing or damaged", stamp.parent)
            self._start_thread(lambda: self._compile_all(stamp))

    def wait(self, stage: int) -> bool:
        """Wait for the kernels of a stage and of those before; return whether all stages are ready."""
        if self._process != os.getpid():  # a fork has no threads that compile
            return True
        if not self._ready[stage].is_set():
            with compilation.waiting():
                while not self._ready[stage].wait(_SIGNAL_SECONDS):
                    pass
        return self._ready[-1].is_set()

    def load(self) -> None:
        """Begin to load all kernels from the cache in a thread, once they are compiled."""
        if not self._is_loaded:
            self._is_loaded = True
            self._start_thread(self._load_all)

    def join(self) -> None:
        """Wait for the threads; at the end of the process, for the current kernel only."""
        for thread in self._threads:
            thread.join()

    def _start_thread(self, work: Callable[[], None]) -> None:
        self._threads.append(threading.Thread(target=work, name="kernel-loader", daemon=True))
        self._threads[-1].start()

    def _mark_ready(self) -> None:
        for ready in self._ready:
            ready.set()

    def _compile_all(self, stamp: Path) -> None:
        lock = stamp.with_name("bgsub-kernels.lock")
        try:
            with compilation.planned(sum(map(len, self._stages))) as tell, _locked(lock):
                if not _is_complete(stamp) and not _exiting.is_set() and self._compile_in_processes(tell):
                    plain = _stamp(self._frames._replace(is_reduced=False))
                    assert plain is not None
                    for path in (stamp, plain):
                        path.write_text("\n".join(sorted(_cached_files())))
        except Exception:  # the first call compiles it
            logger.debug("compiling kernels failed", exc_info=True)
        finally:
            self._mark_ready()

    def _load_all(self) -> None:
        for row in chain.from_iterable(self._stages):
            if _exiting.is_set():
                return
            try:
                with _lock:
                    compile_kernel(row, self._frames)
            except Exception:  # the first call reports it
                logger.debug("loading %s failed", row, exc_info=True)

    def _compile_in_processes(self, tell: Callable[[], None]) -> bool:
        """Let processes compile all kernels, calling `tell` after each; return whether all were compiled."""
        waiting = iter([(stage, row) for stage, rows in enumerate(self._stages) for row in rows])
        left, lock = [len(rows) for rows in self._stages], threading.Lock()

        def work() -> None:
            with suppress(OSError), _Compiler(self._frames) as compiler:  # no process available
                for stage, row in waiting:
                    if not compiler.compile(row):
                        return
                    tell()
                    with lock:
                        left[stage] -= 1
                        for ready, rest in zip(self._ready, accumulate(left), strict=True):
                            if rest == 0:
                                ready.set()

        count = min(cores(), _MOST)
        threads = [threading.Thread(target=work, name="kernel-compiler", daemon=True) for _ in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return not any(left)


class _Compiler(AbstractContextManager["_Compiler"]):
    """A process that compiles kernels on request."""

    def __init__(self, frames: Frames) -> None:
        package = Path(bgsub.__path__[0]).parent
        path = os.pathsep.join([str(package), *filter(None, [os.environ.get("PYTHONPATH")])])
        command = [sys.executable, "-P", "-m", __name__, *map(str, frames[:3])]
        environment, pipe = {**os.environ, "PYTHONPATH": path}, subprocess.PIPE
        with _lock:  # a fork at this moment would keep pipes of the new process open
            self._child = subprocess.Popen(
                command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True, env=environment
            )
        _children.add(self._child)
        if _exiting.is_set():  # `_stop` may have run before
            self._child.kill()

    def compile(self, row: str) -> bool:
        """Compile a kernel in the process; return whether it succeeded."""
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        try:
            self._child.stdin.write(row + "\n")
            self._child.stdin.flush()
        except OSError:  # the process has ended
            return False
        return self._child.stdout.readline() == row + "\n"

    def __exit__(self, *_: object) -> None:
        with suppress(OSError), self._child:
            self._child.kill()  # a fork of this process may keep its input open
        _children.discard(self._child)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Lock the cache inside the block; give up waiting for the lock when this process ends."""
    from filelock import FileLock, Timeout  # noqa: PLC0415 - it costs 20 ms, and is rarely needed

    lock = FileLock(path)
    while not _exiting.is_set():
        with suppress(Timeout):
            lock.acquire(timeout=0.5)
            break
    try:
        yield
    finally:
        lock.release()


def _stamp(frames: Frames) -> Path | None:
    """Return the stamp file of a kind of frames; None without a cache folder or a Python executable to start."""
    kernel: Any = _frame_kernels.compare
    folder = kernel.stats.cache_path
    if folder is None or not Path(sys.executable or "").stem.startswith("python"):
        return None
    kind = "-".join(map(str, frames[:3])) + "-reduced" * frames.is_reduced
    return Path(folder, f"bgsub-{_installation()}-{kind}.kernels")


def _is_complete(stamp: Path) -> bool:
    """Return whether a stamp exists and all files that it lists are present."""
    with suppress(OSError, ValueError):
        return set(stamp.read_text().split("\n")) <= _cached_files()
    return False


def _cached_files() -> set[str]:
    """Return the names of the cached kernels of this Numba version, except truncated files."""
    kernels: tuple[Any, ...] = _frame_kernels.compare, _kernels.subset_coefficients  # one of each package
    return {
        f"{room}/{entry.name}"
        for room, kernel in enumerate(kernels)
        for entry in os.scandir(kernel.stats.cache_path)
        if f".{VERSION}." in entry.name and entry.name.endswith(".nbc") and entry.stat().st_size >= _LEAST
    }


@cache
def _installation() -> str:
    """Return a hash of all that compiled kernels depend on: versions, processor, sources."""
    sources = sorted(Path(bgsub.__path__[0]).glob("**/_*kernels.py"))
    stats = [(path.name, stat.st_mtime_ns, stat.st_size) for path in sources for stat in [path.stat()]]
    processor = [config.CPU_NAME or binding.get_host_cpu_name(), config.CPU_FEATURES]
    parts = [sys.version, numba.__version__, binding.llvm_version_info, *processor, stats]
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


_warmups: dict[tuple[int, Frames], Warmup] = {}
_lock = threading.Lock()  # acquired by a fork, too: none happens while a process starts or a kernel loads
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)


def prepare(frames: Frames) -> Warmup | None:
    """Begin to compile the kernels for a kind of frames, once per process; None if the JIT is disabled."""
    if config.DISABLE_JIT:
        return None
    key = os.getpid(), frames
    if key not in _warmups:  # the lock is avoided, as it would make a frame wait for a kernel that is being loaded
        with _lock:
            return _warmups.get(key) or _warmups.setdefault(key, Warmup(frames))
    return _warmups[key]


def warm_up_all() -> Path:
    """Compile the kernels for all kinds of frames; return their folder. SinkError if they cannot be stored."""
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
def _stop() -> None:
    """End processes and threads: a daemon thread killed within native code can abort the interpreter."""
    _exiting.set()
    for child in tuple(_children):
        child.kill()
    for (process, _), warmup in tuple(_warmups.items()):
        if process == os.getpid():
            warmup.join()


def _main(dtype: str, channels: str, surrogate: str) -> None:
    """Compile the kernels whose rows arrive on standard input; echo each row."""
    gc.disable()  # saves a sixth of the time
    for line in sys.stdin:
        compile_kernel(line.strip(), Frames(dtype, int(channels), int(surrogate)))
        print(line, end="", flush=True)


if __name__ == "__main__":
    _main(*sys.argv[1:])
